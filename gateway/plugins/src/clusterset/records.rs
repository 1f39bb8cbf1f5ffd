//! Writes what a service of the set has: what a controller has imported, or the union of what the clusters export.

use std::net::IpAddr;

use k8s::{Address, EndpointRef, ImportKind, ImportRef, PortRef, Protocol, ServiceKind};
use smallvec::SmallVec;
use wire::{Name, Section, rtype};

use super::lookup::{Exporters, Look, Survey};
use super::member::{Member, Share};
use super::ports::{self, Port, Union};
use crate::shared::cluster::address::undashed;
use crate::shared::cluster::name::Part;
use crate::shared::cluster::reach::{Way, host_name};
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Calls, Found, OTHER, Pen, found, target, weight};
use crate::shared::sheet::Sheet;

/// Endpoints are called by their host names, else by their addresses: the names of pods are others' business.
const CALLS: Calls = Calls { pod_names: false };

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

/// What the clusters export under a name.
#[derive(Debug)]
struct Shares<'l, 'm> {
    /// `\x03web\x04shop`.
    key: &'l [u8],
    /// The service's own name.
    own: &'l [u8],
    /// The clusters that have an export.
    exporters: &'l Exporters<'m>,
}

/// What has been seen of endpoints.
#[derive(Debug, Default)]
struct Tally {
    /// Whether any is ready, wanted or not.
    ready: bool,
    /// Whether one is picked.
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

    /// Writes the union of what the clusters export; none if the addresses that the survey saw are gone.
    pub(super) fn exported(
        &self,
        place: &Place<'_>,
        survey: &Survey<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Option<Found> {
        let headless = matches!(survey.eldest, Some((_, ServiceKind::Headless)));
        let way = if headless { Some(Way::Endpoints) } else { self.set.reach.best(survey.ways) };
        let shares = Shares { key: place.key, own: place.own, exporters: &survey.exporters };
        match (place.part, way) {
            (Part::Zones | Part::Zone { .. }, _) => Some(Found::Nothing),
            (Part::Cluster(cluster), _) => {
                let mut any = false;
                shares.each(Some(cluster), |_, share| any |= share.service.has_ready_endpoints());
                Some(found(any))
            }
            (Part::Endpoint { label, cluster }, _) => {
                let address = undashed(label);
                let is = |one: &EndpointRef<'_>| CALLS.is(one, label, address);
                Some(self.endpoints(&shares, Some(cluster), sheet, &is, &|_| true).0)
            }
            (part, None) => Some(self.nowhere(&shares, part, sheet)),
            (part @ (Part::Whole | Part::Port { .. } | Part::Ports(_)), Some(Way::Endpoints)) => {
                let wanted = |port: &PortRef<'_>| part_has(part, port.name, port.protocol);
                let has = |one: &EndpointRef<'_>| {
                    matches!(part, Part::Whole) || one.ports().any(|port| wanted(&port))
                };
                let (found, any) = if matches!(part, Part::Ports(_)) {
                    let tally = self.tally(&shares, None, &has, &wanted, &mut |_| ());
                    (found(tally.any), tally.ready)
                } else {
                    self.endpoints(&shares, None, sheet, &has, &wanted)
                };
                // A headless service without ready endpoints is not there.
                (any || headless).then_some(found)
            }
            (part, Some(way)) => self.addresses(&shares, part, way, sheet),
        }
    }

    /// Says that a service is exported that has no address of a kind that is wanted.
    fn nowhere(&self, shares: &Shares<'_, '_>, part: Part<'_>, sheet: &mut Sheet<'_>) -> Found {
        let there = matches!(part, Part::Whole)
            || shares.ports().iter().any(|port| part_has(part, port.name(), port.protocol));
        if there && matches!(self.rtype, rtype::A | rtype::AAAA | rtype::SRV) {
            sheet.answer().options.push_ede(OTHER, &self.set.reach.nothing);
        }
        found(there)
    }

