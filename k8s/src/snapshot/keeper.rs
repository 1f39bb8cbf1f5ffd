//! When snapshots are written.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{Place, folder::Found};
use crate::{
    probe::Probe,
    standing::Standing,
    store::{Store, Writer, unix_time},
};

/// How often it is looked whether a snapshot is due.
const LOOK: Duration = Duration::from_secs(1);
/// The least time between two snapshots.
const PACE: Duration = Duration::from_secs(30);
/// Writing takes at most this part of the time.
const SHARE: u32 = 20;
/// How often a snapshot is written anew although nothing has changed: its age is what it may be used by.
const RENEW: Duration = Duration::from_secs(600);
/// The pause after a block, so that a snapshot is not written at the cost of anything else.
const REST: Duration = Duration::from_millis(2);

/// Keeps a store's snapshot.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Where it is.
    place: Place,
    /// The store.
    store: Store,
    /// Is told of snapshots.
    probe: Arc<dyn Probe>,
    /// The last one that was written.
    last: Mutex<Last>,
    /// When the cluster was last heard of as far as the file knows, in Unix seconds; 0 without a file.
    taken: AtomicU64,
    /// The file's bytes; 0 without one.
    bytes: AtomicU64,
}

/// The last snapshot that was written.
#[derive(Debug, Default)]
struct Last {
    /// The store's version then.
    version: Option<u64>,
    /// When the last try ended, and how long it took.
    tried: Option<(Instant, Duration)>,
    /// What has been said of a trouble that goes on.
    said: Option<String>,
}

impl Keeper {
    /// The keeper of the snapshot at a place.
    pub(crate) fn new(place: Place, store: Store, probe: Arc<dyn Probe>) -> Self {
        let (last, taken, bytes) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { place, store, probe, last, taken, bytes }
    }

    /// Fills the store from the snapshot, if there is one to be used.
    pub(crate) fn load(&self, writer: &mut Writer) {
        let path = self.place.path();
        let path = path.display();
        if let Some(odd) = self.place.odd() {
            log::warn!(target: crate::LOG, "the folder of snapshots {} {odd}", self.place.dir().display());
        }
        match self.place.load(writer) {
            Found::Nothing => log::debug!(target: crate::LOG, "there is no snapshot {path}"),
            Found::Taken(taken) => {
                self.taken.store(taken, Relaxed);
                let age = unix_time().0.saturating_sub(taken);
                log::info!(
                    target: crate::LOG,
                    "the snapshot {path} tells what was known {age} s ago; it is served until the cluster has been listed"
                );
            }
            Found::Refused(why) => {
                log::error!(
                    target: crate::LOG,
                    "the snapshot {path} is not used, for {why}; it is set aside as .refused, and the start goes on without it"
                );
                self.probe.snapshot_failed();
            }
            Found::Untimely(why) => {
                log::error!(
                    target: crate::LOG,
                    "the snapshot {path} is not used, for {why}; it stays there until the cluster has been listed, and the start goes on without it: look whether the clock is right"
                );
                self.probe.snapshot_failed();
            }
            Found::Unreadable(error) => {
                log::error!(
                    target: crate::LOG,
                    "the snapshot {path} cannot be read: {error}; the start goes on without it"
                );
                self.probe.snapshot_failed();
            }
        }
    }

    /// Writes snapshots for ever, each when it is due.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            if self.is_due() {
                let keeper = Arc::clone(&self);
                drop(tokio::task::spawn_blocking(move || keeper.save(true)).await);
            }
        }
    }

    /// Writes a last snapshot if something has changed.
    pub(crate) async fn finish(self: Arc<Self>) {
        let last = move || {
            let changed = self.lock().version != Some(self.store.version());
            if changed {
                self.save(false);
            }
        };
        drop(tokio::task::spawn_blocking(last).await);
    }

    /// When the cluster was heard of as the file knows it, in Unix seconds, and the file's bytes; none without a file.
    pub(crate) fn figures(&self) -> Option<(u64, u64)> {
        let taken = self.taken.load(Relaxed);
        (taken > 0).then(|| (taken, self.bytes.load(Relaxed)))
    }

    /// Whether a snapshot is to be written now.
    fn is_due(&self) -> bool {
        let standing = self.store.standing();
        let last = self.lock();
        let changed = last.version != Some(self.store.version());
        let Some((tried, took)) = last.tried else { return standing == Standing::Live };
        let since = tried.elapsed();
        let renew = RENEW.min(self.place.max_age() / 4);
        match standing {
            Standing::Live if changed => since >= PACE.max(took * SHARE),
            Standing::Live => since >= renew.max(took * SHARE),
            // What is known does not get any newer, but may not be on disk yet.
            Standing::Away { .. } => changed && since >= PACE.max(took * SHARE),
            Standing::Snapshot { .. } | Standing::Unsynced => false,
        }
    }

    /// From when a snapshot would be that is taken now, in Unix seconds; none if there is nothing to be kept.
    fn taken_now(&self) -> Option<u64> {
        match self.store.standing() {
            Standing::Live => Some(unix_time().0),
            Standing::Away { since } => Some(since),
            Standing::Snapshot { .. } | Standing::Unsynced => None,
        }
    }

    /// Writes a snapshot, with pauses or without.
    fn save(&self, rests: bool) {
        let Some(taken) = self.taken_now() else { return };
        let mut last = self.lock();
        let (start, version) = (Instant::now(), self.store.version());
        let mut rest = || {
            if rests {
                std::thread::sleep(REST);
            }
        };
        let saved = self.place.save(&self.store, taken, &mut rest);
        last.tried = Some((Instant::now(), start.elapsed()));
        let path = self.place.path();
        match saved {
            Ok(bytes) => {
                last.version = Some(version);
                self.taken.store(taken, Relaxed);
                self.bytes.store(bytes, Relaxed);
                if last.said.take().is_some() {
                    log::info!(target: crate::LOG, "the snapshot {} is written again", path.display());
                }
            }
            Err(error) => {
                self.probe.snapshot_failed();
                let text = error.to_string();
                if last.said.as_ref() != Some(&text) {
                    log::error!(
                        target: crate::LOG,
                        "the snapshot {} cannot be written: {text}; serving goes on",
                        path.display()
                    );
                    last.said = Some(text);
                }
            }
        }
    }

    /// The last snapshot that was written. The lock is held while one is.
    fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
