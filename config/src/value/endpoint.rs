//! Addresses of other servers: `tls://9.9.9.9:853`, or a file that lists them.

use super::ResolvConf;
use crate::{Diagnostic, Scheme, Word};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// How it is spoken to; [`Scheme::Dns`] if that is not written.
    pub scheme: Scheme,
    /// Its address.
    pub address: IpAddr,
    /// What stands behind a `%`: an interface, or for some plugins the name in the server's certificate.
    pub scope: Option<String>,
    /// Its port if one is written.
    pub port: Option<u16>,
}

/// Why a text is no address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// It is no address; it may be a file, or a name.
    Address,
    /// Its port is none.
    Port,
}

impl fmt::Display for EndpointError {
    /// Writes what would be right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "is no address such as 198.51.100.1, 198.51.100.1:53, [2001:db8::1]:53 or tls://198.51.100.1",
            Self::Port => "has no port between 1 and 65535",
        })
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Its port, or that of its scheme.
    pub fn port_or_default(&self) -> u16 {
        self.port.or_else(|| self.scheme.default_port()).unwrap_or(53)
    }
}

impl fmt::Display for Endpoint {
    /// Writes `[scheme://]address[%scope]:port`, the scheme of plain DNS left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme != Scheme::Dns {
            write!(f, "{}://", self.scheme)?;
        }
        let scope = self.scope.as_deref().map(|scope| format!("%{scope}")).unwrap_or_default();
        let port = self.port_or_default();
        match self.address {
            IpAddr::V4(v4) => write!(f, "{v4}{scope}:{port}"),
            IpAddr::V6(v6) => write!(f, "[{v6}{scope}]:{port}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `[scheme://]address[%scope][:port]`; an IPv6 address with a port stands in brackets.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Dns, text),
            Some((scheme, rest)) => match scheme.parse() {
                Ok(Scheme::Unix | Scheme::Cluster) | Err(_) => return Err(EndpointError::Address),
                Ok(scheme) => (scheme, rest),
            },
        };
        let (address, scope, port) = parts(rest)?;
        let address = address.parse().map_err(|_| EndpointError::Address)?;
        let port =
            port.map(|port| port.parse().ok().filter(|port| *port != 0).ok_or(EndpointError::Port));
        Ok(Self { scheme, address, scope: scope.map(String::from), port: port.transpose()? })
    }
}

/// The address, the scope and the port of a text.
type Parts<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Splits a text into address, scope and port.
fn parts(text: &str) -> Result<Parts<'_>, EndpointError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, behind) = rest.split_once(']').ok_or(EndpointError::Address)?;
        let (address, inner) = split(inside, '%');
        let (behind, port) = split(behind, ':');
        let outer = behind.strip_prefix('%');
        if address.parse::<std::net::Ipv6Addr>().is_err() || (outer.is_none() && !behind.is_empty())
        {
            return Err(EndpointError::Address);
        }
        return Ok((address, inner.or(outer).filter(|scope| !scope.is_empty()), port));
    }
    let (address, scope) = split(text, '%');
    let (scope, behind) = scope.map_or((None, None), |scope| {
        let (scope, port) = split(scope, ':');
        (Some(scope).filter(|scope| !scope.is_empty()), port)
    });
    // An address with more than one colon is an IPv6 one, and has no port without brackets.
    match address.split_once(':') {
        Some((address, port)) if !port.contains(':') => Ok((address, scope, Some(port))),
        _ => Ok((address, scope, behind)),
    }
}

/// Splits at the first of a sign.
fn split(text: &str, sign: char) -> (&str, Option<&str>) {
    text.split_once(sign).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// Reads a word that is an address, or the name of a file in the form of resolv.conf, whose servers are meant then. A file may
/// have none.
///
/// # Errors
///
/// If it is neither.
pub fn endpoints(
    word: &Word,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Vec<Endpoint>, Diagnostic> {
    match word.text.parse() {
        Ok(endpoint) => return Ok(vec![endpoint]),
        Err(error @ EndpointError::Port) => return Err(word.wrong(error)),
        Err(EndpointError::Address) => {}
    }
    // A scheme before a file's name has no meaning and is dropped.
    let path = match word.text.split_once("://") {
        Some((scheme, path)) if scheme.parse::<Scheme>().is_ok() => path,
        _ => &word.text,
    };
    match read(Path::new(path)) {
        Ok(text) => Ok(ResolvConf::read(&text).nameservers),
        Err(error) => Err(word
            .wrong(format_args!("is neither an address nor a file that can be read: {error}"))
            .help("write [scheme://]IP[:port], an IPv6 address with a port in brackets, or the path of a resolv.conf")),
    }
}
