//! The zones whose names stay here.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wire::Name;

/// Names that mean something else than the public DNS has for them, or nothing at all.
const NAMES: [&str; 11] = [
    "alt",              // RFC 9476
    "cluster.local",    // Kubernetes; also where `local` is allowed
    "clusterset.local", // KEP-1645
    "home.arpa",        // RFC 8375
    "internal",         // reserved by ICANN in 2024
    "invalid",          // RFC 6761 §6.4
    "local",            // RFC 6762
    "localhost",        // RFC 6761 §6.3
    "onion",            // RFC 7686
    "resolver.arpa",    // RFC 9462 §6.4
    "test",             // RFC 6761 §6.2
];

/// Networks without public reverse names, in zones of whole labels: RFC 6303 §4, RFC 7793, and all of fc00::/7.
const REVERSE: [&str; 19] = [
    "0.in-addr.arpa",
    "10.in-addr.arpa",
    "127.in-addr.arpa",
    "254.169.in-addr.arpa",
    "168.192.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "c.f.ip6.arpa",
    "d.f.ip6.arpa",
    "8.e.f.ip6.arpa",
    "9.e.f.ip6.arpa",
    "a.e.f.ip6.arpa",
    "b.e.f.ip6.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa",
    "f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
];

/// What is done with the names of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// They go upstream, and may have any address.
    Allow,
    /// They stay here, for this reason.
    Keep(Reason),
}

/// Why something stays here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A private name.
    Name,
    /// A name of a zone that the gateway itself serves.
    Own,
    /// The reverse name of a private address.
    Reverse,
}

/// The zones with a rule.
#[derive(Debug, Default)]
pub(super) struct Zones {
    rules: HashMap<Box<[u8]>, Rule, FixedState>,
    /// A bit for each length in octets, modulo 64, that a zone has: most suffixes need no look-up.
    lengths: u64,
}

impl Zones {
    /// None yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Keeps the names that are private by convention.
    pub(super) fn add_names(&mut self) {
        NAMES.into_iter().filter_map(Name::parse).for_each(|zone| self.keep(&zone, Reason::Name));
    }

    /// Keeps the reverse names of private networks.
    pub(super) fn add_reverse(&mut self) {
        let (private, shared) = (16..=31, 64..=127);
        let private = private.map(|second| format!("{second}.172.in-addr.arpa"));
        let shared = shared.map(|second| format!("{second}.100.in-addr.arpa"));
        let all = REVERSE.into_iter().map(str::to_owned).chain(private).chain(shared);
        all.filter_map(|text| Name::parse(&text))
            .for_each(|zone| self.keep(&zone, Reason::Reverse));
    }

    /// Keeps the names of a zone that the gateway serves. Reverse zones of public networks are those of others too, and so is the root.
    pub(super) fn add_own(&mut self, zone: &Name) {
        if !zone.is_root() && !is_arpa(zone) {
            self.keep(zone, Reason::Own);
        }
    }

    /// Keeps the names of `zone`, if there is no rule for it yet.
    pub(super) fn keep(&mut self, zone: &Name, reason: Reason) {
        self.add(zone, Rule::Keep(reason));
    }

    /// Lets the names of `zone` go upstream, but for those of longer zones.
    pub(super) fn allow(&mut self, zone: &Name) {
        self.add(zone, Rule::Allow);
    }

    /// Adds a rule; the first of a zone counts.
    fn add(&mut self, zone: &Name, rule: Rule) {
        self.lengths |= 1 << (zone.wire().len() % 64);
        self.rules.entry(zone.wire().into()).or_insert(rule);
    }

    /// The longest zone with a rule that `name` is in, in wire form.
    pub(super) fn find<'a>(&self, name: &'a Name) -> Option<(&'a [u8], Rule)> {
        name.suffixes()
            .filter(|zone| self.lengths >> (zone.len() % 64) & 1 != 0)
            .find_map(|zone| self.rules.get(zone).map(|rule| (zone, *rule)))
    }
}

/// Whether a zone is in `arpa.`.
pub(super) fn is_arpa(zone: &Name) -> bool {
    zone.below_wire(b"\x04arpa\0").is_some()
}
