#!/usr/bin/env bash
# A zone of a million records goes out to Knot, NSD and BIND and three come in from them, whole and by their changes.
# ZONE_RECORDS makes it smaller. With WRITE=1 the result goes into docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export ZONE_RECORDS=${ZONE_RECORDS:-1000000}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
lines=''
for test in a_large_zone_goes_out_to_knot_nsd_and_bind_with_its_changes large_zones_come_in_from_knot_nsd_and_bind_with_their_changes; do
  out=$(cargo test -q -p tests --locked --test zones -- --exact --nocapture "$test" 2>&1) || { echo "$out"; exit 1; }
  lines+=$(grep -o "$ZONE_RECORDS records .*" <<<"$out")$'\n'
done
printf %s "$lines"
[ -n "${WRITE:-}" ] || exit 0
tests/record zones <<END
## Large zones

\`tests/long/zones.sh\`: a zone to and from Knot, NSD and BIND at once, until the last one has it.

\`\`\`txt
$lines\`\`\`
END
