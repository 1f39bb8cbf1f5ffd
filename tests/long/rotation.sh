#!/usr/bin/env bash
# Credentials of every kind are replaced 100 times while a client asks: no answer fails, and the API server sees each of them once it is
# there. ROTATIONS is how often. With WRITE=1 the result goes into docs/measurements.md; MACHINE says there what else is to be known of
# the machine and the build.
#
# Covered are a token file, replaced as the kubelet replaces it in a pod (a link to a folder), and the two files of a client certificate, replaced
# one after the other. After each rotation the connections to the API server are broken, and something that changes then must be answered.
# Of the other kinds the connections are left alone: within ten seconds all kinds have to be watched with the new ones. These are a token file; a
# kubeconfig, with a token and with a certificate in it; the files of a certificate; a program that prints tokens, and one that prints
# certificates; a CA bundle, along which the server's own certificate changes; and the account of a pod, token and CA bundle, in a folder
# that is filled as the kubelet does it. A certificate that ends while it is in use, told beforehand by the log and the metric, is a test beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."
export ROTATIONS=${ROTATIONS:-100}
if [ -z "${CAUSEWAY_BIN:-}" ]; then
  cargo build --release --locked -p gateway
  export CAUSEWAY_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/causeway
fi
out=$(cargo test -q -p tests --locked --test e2e_rotation -- --nocapture 2>&1) || { echo "$out"; exit 1; }
lines=$(grep -o '[0-9]* rotations of .*' <<<"$out" | sort)
echo "$lines"
[ -n "${WRITE:-}" ] || exit 0
tests/record rotation <<END
## Credentials that are replaced

\`tests/long/rotation.sh\`: credentials of each kind are replaced again and again while a client asks five names all the time. *Without a
break* the connections to the API server are left alone; in the other lines each of them is broken. Machine: $(nproc) vCPU,
$(uname -sm), shared with the API server${MACHINE:+, $MACHINE}.

\`\`\`txt
$lines
\`\`\`
END
