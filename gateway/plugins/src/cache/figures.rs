//! What is counted of a cache.

use std::sync::OnceLock;

use engine::metrics::{Counter, Gauge, counter, describe, gauge};
use engine::{Exchange, ListenerId, Route, Routes};

use super::store::Kind;

/// The gauge of entries.
const ENTRIES: &str = "coredns_cache_entries";
/// The counter of queries.
const REQUESTS: &str = "coredns_cache_requests_total";
/// The counter of queries that were answered.
const HITS: &str = "coredns_cache_hits_total";
/// The counter of queries that were not.
const MISSES: &str = "coredns_cache_misses_total";
/// The counter of entries refreshed ahead of time.
const PREFETCH: &str = "coredns_cache_prefetch_total";
/// The counter of answers to other questions.
const DROPS: &str = "coredns_cache_drops_total";
/// The counter of answers out of date.
const STALE: &str = "coredns_cache_served_stale_total";
/// The counter of entries that had to go.
const EVICTIONS: &str = "coredns_cache_evictions_total";

/// The figures of a cache, for each listener of its block.
#[derive(Debug)]
pub(super) struct Figures {
    routes: Routes,
    zones: String,
    all: OnceLock<Vec<(ListenerId, Counts)>>,
}

/// The figures for one listener.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) requests: Counter,
    pub(super) misses: Counter,
    pub(super) prefetch: Counter,
    pub(super) stale: Counter,
    /// By kind, as the two below.
    pub(super) hits: [Counter; 2],
    pub(super) evictions: [Counter; 2],
    pub(super) entries: [Gauge; 2],
    /// An answer to another question never comes so far; the figure is there for those who watch it.
    _drops: Counter,
}

impl Figures {
    /// Those of a block with these routes, whose cache is for `zones`.
    pub(super) fn new(routes: Routes, zones: String) -> Self {
        describe(ENTRIES, "The number of elements in the cache.");
        describe(REQUESTS, "The count of cache requests.");
        describe(HITS, "The count of cache hits.");
        describe(
            MISSES,
            "The count of cache misses. Deprecated, derive misses from requests and hits.",
        );
        describe(PREFETCH, "The number of times the cache has prefetched an item.");
        describe(
            DROPS,
            "The number of replies that are not cached, because they answer another question.",
        );
        describe(STALE, "The number of requests answered from stale entries.");
        describe(EVICTIONS, "The count of cache evictions.");
        Self { routes, zones, all: OnceLock::new() }
    }

    /// Those of the listener that the query came by. They are made at the first query.
    pub(super) fn of(&self, x: &Exchange) -> Option<&Counts> {
        let all = self.all.get_or_init(|| {
            let mut all: Vec<(ListenerId, Counts)> = Vec::new();
            for route in self.routes.all() {
                if !all.iter().any(|(listener, _)| *listener == route.listener) {
                    all.push((route.listener, self.counts(route)));
                }
            }
            all
        });
        all.iter().find(|(listener, _)| *listener == x.query.listener).map(|(_, counts)| counts)
    }

    /// Makes the figures of a route's listener.
    fn counts(&self, route: &Route) -> Counts {
        let labels = [("server", &*route.server), ("zones", &*self.zones), ("view", &*route.view)];
        let typed = |kind| {
            let [server, zones, view] = labels;
            [server, ("type", kind), zones, view]
        };
        let both = |name| ["success", "denial"].map(|kind| counter(name, &typed(kind)));
        Counts {
            requests: counter(REQUESTS, &labels),
            misses: counter(MISSES, &labels),
            prefetch: counter(PREFETCH, &labels),
            stale: counter(STALE, &labels),
            hits: both(HITS),
            evictions: both(EVICTIONS),
            entries: ["success", "denial"].map(|kind| gauge(ENTRIES, &typed(kind))),
            _drops: counter(DROPS, &labels),
        }
    }
}

impl Counts {
    /// Counts a hit.
    pub(super) fn hit(&self, kind: Kind) {
        self.hits[kind as usize].increment(1);
    }
}
