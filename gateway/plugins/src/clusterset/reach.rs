//! Which addresses a name gives whose service is not headless, where no controller has chosen any for the whole set.

use std::iter::once;

use config::{Diagnostic, Words};
use k8s::{Ips, ServiceRef};

use crate::shared::cluster::target;

/// A kind of addresses that a service can be reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Those of its ready endpoints.
    Endpoints,
    /// Those, or the host name, of its load balancer.
    LoadBalancer,
    /// Its `externalIPs`.
    ExternalIp,
    /// Its own inside its cluster.
    ClusterIp,
}

impl Way {
    /// All, with their words.
    const ALL: [(&'static str, Self); 4] = [
        ("endpoints", Self::Endpoints),
        ("loadbalancer", Self::LoadBalancer),
        ("externalip", Self::ExternalIp),
        ("clusterip", Self::ClusterIp),
    ];

    /// Its bit among [`Ways`].
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether a service has an address of this kind.
    fn leads_to(self, service: &ServiceRef<'_>) -> bool {
        match self {
            Self::Endpoints => service.has_ready_endpoints(),
            Self::LoadBalancer => {
                let balancer = service.load_balancer();
                !balancer.ips().is_empty()
                    || balancer.hostnames().any(|name| target(name).is_some())
            }
            Self::ExternalIp | Self::ClusterIp => !self.ips(service).is_empty(),
        }
    }

    /// A service's addresses of this kind, unless they are those of its endpoints.
    pub(super) fn ips<'r>(self, service: &ServiceRef<'r>) -> Ips<'r> {
        match self {
            Self::Endpoints => Ips::default(),
            Self::LoadBalancer => service.load_balancer().ips(),
            Self::ExternalIp => service.external_ips(),
            Self::ClusterIp => service.cluster_ips(),
        }
    }
}

/// The kinds of addresses that the shares of a name have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways(u8);

/// An order of preference.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The ways, the best first.
    ways: Box<[Way]>,
    /// What is said of a service that none of them leads to.
    pub(super) nothing: Box<str>,
}

impl Default for Order {
    fn default() -> Self {
        Self::new(vec![Way::Endpoints], &["endpoints"])
    }
}

impl Order {
    /// An order of these ways, whose words are `texts`.
    fn new(ways: Vec<Way>, texts: &[&str]) -> Self {
        let nothing = format!(
            "the service is exported, but no cluster has any of these addresses of it: {}",
            texts.join(", ")
        );
        Self { ways: ways.into(), nothing: nothing.into() }
    }

    /// Reads the words of `reach`.
    ///
    /// # Errors
    /// No word, one that is no way, or one that comes twice.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, Diagnostic> {
        let (mut ways, mut texts) = (Vec::new(), Vec::new());
        for word in once(words.one()?).chain(words.rest()) {
            let Some((_, way)) = Way::ALL.iter().find(|(name, _)| *name == word.text) else {
                let known = Way::ALL.map(|(name, _)| name);
                let wrong = word.wrong("is no kind of addresses");
                return Err(wrong.help(config::value::known(&word.text, &known)));
            };
            if ways.contains(way) {
                return Err(word.wrong("comes twice").help("name each kind once, the best first"));
            }
            ways.push(*way);
            texts.push(&*word.text);
        }
        Ok(Self::new(ways, &texts))
    }

    /// Adds the ways that lead to a service to those that lead to others of its name.
    pub(super) fn note(&self, service: &ServiceRef<'_>, known: &mut Ways) {
        for way in &self.ways {
            if known.0 & way.bit() == 0 && way.leads_to(service) {
                known.0 |= way.bit();
            }
        }
    }

    /// The best of the ways that are there. It is the same for every type, whatever the families of its addresses, and for all
    /// clusters: were addresses of different kinds given side by side, clients would try those that they cannot reach first.
    pub(super) fn best(&self, known: Ways) -> Option<Way> {
        self.ways.iter().copied().find(|way| known.0 & way.bit() != 0)
    }
}
