//! Clusters whose ranges of addresses overlap: a client with routes to both reaches one of them, and names of addresses mean
//! nothing. Found beside the queries, counted, and told once.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use engine::metrics::{describe, gauge};
use k8s::Store;

use super::source::Watched;

/// Addresses that another cluster has as well.
const OVERLAPS: &str = "causeway_kubernetes_overlaps";
/// How often is looked whether something has changed.
const PERIOD: Duration = Duration::from_secs(10);

/// The kinds of addresses that are compared, as metrics and log lines call them.
const KINDS: [&str; 2] = ["services", "endpoints"];

/// All declared clusters that are followed.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Their watches by name: those that came last.
    all: Mutex<BTreeMap<Box<str>, Weak<Watched>>>,
    /// Who looks: one task of all that want to.
    turn: tokio::sync::Mutex<Seen>,
}

/// What the last look saw.
#[derive(Debug, Default)]
struct Seen {
    /// The versions of the stores.
    versions: Vec<u64>,
    /// The pairs that have been told, and of what kind.
    told: HashSet<(Box<str>, Box<str>, usize)>,
}

/// How much of one cluster another has too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Overlap {
    /// How many addresses.
    count: usize,
    /// One of them.
    example: Option<IpAddr>,
}

impl Overlap {
    /// Counts an address.
    fn add(&mut self, ip: IpAddr) {
        self.count += 1;
        self.example.get_or_insert(ip);
    }
}

impl Registry {
    /// Takes a cluster up.
    pub(super) fn add(&self, name: &str, watched: &Arc<Watched>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.into(), Arc::downgrade(watched));
    }

    /// The clusters that are followed and known.
    fn known(&self) -> Vec<(Box<str>, Store)> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, watched| watched.strong_count() > 0);
        let store = |watched: &Weak<Watched>| Some(watched.upgrade()?.store().clone());
        let known = all.iter().filter_map(|(name, watched)| Some((name.clone(), store(watched)?)));
        known.filter(|(_, store)| store.synced()).collect()
    }

    /// Compares all clusters for ever, whenever one has changed.
    pub(super) async fn watch(&self) {
        describe(OVERLAPS, "Addresses of a cluster that lie where another one has its own.");
        let mut seen = self.turn.lock().await;
        loop {
            tokio::time::sleep(PERIOD).await;
            let known = self.known();
            let versions: Vec<u64> = known.iter().map(|(_, store)| store.version()).collect();
            if versions != seen.versions {
                seen.versions = versions;
                seen.look(&known).await;
            }
        }
    }
}

impl Seen {
    /// Compares these clusters, each with those behind it.
    async fn look(&mut self, known: &[(Box<str>, Store)]) {
        for (index, (name, store)) in known.iter().enumerate() {
            for (other, others) in known.iter().skip(index + 1) {
                let found = compare(store, others).await;
                for ((kind, word), overlap) in KINDS.into_iter().enumerate().zip(found) {
                    let labels = [("cluster", &**name), ("other", &**other), ("kind", word)];
                    gauge(OVERLAPS, &labels).set(overlap.count as f64);
                    self.tell(name, other, kind, overlap);
                }
            }
        }
    }

    /// Tells of an overlap that has not been told, and of the end of one that has.
    fn tell(&mut self, name: &str, other: &str, kind: usize, overlap: Overlap) {
        let key = (name.into(), other.into(), kind);
        let word = KINDS.get(kind).copied().unwrap_or_default();
        match overlap.example {
            Some(example) if self.told.insert(key.clone()) => log::warn!(
                target: "plugin/kubernetes",
                "clusters {name} and {other} overlap: {} addresses of {word} of {name} lie where {other} has its own, such as {example}; a client with routes to both reaches one of them",
                overlap.count
            ),
            None if self.told.remove(&key) => log::info!(
                target: "plugin/kubernetes", "addresses of {word} of clusters {name} and {other} no longer overlap"
            ),
            _ => {}
        }
    }
}

