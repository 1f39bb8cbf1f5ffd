#!/usr/bin/env bash
# A cluster of 20,000 Services and 100,000 endpoints is known soon, with little work, and held in little memory, also while all of it
# is listed again. SIZE_SERVICES is how many Services there are; each SIZE_EVERY-th is asked for. SIZE_SECONDS and SIZE_CPU_SECONDS
# bound the time and the processor time to the last answer, SIZE_RESIDENT_MIB and SIZE_PEAK_MIB the memory. With WRITE=1 the result
# goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export SIZE_SERVICES=${SIZE_SERVICES:-20000} SIZE_EVERY=${SIZE_EVERY:-7}
export SIZE_SECONDS=${SIZE_SECONDS:-5} SIZE_CPU_SECONDS=${SIZE_CPU_SECONDS:-2}
export SIZE_RESIDENT_MIB=${SIZE_RESIDENT_MIB:-40} SIZE_PEAK_MIB=${SIZE_PEAK_MIB:-60}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
out=$(cargo test -q -p tests --locked --test e2e_size -- --nocapture 2>&1) || { echo "$out"; exit 1; }
line=$(grep -o '[0-9]* services, .*' <<<"$out")
echo "$line"
[ -n "${WRITE:-}" ] || exit 0
tests/record size <<END
## A large cluster

\`tests/long/size.sh\`: the gateway is started beside an API server that has all of it. Time, processor time and memory are the gateway's; then the
API server is killed and comes back, so that all is listed again while a client asks. Machine: $(nproc) vCPU, $(uname -sm), shared with the API server.

\`\`\`txt
$line
\`\`\`
END
