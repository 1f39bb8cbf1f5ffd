//! Exports of one service that do not go together: found beside the queries, counted, and told once each (KEP-1645, Constraints
//! and Conflict Resolution).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::metrics::{Gauge, describe, gauge};
use k8s::ServiceKind;

use super::Set;
use super::lookup::{Exporters, namespace};
use super::member::{Exports, Member, Presence};
use super::ports::Union;
use crate::shared::cluster::key::{Shown, key};

/// Exports that do not go together.
const CONFLICTS: &str = "causeway_clusterset_conflicts";
/// What a cluster's share is: 1 for that, 0 for the others.
const SHARE: &str = "causeway_clusterset_share";
/// What a share may be.
const STATES: [&str; 4] = ["live", "kept", "gone", "unknown"];
/// How often is looked whether something has changed.
const PERIOD: Duration = Duration::from_secs(1);
/// How much longer the pause is than the look before it took.
const REST: u32 = 20;
/// The most conflicts that a look tells one by one.
const TOLD: usize = 50;

/// In what exports of a service differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Some are headless.
    Type,
    /// Their ports.
    Port,
}

impl Kind {
    /// Both.
    const ALL: [Self; 2] = [Self::Type, Self::Port];

    /// Its word in metrics.
    const fn word(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Port => "port",
        }
    }
}

/// `\x03web\x04shop`, and in what its exports differ.
pub(super) type Key = (Box<[u8]>, Kind);

/// A cluster's export of a service.
#[derive(Debug)]
struct Export<'s> {
    /// The cluster.
    name: &'s str,
    /// How it is reached there.
    headless: bool,
    /// Its age, in Unix seconds.
    since: u64,
}

/// Looks for conflicts as long as it is run.
#[derive(Debug)]
pub(super) struct Watch {
    /// The clusters.
    set: Arc<Set>,
    /// How many there are of each kind.
    counts: [Gauge; 2],
    /// What each cluster's share is, in the order of [`STATES`].
    shares: Vec<[Gauge; 4]>,
    /// Those that are there, and what is said of each.
    known: BTreeMap<Key, String>,
    /// What the last look was at.
    seen: Vec<Option<Seen>>,
}

/// What a look at a cluster depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// How often its objects have changed.
    version: u64,
    /// Whether its share counts.
    presence: Presence,
    /// The same of each namespace that is followed by itself, if any of them is kept from us.
    spaces: Vec<Presence>,
}

impl Seen {
    /// How a cluster is now; none of one without a store.
    pub(super) fn of(member: &Member, keep: Duration) -> Option<Self> {
        let store = member.store()?;
        let presence = |namespace| member.presence(store, namespace, keep);
        let names = store.refused_since(&[]).map(|_| store.keep().apart());
        let spaces = names.into_iter().flatten().map(|name| presence(Some(name.as_bytes())));
        Some(Self { version: store.version(), presence: presence(None), spaces: spaces.collect() })
    }
}

impl Watch {
    /// Looks for conflicts of a set.
    pub(super) fn new(set: Arc<Set>) -> Self {
        describe(CONFLICTS, "Services whose exports by several clusters do not go together.");
        describe(SHARE, "What a cluster's share of the set is: 1 for the state that it is in.");
        let zone = set.zone().to_string();
        let counts =
            Kind::ALL.map(|kind| gauge(CONFLICTS, &[("zone", &zone), ("kind", kind.word())]));
        let share = |member: &Member| {
            STATES.map(|state| {
                let labels = [("zone", &*zone), ("cluster", &*member.name), ("state", state)];
                gauge(SHARE, &labels)
            })
        };
        let shares = set.members.iter().map(share).collect();
        let seen = set.members.iter().map(|_| None).collect();
        Self { set, counts, shares, known: BTreeMap::new(), seen }
    }

