//! Records of what a name in a cluster's zone stands for.

use std::net::IpAddr;

use k8s::{Address, EndpointRef, EndpointsIter, PortRef, Ports, Protocol};
use wire::{Name, Section, Srv, rtype};

use super::address::undashed;
use super::name::Part;
use super::{Calls, OTHER};
use crate::shared::sheet::Sheet;

/// What is said of a name that stands for one that has no room here: zones may be longer than what clusters call themselves.
pub(crate) const TOO_LONG: &str = "the name that it stands for is too long in this zone";

/// What a look-up found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one look-up")]
pub(crate) enum Found {
    /// The name is there; its records of the type, if it has any, are written.
    Name,
    /// The name is not there.
    Nothing,
    /// Whether the name is there can not be known yet.
    NotYet,
    /// The name is another one for this; its CNAME record is written.
    Alias(Name),
}

/// Writes the records of one name and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pen<'l> {
    /// The name.
    pub(crate) name: &'l Name,
    /// The type.
    pub(crate) rtype: u16,
    /// What endpoints are called.
    pub(crate) calls: Calls,
    /// What names that objects state become, where that is to be.
    pub(crate) home: Option<Home<'l>>,
}

/// A cluster's own domain, and the zone that is an alias of it here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'l> {
    /// What the cluster calls itself.
    pub(crate) domain: &'l Name,
    /// The zone that its names are in here.
    pub(crate) zone: &'l Name,
}

impl Home<'_> {
    /// A name that an object states, as it is here; none if that would be too long.
    fn translate(&self, name: Name) -> Option<Name> {
        let is_here = self.zone.is_below(self.domain) && name.is_below(self.zone);
        match name.below(self.domain) {
            Some(head) if !is_here => Name::join(head, self.zone.wire()),
            _ => Some(name),
        }
    }
}

