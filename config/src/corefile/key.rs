//! Keys of blocks: `[SCHEME://]ZONE[:PORT]`, networks, and clusters.

use crate::value::{CidrError, Network, cidr_zones, fqdn, known};
use crate::{Diagnostic, Word};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A key of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key as written.
    pub word: Word,
    /// How questions come in.
    pub scheme: Scheme,
    /// The zone in lower case with its final dot; of a network one of its reverse zones; of a cluster its name.
    pub zone: String,
    /// The port if one is written.
    pub port: Option<u16>,
    /// Whether the scheme is written out.
    pub scheme_given: bool,
}

/// How questions come in, or what a block declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// DNS over UDP and TCP (RFC 1035).
    Dns,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over QUIC (RFC 9250).
    Quic,
    /// DNS over gRPC.
    Grpc,
    /// DNS over HTTP/2 and HTTP/1.1 (RFC 8484).
    Https,
    /// DNS over HTTP/3.
    Https3,
    /// A unix socket: it can be written, but nothing listens there.
    Unix,
    /// No zone: the block declares a cluster.
    Cluster,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Dns,
        Self::Tls,
        Self::Quic,
        Self::Grpc,
        Self::Https,
        Self::Https3,
        Self::Unix,
        Self::Cluster,
    ];

    /// The text before `://`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Grpc => "grpc",
            Self::Https => "https",
            Self::Https3 => "https3",
            Self::Unix => "unix",
            Self::Cluster => "cluster",
        }
    }

    /// The port where none is written; that of `dns` can be set otherwise.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Dns => Some(53),
            Self::Tls | Self::Quic => Some(853),
            Self::Grpc | Self::Https | Self::Https3 => Some(443),
            Self::Unix | Self::Cluster => None,
        }
    }
}

impl fmt::Display for Scheme {
    /// Writes the text before `://`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl FromStr for Scheme {
    type Err = &'static str;

    /// Reads the text before `://`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scheme| scheme.text() == text).ok_or("is no scheme")
    }
}

/// Reads one written key: one, or as many as its network has reverse zones.
pub(super) fn read(word: &Word, warnings: &mut Vec<Diagnostic>) -> Result<Vec<Key>, Diagnostic> {
    let (scheme, rest, scheme_given) = match word.text.split_once("://") {
        None => (Scheme::Dns, word.text.as_str(), false),
        Some((scheme, rest)) => match scheme.parse() {
            Ok(scheme) => (scheme, rest, true),
            Err(_) => {
                let names = Scheme::ALL.map(Scheme::text);
                return Err(word
                    .fault(format!("'{scheme}://' is no scheme"))
                    .help(known(scheme, &names)));
            }
        },
    };
    let key = |zone, port| Key { word: word.clone(), scheme, zone, port, scheme_given };
    if scheme == Scheme::Cluster {
        return cluster(word, rest).map(|name| vec![key(name, None)]);
    }
    let (zone, port) = split_port(word, rest)?;
    if zone.len() > 255 {
        return Err(word.wrong("is no zone: it is longer than 255 octets"));
    }
    match cidr_zones(zone) {
        Ok(zones) => return Ok(zones.into_iter().map(|zone| key(zone, port)).collect()),
        Err(error @ CidrError::Zone) => return Err(word.wrong(error)),
        Err(CidrError::Form) => {}
    }
    if !zone.is_ascii() {
        return Err(word
            .wrong("is no zone: it has letters outside ASCII")
            .help("write the name in its xn-- form"));
    }
    let name = fqdn(zone).map_err(|error| {
        let wrong = word.wrong(format_args!("is no zone: it {error}"));
        if zone.ends_with('{') { wrong.help("put a space before the brace") } else { wrong }
    })?;
    warnings.extend(oddity(word, zone));
    Ok(vec![key(name, port)])
}

/// Splits a port off; what stands behind the last colon and is no number belongs to the zone.
fn split_port<'a>(word: &Word, text: &'a str) -> Result<(&'a str, Option<u16>), Diagnostic> {
    let Some((zone, port)) = text.rsplit_once(':') else {
        if text.is_empty() {
            return Err(word
                .wrong("is no key: a zone is missing")
                .help("the root zone is written '.'"));
        }
        return Ok((text, None));
    };
    if port.is_empty() {
        return Err(word
            .wrong("ends with a colon")
            .help("write a port behind it, or take it away"));
    }
    let digits = port.strip_prefix(['+', '-']).unwrap_or(port);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok((text, None));
    }
    let number = port.parse().map_err(|_| {
        word.wrong(format_args!("has a wrong port: '{port}' is not between 0 and 65535"))
    })?;
    Ok((zone, Some(number)))
}

/// Checks the name of a cluster: letters, digits, hyphens, underscores and dots.
fn cluster(word: &Word, name: &str) -> Result<String, Diagnostic> {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 253 || !name.chars().all(right) {
        return Err(word.wrong("names no cluster").help(
            "write cluster://NAME with letters, digits, '-', '_' and '.'; a cluster has no port",
        ));
    }
    Ok(name.to_owned())
}

/// What a zone looks like that it is not.
fn oddity(word: &Word, zone: &str) -> Option<Diagnostic> {
    if zone.contains(char::is_whitespace) {
        let help = "each key is one word; an environment variable is not split at spaces";
        return Some(word.wrong("is one zone with a space in its name").help(help));
    }
    if zone.parse::<IpAddr>().is_ok() {
        let length = if zone.contains(':') { 128 } else { 32 };
        let help = format!("for its reverse zone write {zone}/{length}");
        return Some(word.wrong("is taken as a name, not as an address").help(help));
    }
    if zone.contains('/') && zone.parse::<Network>().is_err() {
        return Some(
            word.wrong("is taken as a name, for it is no network")
                .help("a network is written 10.0.0.0/8 or 2001:db8::/32"),
        );
    }
    let (_, behind) = zone.rsplit_once(':')?;
    Some(
        word.wrong(format_args!("has no port: ':{behind}' is a part of the name"))
            .help("a port is a number"),
    )
}
