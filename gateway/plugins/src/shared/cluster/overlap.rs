//! Clusters whose ranges of addresses overlap: a client with routes to both reaches one of them, and names of addresses mean
//! nothing. Found beside the queries, counted, and told once.
//!
//! What the ranges are nobody says, so blocks of addresses are compared that each has some in: two clusters that were made
//! with the same range rarely have the same address at one time. Nodes of two clusters may well be neighbours, and pods that
//! have addresses of their network: whether both have the very same address tells that apart.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use engine::control::Value;
use engine::metrics::{self, Collect, describe};
use k8s::Store;
use tokio::task::yield_now;

use super::source::Watched;

/// Addresses that another cluster has as well.
const OVERLAPS: &str = "causeway_kubernetes_overlaps";
/// How often is looked whether something has changed.
const PERIOD: Duration = Duration::from_secs(10);
/// The most blocks of a kind that are looked at of a cluster, and the most equal addresses that are counted: what is kept of a
/// cluster is some megabytes at most.
const MOST: usize = 1 << 16;

/// What is compared, as metrics and log lines call it: addresses of services, of endpoints and of pods by their blocks, then
/// those of endpoints and pods that both have.
const KINDS: [&str; 4] = ["services", "endpoints", "pods", "equal"];
/// The index of services in [`KINDS`].
const SERVICES: usize = 0;
/// That of endpoints.
const ENDPOINTS: usize = 1;
/// That of pods.
const PODS: usize = 2;

/// All declared clusters that are followed.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Their watches by name: several sets where blocks want to see different things.
    all: Mutex<BTreeMap<Box<str>, Vec<Weak<Watched>>>>,
    /// What each has in common with each other.
    found: Mutex<BTreeMap<Pair, Found>>,
    /// Who looks: one task of all that want to.
    turn: tokio::sync::Mutex<Seen>,
}

/// A cluster and another one.
type Pair = (Box<str>, Box<str>);

/// What a cluster has in common with another, by the index in [`KINDS`].
type Found = [Overlap; KINDS.len()];

/// A cluster's name and all that is seen of it, as far as it is known.
type Known = (Box<str>, Vec<Store>);

/// What the last look saw.
#[derive(Debug, Default)]
struct Seen {
    /// The clusters.
    clusters: BTreeMap<Box<str>, Looked>,
    /// Whether they have changed since they were last compared.
    moved: bool,
    /// The pairs that have been told, and of what.
    told: HashSet<(Pair, usize)>,
}

/// A cluster as it was seen.
#[derive(Debug, Default)]
struct Looked {
    /// Its stores and their versions.
    versions: Vec<(usize, u64)>,
    /// Where its addresses are.
    blocks: Blocks,
}

/// Some addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Overlap {
    /// How many; one that several services have counts for each.
    count: usize,
    /// The first of them.
    example: Option<IpAddr>,
}

impl Overlap {
    /// Adds so many addresses, of which this is the first.
    fn add(&mut self, count: usize, ip: IpAddr) {
        self.count += count;
        self.example = Some(self.example.map_or(ip, |known| known.min(ip)));
    }
}

/// A cluster's addresses by the blocks that they are in, by the index in [`KINDS`].
#[derive(Debug, Default)]
struct Blocks([HashMap<u128, Overlap>; 3]);

impl Blocks {
    /// Where the addresses of a store are.
    async fn of(store: &Store) -> Self {
        let mut blocks = Self::default();
        let mut next = Some(0);
        while let Some(from) = next {
            next = store.read().step_services(from, |service| {
                service.cluster_ips().for_each(|ip| blocks.add(SERVICES, ip));
                let ends = service.endpoints().filter_map(|endpoint| endpoint.ip());
                ends.for_each(|ip| blocks.add(ENDPOINTS, ip));
            });
            // Other tasks have their turn, for there may be many.
            yield_now().await;
        }
        let mut next = Some(0);
        while let Some(from) = next {
            next =
                store.read().step_pods(from, |pod| pod.ips().for_each(|ip| blocks.add(PODS, ip)));
            yield_now().await;
        }
        blocks
    }

