#!/bin/sh
# Prints the manifests that put Causeway in the place of a cluster's DNS:
#
#   print.sh [OPTIONS] SERVICE_CIDR [CLUSTER_DOMAIN]
#   print.sh 10.3.0.0/24 cluster.local | kubectl apply --server-side --force-conflicts -f -
#
# SERVICE_CIDR is the cluster's range of service addresses, whose reverse names are answered too; CLUSTER_DOMAIN is `cluster.local`
# if it is not given. The Service `kube-dns` keeps its address, which kubectl is asked for. Nothing is changed by this script.
# Why --server-side: a Service of another layout has several ports 53, which a plain `kubectl apply` takes for one.
#
#   -i ADDRESS           the address of the Service kube-dns (then kubectl is not needed)
#   -d DOMAIN            the cluster domain, as the second word
#   -r CIDR              a further range with reverse names, such as that of the pods; repeatable
#   -s DOMAIN=ADDRESS[,ADDRESS…]
#                        a stub domain: names in it are asked at these servers; repeatable
#   -u ADDRESS[,ADDRESS…]
#                        upstream servers instead of those in the node's /etc/resolv.conf
#   -l                   log every query
#   -m IMAGE             the image
#   -t TEMPLATE          a template instead of kubernetes/kube-dns.yaml.in; @CLUSTER_DNS_IP@, @CLUSTER_DOMAIN@, @REVERSE_CIDRS@,
#                        @UPSTREAM@ and @STUB_DOMAINS@ (a line of its own) are filled in
#   -h                   print this
set -eu

here=$(dirname "$0")
template=$here/kubernetes/kube-dns.yaml.in
address='' domain='' reverse='' upstream=/etc/resolv.conf image='' log='' stubs=''

# Prints the comment above.
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"; }

# Ends with a message and what to do.
fail() {
  echo "print.sh: $1" >&2
  exit "${2:-1}"
}

# Ends unless every word is an IP address with an optional port.
addresses() {
  for word in $1; do
    case $word in
      *[!0-9a-fA-F.:\[\]]* | '' | .* | *..*) fail "'$word' is not an IP address" 2 ;;
      *.*.*.* | *:*:*) ;;
      *) fail "'$word' is not an IP address" 2 ;;
    esac
  done
}

# Ends unless the word is a network: an address, a slash, and a length of the prefix.
network() {
  length=${1##*/}
  case $1 in */*) ;; *) fail "'$1' is not a network such as 10.96.0.0/12" 2 ;; esac
  addresses "${1%/*}"
  case $length in '' | *[!0-9]*) fail "'$1' is not a network such as 10.96.0.0/12" 2 ;; esac
  case $1 in
    *:*) most=128 ;;
    *) most=32 ;;
  esac
  if [ "$length" -lt 1 ] || [ "$length" -gt "$most" ]; then fail "'$1' needs a prefix of 1 to $most bits" 2; fi
}

# Ends unless the word is a domain name.
domain_name() {
  case $1 in
    *[!A-Za-z0-9._-]* | '' | .* | *..* | -*) fail "'$1' is not a domain name" 2 ;;
  esac
}

while getopts i:d:r:s:u:lm:t:h option; do
  case $option in
    i) address=$OPTARG && addresses "$address" ;;
    d) domain=$OPTARG ;;
    r) network "$OPTARG" && reverse="$reverse $OPTARG" ;;
    s)
      case $OPTARG in ?*=?*) ;; *) fail "-s needs DOMAIN=ADDRESS, not '$OPTARG'" 2 ;; esac
      servers=$(echo "${OPTARG#*=}" | tr , ' ')
      domain_name "${OPTARG%%=*}" && addresses "$servers"
      stubs="$stubs
    ${OPTARG%%=*}:53 {
        errors
        cache 30
        forward . $servers
    }"
      ;;
    u) upstream=$(echo "$OPTARG" | tr , ' ') && addresses "$upstream" ;;
    l) log=1 ;;
    m) image=$OPTARG ;;
    t) template=$OPTARG ;;
    h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))

[ $# -ge 1 ] || { usage >&2 && exit 2; }
[ $# -le 2 ] || fail "too many words: $*" 2
network "$1"
reverse="$1$reverse"
domain=${domain:-${2:-cluster.local}}
domain_name "$domain"
case $image in *[!A-Za-z0-9._/:@-]*) fail "'$image' is not the name of an image" 2 ;; esac
[ -r "$template" ] || fail "cannot read the template $template" 1

if [ -z "$address" ]; then
  command -v kubectl >/dev/null || fail "kubectl is not there to ask for the address of kube-dns: give it with -i"
  address=$(kubectl get service --namespace kube-system kube-dns -o 'jsonpath={.spec.clusterIP}') ||
    fail "the Service kube-dns in kube-system was not found: give its address with -i"
  case $address in '' | None) fail "the Service kube-dns has no cluster IP: give one with -i" ;; esac
  addresses "$address"
fi

cat "$here/kubernetes/rbac.yaml"
echo ---
if [ -n "$image" ]; then
  sed "s|^\( *image: \).*|\1$image|; /The image is not published/d" "$here/kubernetes/deployment.yaml"
else
  cat "$here/kubernetes/deployment.yaml"
fi
echo ---
while IFS= read -r line; do
  case $line in
    @STUB_DOMAINS@) [ -z "$stubs" ] || printf '%s\n' "${stubs#?}" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$template" |
  sed "s|@CLUSTER_DNS_IP@|\"$address\"|; s|@CLUSTER_DOMAIN@|$domain|; s|@REVERSE_CIDRS@|$reverse|; s|@UPSTREAM@|$upstream|
${log:+/^        errors\$/a\\        log}"
