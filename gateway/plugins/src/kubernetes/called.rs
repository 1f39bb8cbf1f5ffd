//! What services and endpoints are called.

use std::net::IpAddr;

use k8s::Reader;
use wire::Name;

use super::Cluster;
use crate::shared::cluster::address::Label;

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
        self.names_outside(reader, ip, each);
        for (service, endpoint) in reader.endpoints_by_ip(ip).filter(|(_, one)| one.ready()) {
            let name = self.service_name(service.name(), service.namespace(), zone);
            let label = self.calls.label(&endpoint);
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
}
