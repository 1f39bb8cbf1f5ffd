//! What signs: zones, their keys, and the signatures made with them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use engine::metrics::{Gauge, describe, gauge};
use engine::{Stage, Stop};
use wire::{Name, rtype};

use super::cache::{Cache, Entry, Wanted};
use crate::shared::dnssec::{Body, Key, Times};
use crate::shared::zones::Zones;

/// The time to live that signatures are made for, in seconds: they hold for every smaller one too (RFC 4035 §5.3.3).
pub(super) const ORIGINAL_TTL: u32 = 3600;
/// How long before now signatures begin, in seconds, for clocks that are late.
const BEFORE: u64 = 3 * 3600;
/// How long signatures are good, in seconds.
const GOOD: u64 = 8 * 86_400;
/// A signature that is good for less than this is made anew, in seconds: three quarters of its life.
const SPARE: u64 = GOOD / 4 * 3;
/// How often signatures that nobody will be given any more are dropped.
const SWEEP: Duration = Duration::from_secs(8 * 3600);
/// How often the keys' files are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// Whether keys cannot be used.
const BROKEN: &str = "causeway_dnssec_keys_broken";

/// What gives keys.
pub(super) trait Source: std::fmt::Debug + Send + Sync {
    /// All keys, if they may have changed since the last time; may take some time.
    ///
    /// # Errors
    /// What is wrong.
    fn read(&self) -> Option<Result<Vec<Key>, String>>;
}

/// The keys of all zones, as they are now.
#[derive(Debug)]
pub(super) struct KeySet {
    /// Grows with every change.
    generation: u64,
    keys: Vec<Key>,
    /// Of each zone, in their order, the numbers of those that sign its DNSKEY records, and of those that sign the others.
    zones: Vec<[Vec<usize>; 2]>,
    /// Whether a signature of any takes long.
    pub(super) is_slow: bool,
}

/// A set of records that wants signatures.
#[derive(Debug)]
pub(super) struct Wish {
    /// The number of the zone that signs.
    pub(super) zone: usize,
    /// The type.
    pub(super) rtype: u16,
    /// The labels of the owner that count.
    pub(super) labels: u8,
    /// The records.
    pub(super) body: Body,
}

/// The zones of a directive with what signs them.
#[derive(Debug)]
pub(super) struct Signer {
    pub(super) zones: Zones,
    source: Box<dyn Source>,
    keys: ArcSwap<KeySet>,
    generations: AtomicU64,
    pub(super) cache: Cache,
    broken: Gauge,
    /// What was wrong with the keys and has been said.
    told: Mutex<String>,
}

impl KeySet {
    /// Sorts keys to the zones that they fit: their own and those below.
    ///
    /// # Errors
    /// If one fits none.
    fn new(generation: u64, keys: Vec<Key>, zones: &Zones) -> Result<Self, String> {
        let fits = |key: &Key, zone: &Name| zone.is_below(key.owner());
        if let Some(key) = keys.iter().find(|key| !zones.iter().any(|zone| fits(key, zone))) {
            let names: Vec<String> = zones.iter().map(Name::to_string).collect();
            return Err(format!(
                "key {} (keyid: {}) can not sign any of the zones {}",
                key.owner(),
                key.tag(),
                names.join(", ")
            ));
        }
        let shares = zones.iter().map(|zone| {
            let own = (0..).zip(&keys).filter(|(_, key)| fits(key, zone));
            let (entries, others): (Vec<_>, Vec<_>) = own.partition(|(_, key)| key.is_entry());
            let numbers = |all: Vec<(usize, &Key)>| all.into_iter().map(|(n, _)| n).collect();
            let mut shares: [Vec<usize>; 2] = [entries, others].map(numbers);
            // Where there are only keys of one kind, each signs everything.
            match &mut shares {
                [entries, others] if others.is_empty() => others.clone_from(entries),
                [entries, others] if entries.is_empty() => entries.clone_from(others),
                _ => {}
            }
            shares
        });
        let zones = shares.collect();
        let is_slow = keys.iter().any(Key::is_slow);
        Ok(Self { generation, keys, zones, is_slow })
    }

    /// Whether anybody signs a zone.
    pub(super) fn signs(&self, zone: usize) -> bool {
        self.zones.get(zone).is_some_and(|[entries, _]| !entries.is_empty())
    }

    /// The keys of a zone, as its DNSKEY records tell them.
    pub(super) fn of_zone(&self, zone: usize) -> impl Iterator<Item = &Key> {
        let name = self.zones.get(zone);
        let (entries, others) = name.map_or((&[][..], &[][..]), |[a, b]| (a, b));
        let more = others.iter().filter(|number| !entries.contains(number));
        entries.iter().chain(more).filter_map(|number| self.keys.get(*number))
    }

