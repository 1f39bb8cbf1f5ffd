//! Copies of zones for `transfer`.

use std::sync::Arc;

use engine::{Fault, Stream, Transfer, Wanted};
use k8s::{EndpointRef, Reader, ServiceRef, Store, Touched};
use wire::{Answer, Name, Section, rcode, rtype};

use super::lookup::{Look, NAME_SERVER, Shown};
use super::{External, Outside};
use crate::shared::cluster::address::{Label, is_reverse, reverse_name, run};
use crate::shared::cluster::copy::{port_names, service_keys, unit_of};
use crate::shared::cluster::member::Member;
use crate::shared::cluster::{NOT_KNOWN, NOT_READY, View};
use crate::shared::journal::{Book, Stems};
use crate::shared::sheet::Sheet;

/// The cluster is not known yet.
const UNKNOWN: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(NOT_READY), why: NOT_KNOWN };

impl Transfer for External {
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>> {
        let journal = self.0.journals.of(zone)?;
        if !self.0.is_known() {
            return Some(Err(UNKNOWN));
        }
        let book: Arc<dyn Book> = Arc::<Outside>::clone(&self.0);
        Some(Ok(journal.transfer(book, wanted)))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        if self.0.is_known() {
            self.0.journals.each(each);
        }
    }
}

/// A zone's units are its services; those of a reverse zone are runs of addresses.
impl Book for Outside {
    fn stores(&self) -> Vec<&Store> {
        let members = self.view.get().into_iter().flat_map(|view| view.members.iter());
        members.map(|member| &member.store).collect()
    }

    fn soa(&self, zone: &Name, serial: u32, answer: &mut Answer) {
        self.soa_of(zone, serial, Section::Answer, &mut Sheet::new(answer, self.ttl));
    }

    fn units(&self, zone: &Name, each: &mut dyn FnMut(&[u8])) {
        let Some(view) = self.view.get() else { return };
        for (index, member) in view.members.iter().enumerate() {
            let keys = service_keys(&member.store.read());
            for key in keys {
                if !is_reverse(zone) {
                    if !view.members.had_before(index, &key) {
                        each(&key);
                    }
                } else {
                    self.units_in(member, zone, &key, each);
                }
            }
        }
    }

    fn units_of(&self, zone: &Name, touched: &Touched, each: &mut dyn FnMut(&[u8])) {
        match touched {
            Touched::Service(key) if !is_reverse(zone) => each(key),
            Touched::Address(ip) if is_reverse(zone) => unit_of(&self.zones, zone, *ip, each),
            // Another cluster's addresses gain or lose the name that this one has or had.
            Touched::Service(key) => {
                let view = self.view.get().filter(|view| view.members.are_several());
                let members = view.into_iter().flat_map(|view| view.members.iter());
                members.for_each(|member| self.units_in(member, zone, key, each));
            }
            Touched::Address(_) => {}
        }
    }

    fn write(&self, zone: &Name, unit: &[u8], answer: &mut Answer) {
        let Some(view) = self.view.get() else { return };
        if unit.is_empty() {
            self.copy_server(view, zone, answer);
        } else if is_reverse(zone) {
            for name in run(unit).filter_map(reverse_name) {
                if self.zones.longest(&name) == Some(zone) {
                    self.copy_any(view, zone, &name, rtype::PTR, answer);
                }
            }
        } else if let Some(member) = self.shower(view, unit) {
            let reader = member.store.read();
            if let Some(service) = reader.service(unit) {
                self.copy_service((view, member), &reader, zone, &service, answer);
            }
        }
    }

    fn stems(&self, zone: &Name, unit: &[u8]) -> Stems {
        if is_reverse(zone) {
            return [self.primary.clone(), zone.clone()];
        }
        let own = Name::join(unit, zone.wire()).unwrap_or_else(|| zone.clone());
        [own, zone.clone()]
    }
}

impl Outside {
    /// Whether the cluster is known.
    fn is_known(&self) -> bool {
        self.view.get().is_some_and(|view| view.members.all_known())
    }

    /// Calls `each` with the units of all addresses of a cluster's service.
    fn units_in(&self, member: &Member, zone: &Name, key: &[u8], each: &mut dyn FnMut(&[u8])) {
        let reader = member.store.read();
        let Some(service) = reader.service(key) else { return };
        Shown::of(&service).ips().for_each(|ip| unit_of(&self.zones, zone, ip, each));
    }

    /// Copies the zone's NS record, and the addresses of its server.
    fn copy_server(&self, view: &View, zone: &Name, answer: &mut Answer) {
        self.copy_any(view, zone, zone, rtype::NS, answer);
        if let Some(server) = self.below(NAME_SERVER, zone) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_any(view, zone, &server, rtype, answer);
            }
        }
    }

    /// The cluster that shows a service to the outside.
    fn shower<'v>(&self, view: &'v View, key: &[u8]) -> Option<&'v Member> {
        view.members.iter().find(|one| self.shows(view, &one.store.read(), key))
    }

    /// Copies the records that a query for a name and a type gets.
    fn copy_any(&self, view: &View, zone: &Name, name: &Name, rtype: u16, answer: &mut Answer) {
        let mut found = Answer::default();
        self.find(view, zone, name, rtype, &mut Sheet::new(&mut found, self.ttl));
        answer.graft(&found, Section::Answer, Section::Answer);
    }

    /// The same for a cluster that shows what the name is of.
    fn copy_name(
        &self,
        (view, member): (&View, &Member),
        reader: &Reader<'_>,
        zone: &Name,
        name: &Name,
        rtype: u16,
        answer: &mut Answer,
    ) {
        let mut found = Answer::default();
        let look = Look { outside: self, view, member, reader, zone, name, rtype };
        look.run(&mut Sheet::new(&mut found, self.ttl));
        answer.graft(&found, Section::Answer, Section::Answer);
    }

    /// Copies one service, its ports and its endpoints.
    fn copy_service(
        &self,
        of: (&View, &Member),
        reader: &Reader<'_>,
        zone: &Name,
        service: &ServiceRef<'_>,
        answer: &mut Answer,
    ) {
        let Some(name) = self.name_in(zone, service) else { return };
        let shown = Shown::of(service);
        // An alias has nothing else (RFC 1034 §3.6.2).
        let is_alias = shown.ips().next().is_none() && shown.names().next().is_some();
        let own = if is_alias { &[rtype::A][..] } else { &[rtype::A, rtype::AAAA, rtype::SRV] };
        for rtype in own {
            self.copy_name(of, reader, zone, &name, *rtype, answer);
        }
        let by_endpoints = self.headless && !shown.is_anywhere();
        for name in port_names(service, by_endpoints, &name) {
            self.copy_name(of, reader, zone, &name, rtype::SRV, answer);
        }
        if !by_endpoints {
            return;
        }
        let mut labels: Vec<Label> = service
            .endpoints()
            .filter(EndpointRef::ready)
            .filter_map(|endpoint| of.0.calls.label(&endpoint))
            .collect();
        labels.sort_unstable_by(|a, b| a.wire().cmp(b.wire()));
        labels.dedup_by(|a, b| a.wire() == b.wire());
        for name in labels.iter().filter_map(|label| name.child(label.bytes())) {
            for rtype in [rtype::A, rtype::AAAA] {
                self.copy_name(of, reader, zone, &name, rtype, answer);
            }
        }
    }
}
