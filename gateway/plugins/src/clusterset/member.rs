//! The clusters of a set: what each exports, and whether its share counts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s::{Reader, ServiceKind, ServiceRef, Standing, Store};
use wire::Answer;

use crate::shared::cluster::address::Label;
use crate::shared::cluster::source::Source;
use crate::shared::cluster::stale;

/// Where a cluster says what it exports.
#[derive(Clone, Debug)]
pub(super) enum Exports {
    /// In its ServiceExports.
    Objects(Store),
    /// By a label of its services: the store has no others.
    Labelled(Store),
}

/// Says whether what the store of a cluster of this name tells is the present state.
pub(super) type Stands = fn(&str, &Store) -> Standing;

/// A cluster of the set.
#[derive(Debug)]
pub(super) struct Member {
    /// The name that it is declared by, which is its cluster ID.
    pub(super) name: Box<str>,
    /// The name as a label.
    pub(super) label: Label,
    /// What is said of it as long as it is not known.
    pub(super) not_known: Box<str>,
    /// Where its imports are, if they count.
    pub(super) imports: Option<Store>,
    /// Where its exports are, if they count.
    pub(super) exports: Option<Exports>,
    /// What fills the stores; none in tests.
    #[expect(dead_code, reason = "held, since the watches end with it")]
    pub(super) sources: Vec<Arc<Source>>,
    /// Says whether what a store tells is the cluster's present state.
    pub(super) stands: Stands,
}

/// Whether a cluster's share counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is the present one.
    Live,
    /// It is the last that is known, for this reason.
    Kept(Why),
    /// That has gone on for too long.
    Gone(Why),
    /// The cluster is not known yet.
    Unknown,
}

/// Why a cluster's share is not its present one, if so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// How the cluster stands.
    Standing(Standing),
    /// The rights for the namespace are missing.
    Rights {
        /// When it was last heard of, in Unix seconds.
        since: u64,
    },
}

impl Why {
    /// From when the share is, in Unix seconds; none if that is no matter of time.
    pub(super) const fn since(self) -> Option<u64> {
        match self {
            Self::Standing(standing) => standing.stale_since(),
            Self::Rights { since } => Some(since),
        }
    }

    /// Says on an answer from the share of a cluster of this name that it may be out of date.
    pub(super) fn note(self, answer: &mut Answer, name: &str) {
        match self {
            Self::Standing(standing) => stale::note(answer, name, standing),
            Self::Rights { since } => stale::note_refused(answer, name, since),
        }
    }
}

impl Presence {
    /// Whether the share counts.
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Live | Self::Kept(_))
    }
}

/// A cluster as one query finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'l> {
    /// The cluster.
    pub(super) member: &'l Member,
    /// Its imports, if they are looked at.
    pub(super) imports: Option<(&'l Store, Presence)>,
    /// Its exports, if they are looked at.
    pub(super) exports: Option<(&'l Exports, Presence)>,
}

/// What a cluster exports under a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share<'r> {
    /// The service.
    pub(super) service: ServiceRef<'r>,
    /// When it was exported, in Unix seconds; the greatest number if that is not known.
    pub(super) since: u64,
}

impl Member {
    /// Its imports and its exports, as far as they are looked at, and whether they count: judged once if they are in one store.
    pub(super) fn present(&self, namespace: Option<&[u8]>, keep: Duration) -> Present<'_> {
        let judge = |store| self.presence(store, namespace, keep);
        let imports = self.imports.as_ref().map(|store| (store, judge(store)));
        let exports = self.exports.as_ref().map(|exports| {
            let store = exports.store();
            let judged = imports.filter(|(other, _)| other.id() == store.id());
            (exports, judged.map_or_else(|| judge(store), |(_, presence)| presence))
        });
        Present { member: self, imports, exports }
    }

    /// Whether what a store tells of the cluster counts, or of a namespace in it. One that is kept from us counts for as long as a
    /// cluster that is away.
    pub(super) fn presence(
        &self,
        store: &Store,
        namespace: Option<&[u8]>,
        keep: Duration,
    ) -> Presence {
        let standing = (self.stands)(&self.name, store);
        let refused = namespace
            .filter(|_| standing == Standing::Live)
            .and_then(|namespace| store.refused_since(namespace));
        let why = refused.map_or(Why::Standing(standing), |since| Why::Rights { since });
        judge(why, keep, unix_time)
    }

    /// Its stores; one may come twice.
    pub(super) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.exports.iter().map(Exports::store).chain(&self.imports)
    }

    /// The store that names of namespaces are looked for in.
    pub(super) fn store(&self) -> Option<&Store> {
        self.exports.as_ref().map(Exports::store).or(self.imports.as_ref())
    }
}

impl Exports {
    /// The store.
    pub(super) const fn store(&self) -> &Store {
        match self {
            Self::Objects(store) | Self::Labelled(store) => store,
        }
    }

    /// What is exported under `\x03web\x04shop`. An ExternalName service is not exported, whatever is said of it (KEP-1645,
    /// Service Types).
    pub(super) fn share<'r>(&self, reader: &'r Reader<'_>, key: &[u8]) -> Option<Share<'r>> {
        let share = match self {
            Self::Objects(_) => {
                let export = reader.export(key).filter(|export| !export.invalid())?;
                let since = match export.created() {
                    0 => u64::MAX,
                    created => created,
                };
                Share { service: export.service()?, since }
            }
            Self::Labelled(_) => Share { service: reader.service(key)?, since: u64::MAX },
        };
        (share.service.kind() != ServiceKind::ExternalName).then_some(share)
    }
}

/// Whether the share of a cluster counts.
fn judge(why: Why, keep: Duration, now: impl FnOnce() -> u64) -> Presence {
    match why.since() {
        Some(since) if now().saturating_sub(since) > keep.as_secs() => Presence::Gone(why),
        Some(_) => Presence::Kept(why),
        None if why == Why::Standing(Standing::Live) => Presence::Live,
        // What was never known is no ground for a denial, however long that goes on.
        None => Presence::Unknown,
    }
}

/// The time, in Unix seconds.
pub(super) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_as_long_as_is_said() {
        let keep = Duration::from_secs(60);
        let away = Why::Standing(Standing::Away { since: 1000 });
        let kept = Why::Standing(Standing::Snapshot { taken: 1000 });
        let refused = Why::Rights { since: 1000 };
        for (why, now, want) in [
            (Why::Standing(Standing::Live), 99999, Presence::Live),
            (away, 1060, Presence::Kept(away)),
            (away, 1061, Presence::Gone(away)),
            (away, 900, Presence::Kept(away)),
            (kept, 1060, Presence::Kept(kept)),
            (kept, 1061, Presence::Gone(kept)),
            (refused, 1060, Presence::Kept(refused)),
            (refused, 1061, Presence::Gone(refused)),
            (Why::Standing(Standing::Unsynced), 99999, Presence::Unknown),
        ] {
            assert_eq!(judge(why, keep, || now), want, "{why:?} {now}");
        }
    }
}
