//! What services and endpoints are called.

use std::net::IpAddr;

use k8s::{Address, EndpointRef, Reader};
use wire::Name;

use super::Cluster;
use super::address::Label;

impl Cluster {
    /// Calls `each` with every name of an address: its service's, or those of the endpoints that have it.
    pub(super) fn names_of(&self, reader: &Reader<'_>, ip: IpAddr, each: &mut dyn FnMut(&[u8])) {
        let zone = &self.primary;
        for service in reader.services_by_ip(ip) {
            if self.ignore_empty && !service.has_ready_endpoints() {
                continue;
            }
            if let Some(name) = self.service_name(service.name(), service.namespace(), zone) {
                each(name.wire());
                return;
            }
        }
        for (service, endpoint) in reader.endpoints_by_ip(ip).filter(|(_, one)| one.ready()) {
            let name = self.service_name(service.name(), service.namespace(), zone);
            let label = self.endpoint_label(&endpoint);
            if let Some(name) = name.zip(label).and_then(|(name, label)| name.child(label.bytes()))
            {
                each(name.wire());
            }
        }
    }

    /// The name of a service in a zone; none if it would be too long.
    pub(super) fn service_name(&self, name: &[u8], namespace: &[u8], zone: &Name) -> Option<Name> {
        let (name, namespace) = (Label::of(name)?, Label::of(namespace)?);
        let mut wire = [0u8; 2 * 64 + 4];
        let parts = [name.wire(), namespace.wire(), b"\x03svc"];
        let mut len = 0;
        for part in parts {
            wire.get_mut(len..len + part.len())?.copy_from_slice(part);
            len += part.len();
        }
        Name::join(&wire[..len], zone.wire())
    }

    /// The name of an endpoint of the service whose name is `own`; none if it would be too long.
    pub(super) fn endpoint_name(&self, endpoint: &EndpointRef<'_>, own: &[u8]) -> Option<Name> {
        let label = self.endpoint_label(endpoint)?;
        let mut wire = [0u8; 2 * 64];
        let mut len = label.wire().len();
        wire.get_mut(..len)?.copy_from_slice(label.wire());
        if !endpoint.cluster().is_empty() {
            let cluster = Label::of(endpoint.cluster())?;
            wire.get_mut(len..len + cluster.wire().len())?.copy_from_slice(cluster.wire());
            len += cluster.wire().len();
        }
        Name::join(&wire[..len], own)
    }

    /// The label of an endpoint: its hostname, its pod's name where that is wanted and short enough, else its address with
    /// dashes. None if what it has makes no label.
    pub(super) fn endpoint_label(&self, endpoint: &EndpointRef<'_>) -> Option<Label> {
        if !endpoint.hostname().is_empty() {
            return Label::of(endpoint.hostname());
        }
        if self.pod_names
            && let Some(label) = Label::of(endpoint.pod_name())
        {
            return Some(label);
        }
        match endpoint.address() {
            Address::Ip(ip) => Some(Label::dashed(ip)),
            Address::Name(name) => Label::dashed_text(name),
        }
    }

    /// Whether an endpoint has this label, which is `address` with dashes if that is some.
    pub(super) fn is_called(
        &self,
        endpoint: &EndpointRef<'_>,
        label: &[u8],
        address: Option<IpAddr>,
    ) -> bool {
        let plain =
            endpoint.hostname().is_empty() && (!self.pod_names || endpoint.pod_name().is_empty());
        match (plain, endpoint.ip()) {
            // Most endpoints have no name, and addresses compare faster than their texts.
            (true, Some(ip)) => address == Some(ip),
            _ => self.endpoint_label(endpoint).is_some_and(|own| own.bytes() == label),
        }
    }
}