    /// The keys that sign records of a type.
    fn signing(&self, zone: usize, kind: u16) -> impl Iterator<Item = &Key> {
        let share = self.zones.get(zone).map(|[entries, others]| match kind {
            rtype::DNSKEY => entries,
            _ => others,
        });
        share.into_iter().flatten().filter_map(|number| self.keys.get(*number))
    }
}

impl Signer {
    /// Zones with the keys of `source`, and room for so many signatures.
    ///
    /// # Errors
    /// What is wrong with the keys.
    pub(super) fn new(
        zones: Zones,
        source: Box<dyn Source>,
        capacity: usize,
    ) -> Result<Self, String> {
        describe(BROKEN, "Whether the keys cannot be used; the last good ones sign.");
        let keys = source.read().unwrap_or_else(|| Ok(Vec::new()))?;
        let keys = KeySet::new(0, keys, &zones)?;
        let names: Vec<String> = zones.iter().map(Name::to_string).collect();
        Ok(Self {
            zones,
            source,
            keys: ArcSwap::from_pointee(keys),
            generations: AtomicU64::new(0),
            cache: Cache::new(capacity),
            broken: gauge(BROKEN, &[("zones", &names.join(","))]),
            told: Mutex::default(),
        })
    }

    /// The keys as they are now.
    pub(super) fn keys(&self) -> arc_swap::Guard<Arc<KeySet>> {
        self.keys.load()
    }

    /// The number of the zone that records belong to: of DS records of a zone's own name that is the zone above
    /// (RFC 4035 §3.1.4.1).
    pub(super) fn zone_of(&self, owner: &Name, kind: u16) -> Option<usize> {
        let number = self.zones.number(owner)?;
        let is_apex = || self.zones.iter().nth(number) == Some(owner);
        if kind == rtype::DS && !owner.is_root() && is_apex() {
            return self.zones.number(&owner.parent()).or(Some(number));
        }
        Some(number)
    }

    /// The name of a zone.
    pub(super) fn name(&self, zone: usize) -> Option<&Name> {
        self.zones.iter().nth(zone)
    }

    /// The signatures that were made of records, if they are good.
    pub(super) fn made(&self, keys: &KeySet, wish: &Wish, now: u64) -> Option<Arc<Entry>> {
        let Wish { zone, body, .. } = wish;
        let wanted = Wanted { body, zone: *zone, generation: keys.generation, now };
        self.cache.find(self.cache.hash(body), wanted)
    }

    /// Signs records and keeps the signatures; none if a key fails.
    pub(super) fn make(&self, keys: &KeySet, wish: &Wish, now: u64) -> Option<Arc<Entry>> {
        let zone = self.name(wish.zone)?;
        let times = Times { inception: now.saturating_sub(BEFORE), expiration: now + GOOD };
        let what = (wish.rtype, wish.labels, ORIGINAL_TTL);
        let signing = keys.signing(wish.zone, wish.rtype);
        let made = signing.map(|key| key.signature(zone, what, times, &wish.body));
        let entry = Arc::new(Entry {
            body: wish.body.as_slice().into(),
            zone: wish.zone,
            generation: keys.generation,
            from: times.inception,
            until: times.expiration - SPARE,
            signatures: made.collect::<Option<Box<[_]>>>()?,
        });
        self.cache.put(self.cache.hash(&wish.body), &entry);
        Some(entry)
    }

    /// Takes up keys that have changed.
    ///
    /// # Errors
    /// What is wrong with them; the last good ones go on signing.
    pub(super) fn take(&self) -> Result<(), String> {
        let Some(read) = self.source.read() else { return Ok(()) };
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let keys = read.and_then(|keys| KeySet::new(generation, keys, &self.zones))?;
        let tags: Vec<String> = keys.keys.iter().map(|key| key.tag().to_string()).collect();
        log::info!(target: "plugin/dnssec", "the keys are now {}", tags.join(", "));
        self.keys.store(Arc::new(keys));
        self.broken.set(0.0);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// The same; what is wrong is said.
    pub(super) fn refresh(&self) {
        if let Err(wrong) = self.take() {
            self.tell(wrong);
        }
    }

    /// Says what is wrong with the keys, unless that was said already.
    pub(super) fn tell(&self, wrong: String) {
        self.broken.set(1.0);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != wrong {
            log::error!(target: "plugin/dnssec", "{wrong}; the last good keys go on signing");
            *told = wrong;
        }
    }

    /// Looks for other keys, and drops old signatures, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, mut stop: Stop) {
        let mut looks = 0u32;
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            looks += 1;
            let sweeps = LOOK * looks >= SWEEP;
            if sweeps {
                looks = 0;
            }
            let signer = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                signer.refresh();
                if sweeps {
                    signer.cache.sweep(signer.keys().generation, now());
                }
            });
            if let Err(error) = looked.await {
                log::error!(target: "plugin/dnssec", "reading the keys ended early: {error}");
            }
        }
    }
}

/// Seconds since 1970, which signatures are dated by.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
