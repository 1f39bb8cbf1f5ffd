//! Writes what a service of the set has: what a controller has imported, or the union of what the clusters export.

use std::net::IpAddr;

use k8s::{Address, EndpointRef, ImportKind, ImportRef, PortRef, Protocol, ServiceKind};
use wire::{Name, Section, rtype};

use super::lookup::{Look, Survey};
use super::ports::{Port, Union};
use super::reach::Way;
use crate::shared::cluster::address::undashed;
use crate::shared::cluster::name::Part;
use crate::shared::cluster::{Calls, Found, Pen, found, target, weight};
use crate::shared::sheet::Sheet;

/// Endpoints are called by their host names, else by their addresses: the names of pods are others' business.
const CALLS: Calls = Calls { pod_names: false };
/// RFC 8914 §4.1: other errors, which the text tells.
const OTHER: u16 = 0;

/// What of a service a name means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'n> {
    /// `\x03web\x04shop`.
    pub(super) key: &'n [u8],
    /// The service's own name.
    pub(super) own: &'n [u8],
    /// What of it.
    pub(super) part: Part<'n>,
}

/// What has been seen of endpoints.
#[derive(Debug, Default)]
struct Tally {
    /// Whether there is any.
    any: bool,
    /// Whether one has an address.
    addressed: bool,
    /// The records that their ports make.
    records: usize,
    /// The first name that one has in place of an address.
    alias: Option<Name>,
}

