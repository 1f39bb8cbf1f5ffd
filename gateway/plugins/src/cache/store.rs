//! The entries.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use wire::{Answer, Request};

/// How many parts the entries are in, each with a lock of its own.
const SHARDS: usize = 256;

/// The fewest entries of a kind in a part.
const LEAST: usize = 4;

/// The two kinds of entries, which have capacities of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Answers.
    Success,
    /// Denials and failures.
    Denial,
}

/// Moments, in milliseconds after the store was made.
pub(super) type Moment = u64;

/// What an entry is found by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    name: &'a [u8],
    rtype: u16,
    class: u16,
    bits: u8,
}

/// An answer that is kept.
#[derive(Debug)]
pub(super) struct Item {
    hash: u64,
    name: Box<[u8]>,
    rtype: u16,
    class: u16,
    /// 1 for DO, 2 for CD.
    bits: u8,
    /// Whether it is a failure, which is never given when it is stale.
    pub(super) is_failure: bool,
    /// Whether it has the records that were asked for.
    pub(super) answers: bool,
    pub(super) answer: Answer,
    /// Its time to live when it was stored, in seconds.
    pub(super) ttl: u32,
    stored: Moment,
    /// Hits without a long pause, and the last of them.
    pub(super) hits: u32,
    last: Moment,
    /// Until when nobody has to refresh it: somebody does, or has failed to.
    pub(super) quiet_until: Moment,
}

/// A hasher of what is a hash already.
#[derive(Clone, Copy, Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only numbers are hashed here; anything else would still be hashed, if badly.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Entries of one kind in one part.
#[derive(Debug, Default)]
struct Table {
    at: HashMap<u64, u32, BuildHasherDefault<Same>>,
    items: Vec<Item>,
}

/// One part.
#[derive(Debug, Default)]
pub(super) struct Shard {
    success: Table,
    denial: Table,
}

/// All entries of a server block.
#[derive(Debug)]
pub(super) struct Store {
    made: Instant,
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// Entries of each kind that a part may have.
    most: [usize; 2],
    /// Entries of each kind that there are.
    sizes: [AtomicUsize; 2],
}

impl Store {
    /// No entries, with room for so many answers and denials.
    pub(super) fn new(success: usize, denial: usize) -> Self {
        Self {
            made: tokio::time::Instant::now().into_std(),
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            most: [success, denial].map(|capacity| (capacity / SHARDS).max(LEAST)),
            sizes: Default::default(),
        }
    }

