//! A zone that is served, as it is now, with what led there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use wire::Name;
use zone::{Delta, Soa, Zone};

/// How many changes are kept for secondaries at most.
const MOST_CHANGES: usize = 64;

/// A zone of a plugin. Readers take no lock.
#[derive(Debug)]
pub struct Served {
    /// The name of the zone.
    name: Name,
    now: ArcSwapOption<Version>,
    /// Whether the zone is too old to be served.
    expired: AtomicBool,
}

/// A version of a zone.
#[derive(Debug)]
pub struct Version {
    /// The zone.
    pub zone: Zone,
    /// What led here, the oldest first; each begins where the one before ends, and the last ends here.
    pub(super) changes: Vec<Arc<Delta>>,
}

impl Served {
    /// A zone that is not loaded yet.
    pub fn new(name: Name) -> Self {
        Self { name, now: ArcSwapOption::empty(), expired: AtomicBool::new(false) }
    }

    /// The name of the zone.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The zone as it is now; none if it is not loaded yet or has expired.
    pub fn load(&self) -> Option<Guard<Option<Arc<Version>>>> {
        let now = self.now.load();
        (now.is_some() && !self.is_expired()).then_some(now)
    }

    /// The serial of the zone, if it is loaded, expired or not.
    pub fn serial(&self) -> Option<u32> {
        self.now.load().as_ref().map(|version| version.zone.soa().serial)
    }

    /// The times of the zone's SOA record, if it is loaded, expired or not.
    pub fn soa(&self) -> Option<Soa> {
        self.now.load().as_ref().map(|version| version.zone.soa())
    }

    /// The version that is loaded, expired or not.
    pub fn version(&self) -> Option<Arc<Version>> {
        self.now.load_full()
    }

    /// Whether the zone has expired.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }

    /// Says whether the zone has expired: then it is kept, and not served.
    pub fn set_expired(&self, expired: bool) {
        self.expired.store(expired, Ordering::Release);
    }

    /// Puts `zone` in the place of what is served. May take some time, since the two are compared.
    pub fn replace(&self, zone: Zone) {
        let before = self.now.load_full();
        let changes = before.map_or(Vec::new(), |before| changes(&before, &zone));
        self.now.store(Some(Arc::new(Version { zone, changes })));
    }
}

/// What leads to `zone` from the version before and from those before that; nothing if the serial has not grown (RFC 1982 §3.2). Of
/// changes that are more than half of the zone, secondaries would rather have the zone.
fn changes(before: &Version, zone: &Zone) -> Vec<Arc<Delta>> {
    let grown = zone.soa().serial.wrapping_sub(before.zone.soa().serial);
    if grown == 0 || grown > 1 << 31 {
        return Vec::new();
    }
    let last = Arc::new(Delta::between(&before.zone, zone));
    let (mut room, mut octets) = (zone.records() / 2, zone.footprint() / 2);
    let mut kept = Vec::new();
    for change in std::iter::once(&last).chain(before.changes.iter().rev()).take(MOST_CHANGES) {
        let less = room.checked_sub(change.records()).zip(octets.checked_sub(change.footprint()));
        let Some(less) = less else { break };
        (room, octets) = less;
        kept.push(Arc::clone(change));
    }
    kept.reverse();
    kept
}
