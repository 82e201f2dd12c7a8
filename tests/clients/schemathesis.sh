#!/bin/sh
# Plays schemathesis against a running server: requests that fit the API's own document, and requests that don't; each
# answer must be as the document says. Made for CI: its tools are pinned, and live under target/.
#
#   tests/clients/schemathesis.sh URL TOKEN
#
# It makes threads and submissions of the agent `helper`: give it a server with a scripted model and a store of its own.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 URL TOKEN" >&2
    exit 2
fi
url=${1%/}
token=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${CARGO_TARGET_DIR:-$root/target}/clients
venv=$home/schemathesis

if [ ! -x "$venv/bin/schemathesis" ] || ! "$venv/bin/pip" show schemathesis 2>/dev/null | grep -q '^Version: 4\.32\.5$'; then
    mkdir -p "$home"
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" --quiet install --disable-pip-version-check schemathesis==4.32.5 openapi-spec-validator==0.7.2
fi

# The document that is served is the one of this checkout, and it is a document.
curl --fail --silent --show-error "$url/v1/openapi.json" >"$home/openapi.json"
cmp "$home/openapi.json" "$root/src/faces/openapi.json"
"$venv/bin/openapi-spec-validator" "$home/openapi.json"

# Streams do not end, so a client that reads to the end is no judge of them: tests/streams.rs is.
# What the document can't say in a schema (a fork point between a call and its result) is refused with 422, which it
# lists; so a fit request may be refused, and `positive_data_acceptance` allows for that.
# Some requests are to find something: one submission is there.
curl --fail --silent --show-error "$url/v1/agents/helper/threads/demo/submissions" \
    --header "Authorization: Bearer $token" --header 'Idempotency-Key: schemathesis' \
    --data '{"message": "hi"}' >"$home/receipt.json"
id=$("$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["id"])' <"$home/receipt.json")
cat >"$home/schemathesis.toml" <<TOML
[parameters]
"path.agent" = "helper"
"path.id" = "$id"

[checks]
positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
negative_data_rejection.expected-statuses = ["200", "202", "400", "401", "403", "404", "409", "413", "422", "429"]
TOML
# It leaves its notes in the folder where it is started.
cd "$home"
"$venv/bin/schemathesis" --config-file "$home/schemathesis.toml" run "$root/src/faces/openapi.json" \
    --url "$url" \
    --header "Authorization: Bearer $token" \
    --exclude-operation-id stream \
    --max-examples "${EXAMPLES:-50}" \
    --generation-deterministic \
    --request-timeout 30
