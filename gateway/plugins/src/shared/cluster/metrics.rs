//! Figures of the watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use config::Diagnostic;
use engine::Setup;
use engine::metrics::{self, Collect, counter, describe, histogram};
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

/// What a gauge says of a cluster that has several sets of watches, from what two of them say.
type Join = fn(f64, f64) -> f64;

/// The gauges: what they mean, and what counts where blocks want to see different things of a cluster.
const GAUGES: [(&str, &str, Join); 9] = [
    (OBJECTS, "Objects that answers come from.", |one, other| one + other),
    (WATCH, "What a watch does: 1 for the state that it is in.", f64::max),
    (
        GRANTED,
        "Whether the rights to follow a kind are there, in a namespace or everywhere.",
        f64::min,
    ),
    (STALE, "Whether answers may be out of date: 1 if they may, 0 if not.", f64::max),
    (HEARD, "When the cluster was last heard of, in Unix seconds; 0 for never.", f64::min),
    (
        EXPIRY,
        "When the credentials of a kind end, in Unix seconds; +Inf if they do not say when.",
        f64::min,
    ),
    (
        SNAPSHOT_AGE,
        "How long ago the cluster was heard of, as the snapshot on disk has it, in seconds.",
        f64::max,
    ),
    (
        SNAPSHOT_SIZE,
        "Size of the snapshot on disk, in bytes; 0 if it was only read.",
        |one, other| one + other,
    ),
    (LAST, "When a kind was last compared with a new list, in Unix seconds.", f64::min),
];

/// What the others are.
const OTHERS: [(&str, &str); 7] = [
    (PROGRAMMING, "Time from a change of endpoints until DNS answers tell it, in seconds."),
    (REQUEST, "Latency of requests to the API server, in seconds."),
    (LIMITER, "Time that requests waited for the limits on requests, in seconds."),
    (REQUESTS, "Requests to the API server."),
    (VERIFIED, "Comparisons of what is known with a new list, by their result."),
    (DIFFERENCES, "Objects that differed from a new list, by how."),
    (SNAPSHOT_FAILURES, "Snapshots that could not be written, or not be used."),
];

/// The labels of a gauge beside the cluster's.
type Labels = Vec<(&'static str, String)>;

/// The figures of a cluster, over all sets of its watches that there are.
#[derive(Debug)]
pub(crate) struct Joint {
    /// The cluster, in a word.
    cluster: String,
    /// What each of its sets tells.
    sets: Mutex<Vec<Weak<Figures>>>,
}

impl Joint {
    /// The figures of a cluster, by a word for it.
    fn new(cluster: &str) -> Arc<Self> {
        let gauges = GAUGES.iter().map(|(name, help, _)| (*name, *help));
        gauges.chain(OTHERS).for_each(|(name, help)| describe(name, help));
        let joint = Arc::new(Self { cluster: cluster.to_owned(), sets: Mutex::default() });
        metrics::collect(&joint);
        joint
    }

    /// The same for all blocks of the configuration, and of those before and after it.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn shared(setup: &mut Setup<'_>, cluster: &str) -> Result<Arc<Self>, Diagnostic> {
        setup.share(&format!("figures {cluster}"), || Ok(Self::new(cluster)))
    }

    /// The figures of one more set, which count as long as it is there.
    pub(super) fn one_more(&self) -> Arc<Figures> {
        let figures = Arc::new(Figures {
            cluster: self.cluster.clone(),
            gauges: Mutex::default(),
            objects: Default::default(),
        });
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|set| set.strong_count() > 0);
        sets.push(Arc::downgrade(&figures));
        figures
    }
}

impl Collect for Joint {
    fn collect(&self, out: &mut metrics::Figures) {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let sets: Vec<_> = sets.iter().filter_map(Weak::upgrade).collect();
        for (name, _, join) in GAUGES {
            let mut all: BTreeMap<Labels, f64> = BTreeMap::new();
            for (labels, value) in sets.iter().flat_map(|set| set.of(name)) {
                all.entry(labels).and_modify(|known| *known = join(*known, value)).or_insert(value);
            }
            for (labels, value) in &all {
                let own = labels.iter().map(|(label, value)| (*label, &**value));
                let labels: Vec<_> = own.chain([("cluster", &*self.cluster)]).collect();
                out.gauge(name, &labels, *value);
            }
        }
    }
}

/// Counts what one set of a cluster's watches tells. Nothing here is on a query's way.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The cluster, in a word.
    cluster: String,
    /// The gauges, as they were told last.
    gauges: Mutex<BTreeMap<(&'static str, Labels), f64>>,
    /// How many objects there are, by [`Kind::index`]: a first list tells that of each object.
    objects: [OnceLock<AtomicUsize>; Kind::COUNT],
}

