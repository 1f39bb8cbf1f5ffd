//! What the store keeps of a cluster's objects, and the events that change it.
//!
//! The types borrow from the bytes that they were read from, so that decoding copies nothing; names are as the API
//! server spells them (lower case, as it demands).

use std::{borrow::Cow, fmt, net::IpAddr};

/// A kind of objects, each with a watch of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Namespace.
    Namespaces,
    /// `v1` Service.
    Services,
    /// `discovery.k8s.io/v1` EndpointSlice of the cluster's own services.
    Slices,
    /// `v1` Pod.
    Pods,
    /// `multicluster.x-k8s.io` ServiceImport.
    Imports,
    /// `discovery.k8s.io/v1` EndpointSlice of imported services.
    ImportSlices,
    /// `multicluster.x-k8s.io` ServiceExport.
    Exports,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = 7;

    /// Every kind, in the order of [`Kind::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Namespaces,
        Self::Services,
        Self::Slices,
        Self::Pods,
        Self::Imports,
        Self::ImportSlices,
        Self::Exports,
    ];

    /// Gives the kind's place in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Gives the resource's name as RBAC rules and request paths have it.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::Slices | Self::ImportSlices => "endpointslices",
            Self::Pods => "pods",
            Self::Imports => "serviceimports",
            Self::Exports => "serviceexports",
        }
    }

    /// Says whether the kind is one of the MCS API: a custom resource, whose definition may be absent and which comes as
    /// JSON alone.
    pub const fn is_custom(self) -> bool {
        matches!(self, Self::Imports | Self::Exports)
    }

    /// Gives the resource's API group; the core group is empty.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Namespaces | Self::Services | Self::Pods => "",
            Self::Slices | Self::ImportSlices => "discovery.k8s.io",
            Self::Imports | Self::Exports => "multicluster.x-k8s.io",
        }
    }

    /// Gives a word that tells the kind from every other, for metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::Slices => "endpointslices",
            Self::Pods => "pods",
            Self::Imports => "serviceimports",
            Self::ImportSlices => "imported_endpointslices",
            Self::Exports => "serviceexports",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ImportSlices => f.write_str("endpointslices of imported services"),
            kind => f.write_str(kind.resource()),
        }
    }
}

/// A transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP, also where an object names none.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Reads the API's word; an empty one means TCP.
    pub fn parse(word: &[u8]) -> Option<Self> {
        match word {
            b"" | b"TCP" => Some(Self::Tcp),
            b"UDP" => Some(Self::Udp),
            b"SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// Gives the lower-case word that names have after an underscore.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// A port of a service or of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port<'a> {
    /// The port's name; empty if it has none.
    pub name: Cow<'a, str>,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
}

/// What names and versions an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta<'a> {
    /// The namespace; empty for a Namespace.
    pub namespace: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The resource version as a number; 0 if it is none.
    pub version: u64,
}

/// How a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceKind {
    /// By its cluster IPs, load balancers and node ports included.
    #[default]
    ClusterIp,
    /// By its endpoints: `clusterIP: None`.
    Headless,
    /// By another name: `type: ExternalName`.
    ExternalName,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service<'a> {
    /// Name and version.
    pub meta: Meta<'a>,
    /// How it is reached.
    pub kind: ServiceKind,
    /// Whether it has a selector, so that the cluster makes its endpoints.
    pub selector: bool,
    /// `spec.clusterIPs`.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.externalName`; empty unless [`ServiceKind::ExternalName`].
    pub external_name: Cow<'a, str>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of `status.loadBalancer.ingress`.
    pub balancer_ips: Vec<IpAddr>,
    /// Host names of `status.loadBalancer.ingress`.
    pub balancer_names: Vec<Cow<'a, str>>,
    /// `spec.ports`.
    pub ports: Vec<Port<'a>>,
}

/// Where an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<'a> {
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
    /// A name, in a slice of the address type FQDN.
    Name(Cow<'a, str>),
}

/// One endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The first address; Kubernetes says that all are fungible and that the first is to be used.
    pub place: Place<'a>,
    /// Whether it is ready; the API says that an absent condition means yes.
    pub ready: bool,
    /// `hostname`; empty if absent.
    pub hostname: Cow<'a, str>,
    /// The name of the Pod it belongs to; empty if it belongs to none.
    pub pod: Cow<'a, str>,
    /// The topology zone; empty if absent.
    pub zone: Cow<'a, str>,
}

