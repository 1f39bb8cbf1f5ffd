//! Services that several clusters of a union have: found beside the queries, and counted.

use std::sync::Arc;
use std::time::Duration;

use engine::metrics::{describe, gauge};
use tokio::time::{Instant, sleep};

use super::Cluster;
use crate::shared::cluster::key::{Shown, key};
use crate::shared::cluster::member::Member;

/// Services that a cluster before this one answers for.
const CONFLICTS: &str = "causeway_kubernetes_conflicts";
/// How often is looked whether something has changed.
const PERIOD: Duration = Duration::from_secs(5);
/// How much longer the pause is than the look before it took.
const REST: u32 = 50;

/// The services of a cluster that one before it answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hidden {
    /// How many there are.
    pub(super) count: usize,
    /// One of them, `namespace/name`.
    pub(super) example: Option<String>,
}

/// Counts the conflicts of a union for ever, whenever something has changed.
pub(super) async fn watch(cluster: Arc<Cluster>) {
    describe(CONFLICTS, "Services of a cluster that one before it in the union answers for.");
    let zone = cluster.primary.to_string();
    let mut versions = Vec::new();
    let mut last = vec![0; cluster.members.iter().len()];
    loop {
        let began = Instant::now();
        let now: Vec<u64> = cluster.members.iter().map(|member| member.store.version()).collect();
        if now != versions {
            versions = now;
            for ((index, member), last) in cluster.members.iter().enumerate().zip(&mut last) {
                let hidden = cluster.hidden(index, member).await;
                let labels = [("zone", &*zone), ("cluster", &*member.name)];
                gauge(CONFLICTS, &labels).set(hidden.count as f64);
                if let (0, Some(example)) = (*last, &hidden.example) {
                    log::info!(
                        target: "plugin/kubernetes",
                        "{} services of cluster {}, such as {example}, are answered for in {zone} by a cluster before it",
                        hidden.count, member.name
                    );
                }
                *last = hidden.count;
            }
        }
        sleep(PERIOD.max(began.elapsed() * REST)).await;
    }
}

impl Cluster {
    /// The services of the cluster at `index` that one before it answers for.
    pub(super) async fn hidden(&self, index: usize, member: &Member) -> Hidden {
        let mut hidden = Hidden::default();
        let mut next = Some(0).filter(|_| index > 0);
        while let Some(from) = next {
            let mut keys = Vec::new();
            next = member.store.read().step_services(from, |service| {
                keys.extend(key(service.name(), service.namespace()));
            });
            // Not under the lock of the one: whoever holds two of them may wait for a writer that waits for him.
            let before = || self.members.iter().take(index);
            keys.retain(|key| before().any(|one| self.shows(&one.store.read(), key)));
            hidden.count += keys.len();
            hidden.example = hidden.example.or_else(|| Some(Shown(keys.first()?).to_string()));
            // Other tasks have their turn, for there may be many.
            tokio::task::yield_now().await;
        }
        hidden
    }
}
