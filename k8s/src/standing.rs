//! Whether what a store tells is the cluster's present state.

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::{
    apart::NEEDED,
    object::Kind,
    probe::State,
    store::{Store, unix_time},
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
    /// The cluster's objects are not known, not even its services.
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

/// What a watch does, where readers see it without the lock.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// That, as a number of [`State`].
    state: AtomicU8,
    /// When its source was last heard of, in Unix seconds; 0 if never.
    pub(crate) heard: AtomicU64,
    /// Since when it fails: milliseconds from the store's making, and one; 0 if it does not.
    broken: AtomicU64,
}

impl Watch {
    /// Says what it does.
    pub(crate) fn state(&self) -> State {
        State::from_number(self.state.load(Relaxed))
    }

    /// Notes what it does, so long after the store's making. Gives whether it fails from now on, or no longer; none if that is as
    /// before.
    fn set(&self, state: State, age: Duration) -> Option<bool> {
        self.state.store(state as u8, Relaxed);
        match state {
            State::Watching | State::Absent => (self.broken.swap(0, Relaxed) != 0).then_some(false),
            // The first failure counts: others may follow, and lists in between that come to nothing.
            State::Failing | State::Forbidden => {
                let passed = u64::try_from(age.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
                let first = self.broken.compare_exchange(0, passed, Relaxed, Relaxed);
                first.is_ok().then_some(true)
            }
            State::Waiting | State::Listing => None,
        }
    }

    /// Says whether it fails.
    fn fails(&self) -> bool {
        self.broken.load(Relaxed) != 0
    }

    /// Says whether it has failed for too long at this time after the store's making.
    fn is_late(&self, age: Duration) -> bool {
        let first = self.broken.load(Relaxed).checked_sub(1);
        first.is_some_and(|at| age.saturating_sub(Duration::from_millis(at)) > GRACE)
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
        if !self.answers() {
            return Standing::Unsynced;
        }
        let held = || Kind::ALL.into_iter().filter(|kind| self.keep().holds(*kind));
        if held().any(|kind| self.is_kept(kind) && !self.does_without(kind)) {
            return Standing::Snapshot { taken: self.shared.taken.load(Relaxed) };
        }
        let watch = |kind: Kind| &self.shared.kinds[kind.index()].watch;
        let failing = held().filter(|kind| !self.does_without(*kind)).map(watch);
        let since = oldest(failing, age);
        since.map_or(Standing::Live, |since| Standing::Away { since })
    }

    /// Gives when a namespace was last heard of, in Unix seconds, that is followed by itself and whose services or slices have been
    /// kept from us for more than ten seconds, or the first of all these if the name is empty; none if what the store tells of it is
    /// as good as the rest. Takes no lock, and looks at rows and a clock only if a namespace is kept from us.
    pub fn refused_since(&self, namespace: &[u8]) -> Option<u64> {
        self.refused_after(namespace, || self.shared.start.elapsed())
    }

    /// Does so at a time after the store was made.
    pub(crate) fn refused_after(
        &self,
        namespace: &[u8],
        age: impl FnOnce() -> Duration,
    ) -> Option<u64> {
        if self.shared.refused.load(Relaxed) == 0 {
            return None;
        }
        let rows = self.keep().apart().iter().zip(&self.shared.apart);
        let refused = rows
            .filter(|(name, _)| namespace.is_empty() || name.as_bytes() == namespace)
            .flat_map(|(_, row)| NEEDED.map(|kind| &row[kind.index()]))
            // Nothing is told of what was never heard of.
            .filter(|watch| watch.heard.load(Relaxed) != 0);
        oldest(refused, age)
    }

    /// Gives when all that answers need was heard of, in Unix seconds; 0 if some of it never was.
    pub fn heard(&self) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|kind| self.keep().holds(*kind) && !self.does_without(*kind))
            .map(|kind| self.shared.kinds[kind.index()].watch.heard.load(Relaxed))
            .min()
            .unwrap_or_default()
    }

    /// Notes that the source of a kind was heard of.
    pub(crate) fn hear(&self, kind: Kind) {
        self.shared.kinds[kind.index()].watch.heard.store(unix_time().0, Relaxed);
    }

    /// Notes so of a namespace that is followed by itself, by its number.
    pub(crate) fn hear_in(&self, kind: Kind, row: usize) {
        if let Some(row) = self.shared.apart.get(row) {
            row[kind.index()].heard.store(unix_time().0, Relaxed);
        }
        self.hear(kind);
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
                // What has been listed once is answered from.
                let needed = essential && self.listed(kind);
                !needed && self.shared.kinds[kind.index()].waived.load(Relaxed)
            }
        }
    }

    /// Notes what the watch of a kind does, and since when it fails.
    pub(crate) fn set_state(&self, kind: Kind, state: State) {
        let status = &self.shared.kinds[kind.index()];
        status.watch.set(state, self.shared.start.elapsed());
        match state {
            State::Forbidden | State::Absent => status.waived.store(true, Relaxed),
            State::Watching => status.waived.store(false, Relaxed),
            State::Waiting | State::Listing | State::Failing => {}
        }
    }

    /// Says what the watch of a kind in a namespace does that is followed by itself, by its number.
    pub(crate) fn state_in(&self, kind: Kind, row: usize) -> State {
        self.shared.apart.get(row).map_or(State::Waiting, |row| row[kind.index()].state())
    }

    /// Notes so; the kind's own state is another matter. Whoever watches notes it, and a writer too: what a store that is filled by
    /// events alone has of a namespace is as old as they say.
    pub(crate) fn set_state_in(&self, kind: Kind, row: usize, state: State) {
        let Some(row) = self.shared.apart.get(row) else { return };
        match row[kind.index()].set(state, self.shared.start.elapsed()) {
            Some(true) if NEEDED.contains(&kind) => self.shared.refused.fetch_add(1, Relaxed),
            Some(false) if NEEDED.contains(&kind) => self.shared.refused.fetch_sub(1, Relaxed),
            _ => return,
        };
    }
}

/// Gives when the watches were last heard of that have failed for too long, in Unix seconds: the first of these times. Looks at the
/// clock only if one fails.
fn oldest<'w>(
    watches: impl Iterator<Item = &'w Watch>,
    age: impl FnOnce() -> Duration,
) -> Option<u64> {
    let mut failing = watches.filter(|watch| watch.fails()).peekable();
    failing.peek()?;
    let now = age();
    failing.filter(|watch| watch.is_late(now)).map(|watch| watch.heard.load(Relaxed)).min()
}
