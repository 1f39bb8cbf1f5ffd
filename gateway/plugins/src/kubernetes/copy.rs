//! Copies of zones for `transfer`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::{Fault, Stream, Transfer, Wanted};
use k8s::{EndpointRef, Reader, ServiceKind, ServiceRef, Store, Touched};
use wire::{Answer, Name, Section, rcode, rtype};

use super::lookup::Look;
use super::{Cluster, Kubernetes};
use crate::shared::cluster::address::{is_reverse, reverse_name, run};
use crate::shared::cluster::copy::{port_names, service_keys, unit_of};
use crate::shared::cluster::member::Member;
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{NAME_SERVER, NOT_KNOWN, NOT_READY, TOO_LONG};
use crate::shared::journal::{Book, Stems};
use crate::shared::sheet::Sheet;

/// The label that all services are below.
const SERVICES: &[u8] = b"\x03svc";
/// The cluster is not known yet.
const UNKNOWN: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(NOT_READY), why: NOT_KNOWN };

impl Transfer for Kubernetes {
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>> {
        let cluster = &self.0;
        let journal = cluster.journals.of(zone)?;
        if !cluster.members.all_known() {
            return Some(Err(UNKNOWN));
        }
        let book: Arc<dyn Book> = Arc::<Cluster>::clone(cluster);
        Some(Ok(journal.transfer(book, wanted)))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        if self.0.members.all_known() {
            self.0.journals.each(each);
        }
    }
}

/// A zone's units are its services; those of a reverse zone are runs of addresses.
impl Book for Cluster {
    fn stores(&self) -> Vec<&Store> {
        self.members.iter().map(|member| &member.store).collect()
    }

    fn soa(&self, zone: &Name, serial: u32, answer: &mut Answer) {
        self.soa_of(zone, serial, Section::Answer, &mut Sheet::new(answer, self.ttl));
    }

    fn units(&self, zone: &Name, each: &mut dyn FnMut(&[u8])) {
        for (index, member) in self.members.iter().enumerate() {
            let keys = service_keys(&member.store.read());
            for key in keys {
                if is_reverse(zone) {
                    self.units_in(member, zone, &key, each);
                } else if !self.members.had_before(index, &key) {
                    each(&key);
                }
            }
        }
    }

    fn units_of(&self, zone: &Name, touched: &Touched, each: &mut dyn FnMut(&[u8])) {
        match touched {
            Touched::Service(key) if !is_reverse(zone) => each(key),
            Touched::Address(ip) if is_reverse(zone) => unit_of(&self.zones, zone, *ip, each),
            // Another cluster's addresses gain or lose the name that this one has or had.
            Touched::Service(key) if self.members.are_several() => {
                self.members.iter().for_each(|member| self.units_in(member, zone, key, each));
            }
            Touched::Service(_) | Touched::Address(_) => {}
        }
    }

    fn write(&self, zone: &Name, unit: &[u8], answer: &mut Answer) {
        if unit.is_empty() {
            self.copy_servers(zone, answer);
        } else if is_reverse(zone) {
            for name in run(unit).filter_map(reverse_name) {
                if self.zones.longest(&name) == Some(zone) {
                    self.copy_any(zone, &name, rtype::PTR, answer);
                }
            }
        } else if let Some(member) = self.shower(unit) {
            let reader = member.store.read();
            if let Some(service) = reader.service(unit) {
                self.copy_service(member, &reader, zone, &service, answer);
            }
        }
    }

    fn stems(&self, zone: &Name, unit: &[u8]) -> Stems {
        let services =
            Name::join(SERVICES, if is_reverse(zone) { &self.primary } else { zone }.wire());
        let services = services.unwrap_or_else(|| zone.clone());
        if is_reverse(zone) {
            return [services, zone.clone()];
        }
        let own = Name::join(unit, services.wire()).unwrap_or_else(|| zone.clone());
        [own, zone.clone()]
    }
}

impl Cluster {
    /// The cluster that answers for a service.
    fn shower(&self, key: &[u8]) -> Option<&Member> {
        self.members.iter().find(|one| self.shows(&one.store.read(), key))
    }

