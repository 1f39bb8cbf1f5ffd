//! From a name and a type to the addresses that a cluster's services have outside.

use std::net::IpAddr;

use k8s::{Balancer, Ips, PortRef, Reader, ServiceKind, ServiceRef};
use wire::{Name, Section, rtype};

use super::Outside;
use super::name::Wanted;
use crate::shared::cluster::address::{Label, Reverse, is_reverse, reverse};
use crate::shared::cluster::member::Member;
use crate::shared::cluster::name::Part;
use crate::shared::cluster::pointers::Names;
use crate::shared::cluster::{
    Found, Pen, Soa, View, at_apex, found, has_protocol, is_port, target, weight,
};
use crate::shared::sheet::Sheet;

/// The label of a zone's name server, below the apex.
pub(super) const NAME_SERVER: &[u8] = b"\x03ns1";

/// One look-up.
#[derive(Debug)]
pub(super) struct Look<'l> {
    /// Whose zones these are.
    pub(super) outside: &'l Outside,
    /// The cluster.
    pub(super) view: &'l View,
    /// The one of its clusters that is looked at.
    pub(super) member: &'l Member,
    /// The store of that, under its read lock.
    pub(super) reader: &'l Reader<'l>,
    /// The zone that the name is in.
    pub(super) zone: &'l Name,
    /// The name.
    pub(super) name: &'l Name,
    /// The type that is asked for.
    pub(super) rtype: u16,
}

/// Where a service is, seen from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    /// `externalIPs`.
    ips: Ips<'a>,
    /// What a load balancer's status has.
    balancer: Balancer<'a>,
}

impl<'a> Shown<'a> {
    /// Where this one is.
    pub(super) fn of(service: &ServiceRef<'a>) -> Self {
        Self { ips: service.external_ips(), balancer: service.load_balancer() }
    }

    /// Its addresses.
    pub(super) fn ips(&self) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.ips.chain(self.balancer.ips())
    }

    /// Its host names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.balancer.hostnames()
    }

    /// Whether it is anywhere.
    pub(super) fn is_anywhere(&self) -> bool {
        self.ips().next().is_some() || self.names().next().is_some()
    }
}

