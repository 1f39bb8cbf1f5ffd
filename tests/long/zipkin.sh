#!/usr/bin/env bash
# The real Zipkin takes the spans of *trace* and finds them again: by service, by tag, with parents and children; and once more
# after it was away. Its server comes from Maven's registry.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
causeway=${CAUSEWAY_BIN:-$target/release/causeway}
version=3.6.1
jar=$target/clients/zipkin-server-$version-exec.jar
for program in mvn java; do
  command -v "$program" >/dev/null || { echo "zipkin: $program is missing (maven, default-jre-headless)" >&2; exit 1; }
done
if [ ! -e "$jar" ]; then
  mkdir -p "$target/clients"
  mvn -q -B -Dmaven.repo.local="$target/clients/m2" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact="io.zipkin:zipkin-server:$version:jar:exec" -DoutputDirectory="$target/clients" -Dmdep.useBaseVersion=true
fi

folder=$(mktemp -d)
pids=()
trap '[ $? = 0 ] || cat "$folder/causeway.log" >&2; for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$folder"' EXIT
port=$((20000 + RANDOM % 10000)) zipkin=$((31000 + RANDOM % 1000))
api=http://127.0.0.1:$zipkin/api/v2

# Starts Zipkin and waits until it is there.
start() {
  QUERY_PORT=$zipkin java -Xmx256m -jar "$jar" >"$folder/zipkin.log" 2>&1 &
  server=$!
  pids+=("$server")
  for _ in $(seq 120); do
    curl -sf "http://127.0.0.1:$zipkin/health" >/dev/null && return
    sleep 1
  done
  cat "$folder/zipkin.log"
  return 1
}

# Waits for the trace of a name, and prints its spans.
trace() {
  for _ in $(seq 60); do
    curl -sf --get "$api/traces" --data-urlencode 'serviceName=edge' \
      --data-urlencode "annotationQuery=coredns.io/name=$1" >"$folder/traces.json" || true
    [ "$(jq length "$folder/traces.json" 2>/dev/null || echo 0)" -gt 0 ] && { jq -c '.[0]' "$folder/traces.json"; return; }
    sleep 0.5
  done
  echo "no trace of $1" >&2
  return 1
}

start
cat >"$folder/Corefile" <<END
.:$port {
    bind 127.0.0.1
    trace 127.0.0.1:$zipkin {
        service edge
    }
    cache
    whoami
}
END
env -u CAUSEWAY_BIN "$causeway" -conf "$folder/Corefile" >"$folder/causeway.log" 2>&1 &
pids+=("$!")
for _ in $(seq 50); do dig +short +time=1 +tries=1 -p "$port" @127.0.0.1 ready.example.org >/dev/null && break; sleep 0.2; done

dig +time=2 -p "$port" @127.0.0.1 one.example.org A >/dev/null
spans=$(trace one.example.org.)
[ "$(jq -r '[.[].name] | sort | join(" ")' <<<"$spans")" = "cache servedns whoami" ]
root=$(jq -r '.[] | select(.name == "servedns") | .id' <<<"$spans")
[ "$(jq -r '.[] | select(.name == "cache") | .parentId' <<<"$spans")" = "$root" ]
[ "$(jq -r '.[] | select(.name == "servedns") | .tags["coredns.io/rcode"]' <<<"$spans")" = NOERROR ]
[ "$(jq -r '.[] | select(.name == "servedns") | .localEndpoint.ipv4' <<<"$spans")" = 127.0.0.1 ]

kill "$server"
wait "$server" 2>/dev/null || true
dig +time=2 -p "$port" @127.0.0.1 two.example.org A >/dev/null
for _ in $(seq 50); do grep -q 'Cannot send spans' "$folder/causeway.log" && break; sleep 0.2; done
grep -q 'Cannot send spans' "$folder/causeway.log"
start
dig +time=2 -p "$port" @127.0.0.1 three.example.org A >/dev/null
trace three.example.org. >/dev/null
echo "Zipkin $version has the traces"
