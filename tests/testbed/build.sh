#!/usr/bin/env bash
# Builds bin/testbed, if its sources or the Go toolchain changed since it was built.
# CGO stays off and GOCACHE where it is: 2,159 packages are compiled again for any other setting.
set -euo pipefail
cd "$(dirname "$0")"
export CGO_ENABLED=0
sum=$({ go version; sha256sum ./*.go go.mod go.sum build.sh; } | sha256sum | cut -d' ' -f1)
if [ -x bin/testbed ] && [ "$(cat bin/testbed.sum 2>/dev/null)" = "$sum" ]; then
  echo "testbed: up to date"
  exit 0
fi
mkdir -p bin
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
x=k8s.io/component-base/version
go build -p "${TESTBED_JOBS:-2}" -o bin/testbed.new -ldflags="-s -w -X $x.gitVersion=$version -X $x.gitMajor=$major -X $x.gitMinor=$minor -X $x.gitTreeState=clean" .
mv bin/testbed.new bin/testbed
echo "$sum" >bin/testbed.sum
echo "testbed: built"
