#!/usr/bin/env bash
# Ten minutes of everything at once: names of a cluster under 50 changes a second, cached and forwarded names, denials, over UDP and
# TCP, with a changed configuration every 10 seconds. No answer is lost or wrong, and memory and open files in the last third are no
# more than in the second but for SOAK_GROWTH_PERCENT (5). SOAK_SECONDS is how long (600), SOAK_RELOAD_SECONDS how long between
# reloads (10). With WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export SOAK_SECONDS=${SOAK_SECONDS:-600} SOAK_RELOAD_SECONDS=${SOAK_RELOAD_SECONDS:-10} SOAK_GROWTH_PERCENT=${SOAK_GROWTH_PERCENT:-5}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
out=$(cargo test -q -p tests --locked --test e2e_soak -- --nocapture 2>&1) || { echo "$out"; exit 1; }
line=$(grep -o '[0-9]* answers in .*' <<<"$out")
echo "$line"
[ -n "${WRITE:-}" ] || exit 0
tests/record soak <<END
## Everything at once, for a while

\`tests/long/soak.sh\`: eight clients ask names of a cluster under 50 changes a second, cached and forwarded names and names that do not exist, over UDP
and TCP, while the configuration changes every $SOAK_RELOAD_SECONDS seconds. Machine: $(nproc) vCPU, $(uname -sm), shared with the API server and unbound.

\`\`\`txt
$line
\`\`\`
END