impl Look<'_> {
    /// What writes the name's records.
    pub(super) fn pen(&self) -> Pen<'_> {
        Pen { name: self.name, rtype: self.rtype, calls: CALLS, home: None }
    }

    /// Writes what a controller has imported.
    pub(super) fn import(
        &self,
        place: &Place<'_>,
        import: &ImportRef<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let own = place.own;
        match (import.kind(), place.part) {
            (_, Part::Zones | Part::Zone { .. }) => Found::Nothing,
            (ImportKind::Headless, part)
            | (_, part @ (Part::Cluster(_) | Part::Endpoint { .. })) => {
                self.pen().part_of_endpoints(&import.endpoints(), own, part, sheet)
            }
            (ImportKind::ClusterSetIp, part) => {
                let ports = import.ports().filter(|port| part_has(part, port.name, port.protocol));
                if ports.clone().next().is_none() && !matches!(part, Part::Whole) {
                    return Found::Nothing;
                }
                if matches!(part, Part::Ports(_)) {
                    return Found::Name;
                }
                let ips = import.ips();
                if self.rtype != rtype::SRV {
                    ips.for_each(|ip| self.pen().address(sheet, ip));
                } else if !ips.is_empty() {
                    let weight = weight(ports.clone().count());
                    ports.for_each(|port| self.pen().srv(sheet, weight, port.number, own));
                    self.additional(ips, own, sheet);
                }
                Found::Name
            }
        }
    }

    /// Writes the union of what the clusters export.
    pub(super) fn exported(
        &self,
        place: &Place<'_>,
        survey: &Survey<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let way = match survey.eldest {
            Some((_, ServiceKind::Headless)) => Some(Way::Endpoints),
            _ => self.set.reach.best(survey.ways),
        };
        match (place.part, way) {
            (Part::Zones | Part::Zone { .. }, _) => Found::Nothing,
            (Part::Cluster(cluster), _) => {
                let mut any = false;
                self.set.shares(place.key, |member, share, _| {
                    any |= member.label.bytes() == cluster && share.service.has_ready_endpoints();
                });
                found(any)
            }
            (Part::Endpoint { label, cluster }, _) => {
                let address = undashed(label);
                let is = |one: &EndpointRef<'_>| CALLS.is(one, label, address);
                self.endpoints(place, Some(cluster), sheet, &is, &|_| true)
            }
            (part, None) => self.nowhere(place, part, sheet),
            (Part::Whole, Some(Way::Endpoints)) => {
                self.endpoints(place, None, sheet, &|_| true, &|_| true)
            }
            (part @ (Part::Port { .. } | Part::Ports(_)), Some(Way::Endpoints)) => {
                let wanted = |port: &PortRef<'_>| part_has(part, port.name, port.protocol);
                let has = |one: &EndpointRef<'_>| one.ports().any(|port| wanted(&port));
                if matches!(part, Part::Ports(_)) {
                    return found(self.tally(place, None, &has, &wanted, &mut |_| ()).any);
                }
                self.endpoints(place, None, sheet, &has, &wanted)
            }
            (part, Some(way)) => self.addresses(place, part, way, sheet),
        }
    }

    /// Says that a service is exported that has no address of a kind that is wanted.
    fn nowhere(&self, place: &Place<'_>, part: Part<'_>, sheet: &mut Sheet<'_>) -> Found {
        let ports = self.ports(place, part);
        let there = matches!(part, Part::Whole) || !ports.is_empty();
        if there && matches!(self.rtype, rtype::A | rtype::AAAA | rtype::SRV) {
            sheet.answer().options.push_ede(OTHER, &self.set.reach.nothing);
        }
        found(there)
    }

    /// The united ports of a service that a part of it means. Allocates.
    fn ports(&self, place: &Place<'_>, part: Part<'_>) -> Vec<Port> {
        let mut union = Union::default();
        self.set.shares(place.key, |_, share, _| union.add(share.since, share.service.ports()));
        let mut ports = union.unite();
        ports.retain(|port| part_has(part, &port.name, port.protocol));
        ports
    }

    /// Writes the addresses that the shares have of a kind, and the united ports of the service.
    fn addresses(
        &self,
        place: &Place<'_>,
        part: Part<'_>,
        way: Way,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let (mut addressed, mut host) = (false, None);
        self.set.shares(place.key, |_, share, _| {
            addressed |= !way.ips(&share.service).is_empty();
            if way == Way::LoadBalancer && host.is_none() {
                host = share.service.load_balancer().hostnames().find_map(target);
            }
        });
        let whole = matches!(part, Part::Whole);
        if whole && self.rtype != rtype::SRV {
            return match host {
                // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
                Some(host) if !addressed => self.pen().alias_of(host, sheet),
                _ => {
                    self.set.shares(place.key, |_, share, _| {
                        way.ips(&share.service).for_each(|ip| self.pen().address(sheet, ip));
                    });
                    Found::Name
                }
            };
        }
        let ports = self.ports(place, part);
        if ports.is_empty() && !whole {
            return Found::Nothing;
        }
        if self.rtype != rtype::SRV || matches!(part, Part::Ports(_)) {
            return Found::Name;
        }
        // No SRV record may lead to an alias (RFC 2782), so it leads to the host name itself.
        let host = host.filter(|_| !addressed);
        let own = host.as_ref().map_or(place.own, |host| host.wire());
        let weight = weight(ports.len());
        ports.iter().for_each(|port| self.pen().srv(sheet, weight, port.number, own));
        if sheet.is_answered() && host.is_none() {
            self.set.shares(place.key, |_, share, _| {
                self.additional(way.ips(&share.service), place.own, sheet);
            });
        }
        Found::Name
    }

    /// Writes the addresses of a name that SRV records lead to.
    fn additional(&self, ips: impl Iterator<Item = IpAddr>, own: &[u8], sheet: &mut Sheet<'_>) {
        ips.for_each(|ip| sheet.address(Section::Additional, own, ip));
    }

    /// Goes through the ready endpoints that `one_of` picks of all shares, or of one cluster's, and tells `each` the addresses.
    fn tally(
        &self,
        place: &Place<'_>,
        cluster: Option<&[u8]>,
        one_of: &dyn Fn(&EndpointRef<'_>) -> bool,
        wanted: &dyn Fn(&PortRef<'_>) -> bool,
        each: &mut dyn FnMut(IpAddr),
    ) -> Tally {
        let mut tally = Tally::default();
        self.set.shares(place.key, |member, share, _| {
            if cluster.is_some_and(|cluster| member.label.bytes() != cluster) {
                return;
            }
            let ready = share.service.endpoints().filter(EndpointRef::ready);
            for endpoint in ready.filter(|one| one_of(one)) {
                tally.any = true;
                match endpoint.address() {
                    _ if self.rtype == rtype::SRV => {
                        tally.records += endpoint.ports().filter(|port| wanted(port)).count();
                    }
                    Address::Ip(ip) => {
                        tally.addressed = true;
                        each(ip);
                    }
                    Address::Name(name) if tally.alias.is_none() => tally.alias = target(name),
                    Address::Name(_) => {}
                }
            }
        });
        tally
    }

    /// Writes what the ready endpoints that `one_of` picks have, of all shares or of one cluster's; the ports are those that
    /// `wanted` picks.
    fn endpoints(
        &self,
        place: &Place<'_>,
        cluster: Option<&[u8]>,
        sheet: &mut Sheet<'_>,
        one_of: &dyn Fn(&EndpointRef<'_>) -> bool,
        wanted: &dyn Fn(&PortRef<'_>) -> bool,
    ) -> Found {
        let mut write = |ip| self.pen().address(sheet, ip);
        let tally = self.tally(place, cluster, one_of, wanted, &mut write);
        if self.rtype == rtype::SRV {
            let weight = weight(tally.records);
            self.set.shares(place.key, |member, share, _| {
                if cluster.is_some_and(|cluster| member.label.bytes() != cluster) {
                    return;
                }
                // Endpoints are called below their cluster, which is below the service.
                let Some(own) = Name::join(member.label.wire(), place.own) else { return };
                let ready = share.service.endpoints().filter(EndpointRef::ready);
                for one in ready.filter(|one| one_of(one)) {
                    self.pen().endpoint_srv(&one, own.wire(), weight, sheet, wanted);
                }
            });
        }
        match tally.alias {
            // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
            Some(name) if !tally.addressed => self.pen().alias_of(name, sheet),
            _ => found(tally.any),
        }
    }
}

/// Whether a part of a service means a port.
fn part_has(part: Part<'_>, name: &[u8], protocol: Protocol) -> bool {
    match part {
        Part::Port { name: wanted, protocol: other } => {
            protocol == other && name.eq_ignore_ascii_case(wanted)
        }
        Part::Ports(other) => protocol == other && !name.is_empty(),
        _ => true,
    }
}
