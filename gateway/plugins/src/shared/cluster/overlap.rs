//! Clusters whose ranges of addresses overlap: a client with routes to both reaches one of them, and names of addresses mean
//! nothing. Found beside the queries, counted, and told once.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use engine::metrics::{self, Collect, describe};
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
    /// Their watches by name: several sets where blocks want to see different things.
    all: Mutex<BTreeMap<Box<str>, Vec<Weak<Watched>>>>,
    /// How many addresses each pair of them shares, of each kind.
    found: Mutex<BTreeMap<Pair, usize>>,
    /// Who looks: one task of all that want to.
    turn: tokio::sync::Mutex<Seen>,
}

/// Two clusters and a kind, by its index in [`KINDS`].
type Pair = (Box<str>, Box<str>, usize);

/// What the last look saw.
#[derive(Debug, Default)]
struct Seen {
    /// The versions of the stores.
    versions: Vec<u64>,
    /// The pairs that have been told.
    told: HashSet<Pair>,
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
    /// A registry without clusters, whose figures are there as long as it is.
    pub(super) fn new() -> Arc<Self> {
        describe(OVERLAPS, "Addresses of a cluster that lie where another one has its own.");
        let registry = Arc::default();
        metrics::collect(&registry);
        registry
    }

    /// Takes a cluster's watches up, if they are new.
    pub(super) fn add(&self, name: &str, watched: &Arc<Watched>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let sets = all.entry(name.into()).or_default();
        if !sets.iter().any(|set| std::ptr::eq(set.as_ptr(), Arc::as_ptr(watched))) {
            sets.push(Arc::downgrade(watched));
        }
    }

    /// The clusters that are followed and known, each by all that is seen of it.
    fn known(&self) -> Vec<(Box<str>, Vec<Store>)> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let store = |watched: &Weak<Watched>| Some(watched.upgrade()?.store().clone());
        let mut known = Vec::new();
        all.retain(|name, sets| {
            sets.retain(|set| set.strong_count() > 0);
            let stores = sets.iter().filter_map(store).filter(Store::synced).collect();
            known.push((name.clone(), stores));
            !sets.is_empty()
        });
        known
    }

    /// Compares all clusters for ever, whenever one has changed.
    pub(super) async fn watch(&self) {
        let mut seen = self.turn.lock().await;
        loop {
            tokio::time::sleep(PERIOD).await;
            let known = self.known();
            let stores = known.iter().flat_map(|(_, stores)| stores);
            let versions: Vec<u64> = stores.map(Store::version).collect();
            if versions != seen.versions {
                seen.versions = versions;
                self.look(&mut seen, &known).await;
            }
        }
    }

    /// Compares these clusters, each with those behind it. Where several sets see different things of one, what counts is the
    /// two that share the most.
    async fn look(&self, seen: &mut Seen, known: &[(Box<str>, Vec<Store>)]) {
        let mut found = BTreeMap::new();
        for (index, (name, stores)) in known.iter().enumerate() {
            for (other, others) in known.iter().skip(index + 1) {
                let Some(most) = most(stores, others).await else { continue };
                for (kind, overlap) in most.into_iter().enumerate() {
                    found.insert((name.clone(), other.clone(), kind), overlap.count);
                    seen.tell(name, other, kind, overlap);
                }
            }
        }
        // A cluster that is no longer followed is told of anew when it is back.
        seen.told.retain(|pair| found.contains_key(pair));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

impl Collect for Registry {
    fn collect(&self, figures: &mut metrics::Figures) {
        for ((name, other, kind), count) in
            &*self.found.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let word = KINDS.get(*kind).copied().unwrap_or_default();
            let labels = [("cluster", &**name), ("other", &**other), ("kind", word)];
            figures.gauge(OVERLAPS, &labels, *count as f64);
        }
    }
}

impl Seen {
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

/// What two clusters share, of which there is all that is seen of them; none where nothing is.
async fn most(stores: &[Store], others: &[Store]) -> Option<[Overlap; 2]> {
    let mut most = None::<[Overlap; 2]>;
    for store in stores {
        for other in others {
            let these = compare(store, other).await;
            for (most, this) in most.get_or_insert_default().iter_mut().zip(these) {
                if this.count > most.count {
                    *most = this;
                }
            }
        }
    }
    most
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
        let (registry, mut seen) = (Registry::new(), Seen::default());
        logged();
        let pair = |others: &[&Store]| {
            let others = others.iter().copied().cloned().collect();
            [("a".into(), vec![one.clone()]), ("b".into(), others)]
        };
        // Whichever of the sets that see different things of a cluster came last.
        for others in [[&same, &far], [&far, &same]] {
            registry.look(&mut seen, &pair(&others)).await;
        }
        let [line] = &logged()[..] else { panic!("not one line") };
        assert!(line.contains("clusters a and b overlap: 1 addresses of services"), "{line}");
        let gauge = "causeway_kubernetes_overlaps{cluster=\"a\",kind=\"services\",other=\"b\"} ";
        assert!(metrics::render().contains(&format!("{gauge}1")));
        registry.look(&mut seen, &pair(&[&far])).await;
        assert_eq!(logged().len(), 1);
        assert!(metrics::render().contains(&format!("{gauge}0")));
        // One that is not known has no figures.
        registry.look(&mut seen, &pair(&[])).await;
        assert!(!metrics::render().contains(gauge));
    }
}