impl Look<'_> {
    /// Finds the name and writes its records.
    pub(super) fn run(&self, sheet: &mut Sheet<'_>) -> Found {
        let Some(head) = self.name.below(self.zone) else { return Found::Nothing };
        match Wanted::read(head, &self.outside.apex) {
            Wanted::Apex => self.apex(sheet),
            Wanted::Branch => Found::Name,
            Wanted::NameServer => {
                self.each_own(&mut |ip| self.pen().address(sheet, ip));
                Found::Name
            }
            _ if is_reverse(self.zone) => self.reverse(sheet),
            Wanted::Nothing => Found::Nothing,
            _ if !self.member.store.synced() => Found::NotYet,
            Wanted::Namespace(name) if self.reader.awaits(name) => Found::NotYet,
            Wanted::Namespace(name) => found(self.reader.namespace(name)),
            Wanted::Service { key, .. }
                if Name::labels_of(key).nth(1).is_some_and(|name| self.reader.awaits(name)) =>
            {
                Found::NotYet
            }
            Wanted::Service { key, at, part } => self.service(key, at, part, sheet),
        }
    }

    /// Whether this cluster answers for the name, and not one behind it: it has what the name is of, or that is not known yet.
    fn decides(&self) -> bool {
        let Some(head) = self.name.below(self.zone) else { return true };
        match Wanted::read(head, &self.outside.apex) {
            Wanted::Apex | Wanted::NameServer => {
                let mut own = self.view.own.iter();
                own.any(|ip| self.reader.endpoints_by_ip(*ip).next().is_some())
            }
            Wanted::Branch => true,
            // The names of an address are those of all.
            _ if is_reverse(self.zone) => true,
            Wanted::Nothing => true,
            _ if !self.member.store.synced() => true,
            Wanted::Namespace(name) => self.reader.awaits(name) || self.reader.namespace(name),
            Wanted::Service { key, .. } => {
                let namespace = Name::labels_of(key).nth(1);
                namespace.is_some_and(|name| self.reader.awaits(name))
                    || self.outside.shows(self.view, self.reader, key)
            }
        }
    }

    /// What writes the name's records.
    fn pen(&self) -> Pen<'_> {
        Pen { name: self.name, rtype: self.rtype, calls: self.view.calls, home: None }
    }

    /// The zone's own records.
    fn apex(&self, sheet: &mut Sheet<'_>) -> Found {
        match self.rtype {
            rtype::SOA => self.outside.soa(self.view, self.zone, Section::Answer, sheet),
            rtype::NS => {
                if let Some(server) = self.outside.below(NAME_SERVER, self.zone) {
                    sheet.add(Section::Answer, self.zone.wire(), rtype::NS, server.wire());
                    self.each_own(&mut |ip| sheet.address(Section::Additional, server.wire(), ip));
                }
            }
            // A zone may be that of one address.
            rtype::PTR if is_reverse(self.zone) => return at_apex(self.reverse(sheet)),
            _ => {}
        }
        Found::Name
    }

    /// Calls `each` with the addresses of the zone's server: those that services have outside which this process is an endpoint
    /// of, else its own.
    fn each_own(&self, each: &mut dyn FnMut(IpAddr)) {
        let mut any = false;
        for own in &self.view.own {
            for (service, endpoint) in self.reader.endpoints_by_ip(*own) {
                if !endpoint.ready() || self.view.hides(&service) {
                    continue;
                }
                let shown = Shown::of(&service);
                for ip in shown.ips() {
                    any = true;
                    each(ip);
                }
                if self.outside.by_endpoints(&service, &shown) {
                    any = true;
                    each(*own);
                }
            }
        }
        if !any {
            self.view.own.iter().for_each(|ip| each(*ip));
        }
    }

    /// The services that have an address.
    fn reverse(&self, sheet: &mut Sheet<'_>) -> Found {
        let ip = match reverse(self.name) {
            Reverse::Address(ip) => ip,
            // Names may be below; that none is would take a look at every address (RFC 8020 §2).
            Reverse::Part if !self.outside.fall.through(self.name) => return Found::Name,
            Reverse::Part | Reverse::Nothing => return Found::Nothing,
        };
        if !self.member.store.synced() {
            return Found::NotYet;
        }
        let mut any = false;
        Seen { outside: self.outside, view: self.view }.names_of(self.reader, ip, &mut |target| {
            any = true;
            if self.rtype == rtype::PTR {
                sheet.add(Section::Answer, self.name.wire(), rtype::PTR, target);
            }
        });
        found(any)
    }

    /// A service, its ports and its endpoints.
    fn service(&self, key: &[u8], at: usize, part: Part<'_>, sheet: &mut Sheet<'_>) -> Found {
        let Some(service) = self.reader.service(key) else { return Found::Nothing };
        if self.view.hides(&service) {
            return Found::Nothing;
        }
        // The end of the name from the service on is the service's own name.
        let own = self.name.wire().get(at..).unwrap_or_default();
        let shown = Shown::of(&service);
        if self.outside.by_endpoints(&service, &shown) {
            return self.pen().part_of_endpoints(&service.endpoints(), own, part, sheet);
        }
        if !shown.is_anywhere() {
            return Found::Nothing;
        }
        match part {
            Part::Whole => self.shown(&service, &shown, own, sheet, |_| true),
            Part::Port { name, protocol } => {
                let wanted = |port: &PortRef<'_>| is_port(port, name, protocol);
                if !service.ports().any(|port| wanted(&port)) {
                    return Found::Nothing;
                }
                self.shown(&service, &shown, own, sheet, wanted)
            }
            Part::Ports(protocol) => found(has_protocol(service.ports(), protocol)),
            _ => Found::Nothing,
        }
    }

    /// Writes where a service is; the ports are those that `wanted` picks.
    fn shown(
        &self,
        service: &ServiceRef<'_>,
        shown: &Shown<'_>,
        own: &[u8],
        sheet: &mut Sheet<'_>,
        wanted: impl Fn(&PortRef<'_>) -> bool,
    ) -> Found {
        let pen = self.pen();
        if self.rtype != rtype::SRV {
            shown.ips().for_each(|ip| pen.address(sheet, ip));
            // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
            let mut names = shown.names().filter(|name| target(name).is_some());
            return match (shown.ips().next(), names.next()) {
                (None, Some(name)) => pen.alias(name, sheet),
                _ => Found::Name,
            };
        }
        let places = shown.ips().count() + shown.names().count();
        let weight = weight(places * service.ports().filter(&wanted).count());
        for port in service.ports().filter(&wanted) {
            if shown.ips().next().is_some() {
                pen.srv(sheet, weight, port.number, own);
            }
            for target in shown.names().filter_map(target) {
                pen.srv(sheet, weight, port.number, target.wire());
            }
        }
        if sheet.is_answered() {
            shown.ips().for_each(|ip| sheet.address(Section::Additional, own, ip));
        }
        Found::Name
    }
}

