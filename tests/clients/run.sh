#!/usr/bin/env bash
# Real clients against a running `writ serve`: httpx-sse follows streams, two SDKs of A2A play its clients, schemathesis
# plays the API's own document. And clients that have a `writ` of their own (mcp.sh, acp.sh, conformance.sh). Their
# versions are pinned; they live under target/.
#
#   tests/clients/run.sh WRIT
set -euo pipefail
writ=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${CARGO_TARGET_DIR:-$root/target}/clients
data=$(mktemp -d)
export WRIT_CLIENT_TOKEN=a-token-of-the-clients-0815
mkdir -p "$home"

"$writ" serve --addr 127.0.0.1:0 --data "$data/data" > "$data/out" 2> "$data/err" &
server=$!
trap 'kill "$server" 2> /dev/null || true; rm -rf "$data"' EXIT
until grep -q '^listening on ' "$data/out"; do
  kill -0 "$server" || { cat "$data/err"; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$data/out")

[ -x "$home/sse/bin/python" ] || python3 -m venv "$home/sse"
"$home/sse/bin/pip" --quiet install --disable-pip-version-check httpx==0.28.1 httpx-sse==0.4.0
"$home/sse/bin/python" "$root/tests/clients/sse.py" "$url" "$WRIT_CLIENT_TOKEN"
"$root/tests/clients/a2a.sh" "$url" "$WRIT_CLIENT_TOKEN"
"$root/tests/clients/schemathesis.sh" "$url" "$WRIT_CLIENT_TOKEN"
kill "$server"
wait "$server"
"$root/tests/clients/mcp.sh" "$writ"
"$root/tests/clients/acp.sh" "$writ"
"$root/tests/clients/conformance.sh" "$writ"
