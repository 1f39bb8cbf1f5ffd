//! `reach KIND...`, a property of several plugins: which of a service's addresses its name gives.

use std::iter::once;

use config::{Diagnostic, Words};
use k8s::{Address, Balancer, EndpointRef, Ips, ServiceKind, ServiceRef};

use super::service::Service;
use super::target;

/// A kind of addresses that a service can be reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Its own inside the cluster or cluster set.
    ClusterIp,
    /// Those of its ready endpoints.
    Endpoints,
    /// Those, or the host name, of its load balancer.
    LoadBalancer,
    /// Its `externalIPs`.
    ExternalIp,
}

/// The ways by which several services are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways(u8);

/// An order of preference. Without any way in it, it is that of the specification: a service's own addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// The ways, the best first; empty if none is stated.
    ways: Box<[Way]>,
    /// What is said of a service that none of them leads to.
    pub(crate) nothing: Box<str>,
}

impl Order {
    /// An order of these ways. `lacks` and their words are what is said of a service that none of them leads to.
    pub(crate) fn new(ways: Vec<Way>, lacks: &str) -> Self {
        let words: Vec<&str> = ways.iter().map(|way| way.word()).collect();
        Self { nothing: format!("{lacks}: {}", words.join(", ")).into(), ways: ways.into() }
    }

    /// Reads the words of `reach`.
    ///
    /// # Errors
    /// No word, one that is no way, or one that comes twice.
    pub(crate) fn read(words: &mut Words<'_>, lacks: &str) -> Result<Self, Diagnostic> {
        let mut ways = Vec::new();
        for word in once(words.one()?).chain(words.rest()) {
            let Some(way) = Way::ALL.into_iter().find(|way| way.word() == word.text) else {
                let known = Way::ALL.map(Way::word);
                let wrong = word.wrong("is no kind of addresses");
                return Err(wrong.help(config::value::known(&word.text, &known)));
            };
            if ways.contains(&way) {
                return Err(word.wrong("comes twice").help("name each kind once, the best first"));
            }
            ways.push(way);
        }
        Ok(Self::new(ways, lacks))
    }

    /// Whether one of the ways is this one.
    pub(crate) fn has(&self, way: Way) -> bool {
        self.ways.contains(&way)
    }

    /// Whether one of the ways leads to addresses that the cluster has outside.
    pub(crate) fn is_outside(&self) -> bool {
        self.has(Way::LoadBalancer) || self.has(Way::ExternalIp)
    }

    /// The first way that leads to a service; a headless one has its endpoints for its own address. It is the same for every type,
    /// whatever the families of its addresses: were IPv6 addresses of one kind given beside IPv4 addresses of another, clients
    /// would try those that they cannot reach first.
    pub(crate) fn way(&self, service: &Service<'_>) -> Option<Way> {
        if self.ways.is_empty() {
            return Some(Way::own(service));
        }
        self.ways_to(service).find(|way| way.leads_to(service))
    }

    /// Whether which way that is, or what is there, depends on the service's endpoints.
    pub(crate) fn needs_endpoints(&self, service: &Service<'_>) -> bool {
        if self.ways.is_empty() {
            return Way::own(service) == Way::Endpoints;
        }
        let first =
            self.ways_to(service).find(|way| *way == Way::Endpoints || way.leads_to(service));
        first == Some(Way::Endpoints)
    }

    /// The ways to a service, the best first.
    fn ways_to(&self, service: &Service<'_>) -> impl Iterator<Item = Way> {
        let own = Way::own(service);
        self.ways.iter().map(move |way| if *way == Way::ClusterIp { own } else { *way })
    }

    /// Whether names have the ports of a service's endpoints, not its own.
    pub(crate) fn by_endpoints(&self, service: &Service<'_>) -> bool {
        self.way(service) == Some(Way::Endpoints)
    }

    /// The addresses outside the cluster that a service's name gives.
    pub(crate) fn outside<'a>(&self, service: &ServiceRef<'a>) -> Ips<'a> {
        if !self.is_outside() {
            return Ips::default();
        }
        let service = Service::of(*service);
        match self.way(&service) {
            Some(way @ (Way::LoadBalancer | Way::ExternalIp)) => way.ips(&service),
            Some(Way::ClusterIp | Way::Endpoints) | None => Ips::default(),
        }
    }

    /// Adds the ways that lead to a service to those that lead to others.
    pub(crate) fn note(&self, service: &Service<'_>, known: &mut Ways) {
        for way in &self.ways {
            if known.0 & way.bit() == 0 && way.leads_to(service) {
                known.0 |= way.bit();
            }
        }
    }

    /// The best of the ways that lead to any of several services: the same for all of them, as it is for every type.
    pub(crate) fn best(&self, known: Ways) -> Option<Way> {
        self.ways.iter().copied().find(|way| known.0 & way.bit() != 0)
    }
}

impl Way {
    /// All.
    const ALL: [Self; 4] = [Self::ClusterIp, Self::Endpoints, Self::LoadBalancer, Self::ExternalIp];

    /// The way to a service's own addresses.
    const fn own(service: &Service<'_>) -> Self {
        match service.kind {
            ServiceKind::Headless => Self::Endpoints,
            ServiceKind::ClusterIp | ServiceKind::ExternalName => Self::ClusterIp,
        }
    }

    /// Its word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ClusterIp => "clusterip",
            Self::Endpoints => "endpoints",
            Self::LoadBalancer => "loadbalancer",
            Self::ExternalIp => "externalip",
        }
    }

    /// Its bit among [`Ways`].
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether a service has an address of this kind.
    fn leads_to(self, service: &Service<'_>) -> bool {
        match self {
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
            Self::ClusterIp | Self::ExternalIp => !self.ips(service).is_empty(),
        }
    }

    /// A service's addresses of this kind, unless they are those of its endpoints.
    pub(crate) fn ips<'a>(self, service: &Service<'a>) -> Ips<'a> {
        match self {
            Self::ClusterIp => service.ips,
            Self::Endpoints => Ips::default(),
            Self::LoadBalancer => {
                service.balancer().map(|balancer| balancer.ips()).unwrap_or_default()
            }
            Self::ExternalIp => service.external_ips(),
        }
    }
}

/// The host name of a load balancer: the first that is one, since one name has one alias (RFC 2181 §10.1).
pub(crate) fn host_name<'a>(balancer: &Balancer<'a>) -> Option<&'a [u8]> {
    balancer.hostnames().find(|name| target(name).is_some())
}
