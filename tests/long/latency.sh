#!/usr/bin/env bash
# A change in a Service or EndpointSlice is answered within 10 ms at the 99th percentile under a churn of 100 updates a second,
# from another watch seeing it to the first new DNS answer. LATENCY_SECONDS is how long (60). With WRITE=1 the result goes into
# docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LATENCY_SECONDS=${LATENCY_SECONDS:-60} LATENCY_LIMIT_MS=${LATENCY_LIMIT_MS:-10}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
out=$(cargo test -q -p tests --locked --test e2e_latency -- --nocapture 2>&1) || { echo "$out"; exit 1; }
line=$(grep -o '[0-9]* updates, .*' <<<"$out")
echo "$line"
[ -n "${WRITE:-}" ] || exit 0
tests/record latency <<END
## From a change in the cluster to its answer

\`tests/long/latency.sh\`: 100 changes a second for $LATENCY_SECONDS seconds, half of them of EndpointSlices and half of Services, from another watch seeing a
change to the first new DNS answer. Machine: $(nproc) vCPU, $(uname -sm), which the API server, those who change and those who ask share with the gateway.

\`\`\`txt
$line
\`\`\`
END
