//! From a name and a type to records: the specification of DNS-based service discovery, version 1.1.0.

use std::net::IpAddr;

use k8s::{EndpointRef, Kind, Reader, ServiceKind, State};
use wire::{Name, Section, class, rtype};

use super::{Cluster, Pods};
use crate::shared::cluster::address::{Reverse, is_reverse, pod_address, reverse};
use crate::shared::cluster::member::Member;
use crate::shared::cluster::name::{Part, Rules, Wanted, spells};
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Found, Home, NAME_SERVER, Pen, SOA_TTL, Soa, at_apex, found};
use crate::shared::sheet::Sheet;

/// The version of the specification that is served.
const VERSION: &[u8] = b"1.1.0";
/// How long that may be kept, in seconds.
const VERSION_TTL: u32 = 28800;

/// One look-up.
#[derive(Debug)]
pub(super) struct Look<'l> {
    /// Whose zones these are.
    pub(super) cluster: &'l Cluster,
    /// The cluster that is looked at.
    pub(super) member: &'l Member,
    /// Its store, under its read lock.
    pub(super) reader: &'l Reader<'l>,
    /// The zone that the name is in.
    pub(super) zone: &'l Name,
    /// The name.
    pub(super) name: &'l Name,
    /// The type that is asked for.
    pub(super) rtype: u16,
}

