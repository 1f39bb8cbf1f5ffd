//! What the labels before a zone stand for.

use k8s::Protocol;
use wire::Name;

/// What a name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'n> {
    /// The zone itself.
    Apex,
    /// A name that has names below and nothing else.
    Branch,
    /// The zone's name server.
    NameServer,
    /// A namespace.
    Namespace(&'n [u8]),
    /// A service, or something of it.
    Service {
        /// Service and namespace in wire form.
        key: &'n [u8],
        /// Where in the name that begins.
        at: usize,
        /// What of it.
        part: Part<'n>,
    },
    /// Nothing that there could be.
    Nothing,
}

/// What of a service a name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'n> {
    /// All of it.
    Whole,
    /// The ports of a protocol.
    Ports(Protocol),
    /// A port.
    Port {
        /// Its name.
        name: &'n [u8],
        /// Its protocol.
        protocol: Protocol,
    },
    /// An endpoint.
    Endpoint(&'n [u8]),
}

impl<'n> Wanted<'n> {
    /// Reads the labels before a zone, in lower case; those of `apex` are the zone's own.
    pub(super) fn read(head: &'n [u8], apex: &[u8]) -> Self {
        if head.is_empty() {
            return Self::Apex;
        }
        if let Some(before) = before(head, apex) {
            return match before {
                b"" => Self::Branch,
                b"\x03ns1" => Self::NameServer,
                _ => Self::Nothing,
            };
        }
        if before(apex, head).is_some() {
            return Self::Branch;
        }
        // A name has at most 127 labels; of more than four the first ones do not matter.
        let count = Name::labels_of(head).count();
        let mut labels = Name::labels_of(head).skip(count.saturating_sub(2));
        let (service, namespace) = match (labels.next(), labels.next()) {
            (Some(service), Some(namespace)) => (service, namespace),
            (Some(namespace), None) => return Self::Namespace(namespace),
            _ => return Self::Nothing,
        };
        let at = head.len() - (service.len() + namespace.len() + 2);
        let key = head.get(at..).unwrap_or_default();
        let mut labels = Name::labels_of(head);
        let part = match count {
            2 => Some(Part::Whole),
            3 => labels.next().and_then(Part::near),
            4 => labels.next().zip(labels.next()).and_then(|(far, near)| Part::far(far, near)),
            _ => None,
        };
        part.map_or(Self::Nothing, |part| Self::Service { key, at, part })
    }
}

impl<'n> Part<'n> {
    /// What one label before a service stands for.
    fn near(label: &'n [u8]) -> Option<Self> {
        match label {
            [b'_', ..] => protocol(label).map(Self::Ports),
            _ => Some(Self::Endpoint(label)),
        }
    }

    /// What two labels before a service stand for.
    fn far(far: &'n [u8], near: &'n [u8]) -> Option<Self> {
        let name = far.strip_prefix(b"_").filter(|name| !name.is_empty())?;
        Some(Self::Port { name, protocol: protocol(near)? })
    }
}

/// The protocol of a label such as `_tcp`.
fn protocol(label: &[u8]) -> Option<Protocol> {
    match label {
        b"_tcp" => Some(Protocol::Tcp),
        b"_udp" => Some(Protocol::Udp),
        b"_sctp" => Some(Protocol::Sctp),
        _ => None,
    }
}

/// The labels of `head` before those of `tail`, if it ends in them.
fn before<'n>(head: &'n [u8], tail: &[u8]) -> Option<&'n [u8]> {
    let cut = head.len().checked_sub(tail.len())?;
    let mut at = 0;
    while at < cut {
        at += 1 + usize::from(*head.get(at)?);
    }
    (at == cut && head.get(cut..)? == tail).then(|| &head[..cut])
}
