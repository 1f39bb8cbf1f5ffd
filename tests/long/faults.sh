#!/usr/bin/env bash
# Faults of the way to a cluster, of its API server, of files and of the clock, one after another: no answer may be wrong or
# missing meanwhile. What is found out by its silence alone takes minutes, and is tried here only. With WRITE=1 the table goes into
# docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(FAULT_LONG=1 cargo test -q -p tests --locked --test faults -- --nocapture 2>&1) || { echo "$out"; exit 1; }
table=$(grep '^|' <<<"$out" | sed 's|causeway_kubernetes_|…|; s|coredns_kubernetes_|…|')
echo "$table"
grep ' faults in ' <<<"$out"
[ -n "${WRITE:-}" ] || exit 0
tests/record faults <<END
## Faults

\`tests/long/faults.sh\`: each fault is done to a gateway of its own, six at once, that a client asks for nine names all the time. No answer was
wrong and none was lost. *Over after* is the time from the end of the fault until what happened in the cluster meanwhile is answered, or, after
*meanwhile*, the time until it is answered while the fault lasts; *lines* are those of warnings and errors. In the first ten seconds of a fault no answer tells
of it. Metrics begin with \`causeway_kubernetes_\` or \`coredns_kubernetes_\`. Machine: $(nproc) vCPU,
$(uname -sm), shared with the API servers and all clients; a debug build.

$table
END
