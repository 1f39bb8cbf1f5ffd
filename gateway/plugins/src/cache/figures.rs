//! What is counted of a cache.

use std::sync::OnceLock;

use engine::metrics::{Counter, Gauge, Table, counter, describe, gauge};
use engine::{Exchange, ListenerId, Routes};

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
/// The counter of answers out of date.
const STALE: &str = "coredns_cache_served_stale_total";
/// The counter of entries that had to go.
const EVICTIONS: &str = "coredns_cache_evictions_total";

/// The figures of a cache, for each listener of its block.
#[derive(Debug)]
pub(super) struct Figures {
    routes: Routes,
    zones: String,
    all: OnceLock<Vec<Counts>>,
}

/// The figures for one listener; each is made when it is first needed.
#[derive(Debug)]
pub(super) struct Counts {
    listener: ListenerId,
    server: String,
    view: String,
    zones: String,
    counters: Table<Counter>,
    entries: Table<Gauge>,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A query.
    Request,
    /// It found nothing.
    Miss,
    /// It found an entry of this kind.
    Hit(Kind),
    /// An entry is refreshed ahead of time.
    Prefetch,
    /// An answer out of date.
    Stale,
    /// An entry of this kind had to go.
    Eviction(Kind),
}

impl Figures {
    /// Those of a block with these routes, whose cache is for `zones`.
    pub(super) fn new(routes: Routes, zones: String) -> Self {
        describe(ENTRIES, "The number of elements in the cache.");
        describe(REQUESTS, "The count of cache requests.");
        describe(HITS, "The count of cache hits.");
        describe(MISSES, "The count of cache misses; requests less hits say the same.");
        describe(PREFETCH, "The number of entries refreshed ahead of time.");
        describe(STALE, "The number of requests answered from stale entries.");
        describe(EVICTIONS, "The count of cache evictions.");
        Self { routes, zones, all: OnceLock::new() }
    }

    /// Those of the listener that the query came by.
    pub(super) fn of(&self, x: &Exchange) -> Option<&Counts> {
        let all = self.all.get_or_init(|| {
            let mut all: Vec<Counts> = Vec::new();
            for route in self.routes.all() {
                if !all.iter().any(|counts| counts.listener == route.listener) {
                    all.push(Counts {
                        listener: route.listener,
                        server: route.server.clone(),
                        view: route.view.clone(),
                        zones: self.zones.clone(),
                        counters: Table::new(8),
                        entries: Table::new(2),
                    });
                }
            }
            all
        });
        all.iter().find(|counts| counts.listener == x.query.listener)
    }
}

impl Event {
    /// Its place in the table, its counter, and the kind that its labels name.
    fn counter(self) -> (usize, &'static str, Option<Kind>) {
        match self {
            Self::Request => (0, REQUESTS, None),
            Self::Miss => (1, MISSES, None),
            Self::Prefetch => (2, PREFETCH, None),
            Self::Stale => (3, STALE, None),
            Self::Hit(kind) => (4 + kind as usize, HITS, Some(kind)),
            Self::Eviction(kind) => (6 + kind as usize, EVICTIONS, Some(kind)),
        }
    }
}

impl Counts {
    /// Counts an event.
    pub(super) fn count(&self, event: Event) {
        let (at, name, kind) = event.counter();
        let counter = self.counters.get(at, || counter(name, &self.labels(kind)));
        counter.into_iter().for_each(|counter| counter.increment(1));
    }

    /// Notes how many entries of a kind there are.
    pub(super) fn size(&self, kind: Kind, size: usize) {
        let gauge = self.entries.get(kind as usize, || gauge(ENTRIES, &self.labels(Some(kind))));
        gauge.into_iter().for_each(|gauge| gauge.set(size as f64));
    }

    /// The labels.
    fn labels(&self, kind: Option<Kind>) -> Vec<(&'static str, &str)> {
        let kind = kind.map(|kind| match kind {
            Kind::Success => ("type", "success"),
            Kind::Denial => ("type", "denial"),
        });
        let common = [("server", &*self.server), ("zones", &*self.zones), ("view", &*self.view)];
        common.into_iter().chain(kind).collect()
    }
}
