#!/usr/bin/env bash
# Clients that only newer releases of Debian have, each against a gateway: QUIC and HTTP/3 by three more implementations, the PROXY
# protocol, transfers over TLS, and the resolvers of whole systems. Makes a root folder of each release in CLIENTS_ROOTS (the target
# folder + /clients by default), which takes some minutes the first time. SUITES names the releases. With WRITE=1 the table goes into
# docs/measurements.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
roots=${CLIENTS_ROOTS:-$target/clients}
read -ra suites <<<"${SUITES:-trixie sid}"
packages=(bind9-dnsutils knot-dnsutils knot curl dnsdist unbound knot-resolver dnscrypt-proxy systemd-resolved stubby)
cargo build -q --locked -p tests --bin edge
[ -n "${CAUSEWAY_BIN:-}" ] || cargo build -q --locked -p gateway
export CAUSEWAY_BIN=${CAUSEWAY_BIN:-$target/debug/causeway}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0 table=

# Makes the root folder of a release, or installs what it lacks.
prepare() {
  local root=$roots/$1
  [ -e "$root/installed" ] && [ "$(cat "$root/installed")" = "${packages[*]}" ] && return
  command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap; } || return
  if [ ! -e "$root/debootstrapped" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates "$1" "$root" && touch "$root/debootstrapped" || return
  fi
  # Nothing that is installed may start on its own.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d" || return
  # A mirror may stand still for longer than a release that moves thinks right.
  # Packages of newer releases look at /proc as they are set up.
  unshare -m sh -ec 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"' "$root" env DEBIAN_FRONTEND=noninteractive sh -ec '
    apt-get -o Acquire::Check-Valid-Until=false update -q
    for package; do
      shift
      # A release that moves may lack one for a while.
      if apt-cache policy "$package" | grep -q "Candidate: [0-9]"; then set -- "$@" "$package"; fi
    done
    apt-get install -q -y --no-install-recommends "$@"' prepare "${packages[@]}" || return
  echo "${packages[*]}" >"$root/installed"
}

# row CLIENT SCHEME WANT LINE [WORDS...]: runs a line, in which $in runs a command of the release, against a gateway that is started
# with the words. Good if the output has a line with WANT, and a query came over SCHEME (any for `-`).
row() {
  local client=$1 scheme=$2 want=$3 line=$4 result=ok version
  shift 4
  version=$(chroot "$roots/$suite" dpkg-query -W -f '${Version}' "${package:-$client}" 2>/dev/null || true)
  # shellcheck disable=SC2016  # the shell of the test expands it
  if [ -z "$version" ]; then
    result='not in this release'
  elif ! "$target/debug/edge" "$@" "in=\"\$SCRIPTS/inside $roots/$suite env SERVER=\$NAME\"; $line" >"$log" 2>&1 ||
    ! grep -qE -- "$want" "$log" || { [ "$scheme" != - ] && ! grep -qE "^asked $scheme [1-9]" "$log"; }; then
    result=FAILED
    failed=$((failed + 1))
    echo "--- $suite: $client: $line"
    tail -n 60 "$log"
  fi
  version=${version#*:}
  line=$(printf '| %s | %s %s | %s | %s |' "$suite" "$client" "${version%%[-+~]*}" "$scheme" "$result")
  echo "$line"
  table+=$line$'\n'
}

# What `edge` adds to its Corefile for a listener that expects the PROXY protocol.
proxied='dns://.:@PORT:proxied@ tls://.:@PORT:proxiedtls@ {
  bind 127.0.0.1
  @TLS@
  proxyproto {
    allow 127.0.0.0/8
    default reject
    require
  }
  log . "from {remote} {name}"
  whoami
}'
# And for a zone that may be transferred over TLS.
zone='tls://cluster.local:@PORT:xot@ {
  bind 127.0.0.1
  @TLS@
  kubernetes {
    kubeconfig @KUBECONFIG@
  }
  transfer {
    to *
  }
}'

# And zones that go to and come from a server of that release.
copied='tls://out.test:@PORT:xotout@ {
  bind 127.0.0.1
  @TLS@
  transfer {
    to * 127.0.0.1
  }
  auto {
    directory . (.*)\.zone {1}
    reload 1s
  }
}
dns://in.test:@PORT:xotin@ {
  bind 127.0.0.1
  transfer {
    to *
  }
  secondary {
    transfer from tls://127.0.0.1%@NAME@
    tls @CA@
  }
}'

