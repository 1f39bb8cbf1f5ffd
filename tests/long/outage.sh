#!/usr/bin/env bash
# The API server is killed for ten minutes and comes back with a history that nobody can go on from: not one answer is wrong or
# missing meanwhile, and what changed is answered within 5 seconds of its return. OUTAGE_SECONDS makes it shorter.
set -euo pipefail
cd "$(dirname "$0")/../.."
export OUTAGE_SECONDS=${OUTAGE_SECONDS:-600}
cargo test -q -p tests --locked --test e2e_faults -- --exact --nocapture an_outage_is_not_noticed_by_clients_and_over_at_once
