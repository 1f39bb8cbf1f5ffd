//! What is counted of the signatures.

use std::sync::OnceLock;

use engine::metrics::{Counter, Gauge, counter, describe, gauge};
use engine::{Exchange, ListenerId, Routes};

/// The gauge of signatures.
const ENTRIES: &str = "coredns_dnssec_cache_entries";
/// The counter of signatures that were there.
const HITS: &str = "coredns_dnssec_cache_hits_total";
/// The counter of those that had to be made.
const MISSES: &str = "coredns_dnssec_cache_misses_total";

/// The figures of a directive, for each listener of its block.
#[derive(Debug)]
pub(super) struct Figures {
    routes: Routes,
    all: OnceLock<Vec<(ListenerId, Counts)>>,
}

/// The figures for one listener.
#[derive(Debug)]
pub(super) struct Counts {
    hits: Counter,
    misses: Counter,
    pub(super) entries: Gauge,
}

impl Counts {
    /// Counts a set that signatures were looked for.
    pub(super) fn count(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.increment(1);
    }
}

impl Figures {
    /// Those of a block with these routes.
    pub(super) fn new(routes: Routes) -> Self {
        describe(ENTRIES, "The number of elements in the dnssec cache.");
        describe(HITS, "The count of cache hits.");
        describe(MISSES, "The count of cache misses.");
        Self { routes, all: OnceLock::new() }
    }

    /// Those of the listener that the query came by.
    pub(super) fn of(&self, x: &Exchange) -> Option<&Counts> {
        let all = self.all.get_or_init(|| {
            let mut all: Vec<(ListenerId, Counts)> = Vec::new();
            for route in self.routes.all() {
                if !all.iter().any(|(listener, _)| *listener == route.listener) {
                    let server = ("server", &*route.server);
                    all.push((
                        route.listener,
                        Counts {
                            hits: counter(HITS, &[server]),
                            misses: counter(MISSES, &[server]),
                            entries: gauge(ENTRIES, &[server, ("type", "signature")]),
                        },
                    ));
                }
            }
            all
        });
        all.iter().find(|(listener, _)| *listener == x.query.listener).map(|(_, counts)| counts)
    }
}
