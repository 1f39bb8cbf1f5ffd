#!/usr/bin/env bash
# The API server is killed for ten minutes and comes back with a history that nobody can go on from: not one answer is wrong or
# missing meanwhile, and what changed is answered within 5 seconds of its return. OUTAGE_SECONDS makes it shorter.
# With WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export OUTAGE_SECONDS=${OUTAGE_SECONDS:-600}
out=$(cargo test -q -p tests --locked --test e2e_faults -- --exact --nocapture an_outage_is_not_noticed_by_clients_and_over_at_once 2>&1) ||
  { echo "$out"; exit 1; }
line=$(grep -o '[0-9]* answers over an outage .*' <<<"$out")
echo "$line"
[ -n "${WRITE:-}" ] || exit 0
tests/record outage <<END
## An API server that is away

\`tests/long/outage.sh\`: the API server is killed and comes back with a compacted history and changed objects, while a client asks fourteen names all the time.

\`\`\`txt
$line
\`\`\`
END