    /// Writes the addresses that the shares have of a kind, and the united ports of the service; none if they have none any more.
    fn addresses(
        &self,
        shares: &Shares<'_, '_>,
        part: Part<'_>,
        way: Way,
        sheet: &mut Sheet<'_>,
    ) -> Option<Found> {
        let whole = matches!(part, Part::Whole);
        let plain = whole && self.rtype != rtype::SRV;
        let (mut addressed, mut host) = (false, None);
        let mut ports = Union::default();
        shares.each(None, |_, share| {
            let service = Service::of(share.service);
            for ip in way.ips(&service) {
                addressed = true;
                if plain {
                    self.pen().address(sheet, ip);
                }
            }
            if way == Way::LoadBalancer && host.is_none() {
                let balancer = service.balancer();
                host = balancer.and_then(|balancer| host_name(&balancer)).and_then(target);
            }
            if !plain {
                ports.add(share.since, share.service.ports());
            }
        });
        // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
        let host = host.filter(|_| !addressed);
        if !addressed && host.is_none() {
            return None;
        }
        if plain {
            return Some(host.map_or(Found::Name, |host| self.pen().alias_of(host, sheet)));
        }
        let mut ports = ports.unite();
        ports.retain(|port| part_has(part, port.name(), port.protocol));
        if ports.is_empty() && !whole {
            return Some(Found::Nothing);
        }
        if self.rtype != rtype::SRV || matches!(part, Part::Ports(_)) {
            return Some(Found::Name);
        }
        // No SRV record may lead to an alias (RFC 2782), so it leads to the host name itself.
        let own = host.as_ref().map_or(shares.own, |host| host.wire());
        let weight = weight(ports.len());
        ports.iter().for_each(|port| self.pen().srv(sheet, weight, port.number, own));
        if sheet.is_answered() && host.is_none() {
            shares.each(None, |_, share| {
                self.additional(way.ips(&Service::of(share.service)), shares.own, sheet);
            });
        }
        Some(Found::Name)
    }

    /// Writes the addresses of a name that SRV records lead to.
    fn additional(&self, ips: impl Iterator<Item = IpAddr>, own: &[u8], sheet: &mut Sheet<'_>) {
        ips.for_each(|ip| sheet.address(Section::Additional, own, ip));
    }

    /// Goes through the ready endpoints that `one_of` picks of all shares, or of one cluster's, and tells `each` the addresses.
    fn tally(
        &self,
        shares: &Shares<'_, '_>,
        cluster: Option<&[u8]>,
        one_of: &dyn Fn(&EndpointRef<'_>) -> bool,
        wanted: &dyn Fn(&PortRef<'_>) -> bool,
        each: &mut dyn FnMut(IpAddr),
    ) -> Tally {
        let mut tally = Tally::default();
        shares.each(cluster, |_, share| {
            for endpoint in share.service.endpoints().filter(EndpointRef::ready) {
                tally.ready = true;
                if !one_of(&endpoint) {
                    continue;
                }
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
    /// `wanted` picks. Says whether there are ready endpoints at all.
    fn endpoints(
        &self,
        shares: &Shares<'_, '_>,
        cluster: Option<&[u8]>,
        sheet: &mut Sheet<'_>,
        one_of: &dyn Fn(&EndpointRef<'_>) -> bool,
        wanted: &dyn Fn(&PortRef<'_>) -> bool,
    ) -> (Found, bool) {
        let mut write = |ip| self.pen().address(sheet, ip);
        let tally = self.tally(shares, cluster, one_of, wanted, &mut write);
        if self.rtype == rtype::SRV {
            let weight = weight(tally.records);
            shares.each(cluster, |member, share| {
                // Endpoints are called below their cluster, which is below the service.
                let Some(own) = Name::join(member.label.wire(), shares.own) else { return };
                let ready = share.service.endpoints().filter(EndpointRef::ready);
                for one in ready.filter(|one| one_of(one)) {
                    self.pen().endpoint_srv(&one, own.wire(), weight, sheet, wanted);
                }
            });
        }
        let found = match tally.alias {
            // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
            Some(name) if !tally.addressed => self.pen().alias_of(name, sheet),
            _ => found(tally.any),
        };
        (found, tally.ready)
    }
}

impl Shares<'_, '_> {
    /// Calls `each` with every cluster's share, or one cluster's, and the cluster.
    fn each(&self, cluster: Option<&[u8]>, mut each: impl FnMut(&Member, &Share<'_>)) {
        self.exporters.shares(self.key, |member, share| {
            if cluster.is_none_or(|cluster| member.label.bytes() == cluster) {
                each(member, share);
            }
        });
    }

    /// The united ports of the service.
    fn ports(&self) -> SmallVec<[Port; ports::FEW]> {
        let mut union = Union::default();
        self.each(None, |_, share| union.add(share.since, share.service.ports()));
        union.unite()
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
