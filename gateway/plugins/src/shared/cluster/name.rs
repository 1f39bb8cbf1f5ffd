//! What a name below a cluster's zone means: which object, and what of it.

use k8s::Protocol;
use wire::Name;

/// What a name means. Slices are of the labels before the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'n> {
    /// The zone itself.
    Apex,
    /// A name that has no records and names below it: `svc`, `pod`, `dns`.
    Branch,
    /// `dns-version`, which tells the version of the specification.
    Version,
    /// `ns.dns`, the zone's name server.
    NameServer,
    /// `<namespace>.svc` or `<namespace>.pod`.
    Namespace {
        /// The namespace.
        name: &'n [u8],
        /// Whether its pods are meant.
        pods: bool,
    },
    /// `<address>.<namespace>.pod`.
    Pod {
        /// The address with dashes.
        address: &'n [u8],
        /// The namespace.
        namespace: &'n [u8],
    },
    /// A service, or something of it.
    Service {
        /// `\x03web\x04shop`: the service and its namespace.
        key: &'n [u8],
        /// Where the key begins, in octets from the name's start: from there on the name is the service's own.
        at: usize,
        /// What of it.
        part: Part<'n>,
    },
    /// Nothing that any cluster could have.
    Nothing,
}

/// What of a service a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'n> {
    /// The service.
    Whole,
    /// `_http._tcp`: one port.
    Port {
        /// Its name.
        name: &'n [u8],
        /// Its protocol.
        protocol: Protocol,
    },
    /// `_tcp`: a branch to the ports of a protocol.
    Ports(Protocol),
    /// `web-0`, or `web-0.east` in a cluster set: one endpoint.
    Endpoint {
        /// Its label.
        label: &'n [u8],
        /// Its cluster; empty outside cluster sets.
        cluster: &'n [u8],
    },
    /// `east` in a cluster set: a branch to the endpoints of a cluster.
    Cluster(&'n [u8]),
    /// `<zone>.pin._zone` or `<zone>.prefer._zone`: the endpoints of a topology zone.
    Zone {
        /// The zone, in labels.
        zone: &'n [u8],
        /// Whether the others do where the zone has none.
        prefer: bool,
    },
    /// `_zone`, `pin._zone` or `prefer._zone`: a branch to the topology zones.
    Zones,
}

/// What names a zone has beyond those of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Names of topology zones.
    pub(crate) zonal: bool,
    /// Those of a cluster set.
    pub(crate) multicluster: bool,
}

/// The labels of a name before its zone, counted from the zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'n> {
    /// The labels in wire form.
    head: &'n [u8],
    /// Where each begins, the first one first. A name has 127 labels at most (RFC 1035 §2.3.4).
    starts: [u8; 128],
    /// How many there are.
    count: usize,
}

impl<'n> Labels<'n> {
    /// Finds the labels of a run such as [`wire::Name::below`] gives.
    pub(crate) fn of(head: &'n [u8]) -> Self {
        let mut labels = Self { head, starts: [0; 128], count: 0 };
        let mut at = 0;
        while let (Some(len), Ok(start)) = (head.get(at), u8::try_from(at)) {
            if let Some(slot) = labels.starts.get_mut(labels.count) {
                *slot = start;
                labels.count += 1;
            }
            at += 1 + usize::from(*len);
        }
        labels
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Where the label begins that has `index` labels between itself and the zone; the zone for those that are not there.
    pub(crate) fn start(&self, index: usize) -> usize {
        let found = self.count.checked_sub(index + 1).and_then(|at| self.starts.get(at));
        found.map_or(self.head.len(), |start| usize::from(*start))
    }

    /// The label that has `index` labels between itself and the zone, without its length; empty if there is none.
    pub(crate) fn get(&self, index: usize) -> &'n [u8] {
        let start = self.start(index);
        let Some((len, rest)) = self.head.get(start..).and_then(<[u8]>::split_first) else {
            return &[];
        };
        rest.get(..usize::from(*len)).unwrap_or_default()
    }

    /// The labels up to the one at `index`, in wire form.
    fn before(&self, index: usize) -> &'n [u8] {
        self.head.get(..self.start(index)).unwrap_or_default()
    }
}

impl<'n> Wanted<'n> {
    /// Reads the labels before a zone, in lower case.
    pub(crate) fn read(head: &'n [u8], rules: Rules) -> Self {
        let labels = Labels::of(head);
        match (labels.get(0), labels.len()) {
            (_, 0) => Self::Apex,
            (b"svc" | b"pod" | b"dns", 1) => Self::Branch,
            (b"dns-version", 1) => Self::Version,
            (b"dns", 2) if labels.get(1) == b"ns" => Self::NameServer,
            (b"svc", 2) => Self::Namespace { name: labels.get(1), pods: false },
            (b"pod", 2) => Self::Namespace { name: labels.get(1), pods: true },
            (b"pod", 3) => Self::Pod { address: labels.get(2), namespace: labels.get(1) },
            (b"svc", _) => {
                let at = labels.start(2);
                let key = head.get(at..labels.start(0)).unwrap_or_default();
                Part::read(&labels, 3, rules).map_or(Self::Nothing, |part| Self::Service {
                    key,
                    at,
                    part,
                })
            }
            _ => Self::Nothing,
        }
    }
}

impl<'n> Wanted<'n> {
    /// The namespace that the name is of; empty if it is of none.
    pub(crate) fn namespace(&self) -> &'n [u8] {
        match self {
            Self::Namespace { name, .. } => name,
            Self::Pod { namespace, .. } => namespace,
            Self::Service { key, .. } => Name::labels_of(key).nth(1).unwrap_or_default(),
            _ => &[],
        }
    }
}

impl<'n> Part<'n> {
    /// Reads the labels before a service, whose own name has so many between it and the zone, itself among them.
    pub(crate) fn read(labels: &Labels<'n>, own: usize, rules: Rules) -> Option<Self> {
        let (near, far) = (labels.get(own), labels.get(own + 1));
        let zonal = rules.zonal && !rules.multicluster && near == b"_zone";
        let directed = zonal && matches!(far, b"pin" | b"prefer");
        match labels.len().checked_sub(own)? {
            0 => Some(Self::Whole),
            1 if zonal => Some(Self::Zones),
            1 if near.first() == Some(&b'_') => protocol(near).map(Self::Ports),
            1 if rules.multicluster => Some(Self::Cluster(near)),
            1 => Some(Self::Endpoint { label: near, cluster: &[] }),
            2 if directed => Some(Self::Zones),
            2 if near.first() == Some(&b'_') => {
                let name = far.strip_prefix(b"_").filter(|name| !name.is_empty())?;
                Some(Self::Port { name, protocol: protocol(near)? })
            }
            2 if rules.multicluster && far.first() != Some(&b'_') => {
                Some(Self::Endpoint { label: far, cluster: near })
            }
            _ if directed => {
                Some(Self::Zone { zone: labels.before(own + 1), prefer: far == b"prefer" })
            }
            _ => None,
        }
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

/// Whether labels in wire form spell a text that may have dots.
pub(crate) fn spells(labels: &[u8], text: &[u8]) -> bool {
    Name::labels_of(labels).eq(text.split(|byte| *byte == b'.'))
}
