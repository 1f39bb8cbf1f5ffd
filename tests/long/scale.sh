#!/usr/bin/env bash
# A cluster of 100,000 Services, 500,000 endpoints and 500,000 Pods, which a server of our own makes up: how much processor time the first
# right answers take, how much memory is held, also while all is listed again, and after nine tenths are gone; and how soon a change is
# answered, idle, and under 2,000 changes of slices a second with half of the queries that are possible. A release build is held to what is
# promised (SCALE_PROMISED=0 only shows it). SCALE_SERVICES, SCALE_PODS, SCALE_CHURN, SCALE_CHANGES and SCALE_SECONDS state other sizes. With
# WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export SCALE_SERVICES=${SCALE_SERVICES:-100000} SCALE_PODS=${SCALE_PODS:-500000} SCALE_CHURN=${SCALE_CHURN:-2000}
export SCALE_CHANGES=${SCALE_CHANGES:-500} SCALE_SECONDS=${SCALE_SECONDS:-5} SCALE_PROMISED=${SCALE_PROMISED:-1}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
out=$(cargo test -q -p tests --locked --test e2e_scale -- --nocapture --test-threads=1 2>&1) || { echo "$out"; exit 1; }
sizes=$(grep -oE '\| [0-9]+ (services|clusters).*' <<<"$out") paces=$(grep -oE '\| (idle|[0-9]+ changes).*' <<<"$out")
printf '%s\n' "$sizes" "$paces"
[ -n "${WRITE:-}" ] || exit 0
tests/record scale <<END
## A very large cluster, made up

\`tests/long/scale.sh\`: the gateway's own processor time and memory, beside a server that makes the objects up while it sends them, on the same
machine: $(nproc) vCPU, $(uname -sm), ${MACHINE:-with other work on it}. Time runs until the last Services and endpoints are answered; *listed again* is the
highest memory during a second list of everything, against that before it; then nine tenths of the Services are deleted. Memory is what is
resident, of which the program's own file is about 18 MiB; *kept* is the part of the rest that is still there after deletion.

| cluster | time | processor time | memory | listed again | afterwards | after deletion | kept |
|---|---|---|---|---|---|---|---|
$sizes

From a change of a slice to the answer that tells it, over the loopback network:

| meanwhile | p50 | p99 | longest |
|---|---|---|---|
$paces
END