/// How many addresses of services, and of their endpoints, lie where the other cluster has its own. Of services that is a
/// block of addresses, since all of theirs are of one range; endpoints have to be the same, for nodes of two clusters may
/// well be neighbours.
async fn compare(one: &Store, other: &Store) -> [Overlap; 2] {
    let mut blocks = HashSet::new();
    let mut next = Some(0);
    while let Some(from) = next {
        next = other.read().step_services(from, |service| {
            blocks.extend(service.cluster_ips().map(block));
        });
        tokio::task::yield_now().await;
    }
    let [mut services, mut endpoints] = [Overlap::default(); 2];
    let mut next = Some(0);
    while let Some(from) = next {
        let mut ips = Vec::new();
        next = one.read().step_services(from, |service| {
            let within = |ip: &IpAddr| blocks.contains(&block(*ip));
            service.cluster_ips().filter(within).for_each(|ip| services.add(ip));
            ips.extend(service.endpoints().filter_map(|endpoint| endpoint.ip()));
        });
        // Not under the lock of the one: whoever holds two of them may wait for a writer that waits for him.
        let shared = |ip: &IpAddr| other.read().endpoints_by_ip(*ip).next().is_some();
        ips.into_iter().filter(shared).for_each(|ip| endpoints.add(ip));
        // Other tasks have their turn, for there may be many.
        tokio::task::yield_now().await;
    }
    [services, endpoints]
}

/// The block that an address is in: 256 of IPv4, 65,536 of IPv6.
fn block(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits() >> 8),
        // The highest bit tells it from those of IPv4.
        IpAddr::V6(ip) => (ip.to_bits() >> 16) | 1 << 127,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::testing::logged;

    /// A cluster of one service with an endpoint.
    fn cluster(ip: &str, endpoint: &str) -> (k8s::Writer, Store) {
        let yaml = format!(
            "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: shop}}
spec: {{clusterIP: {ip}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
endpoints: [{{addresses: [{endpoint}]}}]
"
        );
        let keep = k8s::Keep { endpoints: true, ..k8s::Keep::default() };
        k8s::store_from_yaml(&yaml, keep).unwrap()
    }

    #[tokio::test]
    async fn ranges_of_services_and_equal_endpoints_overlap() {
        let (_one, one) = cluster("10.96.0.10", "10.244.0.5");
        for (ip, endpoint, want) in [
            ("10.96.0.77", "10.245.0.5", [1, 0]),
            ("10.97.0.10", "10.244.0.5", [0, 1]),
            ("10.97.0.10", "10.244.0.6", [0, 0]),
            ("'fd00:10:96::a'", "10.244.0.6", [0, 0]),
        ] {
            let (_other, other) = cluster(ip, endpoint);
            let found = compare(&one, &other).await;
            assert_eq!(found.map(|overlap| overlap.count), want, "{ip} {endpoint}");
        }
    }

    #[tokio::test]
    async fn an_overlap_is_told_once_and_its_end_too() {
        let (_one, one) = cluster("10.96.0.10", "10.244.0.5");
        let (_same, same) = cluster("10.96.0.11", "10.244.0.6");
        let (_far, far) = cluster("10.97.0.11", "10.244.0.6");
        let mut seen = Seen::default();
        logged();
        let pair = |other: &Store| [("a".into(), one.clone()), ("b".into(), other.clone())];
        seen.look(&pair(&same)).await;
        seen.look(&pair(&same)).await;
        let [line] = &logged()[..] else { panic!("not one line") };
        assert!(line.contains("clusters a and b overlap: 1 addresses of services"), "{line}");
        let gauge = "causeway_kubernetes_overlaps{cluster=\"a\",kind=\"services\",other=\"b\"} ";
        assert!(engine::metrics::render().contains(&format!("{gauge}1")));
        seen.look(&pair(&far)).await;
        assert_eq!(logged().len(), 1);
        assert!(engine::metrics::render().contains(&format!("{gauge}0")));
    }
}