    /// Looks for ever.
    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            if self.moved() {
                self.look().await;
            }
            tokio::time::sleep(PERIOD.max(began.elapsed() * REST)).await;
        }
    }

    /// Whether something has changed since the last look; tells what the shares are.
    fn moved(&mut self) -> bool {
        let mut moved = false;
        let members = self.set.members.iter().zip(&self.shares);
        for ((member, gauges), seen) in members.zip(&mut self.seen) {
            let Some(now) = Seen::of(member, self.set.keep) else { continue };
            let state = match now.presence {
                Presence::Live => 0,
                Presence::Kept(_) => 1,
                Presence::Gone(_) => 2,
                Presence::Unknown => 3,
            };
            for (index, gauge) in gauges.iter().enumerate() {
                gauge.set(if index == state { 1.0 } else { 0.0 });
            }
            moved |= seen.as_ref() != Some(&now);
            *seen = Some(now);
        }
        moved
    }

    /// Looks at all exports.
    pub(super) async fn look(&mut self) {
        let mut found = BTreeMap::new();
        for member in &self.set.members {
            let Some(exports) = &member.exports else { continue };
            let mut next = Some(0);
            while let Some(from) = next {
                let mut keys = Vec::new();
                next = step(exports, from, &mut keys);
                for key in &keys {
                    let all = self.set.exporters(namespace(key));
                    compare(&all, Some(&*member.name), key, &mut found);
                }
                // Other tasks have their turn, for there may be many.
                tokio::task::yield_now().await;
            }
        }
        self.tell(found);
    }

    /// What has been told of those that are there.
    #[cfg(test)]
    pub(super) fn told(&self) -> impl Iterator<Item = &str> {
        self.known.values().map(String::as_str)
    }

    /// Counts the conflicts and tells those that are new, and those that are no more.
    fn tell(&mut self, found: BTreeMap<Key, String>) {
        for (kind, count) in Kind::ALL.iter().zip(&self.counts) {
            count.set(found.keys().filter(|(_, other)| other == kind).count() as f64);
        }
        let news = found.iter().filter(|(key, text)| self.known.get(*key) != Some(*text));
        let news: Vec<_> = news.map(|(_, text)| text).collect();
        for text in news.iter().take(TOLD) {
            log::warn!(target: "plugin/clusterset", "{text}");
        }
        if news.len() > TOLD {
            let more = news.len() - TOLD;
            log::warn!(target: "plugin/clusterset", "{more} more services have exports that differ");
        }
        let over = self.known.keys().filter(|key| !found.contains_key(key)).take(TOLD);
        for (key, kind) in over {
            log::info!(
                target: "plugin/clusterset", "exports of {} no longer differ in {}", Shown(key), kind.word()
            );
        }
        self.known = found;
    }
}

/// Adds the names of some of a cluster's exports; gives where the next ones begin.
fn step(exports: &Exports, from: u32, keys: &mut Vec<Box<[u8]>>) -> Option<u32> {
    let reader = exports.store().read();
    match exports {
        Exports::Objects(_) => reader.step_exports(from, |export| {
            keys.extend(key(export.name(), export.namespace()));
        }),
        Exports::Labelled(_) => reader.step_services(from, |service| {
            keys.extend(key(service.name(), service.namespace()));
        }),
    }
}

/// Compares all exports of a name, if the cluster that is called `first` is the first that has one, or none is named.
pub(super) fn compare(
    exporters: &Exporters<'_>,
    first: Option<&str>,
    key: &[u8],
    found: &mut BTreeMap<Key, String>,
) {
    let (mut exports, mut ports) = (Vec::new(), Union::default());
    exporters.shares(key, |member, share| {
        let headless = share.service.kind() == ServiceKind::Headless;
        exports.push(Export { name: &member.name, headless, since: share.since });
        ports.add(share.since, share.service.ports());
    });
    if first.is_some() && exports.first().map(|export| export.name) != first {
        return;
    }
    let Some(eldest) = exports.iter().min_by_key(|export| export.since) else { return };
    let names = Names(&exports);
    if exports.iter().any(|export| export.headless != eldest.headless) {
        let is = if eldest.headless { "headless" } else { "not headless" };
        let text = format!(
            "exports of {} by {names} differ in type: it is {is}, as the eldest has it, that of {}",
            Shown(key),
            eldest.name
        );
        found.insert((key.into(), Kind::Type), text);
    }
    if ports.differs() {
        let text = format!(
            "exports of {} by {names} differ in ports: they are united, and of two for one name or number that of the elder counts; the eldest is that of {}",
            Shown(key),
            eldest.name
        );
        found.insert((key.into(), Kind::Port), text);
    }
}

/// Writes the clusters of exports.
struct Names<'e>(&'e [Export<'e>]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, export) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(export.name)?;
        }
        Ok(())
    }
}