impl Look<'_> {
    /// Finds the name and writes its records.
    pub(super) fn run(&self, sheet: &mut Sheet<'_>) -> Found {
        let Some(head) = self.name.below(self.zone) else { return Found::Nothing };
        if let Some(found) = self.stated_server(head, sheet) {
            return found;
        }
        match self.find(head, sheet) {
            Found::Nothing if self.leads_to_server() => Found::Name,
            found => found,
        }
    }

    /// Finds what the cluster has.
    fn find(&self, head: &[u8], sheet: &mut Sheet<'_>) -> Found {
        let wanted = Wanted::read(head, self.cluster.rules(self.zone));
        match wanted {
            Wanted::Apex => self.apex(sheet),
            Wanted::Version => {
                if self.rtype == rtype::TXT {
                    sheet.answer().txt(self.name, class::IN, VERSION_TTL, VERSION);
                }
                Found::Name
            }
            // Where others are stated, this one is not.
            Wanted::NameServer if self.cluster.servers.any() => Found::Nothing,
            Wanted::NameServer => {
                self.name_server(&mut |_, ip| self.pen().address(sheet, ip));
                Found::Name
            }
            Wanted::Branch if head == b"\x03dns" => Found::Name,
            _ if is_reverse(self.zone) => self.reverse(sheet),
            Wanted::Branch => Found::Name,
            Wanted::Nothing => Found::Nothing,
            _ if !self.member.store.answers() => Found::NotYet,
            _ if self.reader.awaits(wanted.namespace()) => Found::NotYet,
            Wanted::Namespace { pods: true, .. } if self.cluster.pods == Pods::Disabled => {
                Found::Nothing
            }
            Wanted::Namespace { name, .. } if self.reader.doubts(name) => Found::NotYet,
            Wanted::Namespace { name, .. } => found(self.reader.namespace(name)),
            Wanted::Pod { address, namespace } => self.pod(address, namespace, sheet),
            Wanted::Service { key, at, part } => self.service(key, at, part, sheet),
        }
    }

    /// What writes the name's records.
    pub(super) fn pen(&self) -> Pen<'_> {
        let home = self.member.domain.as_ref().map(|domain| {
            // Services of a cluster set's zone do not stand for names of its own.
            let set = self.cluster.multicluster.has_zone(self.zone);
            Home { domain, zone: if set { &self.cluster.primary } else { self.zone } }
        });
        Pen { name: self.name, rtype: self.rtype, calls: self.cluster.calls, home }
    }

    /// Whether the objects of a kind are known, or known not to be there.
    pub(super) fn knows(&self, kind: Kind) -> bool {
        self.member.store.listed(kind) || self.member.store.state(kind) == State::Absent
    }

    /// Whether the pods of a namespace are known.
    pub(super) fn knows_pods(&self, namespace: &[u8]) -> bool {
        self.knows(Kind::Pods) && !self.reader.awaits_pods(namespace)
    }

    /// Whether a name of a service depends on endpoints that are not known.
    pub(super) fn lacks_endpoints(&self, service: &Service<'_>, part: Part<'_>) -> bool {
        if self.member.store.knows_endpoints(service.whole.is_none()) {
            return false;
        }
        match (service.kind, part) {
            (ServiceKind::ExternalName, _) => false,
            (ServiceKind::ClusterIp, _) if self.cluster.ignore_empty => true,
            (ServiceKind::Headless, Part::Zones) => false,
            (ServiceKind::ClusterIp, Part::Zones | Part::Zone { .. }) => false,
            (_, Part::Whole | Part::Port { .. } | Part::Ports(_)) => {
                self.cluster.reach.needs_endpoints(service)
            }
            (_, Part::Zone { .. } | Part::Cluster(_) | Part::Endpoint { .. }) => true,
        }
    }

    /// The zone's own records.
    fn apex(&self, sheet: &mut Sheet<'_>) -> Found {
        match self.rtype {
            rtype::SOA => self.cluster.soa(self.zone, Section::Answer, sheet),
            rtype::NS => {
                let zone = self.zone.wire();
                let mut any = false;
                self.name_server(&mut |owner, ip| {
                    any = true;
                    sheet.add(Section::Answer, zone, rtype::NS, owner);
                    sheet.address(Section::Additional, owner, ip);
                });
                if !any && let Some(server) = Name::join(NAME_SERVER, zone) {
                    sheet.add(Section::Answer, zone, rtype::NS, server.wire());
                }
            }
            // A zone may be that of one address.
            rtype::PTR if is_reverse(self.zone) => return at_apex(self.reverse(sheet)),
            _ => {}
        }
        Found::Name
    }

    /// Calls `each` with the names and addresses of the zone's servers: the services that this process is an endpoint of, else
    /// its own addresses.
    pub(super) fn name_server(&self, each: &mut dyn FnMut(&[u8], IpAddr)) {
        let mut any = false;
        for (service, endpoint) in
            self.cluster.own.iter().flat_map(|ip| self.reader.endpoints_by_ip(*ip))
        {
            if !endpoint.ready() || is_reverse(self.zone) {
                continue;
            }
            let Some(name) =
                self.cluster.service_name(service.name(), service.namespace(), self.zone)
            else {
                continue;
            };
            match (service.kind(), endpoint.ip()) {
                (ServiceKind::ClusterIp, _) => {
                    for ip in service.cluster_ips() {
                        any = true;
                        each(name.wire(), ip);
                    }
                }
                (ServiceKind::Headless, Some(ip)) => {
                    let label = self.cluster.calls.label(&endpoint);
                    if let Some(name) = label.and_then(|label| name.child(label.bytes())) {
                        any = true;
                        each(name.wire(), ip);
                    }
                }
                _ => {}
            }
        }
        if !any && let Some(server) = Name::join(NAME_SERVER, self.zone.wire()) {
            self.cluster.own.iter().for_each(|ip| each(server.wire(), *ip));
        }
    }

    /// An address and the names that it has.
    fn reverse(&self, sheet: &mut Sheet<'_>) -> Found {
        let ip = match reverse(self.name) {
            Reverse::Address(ip) => ip,
            // Names may be below; that none is would take a look at every address (RFC 8020 §2).
            Reverse::Part if !self.cluster.fall.through(self.name) => return Found::Name,
            Reverse::Part | Reverse::Nothing => return Found::Nothing,
        };
        let store = &self.member.store;
        if !store.answers() {
            return Found::NotYet;
        }
        let mut any = false;
        let mut write = |target: &[u8]| {
            any = true;
            if self.rtype == rtype::PTR {
                sheet.add(Section::Answer, self.name.wire(), rtype::PTR, target);
            }
        };
        self.cluster.names_of(self.reader, ip, &mut write);
        // What is not known yet may have the address.
        if any || store.knows_endpoints(false) && !self.reader.awaits_any() {
            found(any)
        } else {
            Found::NotYet
        }
    }

    /// A pod's address, taken from its name.
    fn pod(&self, label: &[u8], namespace: &[u8], sheet: &mut Sheet<'_>) -> Found {
        let doubted = self.reader.doubts(namespace);
        if self.cluster.pods == Pods::Disabled || !doubted && !self.reader.namespace(namespace) {
            return Found::Nothing;
        }
        let Some(ip) = pod_address(label) else { return Found::Nothing };
        if self.cluster.pods == Pods::Verified {
            if !self.knows_pods(namespace) {
                return Found::NotYet;
            }
            if !self.reader.pod_in(namespace, ip) {
                return Found::Nothing;
            }
        } else if doubted {
            return Found::NotYet;
        }
        self.pen().address(sheet, ip);
        Found::Name
    }

    /// A service, its ports and its endpoints.
    fn service(&self, key: &[u8], at: usize, part: Part<'_>, sheet: &mut Sheet<'_>) -> Found {
        let imported = self.cluster.rules(self.zone).multicluster;
        if imported && !self.knows(Kind::Imports) {
            return Found::NotYet;
        }
        let Some(service) = Service::find(self.reader, key, imported) else {
            return Found::Nothing;
        };
        if self.lacks_endpoints(&service, part) {
            return Found::NotYet;
        }
        if self.cluster.hides(&service) {
            return Found::Nothing;
        }
        // The end of the name from the service on is the service's own name.
        let own = self.name.wire().get(at..).unwrap_or_default();
        match (service.kind, part) {
            (ServiceKind::ExternalName, Part::Whole) => self.pen().alias(service.external(), sheet),
            (ServiceKind::ExternalName, _) => Found::Nothing,
            (ServiceKind::Headless, Part::Zones) => Found::Name,
            (ServiceKind::Headless, Part::Zone { zone, prefer }) => {
                let local = |endpoint: &EndpointRef<'_>| spells(zone, endpoint.zone());
                let ready = |endpoint: &EndpointRef<'_>| endpoint.ready();
                let mut endpoints = service.endpoints.clone();
                if prefer && !endpoints.any(|endpoint| ready(&endpoint) && local(&endpoint)) {
                    self.pen().endpoints(&service.endpoints, own, sheet, ready, |_| true);
                } else {
                    self.pen().endpoints(
                        &service.endpoints,
                        own,
                        sheet,
                        |one| ready(one) && local(one),
                        |_| true,
                    );
                }
                Found::Name
            }
            (_, Part::Zones | Part::Zone { .. }) => Found::Nothing,
            (_, Part::Whole | Part::Port { .. } | Part::Ports(_)) => {
                self.reach(&service, own, part, sheet)
            }
            (_, Part::Cluster(_) | Part::Endpoint { .. }) => {
                self.pen().part_of_endpoints(&service.endpoints, own, part, sheet)
            }
        }
    }
}

impl Cluster {
    /// What names the zone has.
    pub(super) fn rules(&self, zone: &Name) -> Rules {
        Rules { zonal: self.zonal, multicluster: self.multicluster.has_zone(zone) }
    }

    /// Whether a service is kept from view, since nothing is behind it.
    pub(super) fn hides(&self, service: &Service<'_>) -> bool {
        self.ignore_empty
            && service.kind == ServiceKind::ClusterIp
            && !service.endpoints.clone().any(|endpoint| endpoint.ready())
    }

    /// Writes the zone's SOA record.
    pub(super) fn soa(&self, zone: &Name, section: Section, sheet: &mut Sheet<'_>) {
        let serial = self.journals.serial(zone, self.members.serial());
        self.soa_of(zone, serial, section, sheet);
    }

    /// Writes the zone's SOA record with a serial.
    pub(super) fn soa_of(&self, zone: &Name, serial: u32, section: Section, sheet: &mut Sheet<'_>) {
        let [name, rest] = self.servers.first(zone.wire());
        let soa = Soa { zone, server: [name, rest, b""], below: b"", serial, minimum: self.ttl };
        soa.write(self.ttl.min(SOA_TTL), section, sheet);
    }
}