    /// Calls `each` with the units of all addresses of a cluster's service.
    fn units_in(&self, member: &Member, zone: &Name, key: &[u8], each: &mut dyn FnMut(&[u8])) {
        let reader = member.store.read();
        let Some(service) = reader.service(key) else { return };
        let ready = service.endpoints().filter(EndpointRef::ready);
        let ips = service.cluster_ips().chain(self.reach.outside(&service));
        let ips = ips.chain(ready.filter_map(|endpoint| endpoint.ip()));
        ips.for_each(|ip| unit_of(&self.zones, zone, ip, each));
    }

    /// Copies the zone's NS records, and the addresses of its servers that no service has.
    fn copy_servers(&self, zone: &Name, answer: &mut Answer) {
        self.copy_any(zone, zone, rtype::NS, answer);
        let own = Name::join(NAME_SERVER, zone.wire()).filter(|_| !self.servers.any());
        for name in own.iter().chain(self.servers.within(zone)) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_any(zone, name, rtype, answer);
            }
        }
    }

    /// Copies the records that a query for a name and a type gets.
    fn copy_any(&self, zone: &Name, name: &Name, rtype: u16, answer: &mut Answer) {
        let mut found = Answer::default();
        self.find(zone, name, rtype, &mut Sheet::new(&mut found, self.ttl));
        answer.graft(&found, Section::Answer, Section::Answer);
    }

    /// The same for a cluster that has what the name is of; says whether there are any.
    fn copy_name(
        &self,
        member: &Member,
        reader: &Reader<'_>,
        zone: &Name,
        name: &Name,
        rtype: u16,
        answer: &mut Answer,
    ) -> bool {
        let mut found = Answer::default();
        let look = Look { cluster: self, member, reader, zone, name, rtype };
        look.run(&mut Sheet::new(&mut found, self.ttl));
        answer.graft(&found, Section::Answer, Section::Answer);
        found.section(Section::Answer).next().is_some()
    }

    /// Copies one service, its ports and its endpoints.
    fn copy_service(
        &self,
        member: &Member,
        reader: &Reader<'_>,
        zone: &Name,
        service: &ServiceRef<'_>,
        answer: &mut Answer,
    ) {
        let Some(name) = self.service_name(service.name(), service.namespace(), zone) else {
            return;
        };
        let look = Look { cluster: self, member, reader, zone, name: &name, rtype: rtype::CNAME };
        if look.is_too_long(&Service::of(*service)) && !self.told.swap(true, Ordering::Relaxed) {
            log::warn!(
                target: "plugin/kubernetes",
                "copies of {zone} lack what such as {name} have: {TOO_LONG} (told once)"
            );
        }
        // A stated server's records are the zone's own.
        if !self.servers.within(zone).any(|server| *server == name) {
            // An alias has nothing else (RFC 1034 §3.6.2); there may be names below it.
            let is_alias = self.copy_name(member, reader, zone, &name, rtype::CNAME, answer);
            let others = [rtype::A, rtype::AAAA, rtype::SRV].into_iter().filter(|_| !is_alias);
            for rtype in others {
                self.copy_name(member, reader, zone, &name, rtype, answer);
            }
        }
        if service.kind() == ServiceKind::ExternalName {
            return;
        }
        for name in port_names(service, self.reach.by_endpoints(&Service::of(*service)), &name) {
            self.copy_name(member, reader, zone, &name, rtype::SRV, answer);
        }
        if self.ignore_empty && !service.has_ready_endpoints() {
            return;
        }
        let mut found = Answer::default();
        let mut sheet = Sheet::new(&mut found, self.ttl);
        for endpoint in service.endpoints().filter(EndpointRef::ready) {
            let label = self.calls.label(&endpoint);
            let owner = label.and_then(|label| name.child(label.bytes()));
            if let (Some(owner), Some(ip)) = (owner, endpoint.ip()) {
                sheet.address(Section::Answer, owner.wire(), ip);
            }
        }
        answer.graft(&found, Section::Answer, Section::Answer);
    }
}
