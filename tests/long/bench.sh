#!/usr/bin/env bash
# On one core, the gateway's kubernetes answers over UDP reach 80 % of an echo server's rate, both driven by the same generator in the
# same run. BENCH_ROUNDS is how many rounds (9). With WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(tests/bench/run --rounds "${BENCH_ROUNDS:-9}" --seconds 2 --min-ratio 0.8 2>&1) || { echo "$out"; exit 1; }
table=$(sed -n '/^median/,$p' <<<"$out")
echo "$table"
[ -n "${WRITE:-}" ] || exit 0
tests/record bench <<END_OF_TEXT
## What a query costs

\`tests/long/bench.sh\`: the server on one core, the load generator on the other, echo server and gateway in turns. Machine: $(nproc) vCPU, $(uname -sm).

\`\`\`txt
$table
\`\`\`
END_OF_TEXT