    /// An instant as a moment.
    pub(super) fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.made);
        since.as_millis().try_into().unwrap_or(Moment::MAX)
    }

    /// The key of a request.
    pub(super) fn key<'a>(&self, request: &'a Request) -> Key<'a> {
        let dnssec = u8::from(request.edns.dnssec_ok());
        let bits = dnssec | u8::from(request.flags.has(wire::Flags::CD)) << 1;
        let name = request.name.wire();
        let hash = self.hasher.hash_one((name, request.rtype, request.class, bits));
        Key { hash, name, rtype: request.rtype, class: request.class, bits }
    }

    /// The part that a key is in, locked.
    pub(super) fn shard(&self, key: &Key<'_>) -> MutexGuard<'_, Shard> {
        let at = (key.hash >> 32) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries of a kind there are.
    pub(super) fn size(&self, kind: Kind) -> usize {
        self.sizes[kind as usize].load(Ordering::Relaxed)
    }

    /// Keeps an entry, in the place of the one with its key if there is one, else of any one if there is no room: tells
    /// whether one had to go. An answer takes the place of a denial.
    pub(super) fn put(&self, key: &Key<'_>, kind: Kind, item: Item, random: u64) -> bool {
        let mut shard = self.shard(key);
        if kind == Kind::Success && shard.denial.remove(key.hash) {
            self.sizes[Kind::Denial as usize].fetch_sub(1, Ordering::Relaxed);
        }
        let most = self.most[kind as usize];
        let table = shard.table(kind);
        if let Some(own) = table.at.get(&key.hash) {
            table.items[*own as usize] = item;
            return false;
        }
        let evicts = table.items.len() >= most;
        if evicts {
            let victim = table.items[random as usize % table.items.len()].hash;
            table.remove(victim);
        } else {
            self.sizes[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
        table.add(item);
        evicts
    }
}

impl Table {
    /// The entry of a key.
    fn find(&mut self, key: &Key<'_>) -> Option<&mut Item> {
        let at = *self.at.get(&key.hash)?;
        self.items.get_mut(at as usize).filter(|item| item.is(key))
    }

    /// Adds an entry whose hash is not there.
    fn add(&mut self, item: Item) {
        let Ok(at) = u32::try_from(self.items.len()) else { return };
        if self.items.len() == self.items.capacity() {
            // Doubling would leave half of the memory unused for long.
            self.items.reserve_exact(4);
        }
        self.at.insert(item.hash, at);
        self.items.push(item);
    }

    /// Removes the entry of a hash; whether there was one.
    fn remove(&mut self, hash: u64) -> bool {
        let Some(at) = self.at.remove(&hash) else { return false };
        self.items.swap_remove(at as usize);
        if let Some(moved) = self.items.get(at as usize) {
            self.at.insert(moved.hash, at);
        }
        true
    }
}

impl Shard {
    /// The entries of a kind.
    fn table(&mut self, kind: Kind) -> &mut Table {
        match kind {
            Kind::Success => &mut self.success,
            Kind::Denial => &mut self.denial,
        }
    }

    /// The entry to answer with, if any is fresh or, for at most `stale`, out of date: a denial before an answer, unless
    /// the denial is a failure and the answer is of use. With `prefer_positive`, an answer that truly answers comes first.
    pub(super) fn pick(
        &mut self,
        key: &Key<'_>,
        now: Moment,
        stale: Option<Duration>,
        prefer_positive: bool,
    ) -> Option<(&mut Item, Kind)> {
        let usable = |item: &&mut Item| item.is_usable(now, stale);
        let success = self.success.find(key).filter(usable);
        let denial = self.denial.find(key).filter(usable);
        match (success, denial) {
            (Some(answer), Some(denial)) => {
                let first = if prefer_positive && answer.answers || denial.is_failure {
                    true
                } else {
                    answer.left(now) > 0 && denial.left(now) <= 0
                };
                Some(if first { (answer, Kind::Success) } else { (denial, Kind::Denial) })
            }
            (Some(answer), None) => Some((answer, Kind::Success)),
            (None, Some(denial)) => Some((denial, Kind::Denial)),
            (None, None) => None,
        }
    }
}

impl Item {
    /// An entry for `answer`, of which options and unused memory are left out.
    pub(super) fn new(key: &Key<'_>, answer: &Answer, ttl: u32, now: Moment) -> Self {
        let mut kept = answer.clone();
        kept.options = wire::Options::default();
        kept.shrink();
        Self {
            hash: key.hash,
            name: key.name.into(),
            rtype: key.rtype,
            class: key.class,
            bits: key.bits,
            is_failure: false,
            answers: false,
            answer: kept,
            ttl,
            stored: now,
            hits: 0,
            last: 0,
            quiet_until: 0,
        }
    }

    /// Whether it is the entry of `key`; hashes may collide.
    fn is(&self, key: &Key<'_>) -> bool {
        (self.rtype, self.class, self.bits) == (key.rtype, key.class, key.bits)
            && *self.name == *key.name
    }

    /// The seconds that are left of its time to live; 0 or less if it is out of date.
    pub(super) fn left(&self, now: Moment) -> i64 {
        let age = now.saturating_sub(self.stored) / 1000;
        i64::from(self.ttl) - i64::try_from(age).unwrap_or(i64::MAX)
    }

    /// Whether it may be given: it is fresh, or out of date for less than `stale`.
    fn is_usable(&self, now: Moment, stale: Option<Duration>) -> bool {
        let left = self.left(now);
        let within =
            |stale: Duration| u64::try_from(-left).is_ok_and(|late| late < stale.as_secs());
        left > 0 || !self.is_failure && stale.is_some_and(within)
    }

    /// Counts a hit; after a pause of more than `window` counting begins again.
    pub(super) fn touch(&mut self, now: Moment, window: Duration) {
        let pause = u128::from(now.saturating_sub(self.last));
        self.hits = if pause > window.as_millis() { 1 } else { self.hits.saturating_add(1) };
        self.last = now;
    }

    /// Takes over the hits of the entry that this one replaces.
    pub(super) fn take_hits(&mut self, old: &Self) {
        self.hits = old.hits;
        self.last = old.last;
    }

    /// The octets that it takes, names and records included.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.answer.footprint()
    }
}