/// What is shown of the clusters of a block.
struct Seen<'l> {
    /// To whom.
    outside: &'l Outside,
    /// The clusters.
    view: &'l View,
}

impl Names for Seen<'_> {
    fn names_of(&self, reader: &Reader<'_>, ip: IpAddr, each: &mut dyn FnMut(&[u8])) {
        let services = reader.services_by_external_ip(ip);
        for service in services.filter(|service| !self.view.hides(service)) {
            if let Some(name) = self.outside.name_in(&self.outside.primary, &service) {
                each(name.wire());
            }
        }
    }

    fn has(&self, reader: &Reader<'_>, name: &[u8]) -> bool {
        let len = name.len().saturating_sub(self.outside.primary.wire().len());
        match Wanted::read(name.get(..len).unwrap_or_default(), &self.outside.apex) {
            Wanted::Service { key, .. } => self.outside.shows(self.view, reader, key),
            _ => false,
        }
    }
}

impl Outside {
    /// Finds a name and writes its records; gives the cluster that says so: the first that shows the service to the outside.
    pub(super) fn find<'v>(
        &self,
        view: &'v View,
        zone: &Name,
        name: &Name,
        rtype: u16,
        sheet: &mut Sheet<'_>,
    ) -> (Found, Option<&'v Member>) {
        let names = Seen { outside: self, view };
        let of_all = view.members.pointers(&names, view.pointers, zone, (name, rtype), sheet);
        if let Some(found) = of_all {
            return found;
        }
        let Some((last, others)) = view.members.split_last() else {
            return (Found::Nothing, None);
        };
        for member in others {
            let reader = &member.store.read();
            let look = Look { outside: self, view, member, reader, zone, name, rtype };
            if look.decides() {
                return (look.run(sheet), Some(member));
            }
        }
        let reader = &last.store.read();
        let look = Look { outside: self, view, member: last, reader, zone, name, rtype };
        (look.run(sheet), Some(last))
    }

    /// Whether a cluster has a service and shows it to the outside.
    pub(super) fn shows(&self, view: &View, reader: &Reader<'_>, key: &[u8]) -> bool {
        reader.service(key).is_some_and(|service| {
            let shown = Shown::of(&service);
            !view.hides(&service) && (shown.is_anywhere() || self.by_endpoints(&service, &shown))
        })
    }

    /// Whether a service is shown by its endpoints.
    fn by_endpoints(&self, service: &ServiceRef<'_>, shown: &Shown<'_>) -> bool {
        self.headless && service.kind() == ServiceKind::Headless && !shown.is_anywhere()
    }

    /// A name below a zone's own labels; none if it would be too long.
    pub(super) fn below(&self, label: &[u8], zone: &Name) -> Option<Name> {
        let apex = Name::join(&self.apex, zone.wire())?;
        Name::join(label, apex.wire())
    }

    /// The name of a service in a zone; none if it would be too long.
    pub(super) fn name_in(&self, zone: &Name, service: &ServiceRef<'_>) -> Option<Name> {
        let (name, namespace) = (Label::of(service.name())?, Label::of(service.namespace())?);
        let below = Name::join(namespace.wire(), zone.wire())?;
        Name::join(name.wire(), below.wire())
    }

    /// Writes the zone's SOA record.
    pub(super) fn soa(&self, view: &View, zone: &Name, section: Section, sheet: &mut Sheet<'_>) {
        let serial = self.journals.serial(zone, view.members.external_serial());
        self.soa_of(zone, serial, section, sheet);
    }

    /// Writes the zone's SOA record with a serial.
    pub(super) fn soa_of(&self, zone: &Name, serial: u32, section: Section, sheet: &mut Sheet<'_>) {
        let (below, minimum) = (&*self.apex, self.ttl);
        let soa = Soa { zone, server: [NAME_SERVER, below, zone.wire()], below, serial, minimum };
        soa.write(self.ttl, section, sheet);
    }
}
