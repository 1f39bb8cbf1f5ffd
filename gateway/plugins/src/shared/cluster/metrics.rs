//! Figures of the watches.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::metrics::{Gauge, counter, describe, gauge, histogram};
use k8s::{Difference, Kind, Probe, Source, Standing, State, Verdict};

/// From the cause of a change of endpoints to the store, in seconds.
const PROGRAMMING: &str = "coredns_kubernetes_dns_programming_duration_seconds";
/// From a request to the header of its response, in seconds.
const REQUEST: &str = "coredns_kubernetes_rest_client_request_duration_seconds";
/// How long a request waited for the limits, in seconds.
const LIMITER: &str = "coredns_kubernetes_rest_client_rate_limiter_duration_seconds";
/// Requests.
const REQUESTS: &str = "coredns_kubernetes_rest_client_requests_total";
/// Objects in the store.
const OBJECTS: &str = "causeway_kubernetes_objects";
/// What a watch does: 1 for its state, 0 for the others.
const WATCH: &str = "causeway_kubernetes_watch_state";
/// Whether the rights to follow a kind are there: 1 if they are, 0 if not.
const GRANTED: &str = "causeway_kubernetes_granted";
/// Whether answers may be out of date.
const STALE: &str = "causeway_kubernetes_stale";
/// When the cluster was last heard of, in Unix seconds.
const HEARD: &str = "causeway_kubernetes_heard_timestamp_seconds";
/// When credentials end, in Unix seconds.
const EXPIRY: &str = "causeway_kubernetes_credential_expiry_timestamp_seconds";

/// How old the snapshot on disk is, in seconds.
const SNAPSHOT_AGE: &str = "causeway_kubernetes_snapshot_age_seconds";
/// How large it is, in bytes.
const SNAPSHOT_SIZE: &str = "causeway_kubernetes_snapshot_size_bytes";
/// Snapshots that could not be written or used.
const SNAPSHOT_FAILURES: &str = "causeway_kubernetes_snapshot_failures_total";
/// Comparisons of a kind with a new list, by what came of them.
const VERIFIED: &str = "causeway_kubernetes_verify_runs_total";
/// Objects that differed.
const DIFFERENCES: &str = "causeway_kubernetes_verify_differences_total";
/// When a kind was last compared, in Unix seconds.
const LAST: &str = "causeway_kubernetes_verify_timestamp_seconds";

/// From 1 ms, doubling, 20 of them: some 9 minutes.
const PROGRAMMING_BUCKETS: [f64; 20] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384, 32.768, 65.536, 131.072, 262.144, 524.288,
];
/// Prometheus's own default.
const REQUEST_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Every state, for the watch's gauges.
const STATES: [State; 6] = [
    State::Waiting,
    State::Listing,
    State::Watching,
    State::Failing,
    State::Forbidden,
    State::Absent,
];

/// Counts what the watches of one cluster tell. Nothing here is on a query's way.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The cluster, in a word.
    cluster: String,
    /// How many objects there are, by [`Kind::index`]: a first list tells that of each object.
    objects: [OnceLock<Gauge>; Kind::COUNT],
}

impl Figures {
    /// The figures of a cluster, by the name that it is declared by, or else by where it is.
    pub(crate) fn new(name: &str, source: &Source) -> Self {
        for (name, help) in [
            (PROGRAMMING, "Time from a change of endpoints until DNS answers tell it, in seconds."),
            (REQUEST, "Latency of requests to the API server, in seconds."),
            (LIMITER, "Time that requests waited for the limits on requests, in seconds."),
            (REQUESTS, "Requests to the API server."),
            (OBJECTS, "Objects that answers come from."),
            (WATCH, "What a watch does: 1 for the state that it is in."),
            (
                GRANTED,
                "Whether the rights to follow a kind are there, in a namespace or everywhere.",
            ),
            (STALE, "Whether answers may be out of date: 1 if they may, 0 if not."),
            (VERIFIED, "Comparisons of what is known with a new list, by their result."),
            (DIFFERENCES, "Objects that differed from a new list, by how."),
            (LAST, "When a kind was last compared with a new list, in Unix seconds."),
            (
                EXPIRY,
                "When the credentials of a kind end, in Unix seconds; +Inf if they do not say when.",
            ),
            (HEARD, "When the cluster was last heard of, in Unix seconds; 0 for never."),
            (
                SNAPSHOT_AGE,
                "How long ago the cluster was heard of, as the snapshot on disk has it, in seconds.",
            ),
            (SNAPSHOT_SIZE, "Size of the snapshot on disk, in bytes; 0 if it was only read."),
            (SNAPSHOT_FAILURES, "Snapshots that could not be written, or not be used."),
        ] {
            describe(name, help);
        }
        Self { cluster: cluster(name, source), objects: Default::default() }
    }
}

