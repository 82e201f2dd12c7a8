#!/usr/bin/env bash
# Replays a recorded session, kills the process with SIGKILL at random moments, starts it again each time, and lets the
# last one end: the transcript must be the recording's, but for calls marked interrupted, and the store sound.
# Usage: tests/replay-kills.sh WRIT RECORDING [KILLS]
set -euo pipefail
writ=$1 recording=$2 kills=${3:-10}
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
# The first start compiles the component, which would take up every kill.
"$writ" --data "$data" agents >/dev/null
for ((i = 1; i <= kills; i++)); do
  "$writ" --data "$data" replay "$recording" --delay 2 >/dev/null 2>&1 &
  pid=$!
  moment=$(awk -v r=$RANDOM 'BEGIN { printf "%.2f", 0.3 + r / 32768 * 1.7 }')
  sleep "$moment"
  if kill -KILL "$pid" 2>/dev/null; then echo "kill $i after $moment s"; else echo "ended before kill $i"; fi
  wait "$pid" 2>/dev/null || true
done
"$writ" --data "$data" replay "$recording"
"$writ" --data "$data" check