impl Pen<'_> {
    /// Writes an address if its type is asked for.
    pub(crate) fn address(&self, sheet: &mut Sheet<'_>, ip: IpAddr) {
        if self.rtype == if ip.is_ipv4() { rtype::A } else { rtype::AAAA } {
            sheet.address(Section::Answer, self.name.wire(), ip);
        }
    }

    /// Writes an SRV record of priority 0.
    pub(crate) fn srv(&self, sheet: &mut Sheet<'_>, weight: u16, port: u16, target: &[u8]) {
        sheet.srv(self.name.wire(), Srv { priority: 0, weight, port }, target);
    }

    /// Writes that the name is another one for `text`; one that is too long here is not written, and the name there all the same,
    /// as others may be below it (RFC 8020 §2).
    pub(crate) fn alias(&self, text: &[u8], sheet: &mut Sheet<'_>) -> Found {
        match self.target(text) {
            Some(target) => self.alias_of(target, sheet),
            None if self.is_too_long(text) => {
                sheet.answer().options.push_ede(OTHER, TOO_LONG);
                Found::Name
            }
            None => Found::Nothing,
        }
    }

    /// Reads the name that an object states, as it is here; an address is none, nor is what would be too long.
    pub(crate) fn target(&self, text: &[u8]) -> Option<Name> {
        let target = target(text)?;
        match &self.home {
            Some(home) => home.translate(target),
            None => Some(target),
        }
    }

    /// Whether an object states a name that would be too long here.
    pub(crate) fn is_too_long(&self, text: &[u8]) -> bool {
        target(text).is_some() && self.target(text).is_none()
    }

    /// Writes that the name is another one for one that has been read.
    pub(crate) fn alias_of(&self, target: Name, sheet: &mut Sheet<'_>) -> Found {
        sheet.add(Section::Answer, self.name.wire(), rtype::CNAME, target.wire());
        match self.rtype {
            rtype::CNAME | rtype::ANY => Found::Name,
            _ => Found::Alias(target),
        }
    }

    /// Writes what the endpoints that `one_of` picks have; the ports are those that `wanted` picks. `own` is the service's name.
    pub(crate) fn endpoints(
        &self,
        endpoints: &EndpointsIter<'_>,
        own: &[u8],
        sheet: &mut Sheet<'_>,
        one_of: impl Fn(&EndpointRef<'_>) -> bool,
        wanted: impl Fn(&PortRef<'_>) -> bool,
    ) -> Found {
        let picked = || endpoints.clone().filter(&one_of);
        let mut count = 0;
        let mut alias = None;
        let mut any = false;
        for endpoint in picked() {
            any = true;
            match (self.rtype, endpoint.address()) {
                (rtype::SRV, _) => count += endpoint.ports().filter(&wanted).count().max(1),
                (_, Address::Ip(ip)) => self.address(sheet, ip),
                (_, Address::Name(name)) => alias = alias.or(Some(name)),
            }
        }
        if self.rtype == rtype::SRV {
            picked().for_each(|one| self.endpoint_srv(&one, own, weight(count), sheet, &wanted));
        }
        match alias {
            // A name that is an alias has nothing else (RFC 1034 §3.6.2), so addresses come before.
            Some(target) if !picked().any(|one| one.ip().is_some()) => self.alias(target, sheet),
            _ => found(any),
        }
    }

    /// Writes what of a service's ready endpoints a part of it means; `own` is the service's name.
    pub(crate) fn part_of_endpoints(
        &self,
        all: &EndpointsIter<'_>,
        own: &[u8],
        part: Part<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Found {
        let mut ready = all.clone().filter(EndpointRef::ready);
        match part {
            Part::Whole => self.endpoints(all, own, sheet, |one| one.ready(), |_| true),
            Part::Port { name, protocol } => {
                let wanted = |port: &PortRef<'_>| is_port(port, name, protocol);
                let has =
                    |one: &EndpointRef<'_>| one.ready() && one.ports().any(|port| wanted(&port));
                self.endpoints(all, own, sheet, has, wanted)
            }
            Part::Ports(protocol) => found(ready.any(|one| has_protocol(one.ports(), protocol))),
            Part::Cluster(cluster) => {
                found(ready.any(|one| one.cluster().eq_ignore_ascii_case(cluster)))
            }
            Part::Endpoint { label, cluster } => {
                let address = undashed(label);
                let is = |one: &EndpointRef<'_>| {
                    one.ready()
                        && one.cluster().eq_ignore_ascii_case(cluster)
                        && self.calls.is(one, label, address)
                };
                self.endpoints(all, own, sheet, is, |_| true)
            }
            Part::Zones | Part::Zone { .. } => Found::Nothing,
        }
    }

    /// Writes an endpoint's SRV records and the address that they lead to.
    pub(crate) fn endpoint_srv(
        &self,
        endpoint: &EndpointRef<'_>,
        own: &[u8],
        weight: u16,
        sheet: &mut Sheet<'_>,
        wanted: impl Fn(&PortRef<'_>) -> bool,
    ) {
        let target = match endpoint.address() {
            Address::Name(name) => self.target(name),
            Address::Ip(_) => self.calls.name(endpoint, own),
        };
        let Some(target) = target else { return };
        let mut any = false;
        for port in endpoint.ports().filter(wanted) {
            any = true;
            self.srv(sheet, weight, port.number, target.wire());
        }
        if let (true, Some(ip)) = (any, endpoint.ip()) {
            sheet.address(Section::Additional, target.wire(), ip);
        }
    }
}

/// What a look-up that has nothing to say but whether the name is there says.
pub(crate) fn found(there: bool) -> Found {
    if there { Found::Name } else { Found::Nothing }
}

/// What is found at a zone's apex, where that is a name of an address too: the zone is there, whatever has the address.
pub(crate) fn at_apex(found: Found) -> Found {
    if matches!(found, Found::Nothing) { Found::Name } else { found }
}

/// Whether a port is the named one.
pub(crate) fn is_port(port: &PortRef<'_>, name: &[u8], protocol: Protocol) -> bool {
    port.protocol == protocol && port.name.eq_ignore_ascii_case(name)
}

/// Whether there is a named port of a protocol.
pub(crate) fn has_protocol(mut ports: Ports<'_>, protocol: Protocol) -> bool {
    ports.any(|port| port.protocol == protocol && !port.name.is_empty())
}

/// The weight of each of so many SRV records: a hundredth part, and one at least.
pub(crate) fn weight(count: usize) -> u16 {
    // At most 100.
    (100 / count.max(1)).max(1) as u16
}

/// Reads the name that a service or a slice states; an address is none.
pub(crate) fn target(text: &[u8]) -> Option<Name> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
    text.parse::<IpAddr>().err()?;
    Name::parse(text)
}
