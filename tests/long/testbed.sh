#!/usr/bin/env bash
# The API server of the tests keeps what it promises: 32 checks, and 33 after a crash, when old watches are gone.
set -euo pipefail
cd "$(dirname "$0")/../.."
testbed=${TESTBED:-tests/testbed/bin/testbed}
state=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$state"' EXIT

# Starts the server and waits until it is ready.
start() {
  rm -f "$state/ready"
  "$testbed" serve --state-dir "$state" --ready-file "$state/ready" >"$state/out" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 600); do
    [ ! -e "$state/ready" ] || return 0
    kill -0 "$pid" || { cat "$state/out"; return 1; }
    sleep 0.2
  done
  echo "not ready"
  cat "$state/out"
  return 1
}

start
"$testbed" check -info "$state/testbed.json"
kill -9 "$pid"
wait "$pid" || true
start
"$testbed" check -info "$state/testbed.json" -expect-410