impl Figures {
    /// Notes what a gauge is.
    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.insert((name, labels), value);
    }

    /// What has been told of a gauge.
    fn of(&self, name: &'static str) -> Vec<(Labels, f64)> {
        if name == OBJECTS {
            let count = |kind: Kind| {
                let count = self.objects[kind.index()].get()?.load(Ordering::Relaxed);
                Some((vec![("kind", kind.word().to_owned())], count as f64))
            };
            return Kind::ALL.into_iter().filter_map(count).collect();
        }
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let these = gauges.iter().filter(|((own, _), _)| *own == name);
        these.map(|((_, labels), value)| (labels.clone(), *value)).collect()
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
            let labels = [("kind", kind.word()), ("state", other.word())];
            self.gauge(WATCH, &labels, f64::from(other == state));
        }
    }

    fn standing(&self, standing: Standing, heard: u64) {
        let stale = standing.stale_since().is_some() || standing == Standing::Unsynced;
        self.gauge(STALE, &[], f64::from(stale));
        self.gauge(HEARD, &[], heard as f64);
    }

    fn granted(&self, kind: Kind, namespace: &str, granted: bool) {
        let labels = [("kind", kind.word()), ("namespace", namespace)];
        self.gauge(GRANTED, &labels, f64::from(granted));
    }

    fn snapshot(&self, taken: u64, bytes: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.gauge(SNAPSHOT_AGE, &[], now.saturating_sub(taken) as f64);
        self.gauge(SNAPSHOT_SIZE, &[], bytes as f64);
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
        self.gauge(LAST, &[kind], now.as_secs_f64().trunc());
    }

    fn unverified(&self, kind: Kind) {
        let labels = [("cluster", &*self.cluster), ("kind", kind.word()), ("result", "failed")];
        counter(VERIFIED, &labels).increment(1);
    }

    fn expiry(&self, kind: &str, end: Option<u64>) {
        self.gauge(EXPIRY, &[("kind", kind)], end.map_or(f64::INFINITY, |end| end as f64));
    }

    fn objects(&self, kind: Kind, count: usize) {
        self.objects[kind.index()]
            .get_or_init(AtomicUsize::default)
            .store(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The figures of the only set of a cluster.
    pub(crate) fn of_one(source: &Source) -> (Arc<Joint>, Arc<Figures>) {
        let joint = Joint::new(&cluster("", source));
        let figures = joint.one_more();
        (joint, figures)
    }

    /// The gauges of a cluster, a line each.
    fn gauges(cluster: &str) -> Vec<String> {
        let page = metrics::render();
        let own = format!("cluster=\"{cluster}\"");
        let lines = page.lines().filter(|line| line.contains(&own) && !line.contains("} 0"));
        let short = |line: &str| {
            let line = line.replace(&own, "").replace("causeway_kubernetes_", "");
            line.replace(['"', '{', '}'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
        };
        lines.map(short).collect()
    }

    #[test]
    fn of_several_sets_the_worst_counts_and_objects_add_up() {
        let joint = Joint::new("two-sets");
        let (one, other) = (joint.one_more(), joint.one_more());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        // Whoever tells it last.
        for turn in 0..2 {
            let tell = |number: usize| match number {
                0 => {
                    one.standing(Standing::Away { since: 100 }, 100);
                    one.state(Kind::Slices, State::Failing);
                    one.granted(Kind::Slices, "shop", false);
                    one.objects(Kind::Services, 3);
                    one.snapshot(now - 5000, 50);
                    one.expiry("token", Some(900));
                }
                _ => {
                    other.standing(Standing::Live, 200);
                    other.state(Kind::Slices, State::Watching);
                    other.granted(Kind::Slices, "shop", true);
                    other.objects(Kind::Services, 4);
                    other.snapshot(now, 70);
                    other.expiry("token", Some(800));
                }
            };
            tell(turn);
            tell(1 - turn);
            let lines = gauges("two-sets");
            for want in [
                "stale 1",
                "heard_timestamp_seconds 100",
                "watch_state ,kind= endpointslices ,state= failing 1",
                "watch_state ,kind= endpointslices ,state= watching 1",
                "objects ,kind= services 7",
                "snapshot_size_bytes 120",
                "credential_expiry_timestamp_seconds ,kind= token 800",
            ] {
                assert!(lines.iter().any(|line| line == want), "{turn} {want}: {lines:?}");
            }
            let age = lines.iter().find_map(|line| line.strip_prefix("snapshot_age_seconds "));
            assert!(age.unwrap().parse::<u64>().unwrap() >= 5000, "{lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("granted")), "{lines:?}");
        }
        // What a set has told goes with it.
        drop(one);
        let lines = gauges("two-sets");
        assert!(!lines.iter().any(|line| line.starts_with("stale")), "{lines:?}");
        assert!(lines.iter().any(|line| line == "objects ,kind= services 4"), "{lines:?}");
        drop(other);
        assert_eq!(gauges("two-sets"), <[String; 0]>::default());
    }
}
