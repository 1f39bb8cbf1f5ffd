//! Which of a service's addresses its name gives: those that whoever asks can reach.

use std::iter::once;
use std::net::IpAddr;

use config::{Diagnostic, Word, Words};
use k8s::{Address, Balancer, EndpointRef, Ips, PortRef, Ports, Reader, ServiceKind, ServiceRef};
use wire::{Section, rtype};

use super::Cluster;
use super::lookup::{Look, Service};
use crate::shared::cluster::name::Part;
use crate::shared::cluster::{Found, found, has_protocol, is_port, target, weight};
use crate::shared::sheet::Sheet;

/// RFC 8914 §4.1: other errors, which the text tells.
const OTHER: u16 = 0;

/// A kind of addresses that a service can be reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Its own inside the cluster or cluster set; the endpoints of a headless service, which has no other.
    ClusterIp,
    /// Those of its ready endpoints.
    Endpoints,
    /// Those, or the host name, of its load balancer.
    LoadBalancer,
    /// Its `externalIPs`.
    ExternalIp,
}

/// The words of the ways.
const WAYS: [(&str, Way); 4] = [
    ("clusterip", Way::ClusterIp),
    ("endpoints", Way::Endpoints),
    ("loadbalancer", Way::LoadBalancer),
    ("externalip", Way::ExternalIp),
];

/// An order of preference. Without any way in it, it is that of the specification: a service's own addresses.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The ways, the best first; empty if none is stated.
    ways: Box<[Way]>,
    /// What is said of a service that none of them leads to.
    nothing: Box<str>,
}

impl Order {
    /// Reads the words of `reach`.
    ///
    /// # Errors
    /// No word, one that is no way, or one that comes twice.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, Diagnostic> {
        let (mut ways, mut texts) = (Vec::new(), Vec::new());
        for word in once(words.one()?).chain(words.rest()) {
            let way = Way::read(word)?;
            if ways.contains(&way) {
                return Err(word.wrong("comes twice").help("name each kind once, the best first"));
            }
            ways.push(way);
            texts.push(&*word.text);
        }
        let nothing =
            format!("the service is there, but has none of these addresses: {}", texts.join(", "));
        Ok(Self { ways: ways.into(), nothing: nothing.into() })
    }

    /// Whether one of the ways is this one.
    pub(super) fn has(&self, way: Way) -> bool {
        self.ways.contains(&way)
    }

    /// Whether one of the ways leads to addresses that the cluster has outside.
    pub(super) fn is_outside(&self) -> bool {
        self.has(Way::LoadBalancer) || self.has(Way::ExternalIp)
    }

    /// The first way that leads to a service. It is the same for every type, whatever the families of its addresses: were IPv6
    /// addresses of one kind given beside IPv4 addresses of another, clients would try those that they cannot reach first.
    fn way(&self, service: &Service<'_>) -> Option<Way> {
        if self.ways.is_empty() {
            return Some(service.own_way());
        }
        let ways = self.ways.iter().map(|way| match way {
            Way::ClusterIp => service.own_way(),
            other => *other,
        });
        ways.into_iter().find(|way| way.leads_to(service))
    }

    /// The word of the way that leads to a service.
    pub(super) fn word(&self, service: &Service<'_>) -> Option<&'static str> {
        let way = self.way(service)?;
        WAYS.iter().find(|(_, own)| *own == way).map(|(word, _)| *word)
    }

    /// Whether names have the ports of a service's endpoints, not its own.
    pub(super) fn by_endpoints(&self, service: &Service<'_>) -> bool {
        self.way(service) == Some(Way::Endpoints)
    }

    /// The addresses outside the cluster that a service's name gives.
    pub(super) fn outside<'a>(&self, service: &ServiceRef<'a>) -> Ips<'a> {
        let outside = || match self.way(&Service::of(*service)) {
            Some(Way::LoadBalancer) => service.load_balancer().ips(),
            Some(Way::ExternalIp) => service.external_ips(),
            Some(Way::ClusterIp | Way::Endpoints) | None => Ips::default(),
        };
        if self.is_outside() { outside() } else { Ips::default() }
    }
}

impl Way {
    /// Reads a word.
    fn read(word: &Word) -> Result<Self, Diagnostic> {
        let known = WAYS.iter().find(|(name, _)| *name == word.text);
        known.map(|(_, way)| *way).ok_or_else(|| {
            word.wrong("is no kind of addresses")
                .help("write: reach, then clusterip, endpoints, loadbalancer, externalip in the order that is wanted")
        })
    }

    /// Whether a service has an address of this kind.
    fn leads_to(self, service: &Service<'_>) -> bool {
        match self {
            Self::ClusterIp => !service.ips.is_empty(),
            Self::Endpoints => {
                let mut ready = service.endpoints.clone().filter(EndpointRef::ready);
                ready.any(|one| match one.address() {
                    Address::Ip(_) => true,
                    Address::Name(name) => target(name).is_some(),
                })
            }
            Self::LoadBalancer => service.balancer().is_some_and(|balancer| {
                !balancer.ips().is_empty() || host_name(&balancer).is_some()
            }),
            Self::ExternalIp => !service.external_ips().is_empty(),
        }
    }
}

/// The host name of a load balancer: the first that is one, since one name has one alias (RFC 2181 §10.1).
fn host_name<'a>(balancer: &Balancer<'a>) -> Option<&'a [u8]> {
    balancer.hostnames().find(|name| target(name).is_some())
}

impl Service<'_> {
    /// The way of the specification.
    fn own_way(&self) -> Way {
        match self.kind {
            ServiceKind::Headless => Way::Endpoints,
            ServiceKind::ClusterIp | ServiceKind::ExternalName => Way::ClusterIp,
        }
    }

    /// What a load balancer's status has; an imported service has none.
    fn balancer(&self) -> Option<Balancer<'_>> {
        self.whole.as_ref().map(ServiceRef::load_balancer)
    }

    /// `externalIPs`; an imported service has none.
    fn external_ips(&self) -> Ips<'_> {
        self.whole.as_ref().map(ServiceRef::external_ips).unwrap_or_default()
    }
}

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
            Some(Way::ClusterIp) => self.by_addresses(service, service.ips, own, part, sheet),
            Some(Way::ExternalIp) => {
                self.by_addresses(service, service.external_ips(), own, part, sheet)
            }
            Some(Way::LoadBalancer) => {
                let Some(balancer) = service.balancer() else { return Found::Nothing };
                match host_name(&balancer).filter(|_| balancer.ips().is_empty()) {
                    Some(name) => self.by_host_name(service, name, part, sheet),
                    None => self.by_addresses(service, balancer.ips(), own, part, sheet),
                }
            }
            None => {
                let there = has_part(service.ports, part);
                if there && matches!(self.rtype, rtype::A | rtype::AAAA | rtype::SRV) {
                    sheet.answer().options.push_ede(OTHER, &self.cluster.reach.nothing);
                }
                found(there)
            }
        }
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
        if let (rtype::SRV, Some(host)) = (self.rtype, self.pen().target(host)) {
            ports.for_each(|port| self.pen().srv(sheet, weight(1), port.number, host.wire()));
        }
        found(there)
    }
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
