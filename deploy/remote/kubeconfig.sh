#!/bin/sh
# Writes a kubeconfig with which a gateway outside a cluster reads it. Before, as somebody who may:
#
#   kubectl apply -f rbac.yaml
#   kubeconfig.sh -o /etc/causeway/prod.kubeconfig prod
#
# The one word is the name of the context in it (default: remote). Server and authority come from kubectl's current context; of your
# own credentials nothing is copied.
#
#   -c CONTEXT     this context of kubectl's instead of the current one
#   -a URL         the API server's address as the gateway reaches it
#   -d DURATION    how long the token is good (default 8760h; the cluster may grant less and says so)
#   -s             take the token that does not expire from the Secret of token.yaml, which has to be applied
#   -n NAMESPACE   the namespace of the account (default causeway)
#   -A ACCOUNT     the account, and the name of its Secret (default causeway-remote)
#   -o FILE        write to FILE, readable for its owner alone, instead of standard output
#   -g GROUP       make FILE readable for this group too, as the service of ../systemd needs it
#   -h             print this
set -eu

context='' server='' duration=8760h secret='' namespace=causeway account=causeway-remote out='' group=''

# Prints the comment above.
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"; }

# Ends with a message.
fail() {
  echo "kubeconfig.sh: $1" >&2
  exit "${2:-1}"
}

# kubectl in the context that is asked for.
kube() { kubectl ${context:+--context="$context"} "$@"; }

# A field of the cluster in kubectl's configuration.
cluster() { kube config view --raw --minify --flatten -o "jsonpath={.clusters[0].cluster.$1}"; }

while getopts c:a:d:sn:A:o:g:h option; do
  case $option in
    c) context=$OPTARG ;;
    a) server=$OPTARG ;;
    d) duration=$OPTARG ;;
    s) secret=1 ;;
    n) namespace=$OPTARG ;;
    A) account=$OPTARG ;;
    o) out=$OPTARG ;;
    g) group=$OPTARG ;;
    h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || fail "too many words: $*" 2
name=${1:-remote}
case $name in *[!A-Za-z0-9._-]*) fail "'$name' is not a name of letters, digits, '.', '_' and '-'" 2 ;; esac
[ -z "$group" ] || [ -n "$out" ] || fail "-g needs -o FILE" 2
command -v kubectl >/dev/null || fail "kubectl is not there"

server=${server:-$(cluster server)}
case $server in https://*) ;; *) fail "'$server' is not the address of an API server: give one with -a https://…" ;; esac
authority=$(cluster certificate-authority-data)
# An API server with a public certificate has none: then the machine's own authorities count.
authority=${authority:+"    certificate-authority-data: $authority
"}

if [ -n "$secret" ]; then
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    token=$(kube get secret --namespace "$namespace" "$account" -o 'jsonpath={.data.token}') ||
      fail "the Secret $namespace/$account is not there: apply token.yaml"
    [ -z "$token" ] || break
    sleep 1
  done
  [ -n "$token" ] || fail "the cluster has put no token into the Secret $namespace/$account"
  token=$(echo "$token" | base64 -d)
else
  token=$(kube create token --namespace "$namespace" "$account" --duration "$duration") ||
    fail "the cluster gives no token for $namespace/$account: apply rbac.yaml, or try -s with token.yaml"
fi

if [ -n "$out" ]; then
  umask 077
  exec >"$out.new"
fi
cat <<END
apiVersion: v1
kind: Config
clusters:
- name: $name
  cluster:
    server: $server
${authority}users:
- name: $account
  user:
    token: $token
contexts:
- name: $name
  context:
    cluster: $name
    user: $account
current-context: $name
END
if [ -n "$out" ]; then
  if [ -n "$group" ]; then
    chgrp "$group" "$out.new" && chmod 0640 "$out.new" || fail "the group '$group' cannot be given $out: is it there?"
  fi
  # By rename: a gateway that reads it at this moment has the old one or the new one.
  mv "$out.new" "$out"
fi
