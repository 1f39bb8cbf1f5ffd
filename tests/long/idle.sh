#!/usr/bin/env bash
# An idle connection takes at most 24 KB of the gateway's memory, of HTTPS 40 KB, of QUIC 35 KB, of HTTP/3 46 KB, all in all, and its next
# query is answered at once. Opens IDLE_CONNECTIONS (10000) of each transport, each with one query behind it, and compares the
# gateway's resident memory before and after, as the kernel counts it. With WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${IDLE_CONNECTIONS:-10000}
target=${CARGO_TARGET_DIR:-$PWD/target}/release
cargo build --release --locked --quiet -p bench
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked --quiet -p gateway
  CAUSEWAY_BIN=$target/causeway
fi
ulimit -n "$(ulimit -H -n)"
folder=$(mktemp -d)
gateway=
# Shows what went wrong, and ends what was started here, and nothing else.
finish() {
  [ $? = 0 ] || cat "$folder/out" "$folder/log" >&2 || true
  [ -z "$gateway" ] || kill "$gateway" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

# The resident memory of the gateway, in KB.
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$gateway/status"; }

# measure TRANSPORT KEY LIMIT: a line of the result; fails above LIMIT bytes a connection.
measure() {
  local transport=$1 key=$2 limit=$3 port before after bytes report
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  printf '%s:%s {\n    bind 127.0.0.1\n    tls {\n        self_signed\n    }\n    timeouts {\n        idle 1h\n    }\n    quic {\n        max_connections 0\n    }\n    https {\n        max_connections 0\n    }\n    https3 {\n        max_connections 0\n    }\n    whoami\n}\n' \
    "$key" "$port" >"$folder/Corefile"
  env -u CAUSEWAY_BIN "$CAUSEWAY_BIN" -conf "$folder/Corefile" -set "data_dir=$folder" -set "limits.tcp_connections=$((count + 100))" >"$folder/log" 2>&1 &
  gateway=$!
  for _ in $(seq 50); do
    "$target/idle" "$transport://127.0.0.1:$port" www.example.org 10 </dev/null >/dev/null 2>&1 && break
    sleep 0.2
  done
  before=$(resident)
  coproc idle { "$target/idle" "$transport://127.0.0.1:$port" www.example.org "$count"; }
  read -r -u "${idle[0]}" report
  [ "$report" = open ]
  sleep 1
  after=$(resident)
  echo >&"${idle[1]}"
  read -r -u "${idle[0]}" report
  kill "$gateway"
  wait "$gateway" || true
  gateway=
  bytes=$(((after - before) * 1024 / count))
  echo "$transport: $bytes bytes a connection ($before KB before, $after KB with $count), then $report"
  grep -q "\"answered\":$count" <<<"$report" && [ "$bytes" -le "$limit" ]
}

# Not in $( ) and before no ||, where bash goes on behind what fails.
{
  measure tcp . 24576
  measure tls tls://. 24576
  measure https https://. 40960
  measure quic quic://. 35840
  measure https3 https3://. 47104
} >"$folder/out"
out=$(cat "$folder/out")
echo "$out"
[ -n "${WRITE:-}" ] || exit 0
tests/record idle <<END
## What an idle client takes

\`tests/long/idle.sh\`: $count connections, each after one query, and the gateway's resident memory with and without them. Machine: $(nproc) vCPU, $(uname -sm).

\`\`\`txt
$out
\`\`\`
END