for suite in "${suites[@]}"; do
  prepare "$suite" >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
  tls="@127.0.0.1 -p \$TLS +tls-ca=\$CA +tls-hostname=\$NAME"
  https="@127.0.0.1 -p \$HTTPS +tls-ca=\$CA +tls-hostname=\$NAME"
  proxy="@127.0.0.1 -p \$PROXIED www.example.test"
  package=knot-dnsutils
  row kdig quic '127\.0\.0\.80' "\$in kdig $tls +quic www.example.test"
  row 'kdig +padding' quic 'PADDING: [1-9]' "\$in kdig $tls +quic +padding www.example.test"
  row kdig tls '127\.0\.0\.80' "\$in kdig $tls www.example.test"
  row kdig https '127\.0\.0\.80' "\$in kdig $https +https www.example.test"
  row 'kdig +proxy' - 'A[[:space:]]+198\.51\.100\.7$' "\$in kdig $proxy +proxy=198.51.100.7#5300-127.0.0.1#53" --blocks "$proxied"
  package=bind9-dnsutils
  row dig tls '127\.0\.0\.80' "\$in dig $tls +tls www.example.test"
  row dig https '127\.0\.0\.80' "\$in dig $https +https www.example.test"
  for words in '' '+tcp'; do
    row "dig +proxy $words" - 'A[[:space:]]+198\.51\.100\.7$' "\$in dig $proxy +proxy=198.51.100.7#5300-127.0.0.1#53 $words" --blocks "$proxied"
  done
  row 'dig +proxy-plain +tls' - 'A[[:space:]]+198\.51\.100\.7$' \
    "\$in dig @127.0.0.1 -p \$PROXIEDTLS +tls-ca=\$CA +tls-hostname=\$NAME +tls +proxy-plain=198.51.100.7#5300-127.0.0.1#53 www.example.test" --blocks "$proxied"
  row 'dig AXFR +tls' - 'XFR size: [1-9]' \
    "for i in 1 2 3 4 5 6 7 8 9; do \$in dig @127.0.0.1 -p \$XOT +tls-ca=\$CA +tls-hostname=\$NAME +tls cluster.local AXFR >axfr; grep -q 'XFR size' axfr && break; sleep 1; done; cat axfr" --cluster --blocks "$zone"
  package=knot
  row 'knotd as secondary' - '^knot secondary 2004 records, by AXFR IXFR over TLS$' "\$in \$SCRIPTS/knot secondary out.test \$XOTOUT" --blocks "$copied"
  row 'knotd as primary' - '^knot primary 2004 records, by AXFR IXFR over TLS$' "\$in \$SCRIPTS/knot primary in.test \$XOTIN" --blocks "$copied"
  package=curl
  row 'curl --http3-only' https3 '^3 200 +127 0 0 80$' \
    "\$in curl -sS --http3-only --resolve \$NAME:\$HTTPS:127.0.0.1 --cacert \$CA -o a.bin -w '%{http_version} %{http_code}' \"https://\$NAME:\$HTTPS/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ\"; echo ' '\$(tail -c 4 a.bin | od -An -tu1)"
  row 'curl --doh-url' https '127\.0\.0\.80' \
    "\$in curl -sv --max-time 20 --doh-url https://\$NAME:\$HTTPS/dns-query --resolve \$NAME:\$HTTPS:127.0.0.1 --cacert \$CA http://www.example.test:9/ 2>&1 || true"
  names='q1.load.test q2.load.test q3.load.test q4.load.test'
  package=
  for resolver in 'stubby dot tls' 'unbound dot tls' 'dnsdist dot tls' 'dnsdist doh https' 'dnscrypt-proxy doh https' 'dnscrypt-proxy h3 https3'; do
    read -r name how scheme <<<"$resolver"
    row "$name" "$scheme" "^$name $how q4.load.test 127\.0\.0\.55\$" "\$in \$SCRIPTS/forward $name $how $names"
  done
  package=knot-resolver
  row kresd tls '^kresd dot q4.load.test 127\.0\.0\.55$' "\$in \$SCRIPTS/forward kresd dot $names"
  package=systemd-resolved
  row systemd-resolved tls '^resolved 127\.0\.0\.80$' \
    "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up; ip addr add 10.99.0.2/24 dev v0; ip route add default via 10.99.0.1 dev v0; \$in \$SCRIPTS/resolved www.example.test"
  package=
done

echo
printf '| release | client | transport | result |\n|---|---|---|---|\n%s' "$table"
if [ -n "${WRITE:-}" ]; then
  tests/record clients <<END
## Clients of newer releases

\`tests/long/clients.sh\`: each asks a gateway over the transport, and the gateway's metrics say that it was that one.

| release | client | transport | result |
|---|---|---|---|
$table
END
fi
[ "$failed" -eq 0 ]
