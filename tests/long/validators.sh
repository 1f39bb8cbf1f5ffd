#!/usr/bin/env bash
# A zone that `dnssec` signs, as two more validators see it: Knot Resolver validates it by its trust anchor, and DNSViz looks for
# everything that is wrong with it. Prints what they say, and fails if Knot Resolver takes an answer for forged or DNSViz finds an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin
target=${CARGO_TARGET_DIR:-target}
/usr/bin/python3 -c "import pygraphviz" 2>/dev/null || { echo "pygraphviz is missing: install Debian's python3-pygraphviz"; exit 1; }
for pair in kresd:knot-resolver dnsviz:dnsviz dig:bind9-dnsutils; do
  command -v "${pair%%:*}" >/dev/null || { echo "${pair%%:*} is missing: install Debian's ${pair#*:}"; exit 1; }
done
program=${CAUSEWAY_BIN:-$target/release/causeway}
[ -x "$program" ] || cargo build -q --release --locked -p gateway
program=$(realpath "$program")
key=Kexample.org.+013+17122
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cp "gateway/plugins/src/shared/dnssec/samples/$key".* "$folder"
cd "$folder"
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free) own=$(free)
cat >db <<END
\$TTL 300
@ SOA ns1 hostmaster 1 7200 3600 1209600 60
@ NS ns1
ns1 A 127.0.0.1
www A 203.0.113.80
mail MX 10 www
alias CNAME www
dang CNAME nowhere
*.w A 203.0.113.10
dn DNAME w
sub NS ns1
END
cat >Corefile <<END
example.org:$port {
    bind 127.0.0.1
    dnssec {
        key file $key
    }
    file db
}
END
env -u CAUSEWAY_BIN "$program" -conf Corefile >log 2>&1 &
pids+=($!)
for _ in $(seq 100); do dig +short +tries=1 +timeout=1 @127.0.0.1 -p "$port" example.org SOA | grep -q . && break || sleep 0.1; done
cat >kresd.conf <<END
net.listen('127.0.0.1', $own)
modules.unload('ta_sentinel')
modules.unload('ta_signal_query')
trust_anchors.remove('.')
trust_anchors.add_file('$folder/anchor', true)
policy.add(policy.suffix(policy.FORWARD({'127.0.0.1@$port'}), policy.todnames({'example.org'})))
log_level('notice')
END
grep -v '^;' "$key.key" >anchor
mkdir run
kresd -n -q -c "$folder/kresd.conf" "$folder/run" >kresd.log 2>&1 &
pids+=($!)
for _ in $(seq 100); do dig +short +tries=1 +timeout=1 @127.0.0.1 -p "$own" example.org SOA | grep -q . && break || sleep 0.1; done
wrong=0
echo "Knot Resolver $(kresd --version 2>&1 | grep -o '[0-9][0-9.]*' | head -1):"
while read -r name kind; do
  reply=$(dig +dnssec +tries=1 +timeout=10 @127.0.0.1 -p "$own" "$name" "$kind")
  status=$(grep -o 'status: [A-Z]*' <<<"$reply" | cut -d' ' -f2)
  secure=$(grep -q '^;; flags:[^;]* ad[ ;]' <<<"$reply" && echo secure || echo 'not secure')
  printf '  %-24s %-6s %s, %s\n' "$name" "$kind" "$status" "$secure"
  [ "$status" != SERVFAIL ] && [ "$secure" = secure ] || wrong=1
done <<END
example.org SOA
example.org TXT
www.example.org A
www.example.org TXT
nope.example.org A
x.w.example.org A
x.w.example.org TXT
alias.example.org A
alias.example.org TXT
dang.example.org A
x.dn.example.org A
mail.example.org AAAA
mail.example.org MX
END
echo "DNSViz:"
dnsviz probe -A -a . -x "example.org+:127.0.0.1:$port" -R A,AAAA,MX,TXT,SOA,DNSKEY -o probe.json example.org www.example.org alias.example.org x.w.example.org \
  >probe.log 2>&1 || { cat probe.log; wrong=1; }
# Debian's DNSViz asks pygraphviz for a module that the one beside it does not have.
mkdir shim
cat >shim/sitecustomize.py <<'END'
import sys, types
import pygraphviz
release = types.ModuleType("pygraphviz.release")
release.version = pygraphviz.__version__
pygraphviz.release = sys.modules["pygraphviz.release"] = release
END
PYTHONPATH=shim dnsviz grok -t anchor -r probe.json -o grok.json 2>grok.log || { cat grok.log; wrong=1; }
python3 - <<'END' || wrong=1
import json, sys
found = []
def walk(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "errors":
                found.extend((path, error) for error in inner)
            walk(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for inner in value:
            walk(inner, path)
walk(json.load(open("grok.json")), "")
for path, error in found:
    print(" ", path, error.get("code"), error.get("description"))
secure = open("grok.json").read().count('"SECURE"')
print(f"  {secure} times secure, {len(found)} errors")
sys.exit(bool(found) or not secure)
END
exit $wrong
