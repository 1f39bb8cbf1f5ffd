#!/bin/sh
# Lays out the files of the image: image.sh PROGRAM FOLDER. The Dockerfile calls it, on the system that PROGRAM was built on.
set -eu
program=${1:?image.sh PROGRAM FOLDER}
folder=${2:?image.sh PROGRAM FOLDER}

mkdir -p "$folder/etc/ssl/certs" "$folder/etc/causeway" "$folder/usr/local/bin" "$folder/var/lib/causeway" "$folder/run/causeway"
cp "$program" "$folder/usr/local/bin/causeway"
chmod 0755 "$folder/usr/local/bin/causeway"

# The libraries, and the loader under the name that the program has for it.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$folder$(dirname "$library")"
  cp -L "$library" "$folder$library"
done

# The authorities that API servers with public certificates are checked against.
cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"

# Names of API servers: the hosts file first. The runtime puts /etc/hosts and /etc/resolv.conf in.
echo 'hosts: files dns' >"$folder/etc/nsswitch.conf"
echo 'causeway:x:65532:65532::/var/lib/causeway:/nonexistent' >"$folder/etc/passwd"
echo 'causeway:x:65532:' >"$folder/etc/group"
chown 65532:65532 "$folder/var/lib/causeway" "$folder/run/causeway"