/// A cluster in a word: the name that it is declared by, or else where it is.
pub(super) fn cluster(name: &str, source: &Source) -> String {
    if name.is_empty() { source.word() } else { name.to_owned() }
}

impl Probe for Figures {
    fn request(&self, code: &str, method: &str, host: &str) {
        let labels = [("code", code), ("method", method), ("host", host)];
        counter(REQUESTS, &labels).increment(1);
    }

    fn latency(&self, verb: &str, host: &str, seconds: f64) {
        histogram(REQUEST, &[("verb", verb), ("host", host)], &REQUEST_BUCKETS).record(seconds);
    }

    fn limited(&self, verb: &str, host: &str, seconds: f64) {
        histogram(LIMITER, &[("verb", verb), ("host", host)], &REQUEST_BUCKETS).record(seconds);
    }

    fn programmed(&self, service_kind: &str, seconds: f64) {
        histogram(PROGRAMMING, &[("service_kind", service_kind)], &PROGRAMMING_BUCKETS)
            .record(seconds);
    }

    fn state(&self, kind: Kind, state: State) {
        for other in STATES {
            let labels =
                [("cluster", &*self.cluster), ("kind", kind.word()), ("state", other.word())];
            gauge(WATCH, &labels).set(if other == state { 1.0 } else { 0.0 });
        }
    }

    fn standing(&self, standing: Standing, heard: u64) {
        let labels = [("cluster", &*self.cluster)];
        let stale = standing.stale_since().is_some() || standing == Standing::Unsynced;
        gauge(STALE, &labels).set(if stale { 1.0 } else { 0.0 });
        gauge(HEARD, &labels).set(heard as f64);
    }

    fn granted(&self, kind: Kind, namespace: &str, granted: bool) {
        let labels = [("cluster", &*self.cluster), ("kind", kind.word()), ("namespace", namespace)];
        gauge(GRANTED, &labels).set(if granted { 1.0 } else { 0.0 });
    }

    fn snapshot(&self, taken: u64, bytes: u64) {
        let labels = [("cluster", &*self.cluster)];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        gauge(SNAPSHOT_AGE, &labels).set(now.saturating_sub(taken) as f64);
        gauge(SNAPSHOT_SIZE, &labels).set(bytes as f64);
    }

    fn snapshot_failed(&self) {
        counter(SNAPSHOT_FAILURES, &[("cluster", &*self.cluster)]).increment(1);
    }

    fn verified(&self, verdict: &Verdict) {
        let (cluster, kind) = (("cluster", &*self.cluster), ("kind", verdict.kind.word()));
        let result = if verdict.equal() { "equal" } else { "differs" };
        counter(VERIFIED, &[cluster, kind, ("result", result)]).increment(1);
        for difference in Difference::ALL {
            let labels = [cluster, kind, ("difference", difference.word())];
            counter(DIFFERENCES, &labels).increment(verdict.count(difference) as u64);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        gauge(LAST, &[cluster, kind]).set(now.as_secs_f64().trunc());
    }

    fn unverified(&self, kind: Kind) {
        let labels = [("cluster", &*self.cluster), ("kind", kind.word()), ("result", "failed")];
        counter(VERIFIED, &labels).increment(1);
    }

    fn expiry(&self, kind: &str, end: Option<u64>) {
        let labels = [("cluster", &*self.cluster), ("kind", kind)];
        gauge(EXPIRY, &labels).set(end.map_or(f64::INFINITY, |end| end as f64));
    }

    fn objects(&self, kind: Kind, count: usize) {
        let labels = [("cluster", &*self.cluster), ("kind", kind.word())];
        let objects = self.objects[kind.index()].get_or_init(|| gauge(OBJECTS, &labels));
        objects.set(count as f64);
    }
}
