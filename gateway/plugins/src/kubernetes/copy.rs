//! Copies of zones for `transfer`.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use engine::{Fault, Stream, Transfer};
use k8s::{PortRef, Reader, ServiceKind, ServiceRef};
use wire::{Answer, Name, Section, rcode, rtype};

use super::lookup::{Look, NAME_SERVER, Service};
use super::{Cluster, Kubernetes};
use crate::shared::cluster::address::{Label, is_reverse, reverse_name};
use crate::shared::cluster::{NOT_KNOWN, NOT_READY};
use crate::shared::sheet::Sheet;
use crate::shared::transfer::{Copied, Pages};

/// How many services are copied under one read lock; writers have their turn in between.
const STEP: usize = 256;
/// The cluster is not known yet.
const UNKNOWN: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(NOT_READY), why: NOT_KNOWN };

impl Transfer for Kubernetes {
    fn transfer(&self, zone: &Name, serial: Option<u32>) -> Option<Result<Box<dyn Stream>, Fault>> {
        let cluster = &self.0;
        if !cluster.zones.has_zone(zone) || cluster.multicluster.has_zone(zone) {
            return None;
        }
        if !cluster.store.synced() {
            return Some(Err(UNKNOWN));
        }
        // A client that has this serial or a later one gets the SOA record alone (RFC 1995 §2, RFC 1982 §3.2).
        if serial.is_some_and(|theirs| theirs.wrapping_sub(cluster.store.serial()) < 1 << 31) {
            let mut pages = Pages::new();
            cluster.copy_soa(zone, &mut pages);
            return Some(Ok(Pages::read(Arc::new(pages))));
        }
        Some(Ok(Pages::read(cluster.copy(zone))))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        let cluster = &self.0;
        if cluster.store.synced() {
            let zones = cluster.zones.iter().filter(|zone| !cluster.multicluster.has_zone(zone));
            zones.for_each(|zone| each(zone, cluster.store.serial()));
        }
    }
}

impl Cluster {
    /// A zone's records.
    fn copy(&self, zone: &Name) -> Arc<Copied> {
        self.copies.of(zone, self.store.version(), |pages| {
            self.copy_soa(zone, pages);
            self.copy_servers(zone, pages);
            if is_reverse(zone) {
                self.copy_addresses(zone, pages);
            } else {
                self.copy_services(zone, pages);
            }
            self.copy_soa(zone, pages);
        })
    }

    /// Copies the zone's SOA record.
    fn copy_soa(&self, zone: &Name, pages: &mut Pages) {
        let mut answer = Answer::default();
        self.soa(zone, Section::Answer, &mut Sheet::new(&mut answer, self.ttl));
        pages.extend(&answer);
    }

    /// Copies the zone's NS records, and the addresses of its servers that no service has.
    fn copy_servers(&self, zone: &Name, pages: &mut Pages) {
        let reader = self.store.read();
        self.copy_name(&reader, zone, zone, rtype::NS, pages);
        let own = Name::join(NAME_SERVER, zone.wire()).filter(|_| !self.servers.any());
        for name in own.iter().chain(self.servers.within(zone)) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_name(&reader, zone, name, rtype, pages);
            }
        }
    }

    /// Copies the records that a query for a name and a type gets.
    fn copy_name(
        &self,
        reader: &Reader<'_>,
        zone: &Name,
        name: &Name,
        rtype: u16,
        pages: &mut Pages,
    ) -> usize {
        let mut answer = Answer::default();
        let look = Look { cluster: self, reader, zone, name, rtype };
        look.run(&mut Sheet::new(&mut answer, self.ttl));
        pages.extend(&answer);
        answer.section(Section::Answer).count()
    }

    /// Copies all services, by name.
    fn copy_services(&self, zone: &Name, pages: &mut Pages) {
        let key = |service: &ServiceRef<'_>| {
            let (name, namespace) = (Label::of(service.name())?, Label::of(service.namespace())?);
            Some([name.wire(), namespace.wire()].concat().into_boxed_slice())
        };
        let keys: Vec<Box<[u8]>> = self.store.read().services().iter().filter_map(key).collect();
        for some in keys.chunks(STEP) {
            let reader = self.store.read();
            for key in some {
                if let Some(service) = reader.service(key) {
                    self.copy_service(&reader, zone, &service, pages);
                }
            }
        }
    }

    /// Copies one service, its ports and its endpoints.
    fn copy_service(
        &self,
        reader: &Reader<'_>,
        zone: &Name,
        service: &ServiceRef<'_>,
        pages: &mut Pages,
    ) {
        let Some(name) = self.service_name(service.name(), service.namespace(), zone) else {
            return;
        };
        let aliases = self.copy_name(reader, zone, &name, rtype::CNAME, pages);
        if service.kind() == ServiceKind::ExternalName {
            return;
        }
        // An alias has nothing else (RFC 1034 §3.6.2); there may be names below it.
        let others = [rtype::A, rtype::AAAA, rtype::SRV].into_iter().filter(|_| aliases == 0);
        for rtype in others {
            self.copy_name(reader, zone, &name, rtype, pages);
        }
        for port in self.ports(service) {
            let Some(label) = Label::of(&[b"_", port.name].concat()) else { continue };
            let Some(protocol) = Label::of(format!("_{}", port.protocol.word()).as_bytes()) else {
                continue;
            };
            let head = [label.wire(), protocol.wire()].concat();
            if let Some(name) = Name::join(&head, name.wire()) {
                self.copy_name(reader, zone, &name, rtype::SRV, pages);
            }
        }
        if self.ignore_empty && !service.has_ready_endpoints() {
            return;
        }
        let mut answer = Answer::default();
        let mut sheet = Sheet::new(&mut answer, self.ttl);
        for endpoint in service.endpoints().filter(|endpoint| endpoint.ready()) {
            let label = self.calls.label(&endpoint);
            let owner = label.and_then(|label| name.child(label.bytes()));
            if let (Some(owner), Some(ip)) = (owner, endpoint.ip()) {
                sheet.address(Section::Answer, owner.wire(), ip);
            }
        }
        pages.extend(&answer);
    }

    /// Copies the names of all addresses of a reverse zone.
    fn copy_addresses(&self, zone: &Name, pages: &mut Pages) {
        let mut addresses = HashSet::new();
        for service in self.store.read().services() {
            addresses.extend(service.cluster_ips().chain(self.reach.outside(&service)));
            let ready = service.endpoints().filter(|endpoint| endpoint.ready());
            addresses.extend(ready.filter_map(|endpoint| endpoint.ip()));
        }
        let mut names: Vec<(Name, IpAddr)> = addresses
            .into_iter()
            .filter_map(|ip| reverse_name(ip).map(|name| (name, ip)))
            .filter(|(name, _)| self.zones.longest(name) == Some(zone))
            .collect();
        names.sort_unstable();
        for some in names.chunks(STEP) {
            let reader = self.store.read();
            for (name, _) in some {
                self.copy_name(&reader, zone, name, rtype::PTR, pages);
            }
        }
    }

    /// The named ports that a service's names can have, each once.
    fn ports<'a>(&self, service: &ServiceRef<'a>) -> Vec<PortRef<'a>> {
        let mut all: Vec<PortRef<'a>> = if self.reach.by_endpoints(&Service::of(*service)) {
            let ready = service.endpoints().filter(|endpoint| endpoint.ready());
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
}
