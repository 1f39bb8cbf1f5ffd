//! What the TO arguments mean.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;

use config::value::{Endpoint, EndpointError, ResolvConf};
use config::{Diagnostic, Scheme, Word};

use crate::shared::{file, resolve};

/// What can be written, for those who wrote something else.
const FORMS: &str = "write IP, IP:port, an IPv6 address with a port in brackets, one of these with dns://, tls://, https://, \
                     https3:// or quic:// before it, or the path of a resolv.conf";

/// One upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// Its address.
    pub(super) addr: SocketAddr,
    /// Its protocol.
    pub(super) scheme: Scheme,
    /// The name that its certificate has to be for, if the argument has one.
    pub(super) name: Option<String>,
}

/// The upstreams that the TO arguments mean, each once.
pub(super) fn all(targets: &[Word], resolvers: &[SocketAddr]) -> Result<Vec<Target>, Diagnostic> {
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for word in targets {
        let found = one(word, resolvers)?;
        all.extend(found.into_iter().filter(|target| seen.insert(target.clone())));
    }
    Ok(all)
}

/// The upstreams that one TO argument means.
fn one(word: &Word, resolvers: &[SocketAddr]) -> Result<Vec<Target>, Diagnostic> {
    let (scheme, rest) = split(word)?;
    match word.text.parse::<Endpoint>() {
        Ok(endpoint) => return Ok(vec![target(&endpoint, word)?]),
        Err(EndpointError::Port) => return Err(word.wrong(EndpointError::Port)),
        Err(EndpointError::Address) => {}
    }
    let is_http = matches!(scheme, Scheme::Https | Scheme::Https3);
    if is_http && rest.contains('/') {
        let wrong = word.wrong("has a path: only an address and a port can be given");
        return Err(wrong.help("write https://IP or https://IP:port; the path is /dns-query"));
    }
    if Path::new(rest).exists() {
        let read = file::text(Path::new(rest));
        let read = read.map_err(|error| word.wrong(format_args!("cannot be read: {error}")))?;
        let servers = ResolvConf::read(&read).nameservers;
        return servers.iter().map(|server| target(server, word)).collect();
    }
    let port = scheme.default_port().unwrap_or(53);
    let found = resolve::host(rest, port, resolvers).map_err(|why| {
        let what = "is neither an address nor a file nor a host that can be found";
        word.wrong(format_args!("{what}: {why}")).help(FORMS)
    })?;
    // RFC 8310 §8.1: who is given by name has to show that name.
    let host = rest.split_once(':').map_or(rest, |(host, _)| host);
    let name = (scheme != Scheme::Dns).then(|| host.to_owned());
    let target = |addr| Target { addr, scheme, name: name.clone() };
    Ok(found.into_iter().map(target).collect())
}

/// The scheme of an argument, and what stands behind it.
fn split(word: &Word) -> Result<(Scheme, &str), Diagnostic> {
    let Some((scheme, rest)) = word.text.split_once("://") else {
        return Ok((Scheme::Dns, &word.text));
    };
    match scheme.parse() {
        Ok(known) if known == Scheme::Dns || is_encrypted(known) => Ok((known, rest)),
        _ => Err(word.wrong("has a scheme that cannot be forwarded to").help(FORMS)),
    }
}

/// Whether a scheme is one of encrypted upstreams.
fn is_encrypted(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Tls | Scheme::Https | Scheme::Https3 | Scheme::Quic)
}

/// What an address means; what stands behind its `%` is an interface (RFC 4007 §11) or a server's name.
fn target(endpoint: &Endpoint, word: &Word) -> Result<Target, Diagnostic> {
    let scheme = endpoint.scheme;
    let port = endpoint.port_or_default();
    let plain =
        |name: Option<String>| Target { addr: (endpoint.address, port).into(), scheme, name };
    match (endpoint.address, &endpoint.scope) {
        (_, None) => Ok(plain(None)),
        (IpAddr::V6(ip), Some(scope)) if scheme == Scheme::Dns || ip.is_unicast_link_local() => {
            let index = interface(scope);
            let index = index.ok_or_else(|| word.wrong("names an interface that is not there"))?;
            Ok(Target { addr: SocketAddrV6::new(ip, port, 0, index).into(), scheme, name: None })
        }
        (_, Some(name)) if is_encrypted(scheme) => Ok(plain(Some(name.clone()))),
        (IpAddr::V4(_) | IpAddr::V6(_), Some(_)) => {
            let wrong = word.wrong("has a server name, which only encrypted upstreams have");
            Err(wrong.help("put tls://, https://, https3:// or quic:// before it"))
        }
    }
}

/// The address of a plain server.
pub(super) fn plain(word: &Word) -> Result<SocketAddr, Diagnostic> {
    let endpoint: Endpoint = word.text.parse().map_err(|wrong| word.wrong(wrong))?;
    let found = target(&endpoint, word)?;
    if found.scheme == Scheme::Dns {
        Ok(found.addr)
    } else {
        Err(word.wrong("is no server of plain DNS").help("write IP or IP:port"))
    }
}

/// The number of an interface, given by its name or as a number.
fn interface(scope: &str) -> Option<u32> {
    if let Ok(number) = scope.parse() {
        return Some(number);
    }
    let all = crate::shared::host::interfaces().ok()?;
    all.into_iter().find(|one| one.name == scope).map(|one| one.index)
}
