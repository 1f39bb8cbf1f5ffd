//! What is counted of an upstream.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::metrics::{self, Counter, Histogram, TIME_BUCKETS, Table};

use super::Protocol;

/// The histogram of the time that replies took.
const DURATION: &str = "coredns_proxy_request_duration_seconds";

/// The counter of queries that found a connection.
const HITS: &str = "coredns_proxy_conn_cache_hits_total";

/// The counter of queries that had to make one.
const MISSES: &str = "coredns_proxy_conn_cache_misses_total";

/// The counter of failed health checks.
const FAILURES: &str = "coredns_proxy_healthcheck_failures_total";

/// The counter of messages that replied to nothing.
const STRAYS: &str = "causeway_upstream_stray_replies_total";

/// How many response codes have a handle of their own (RFC 6895 §2.3).
const RCODES: usize = 24;

/// The figures of one upstream. Each is made when it is first needed.
#[derive(Debug)]
pub(super) struct Figures {
    proxy: &'static str,
    to: String,
    durations: Table<Arc<Histogram>>,
    /// Hits and misses, each by protocol.
    conns: Table<Counter>,
    failures: Table<Counter>,
    strays: Table<Counter>,
}

impl Figures {
    /// Those of the upstream at `addr` of the plugin `proxy`.
    pub(super) fn new(proxy: &'static str, addr: SocketAddr) -> Self {
        metrics::describe(DURATION, "Histogram of the time each request took.");
        metrics::describe(HITS, "Queries that found a connection to their upstream.");
        metrics::describe(MISSES, "Queries that had to make a connection to their upstream.");
        metrics::describe(FAILURES, "Failed health checks of an upstream.");
        metrics::describe(STRAYS, "Messages of an upstream that reply to no query under way.");
        Self {
            proxy,
            to: addr.to_string(),
            durations: Table::new(RCODES),
            conns: Table::new(2 * Protocol::ALL.len()),
            failures: Table::new(1),
            strays: Table::new(1),
        }
    }

    /// Counts a reply.
    pub(super) fn replied(&self, rcode: u16, time: Duration) {
        let make = || {
            let name = wire::text::rcode_name(rcode);
            let labels = [("proxy_name", self.proxy), ("to", &*self.to), ("rcode", &*name)];
            metrics::histogram(DURATION, &labels, &TIME_BUCKETS)
        };
        match self.durations.get(usize::from(rcode), make) {
            Some(histogram) => histogram.record(time.as_secs_f64()),
            None => make().record(time.as_secs_f64()),
        }
    }

    /// Counts a query that found a connection, or had to make one.
    pub(super) fn connected(&self, protocol: Protocol, fresh: bool) {
        let make = |name| {
            let labels =
                [("proxy_name", self.proxy), ("to", &*self.to), ("proto", protocol.name())];
            metrics::counter(name, &labels)
        };
        // Whoever divides one by the other needs both.
        let at = 2 * protocol as usize;
        let hits = self.conns.get(at, || make(HITS));
        let misses = self.conns.get(at + 1, || make(MISSES));
        let counter = if fresh { misses } else { hits };
        counter.into_iter().for_each(|counter| counter.increment(1));
    }

    /// Counts a failed check.
    pub(super) fn check_failed(&self) {
        let counter = self
            .failures
            .get(0, || metrics::counter(FAILURES, &[("proxy_name", self.proxy), ("to", &self.to)]));
        counter.into_iter().for_each(|counter| counter.increment(1));
    }

    /// Counts messages that reply to nothing.
    pub(super) fn strays(&self) -> Counter {
        let make = || metrics::counter(STRAYS, &[("proxy_name", self.proxy), ("to", &self.to)]);
        self.strays.get(0, make).cloned().unwrap_or_else(make)
    }
}
