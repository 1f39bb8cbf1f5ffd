//! Whether what a store tells is the cluster's present state.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{
    object::Kind,
    probe::State,
    store::{Status, Store},
};

/// How long a watch may fail before what it told counts as out of date: connections break and are made again all the time.
const GRACE: Duration = Duration::from_secs(10);

/// Whether what a store tells is the cluster's present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The watches follow the cluster.
    Live,
    /// A watch has failed for more than ten seconds; what was known before is told.
    Away {
        /// When the cluster was last heard of, in Unix seconds.
        since: u64,
    },
    /// What is told was kept on disk; not all of it has been listed since.
    Snapshot {
        /// When the cluster was last heard of before it was kept, in Unix seconds.
        taken: u64,
    },
    /// The cluster's objects are not known.
    Unsynced,
}

impl Standing {
    /// Gives the Unix time that what is told is from, in seconds, if it may be out of date.
    pub const fn stale_since(self) -> Option<u64> {
        match self {
            Self::Away { since } => Some(since),
            Self::Snapshot { taken } => Some(taken),
            Self::Live | Self::Unsynced => None,
        }
    }
}

impl Store {
    /// Says whether what the store tells is the cluster's present state. Takes no lock, and looks at a clock only while
    /// something fails.
    pub fn standing(&self) -> Standing {
        self.standing_after(|| self.shared.start.elapsed())
    }

    /// Does so at a time after the store was made.
    pub(crate) fn standing_after(&self, age: impl FnOnce() -> Duration) -> Standing {
        if !self.synced() {
            return Standing::Unsynced;
        }
        let held = || Kind::ALL.into_iter().filter(|kind| self.keep().holds(*kind));
        if held().any(|kind| self.is_kept(kind) && !self.does_without(kind)) {
            return Standing::Snapshot { taken: self.shared.taken.load(Relaxed) };
        }
        let first = |status: &Status| status.broken.load(Relaxed).checked_sub(1);
        let failing = held()
            .filter(|kind| !self.does_without(*kind))
            .filter_map(|kind| first(&self.shared.kinds[kind.index()]).map(|at| (kind, at)));
        let Some(first) = failing.clone().map(|(_, at)| at).min() else { return Standing::Live };
        let now = age();
        if now.saturating_sub(Duration::from_millis(first)) <= GRACE {
            return Standing::Live;
        }
        let late = failing
            .filter(|(_, at)| now.saturating_sub(Duration::from_millis(*at)) > GRACE)
            .map(|(kind, _)| self.shared.kinds[kind.index()].heard.load(Relaxed));
        Standing::Away { since: late.min().unwrap_or_default() }
    }

    /// Gives when all that answers need was heard of, in Unix seconds; 0 if some of it never was.
    pub(crate) fn heard(&self) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|kind| self.keep().holds(*kind) && !self.does_without(*kind))
            .map(|kind| self.shared.kinds[kind.index()].heard.load(Relaxed))
            .min()
            .unwrap_or_default()
    }

    /// Says whether objects of a kind are those of a snapshot, not listed since.
    pub(crate) fn is_kept(&self, kind: Kind) -> bool {
        self.shared.kinds[kind.index()].kept.load(Relaxed)
    }

    /// Says whether the cluster has no such kind, or keeps one from us that answers can be given without.
    fn does_without(&self, kind: Kind) -> bool {
        let essential = matches!(kind, Kind::Namespaces | Kind::Services | Kind::Slices);
        match self.state(kind) {
            State::Absent => true,
            State::Watching => false,
            State::Waiting | State::Listing | State::Failing | State::Forbidden => {
                !essential && self.shared.kinds[kind.index()].waived.load(Relaxed)
            }
        }
    }

    /// Notes what the watch of a kind does, and since when it fails.
    pub(crate) fn set_state(&self, kind: Kind, state: State) {
        let status = &self.shared.kinds[kind.index()];
        status.state.store(state as u8, Relaxed);
        match state {
            State::Forbidden | State::Absent => status.waived.store(true, Relaxed),
            State::Watching => status.waived.store(false, Relaxed),
            State::Waiting | State::Listing | State::Failing => {}
        }
        match state {
            State::Watching | State::Absent => status.broken.store(0, Relaxed),
            State::Failing | State::Forbidden => {
                // The first failure counts: others may follow, and lists in between that come to nothing.
                if status.broken.load(Relaxed) == 0 {
                    let passed = u64::try_from(self.shared.start.elapsed().as_millis());
                    status.broken.store(passed.unwrap_or(u64::MAX).saturating_add(1), Relaxed);
                }
            }
            State::Waiting | State::Listing => {}
        }
    }
}