    /// Adds an address.
    fn add(&mut self, kind: usize, ip: IpAddr) {
        let Some(known) = self.0.get_mut(kind) else { return };
        let block = block(kind, ip);
        if known.len() < MOST || known.contains_key(&block) {
            known.entry(block).or_default().add(1, ip);
        }
    }

    /// Adds what another set of watches sees of the same cluster: in each block the one that sees more.
    fn join(&mut self, other: Self) {
        for (known, others) in self.0.iter_mut().zip(other.0) {
            for (block, found) in others {
                if known.get(&block).map_or(known.len() < MOST, |own| own.count < found.count) {
                    known.insert(block, found);
                }
            }
        }
    }

    /// What lies where another cluster has its own. Endpoints and pods are of one network.
    fn shared(&self, other: &Self) -> [Overlap; 3] {
        let (Self([services, endpoints, pods]), Self(others)) = (self, other);
        let [by_services, by_endpoints, by_pods] = others;
        let among = |own: &HashMap<u128, Overlap>, others: &[&HashMap<u128, Overlap>]| {
            let mut overlap = Overlap::default();
            for (block, found) in own {
                if let Some(ip) = found.example
                    && others.iter().any(|other| other.contains_key(block))
                {
                    overlap.add(found.count, ip);
                }
            }
            overlap
        };
        [
            among(services, &[by_services]),
            among(endpoints, &[by_endpoints, by_pods]),
            among(pods, &[by_endpoints, by_pods]),
        ]
    }

    /// Whether there are endpoints or pods in the block of an address.
    fn has_near(&self, ip: IpAddr) -> bool {
        let [_, endpoints, pods] = &self.0;
        let block = block(ENDPOINTS, ip);
        endpoints.contains_key(&block) || pods.contains_key(&block)
    }
}

/// The block that an address is in. Of IPv4 these are 256 addresses. Of IPv6 it is a whole network of endpoints and pods (/64),
/// as a node has one for its pods; all services are in one such, so of theirs it is 65,536 addresses.
fn block(kind: usize, ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits() >> 8),
        // The highest bit tells it from those of IPv4.
        IpAddr::V6(ip) => {
            let shift = if kind == SERVICES { 16 } else { 64 };
            (ip.to_bits() >> shift) | 1 << 127
        }
    }
}

