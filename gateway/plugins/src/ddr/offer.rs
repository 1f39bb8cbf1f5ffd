//! Which listeners are told to whom.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use certs::{ClientAuth, ServerTls};
use engine::{Listening, Transport};
use smallvec::SmallVec;

use crate::shared::private::is_private;

/// The addresses of a listener.
pub(super) type Addresses = SmallVec<[IpAddr; 4]>;

/// Why a listener is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhyNot {
    /// It has no certificate.
    ClearText,
    /// It speaks the PROXY protocol, so that clients reach it elsewhere.
    Proxy,
    /// It is not for anybody.
    Identity,
    /// It has no path that a template can have.
    Path,
    /// Its address is not one that the client could use.
    Unreachable,
    /// Its certificate is not for the server's name.
    Name,
    /// Its certificate is not for the address that the client asks.
    Address,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClearText => "it has no certificate",
            Self::Proxy => "clients reach it by a proxy: write the proxy's `address`",
            Self::Identity => "it demands that clients say who they are",
            Self::Path => "it has no path that a URI template can hold",
            Self::Unreachable => "it listens at an address that clients of this one cannot use",
            Self::Name => "its certificate is not for this name",
            Self::Address => "its certificate is not for the address that clients ask",
        })
    }
}

/// What a client asks by, and is told if a listener stands for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    /// The name of the server, without the last dot.
    pub(super) name: &'a str,
    /// The addresses that the server is known by, if they are told.
    pub(super) told: &'a [IpAddr],
    /// The address that the client asks; none if that is not known.
    pub(super) asked: Option<IpAddr>,
    /// Whether the certificate has to be for the address that the client asks (RFC 9462 §4.2); if not, the client knows the name
    /// (RFC 9462 §5).
    pub(super) by_address: bool,
    /// Whether private addresses need no certificate (RFC 9462 §4.3).
    pub(super) opportunistic: bool,
}

/// The protocol's identifier in TLS and its own port (RFC 9461 §4); none for what is not encrypted or no DNS server's.
pub(super) fn protocol(transport: Transport) -> Option<(&'static [u8], u16)> {
    match transport {
        Transport::Tls => Some((b"dot", 853)),
        Transport::Quic => Some((b"doq", 853)),
        Transport::Https => Some((b"h2", 443)),
        Transport::Https3 => Some((b"h3", 443)),
        Transport::Udp | Transport::Tcp | Transport::Grpc => None,
    }
}

/// The path of DoH that a listener is told with: its first. Others of its paths are the operator's to tell, and what follows a path is a
/// secret that is never told. None if it cannot stand in a URI template (RFC 6570 §2).
pub(super) fn path(listening: &Listening) -> Option<&str> {
    let spec = match listening.key.transport {
        Transport::Https3 => &listening.spec.https3,
        _ => &listening.spec.https,
    };
    let fits = |path: &&str| {
        let sound = |byte: u8| byte.is_ascii_graphic() && !b"{}\"'<>\\^`|?#%".contains(&byte);
        path.starts_with('/') && path.len() < 1024 && path.bytes().all(sound)
    };
    spec.paths().next().filter(fits)
}

impl Wish<'_> {
    /// The addresses of a listener that is told.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn grant(&self, listening: &Listening) -> Result<Addresses, WhyNot> {
        let tls: SmallVec<[Arc<ServerTls>; 2]> =
            listening.spec.tls.iter().filter_map(|tls| tls.get()).collect();
        if tls.is_empty() {
            return Err(WhyNot::ClearText);
        }
        let demands = |tls: &Arc<ServerTls>| {
            matches!(tls.client_auth(), ClientAuth::Require | ClientAuth::RequireAndVerify)
        };
        let is_open = listening.door.as_ref().is_none_or(|door| door.is_open());
        if !is_open || tls.iter().any(demands) {
            return Err(WhyNot::Identity);
        }
        if listening.spec.proxy.is_some() && self.told.is_empty() {
            return Err(WhyNot::Proxy);
        }
        let is_doh = matches!(listening.key.transport, Transport::Https | Transport::Https3);
        if is_doh && path(listening).is_none() {
            return Err(WhyNot::Path);
        }
        let addresses = self.addresses(listening).ok_or(WhyNot::Unreachable)?;
        let named: SmallVec<[&Arc<ServerTls>; 2]> =
            tls.iter().filter(|tls| tls.covers(self.name)).collect();
        if named.is_empty() {
            return Err(WhyNot::Name);
        }
        if self.by_address && !self.is_verified(&tls, &named, &addresses) {
            return Err(WhyNot::Address);
        }
        Ok(addresses)
    }

    /// The addresses by which clients reach a listener: those that are told, else its own, else the one that is asked. None if
    /// clients of the address that is asked do not reach it.
    fn addresses(&self, listening: &Listening) -> Option<Addresses> {
        if !self.told.is_empty() {
            return Some(self.told.into());
        }
        let own = listening.key.addr.map(|addr| addr.ip);
        match (own, self.asked) {
            (Some(own), asked) if !own.is_unspecified() => {
                // Nobody else reaches this host's own addresses.
                let reaches = asked.is_none_or(|asked| asked.is_loopback() || !own.is_loopback());
                reaches.then(|| Addresses::from_slice(&[own]))
            }
            (Some(IpAddr::V4(_)), Some(IpAddr::V6(_))) => None,
            (_, Some(asked)) => Some(Addresses::from_slice(&[asked])),
            (_, None) => Some(Addresses::new()),
        }
    }

    /// Whether clients may take the listener for the address that they ask. Those that go by the address send no name, as DoH has to
    /// (RFC 9462 §6.3), and get the first certificate; others send the server's name.
    fn is_verified(
        &self,
        all: &[Arc<ServerTls>],
        named: &[&Arc<ServerTls>],
        addresses: &[IpAddr],
    ) -> bool {
        // Behind a translation of addresses it is any of those that are told.
        let known = self.asked.filter(|asked| self.told.is_empty() || self.told.contains(asked));
        let asked: Addresses = match known {
            Some(asked) => Addresses::from_slice(&[asked]),
            None => self.told.into(),
        };
        asked.iter().all(|addr| {
            let text = addr.to_string();
            all.first().is_some_and(|tls| tls.first_covers(&text))
                && named.iter().any(|tls| tls.covers(&text))
                || self.opportunistic && is_private(*addr) && addresses.contains(addr)
        })
    }
}