/// An EndpointSlice, of a service of the cluster or of an imported one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice<'a> {
    /// Name and version.
    pub meta: Meta<'a>,
    /// The service it belongs to, from the label `kubernetes.io/service-name` or, of an imported one,
    /// `multicluster.kubernetes.io/service-name`.
    pub service: Cow<'a, str>,
    /// `multicluster.kubernetes.io/source-cluster` of an imported one; empty otherwise.
    pub cluster: Cow<'a, str>,
    /// The ports that state a number.
    pub ports: Vec<Port<'a>>,
    /// The endpoints that have an address.
    pub endpoints: Vec<Endpoint<'a>>,
    /// The annotation `endpoints.kubernetes.io/last-change-trigger-time`; empty if absent.
    pub triggered: Cow<'a, str>,
}

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod<'a> {
    /// Name and version.
    pub meta: Meta<'a>,
    /// `status.podIPs`, or `status.podIP`.
    pub ips: Vec<IpAddr>,
    /// Labels, where the reader of the object was asked for them.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Whether it is being deleted: such a pod is kept as it was and not added.
    pub terminating: bool,
}

/// How an imported service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImportKind {
    /// By addresses of the whole cluster set.
    #[default]
    ClusterSetIp,
    /// By its endpoints.
    Headless,
}

/// A ServiceImport.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Import<'a> {
    /// Name and version.
    pub meta: Meta<'a>,
    /// How it is reached.
    pub kind: ImportKind,
    /// The cluster set's addresses.
    pub ips: Vec<IpAddr>,
    /// The ports.
    pub ports: Vec<Port<'a>>,
}

/// A ServiceExport: the service of its name is to be had in the whole cluster set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Export<'a> {
    /// Name and version.
    pub meta: Meta<'a>,
    /// When it was made, in Unix seconds; 0 if unknown. The oldest export wins a conflict (KEP-1645).
    pub created: u64,
    /// Whether the condition `Valid` is `False`: a controller does not export the service.
    pub invalid: bool,
    /// Whether the condition `Conflict` is `True`: a controller found that exports of the service differ.
    pub conflict: bool,
}

/// An object that the store keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object<'a> {
    /// A Namespace that the selector lets pass.
    Namespace(Meta<'a>),
    /// A Service.
    Service(Service<'a>),
    /// An EndpointSlice of a service of the cluster.
    Slice(Slice<'a>),
    /// An EndpointSlice of an imported service.
    ImportSlice(Slice<'a>),
    /// A ServiceImport.
    Import(Import<'a>),
    /// A Pod.
    Pod(Pod<'a>),
    /// A ServiceExport.
    Export(Export<'a>),
}

impl Object<'_> {
    /// Gives the object's kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespaces,
            Self::Service(_) => Kind::Services,
            Self::Slice(_) => Kind::Slices,
            Self::ImportSlice(_) => Kind::ImportSlices,
            Self::Import(_) => Kind::Imports,
            Self::Pod(_) => Kind::Pods,
            Self::Export(_) => Kind::Exports,
        }
    }

    /// Gives the object's name and version.
    pub const fn meta(&self) -> &Meta<'_> {
        match self {
            Self::Namespace(meta) => meta,
            Self::Service(service) => &service.meta,
            Self::Slice(slice) | Self::ImportSlice(slice) => &slice.meta,
            Self::Import(import) => &import.meta,
            Self::Pod(pod) => &pod.meta,
            Self::Export(export) => &export.meta,
        }
    }
}

/// Names one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a Namespace.
    pub namespace: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
}

/// A change that a watch, a list or a folder of manifests tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A list of the kind begins: what is not applied before the next [`Event::Synced`] of the kind is gone by then.
    Restart(Kind),
    /// An object is there, new or changed.
    Apply(Object<'a>),
    /// An object is gone.
    Delete(Key<'a>),
    /// The list of the kind is complete.
    Synced(Kind),
    /// The same as [`Event::Restart`], of one namespace's objects.
    RestartIn(Kind, Cow<'a, str>),
    /// The same as [`Event::Synced`], of one namespace's objects.
    SyncedIn(Kind, Cow<'a, str>),
    /// The kind cannot be listed in this namespace, in all if it is empty, for want of rights: what else is known need not wait for
    /// it.
    Refused(Kind, Cow<'a, str>),
}