/// The addresses of endpoints and pods that both clusters have, of which there is all that is seen of them.
async fn equal(stores: &[Store], others: &[Store], near: &Blocks) -> Overlap {
    let mut equal: HashSet<IpAddr> = HashSet::new();
    for store in stores {
        let (mut services, mut pods) = (Some(0), Some(0));
        while services.is_some() || pods.is_some() {
            let mut ips = Vec::new();
            let mut take = |ip: IpAddr| {
                if near.has_near(ip) && !equal.contains(&ip) {
                    ips.push(ip);
                }
            };
            services = services.and_then(|from| {
                store.read().step_services(from, |service| {
                    service.endpoints().filter_map(|one| one.ip()).for_each(&mut take);
                })
            });
            pods = pods
                .and_then(|from| store.read().step_pods(from, |pod| pod.ips().for_each(&mut take)));
            // Not under the lock of the one: whoever holds two of them may wait for a writer that waits for him.
            for other in others {
                for some in ips.chunks(256) {
                    let reader = other.read();
                    let has = |ip: &&IpAddr| {
                        reader.endpoints_by_ip(**ip).next().is_some()
                            || reader.pod_by_ip(**ip).is_some()
                    };
                    equal.extend(some.iter().filter(has));
                }
                yield_now().await;
            }
            if equal.len() >= MOST {
                break;
            }
        }
    }
    Overlap { count: equal.len(), example: equal.into_iter().min() }
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
    fn known(&self) -> Vec<Known> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let store = |watched: &Weak<Watched>| Some(watched.upgrade()?.store().clone());
        let mut known = Vec::new();
        all.retain(|name, sets| {
            sets.retain(|set| set.strong_count() > 0);
            let stores: Vec<Store> = sets.iter().filter_map(store).filter(Store::synced).collect();
            if !stores.is_empty() {
                known.push((name.clone(), stores));
            }
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
            if seen.take(&known).await {
                self.look(&mut seen, &known).await;
            }
        }
    }

    /// Compares these clusters, each with each.
    async fn look(&self, seen: &mut Seen, known: &[Known]) {
        let mut found: BTreeMap<Pair, Found> = BTreeMap::new();
        for (index, (name, stores)) in known.iter().enumerate() {
            for (other, others) in known.iter().skip(index + 1) {
                let (one, two) = (seen.clusters.get(name), seen.clusters.get(other));
                let (Some(one), Some(two)) = (one, two) else { continue };
                let own = one.blocks.shared(&two.blocks);
                let its = two.blocks.shared(&one.blocks);
                let network = own[ENDPOINTS].count + own[PODS].count > 0;
                let equal = match network {
                    true => equal(stores, others, &two.blocks).await,
                    false => Overlap::default(),
                };
                let all =
                    |[services, endpoints, pods]: [Overlap; 3]| [services, endpoints, pods, equal];
                seen.tell(name, other, &all(own));
                found.insert((name.clone(), other.clone()), all(own));
                found.insert((other.clone(), name.clone()), all(its));
                yield_now().await;
            }
        }
        seen.moved = false;
        // A cluster that is no longer followed is told of anew when it is back.
        seen.told.retain(|(pair, _)| found.contains_key(pair));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// What a cluster has in common with each other, for `causeway status`.
    pub(super) fn status(&self, name: &str) -> Value {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let own = found.iter().filter(|((one, _), _)| **one == *name);
        let rows = own.flat_map(|((_, other), found)| {
            let found = KINDS.iter().zip(found).filter(|(_, overlap)| overlap.count > 0);
            found.map(|(kind, overlap)| {
                Value::fields()
                    .with("with", &**other)
                    .with("kind", *kind)
                    .with("addresses", overlap.count)
                    .with("such_as", overlap.example.map(|ip| ip.to_string()))
            })
        });
        Value::List(rows.collect())
    }
}

impl Collect for Registry {
    fn collect(&self, figures: &mut metrics::Figures) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for ((name, other), overlaps) in &*found {
            for (kind, overlap) in KINDS.iter().zip(overlaps) {
                let labels = [("cluster", &**name), ("other", &**other), ("kind", *kind)];
                figures.gauge(OVERLAPS, &labels, overlap.count as f64);
            }
        }
    }
}

impl Seen {
    /// Looks at the clusters that have changed; says whether there is anything new to compare.
    async fn take(&mut self, known: &[Known]) -> bool {
        let before = self.clusters.len();
        self.clusters.retain(|name, _| known.iter().any(|(one, _)| one == name));
        self.moved |= self.clusters.len() != before;
        for (name, stores) in known {
            let versions = stores.iter().map(|store| (store.id(), store.version())).collect();
            if self.clusters.get(name).is_some_and(|looked| looked.versions == versions) {
                continue;
            }
            let mut blocks = Blocks::default();
            for store in stores {
                blocks.join(Blocks::of(store).await);
            }
            self.clusters.insert(name.clone(), Looked { versions, blocks });
            self.moved = true;
        }
        self.moved
    }

    /// Tells of overlaps that have not been told, and of the end of those that have.
    fn tell(&mut self, name: &str, other: &str, found: &Found) {
        let pair: Pair = (name.into(), other.into());
        let equal = found.last().and_then(|equal| equal.example);
        for (kind, (word, overlap)) in KINDS.iter().zip(found).enumerate().take(PODS + 1) {
            let key = (pair.clone(), kind);
            let reaches = match equal {
                _ if kind == SERVICES => "a client with routes to both reaches one of them".to_owned(),
                Some(ip) => format!("both have {ip}, and a client with routes to both reaches one of them"),
                None => "unless both are of one network, a client with routes to both reaches one of them".to_owned(),
            };
            match overlap.example {
                Some(example) if self.told.insert(key.clone()) => log::warn!(
                    target: "plugin/kubernetes",
                    "clusters {name} and {other} overlap: {} addresses of {word} of {name} lie where {other} has its own, such as {example}; {reaches}",
                    overlap.count
                ),
                None if self.told.remove(&key) => log::info!(
                    target: "plugin/kubernetes", "addresses of {word} of clusters {name} and {other} no longer overlap"
                ),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
