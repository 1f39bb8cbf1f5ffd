//! Signatures that were made.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

/// How many entries lie in one part, which has a lock of its own.
const WAYS: usize = 8;

/// The signatures of one set of records.
#[derive(Debug)]
pub(super) struct Entry {
    /// The records, in canonical form.
    pub(super) body: Box<[u8]>,
    /// The number of the zone that signs.
    pub(super) zone: usize,
    /// The number of the keys, see [`super::signer::KeySet`].
    pub(super) generation: u64,
    /// From when to when they are given, in seconds since 1970.
    pub(super) from: u64,
    pub(super) until: u64,
    /// The data of the RRSIG records.
    pub(super) signatures: Box<[Box<[u8]>]>,
}

/// What an entry is found by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) body: &'a [u8],
    pub(super) zone: usize,
    pub(super) generation: u64,
    /// When, in seconds since 1970.
    pub(super) now: u64,
}

/// Entries with the hashes of their records.
type Part = SmallVec<[(u64, Arc<Entry>); WAYS]>;

/// Signatures by the records that they are of.
#[derive(Debug)]
pub(super) struct Cache {
    parts: Box<[Mutex<Part>]>,
    /// Entries that a part may have.
    most: usize,
    hasher: RandomState,
    count: AtomicUsize,
    /// Counts the entries that had to go: the next one goes from elsewhere in its part.
    gone: AtomicUsize,
}

impl Entry {
    /// Whether it is good now.
    fn is_good(&self, generation: u64, now: u64) -> bool {
        self.generation == generation && (self.from..self.until).contains(&now)
    }
}

impl Cache {
    /// No entries, with room for so many.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            parts: (0..capacity.div_ceil(WAYS)).map(|_| Mutex::default()).collect(),
            most: capacity.min(WAYS),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
        }
    }

    /// How many entries there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The hash of records in canonical form.
    pub(super) fn hash(&self, body: &[u8]) -> u64 {
        self.hasher.hash_one(body)
    }

    /// The part that a hash belongs to, locked; none if nothing is kept.
    fn part(&self, hash: u64) -> Option<MutexGuard<'_, Part>> {
        let count = self.parts.len().max(1) as u64;
        // The remainder is less than the number of parts.
        let part = self.parts.get((hash % count) as usize)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The entry, if it is there and good.
    pub(super) fn find(&self, hash: u64, wanted: Wanted<'_>) -> Option<Arc<Entry>> {
        let part = self.part(hash)?;
        let entry = part.iter().find(|(own, entry)| {
            *own == hash && entry.zone == wanted.zone && *entry.body == *wanted.body
        });
        let (_, entry) = entry.filter(|(_, entry)| entry.is_good(wanted.generation, wanted.now))?;
        Some(Arc::clone(entry))
    }

    /// Keeps an entry in the place of the one for the same records, or of any one if there is no room.
    pub(super) fn put(&self, hash: u64, entry: &Arc<Entry>) {
        let Some(mut part) = self.part(hash) else { return };
        let same = |(own, old): &(u64, Arc<Entry>)| {
            *own == hash && old.zone == entry.zone && old.body == entry.body
        };
        let dead = |(_, old): &(u64, Arc<Entry>)| !old.is_good(entry.generation, entry.from);
        let victim = part.iter().position(same).or_else(|| {
            (part.len() >= self.most).then(|| {
                let any = self.gone.fetch_add(1, Ordering::Relaxed) % part.len().max(1);
                part.iter().position(dead).unwrap_or(any)
            })
        });
        match victim.and_then(|at| part.get_mut(at)) {
            Some(slot) => *slot = (hash, Arc::clone(entry)),
            None => {
                part.push((hash, Arc::clone(entry)));
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Drops what is not good any more.
    pub(super) fn sweep(&self, generation: u64, now: u64) {
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let before = part.len();
            part.retain(|(_, entry)| entry.is_good(generation, now));
            self.count.fetch_sub(before - part.len(), Ordering::Relaxed);
        }
    }
}
