//! Copies of zones for `transfer`.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use engine::{Fault, Stream, Transfer};
use k8s::{EndpointRef, PortRef, Reader, ServiceRef};
use wire::{Answer, Name, Section, rcode, rtype};

use super::lookup::{Look, NAME_SERVER, Shown};
use super::{External, Outside};
use crate::shared::cluster::address::{Label, is_reverse, reverse_name};
use crate::shared::cluster::{NOT_KNOWN, NOT_READY, View};
use crate::shared::sheet::Sheet;
use crate::shared::transfer::{Copied, Pages};

/// How many services are copied under one read lock; writers have their turn in between.
const STEP: usize = 256;
/// The cluster is not known yet.
const UNKNOWN: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(NOT_READY), why: NOT_KNOWN };

impl Transfer for External {
    fn transfer(&self, zone: &Name, serial: Option<u32>) -> Option<Result<Box<dyn Stream>, Fault>> {
        let outside = &self.0;
        let view = outside.view.get().filter(|_| outside.zones.has_zone(zone))?;
        if !view.store.synced() {
            return Some(Err(UNKNOWN));
        }
        // A client that has this serial or a later one gets the SOA record alone (RFC 1995 §2, RFC 1982 §3.2).
        let own = view.store.external_serial();
        if serial.is_some_and(|theirs| theirs.wrapping_sub(own) < 1 << 31) {
            let mut pages = Pages::new();
            outside.copy_soa(view, zone, &mut pages);
            return Some(Ok(Pages::read(Arc::new(pages))));
        }
        Some(Ok(Pages::read(outside.copy(view, zone))))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        let Some(view) = self.0.view.get().filter(|view| view.store.synced()) else { return };
        self.0.zones.iter().for_each(|zone| each(zone, view.store.external_serial()));
    }
}

impl Outside {
    /// A zone's records.
    fn copy(&self, view: &View, zone: &Name) -> Arc<Copied> {
        self.copies.of(zone, view.store.version(), |pages| {
            self.copy_soa(view, zone, pages);
            self.copy_server(view, zone, pages);
            if is_reverse(zone) {
                self.copy_addresses(view, zone, pages);
            } else {
                self.copy_services(view, zone, pages);
            }
            self.copy_soa(view, zone, pages);
        })
    }

    /// Copies the zone's SOA record.
    fn copy_soa(&self, view: &View, zone: &Name, pages: &mut Pages) {
        let mut answer = Answer::default();
        self.soa(view, zone, Section::Answer, &mut Sheet::new(&mut answer, self.ttl));
        pages.extend(&answer);
    }

    /// Copies the zone's NS record, and the addresses of its server.
    fn copy_server(&self, view: &View, zone: &Name, pages: &mut Pages) {
        let reader = view.store.read();
        self.copy_name(view, &reader, zone, zone, rtype::NS, pages);
        if let Some(server) = self.below(NAME_SERVER, zone) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_name(view, &reader, zone, &server, rtype, pages);
            }
        }
    }

    /// Copies the records that a query for a name and a type gets.
    fn copy_name(
        &self,
        view: &View,
        reader: &Reader<'_>,
        zone: &Name,
        name: &Name,
        rtype: u16,
        pages: &mut Pages,
    ) {
        let mut answer = Answer::default();
        let look = Look { outside: self, view, reader, zone, name, rtype };
        look.run(&mut Sheet::new(&mut answer, self.ttl));
        pages.extend(&answer);
    }

    /// Copies all services, by name.
    fn copy_services(&self, view: &View, zone: &Name, pages: &mut Pages) {
        let key = |service: &ServiceRef<'_>| {
            let (name, namespace) = (Label::of(service.name())?, Label::of(service.namespace())?);
            Some([name.wire(), namespace.wire()].concat().into_boxed_slice())
        };
        let keys: Vec<Box<[u8]>> = view.store.read().services().iter().filter_map(key).collect();
        for some in keys.chunks(STEP) {
            let reader = view.store.read();
            for service in some.iter().filter_map(|key| reader.service(key)) {
                self.copy_service(view, &reader, zone, &service, pages);
            }
        }
    }

    /// Copies one service, its ports and its endpoints.
    fn copy_service(
        &self,
        view: &View,
        reader: &Reader<'_>,
        zone: &Name,
        service: &ServiceRef<'_>,
        pages: &mut Pages,
    ) {
        let Some(name) = self.name_in(zone, service) else { return };
        let shown = Shown::of(service);
        // An alias has nothing else (RFC 1034 §3.6.2).
        let is_alias = shown.ips().next().is_none() && shown.names().next().is_some();
        let own = if is_alias { &[rtype::A][..] } else { &[rtype::A, rtype::AAAA, rtype::SRV] };
        for rtype in own {
            self.copy_name(view, reader, zone, &name, *rtype, pages);
        }
        let by_endpoints = self.headless && !shown.is_anywhere();
        for port in ports(service, by_endpoints) {
            let label = Label::of(&[b"_", port.name].concat());
            let protocol = Label::of(format!("_{}", port.protocol.word()).as_bytes());
            let Some((label, protocol)) = label.zip(protocol) else { continue };
            if let Some(name) = Name::join(&[label.wire(), protocol.wire()].concat(), name.wire()) {
                self.copy_name(view, reader, zone, &name, rtype::SRV, pages);
            }
        }
        if !by_endpoints {
            return;
        }
        let mut labels: Vec<Label> = service
            .endpoints()
            .filter(EndpointRef::ready)
            .filter_map(|endpoint| view.calls.label(&endpoint))
            .collect();
        labels.sort_unstable_by(|a, b| a.wire().cmp(b.wire()));
        labels.dedup_by(|a, b| a.wire() == b.wire());
        for name in labels.iter().filter_map(|label| name.child(label.bytes())) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_name(view, reader, zone, &name, rtype, pages);
            }
        }
    }

    /// Copies the names of all addresses of a reverse zone.
    fn copy_addresses(&self, view: &View, zone: &Name, pages: &mut Pages) {
        let mut addresses: HashSet<IpAddr> = HashSet::new();
        for service in view.store.read().services() {
            addresses.extend(Shown::of(&service).ips());
        }
        let mut names: Vec<Name> = addresses
            .into_iter()
            .filter_map(reverse_name)
            .filter(|name| self.zones.longest(name) == Some(zone))
            .collect();
        names.sort_unstable();
        for some in names.chunks(STEP) {
            let reader = view.store.read();
            for name in some {
                self.copy_name(view, &reader, zone, name, rtype::PTR, pages);
            }
        }
    }
}

/// The named ports that a service's names can have, each once.
fn ports<'a>(service: &ServiceRef<'a>, by_endpoints: bool) -> Vec<PortRef<'a>> {
    let mut all: Vec<PortRef<'a>> = if by_endpoints {
        let ready = service.endpoints().filter(EndpointRef::ready);
        ready.flat_map(|endpoint| endpoint.ports()).collect()
    } else {
        service.ports().collect()
    };
    let key = |port: &PortRef<'a>| (port.name, port.protocol as u8);
    all.retain(|port| !port.name.is_empty());
    all.sort_unstable_by_key(key);
    all.dedup_by_key(|port| key(port));
    all
}
