//! What copies of zones that a cluster's objects fill are made of.

use std::net::IpAddr;

use k8s::{EndpointRef, PortRef, Reader, ServiceRef};
use wire::Name;

use super::address::{Label, reverse_name, with_run};
use super::key::key;
use crate::shared::zones::Zones;

/// The keys of all services, by name.
pub(crate) fn service_keys(reader: &Reader<'_>) -> Vec<Box<[u8]>> {
    let key = |service: &ServiceRef<'_>| key(service.name(), service.namespace());
    reader.services().iter().filter_map(key).collect()
}

/// Calls `each` with the unit of an address, if it is in the zone.
pub(crate) fn unit_of(zones: &Zones, zone: &Name, ip: IpAddr, each: &mut dyn FnMut(&[u8])) {
    if reverse_name(ip).is_some_and(|name| zones.longest(&name) == Some(zone)) {
        with_run(ip, each);
    }
}

/// The names of the named ports that a service of this name can have, each once: its own, or those of its ready endpoints.
pub(crate) fn port_names(
    service: &ServiceRef<'_>,
    by_endpoints: bool,
    own: &Name,
) -> impl Iterator<Item = Name> {
    let mut all: Vec<PortRef<'_>> = if by_endpoints {
        let ready = service.endpoints().filter(EndpointRef::ready);
        ready.flat_map(|endpoint| endpoint.ports()).collect()
    } else {
        service.ports().collect()
    };
    all.retain(|port| !port.name.is_empty());
    all.sort_unstable_by_key(|port| (port.name, port.protocol as u8));
    all.dedup_by_key(|port| (port.name, port.protocol as u8));
    all.into_iter().filter_map(|port| {
        let label = Label::of(&[b"_", port.name].concat())?;
        let protocol = Label::of(format!("_{}", port.protocol.word()).as_bytes())?;
        Name::join(&[label.wire(), protocol.wire()].concat(), own.wire())
    })
}
