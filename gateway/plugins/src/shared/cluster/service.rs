//! A service or an imported one, as names see it.

use k8s::{
    Balancer, EndpointsIter, ImportKind, ImportRef, Ips, Ports, Reader, ServiceKind, ServiceRef,
};

/// A service or an imported one.
#[derive(Clone, Debug)]
pub(crate) struct Service<'a> {
    /// How it is reached.
    pub(crate) kind: ServiceKind,
    /// Its addresses.
    pub(crate) ips: Ips<'a>,
    /// Its ports.
    pub(crate) ports: Ports<'a>,
    /// Its endpoints.
    pub(crate) endpoints: EndpointsIter<'a>,
    /// All of it; none of an imported one, which has no more.
    pub(crate) whole: Option<ServiceRef<'a>>,
}

impl<'a> Service<'a> {
    /// Finds a service by its key.
    pub(crate) fn find(reader: &'a Reader<'_>, key: &[u8], imported: bool) -> Option<Self> {
        if imported {
            reader.import(key).map(Self::imported)
        } else {
            reader.service(key).map(Self::of)
        }
    }

    /// A service of the cluster.
    pub(crate) fn of(service: ServiceRef<'a>) -> Self {
        Self {
            kind: service.kind(),
            ips: service.cluster_ips(),
            ports: service.ports(),
            endpoints: service.endpoints(),
            whole: Some(service),
        }
    }

    /// One that a controller has imported.
    fn imported(import: ImportRef<'a>) -> Self {
        let kind = match import.kind() {
            ImportKind::ClusterSetIp => ServiceKind::ClusterIp,
            ImportKind::Headless => ServiceKind::Headless,
        };
        let (ips, ports) = (import.ips(), import.ports());
        Self { kind, ips, ports, endpoints: import.endpoints(), whole: None }
    }

    /// The name that it stands for; empty if it does not.
    pub(crate) fn external(&self) -> &'a [u8] {
        self.whole.as_ref().map_or(b"", ServiceRef::external_name)
    }

    /// What a load balancer's status has; an imported service has none.
    pub(crate) fn balancer(&self) -> Option<Balancer<'a>> {
        self.whole.as_ref().map(ServiceRef::load_balancer)
    }

    /// `externalIPs`; an imported service has none.
    pub(crate) fn external_ips(&self) -> Ips<'a> {
        self.whole.as_ref().map(ServiceRef::external_ips).unwrap_or_default()
    }
}
