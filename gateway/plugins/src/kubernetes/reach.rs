//! Which of a service's addresses its name gives: those that whoever asks can reach.

use std::net::IpAddr;

use k8s::{Ips, PortRef, Ports, Reader, ServiceKind};
use wire::{Section, rtype};

use super::Cluster;
use super::lookup::Look;
use crate::shared::cluster::name::Part;
use crate::shared::cluster::reach::{Way, host_name};
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Found, OTHER, TOO_LONG, found, has_protocol, is_port, weight};
use crate::shared::sheet::Sheet;

/// What is said of a service that none of the ways leads to, before their words.
pub(super) const LACKS: &str = "the service is there, but has none of these addresses";

impl Look<'_> {
    /// Writes where a service is: the whole of it, one port, or whether a protocol has ports. `own` is the service's name.
    pub(super) fn reach(
        &self,
        service: &Service<'_>,
        own: &[u8],
        part: Part<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        match self.cluster.reach.way(service) {
            Some(Way::Endpoints) => {
                self.pen().part_of_endpoints(&service.endpoints, own, part, sheet)
            }
            Some(way) => match balancer_name(service, way) {
                Some(name) => self.by_host_name(service, name, part, sheet),
                None => self.by_addresses(service, way.ips(service), own, part, sheet),
            },
            None => {
                let there = has_part(service.ports, part);
                if there && matches!(self.rtype, rtype::A | rtype::AAAA | rtype::SRV) {
                    sheet.answer().options.push_ede(OTHER, &self.cluster.reach.nothing);
                }
                found(there)
            }
        }
    }

    /// Whether a service's name stands for one that is too long in the zone.
    pub(super) fn is_too_long(&self, service: &Service<'_>) -> bool {
        let text = match service.kind {
            ServiceKind::ExternalName => Some(service.external()),
            _ => self.cluster.reach.way(service).and_then(|way| balancer_name(service, way)),
        };
        text.is_some_and(|text| self.pen().is_too_long(text))
    }

    /// Writes what a service with these addresses has: they, and its own ports.
    fn by_addresses(
        &self,
        service: &Service<'_>,
        ips: Ips<'_>,
        own: &[u8],
        part: Part<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let wanted = |port: &PortRef<'_>| match part {
            Part::Port { name, protocol } => is_port(port, name, protocol),
            _ => true,
        };
        if !has_part(service.ports, part) || matches!(part, Part::Ports(_)) {
            return found(has_part(service.ports, part));
        }
        if self.rtype != rtype::SRV {
            ips.for_each(|ip| self.pen().address(sheet, ip));
            return Found::Name;
        }
        if !ips.is_empty() {
            let weight = weight(ips.count() * service.ports.filter(wanted).count());
            for port in service.ports.filter(wanted) {
                self.pen().srv(sheet, weight, port.number, own);
            }
        }
        if sheet.is_answered() {
            ips.for_each(|ip| sheet.address(Section::Additional, own, ip));
        }
        Found::Name
    }

    /// Writes what a service behind a load balancer with a host name has: the whole is an alias for it, and a port's record leads
    /// to the host name itself, since no SRV record may lead to an alias (RFC 2782).
    fn by_host_name(
        &self,
        service: &Service<'_>,
        host: &[u8],
        part: Part<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let Part::Port { name, protocol } = part else {
            return match part {
                Part::Whole => self.pen().alias(host, sheet),
                _ => found(has_part(service.ports, part)),
            };
        };
        let mut ports = service.ports.filter(|port| is_port(port, name, protocol)).peekable();
        let there = ports.peek().is_some();
        if there && self.rtype == rtype::SRV && self.pen().is_too_long(host) {
            sheet.answer().options.push_ede(OTHER, TOO_LONG);
        }
        if let (rtype::SRV, Some(host)) = (self.rtype, self.pen().target(host)) {
            ports.for_each(|port| self.pen().srv(sheet, weight(1), port.number, host.wire()));
        }
        found(there)
    }
}

/// The host name that a service reached so has in place of addresses.
fn balancer_name<'a>(service: &Service<'a>, way: Way) -> Option<&'a [u8]> {
    let by_name = way == Way::LoadBalancer && way.ips(service).is_empty();
    service.balancer().filter(|_| by_name).as_ref().and_then(host_name)
}

/// Whether a service with these ports has this part.
fn has_part(mut ports: Ports<'_>, part: Part<'_>) -> bool {
    match part {
        Part::Port { name, protocol } => ports.any(|port| is_port(&port, name, protocol)),
        Part::Ports(protocol) => has_protocol(ports, protocol),
        _ => true,
    }
}

impl Cluster {
    /// Calls `each` with the names of the services whose names give an address that the cluster has outside.
    pub(super) fn names_outside(
        &self,
        reader: &Reader<'_>,
        ip: IpAddr,
        each: &mut dyn FnMut(&[u8]),
    ) {
        if !self.reach.is_outside() {
            return;
        }
        for service in reader.services_by_external_ip(ip) {
            let hidden = self.ignore_empty && !service.has_ready_endpoints();
            if hidden || !self.reach.outside(&service).contains(ip) {
                continue;
            }
            let name = self.service_name(service.name(), service.namespace(), &self.primary);
            if let Some(name) = name {
                each(name.wire());
            }
        }
    }
}
