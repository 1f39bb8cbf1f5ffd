//! Zones that others copy while they change all the time: published state by state, with the differences between the last ones
//! (RFC 1995).
//!
//! A zone of a cluster is never at rest, so what is copied is not what queries see but the last published state, at most a second
//! or so older. Each state has a serial of its own. As long as nobody has copied a zone, only its serial moves; the first copy
//! begins the journal: the published records by unit (a service, some addresses), packed, and for each publication what the units
//! that it changed were before.

mod copy;
mod stream;
#[cfg(test)]
mod tests;
mod unit;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::config::Diagnostic;
use engine::{Setup, Stage, Stop, Stream, Wanted};
use k8s::{Mark, Store, Touched};
use tokio::time::{Instant, sleep};
use wire::{Answer, Name};

use crate::shared::transfer::Pages;
use copy::{Changes, Copied};
use stream::Whole;
pub(crate) use unit::{Stems, Unit};

/// How long changes are gathered before they are published.
const GATHER: Duration = Duration::from_millis(200);
/// The least time between two publications of a zone: a serial a second is as fast as time goes.
const PACE: Duration = Duration::from_secs(1);

/// More records than this fit in no datagram: a name that was there before, type, class, time to live, length and the least that
/// is behind it, an empty text, are 13 octets.
const DATAGRAM: usize = 65_535 / 13;

/// What a zone's records come from, unit by unit.
pub(crate) trait Book: fmt::Debug + Send + Sync {
    /// The stores that they come from.
    fn stores(&self) -> Vec<&Store>;

    /// Writes the zone's SOA record.
    fn soa(&self, zone: &Name, serial: u32, answer: &mut Answer);

    /// Calls `each` with the keys of all units that a zone may have but the empty key, which is that of its own records.
    fn units(&self, zone: &Name, each: &mut dyn FnMut(&[u8]));

    /// Calls `each` with the keys of the units of a zone in which something touched may be.
    fn units_of(&self, zone: &Name, touched: &Touched, each: &mut dyn FnMut(&[u8]));

    /// Writes the records of a unit, as they are now; those of the zone itself without its SOA record.
    fn write(&self, zone: &Name, unit: &[u8], answer: &mut Answer);

    /// What the names of a unit mostly end in.
    fn stems(&self, zone: &Name, unit: &[u8]) -> Stems;
}

/// The journals of a plugin's zones; none in a block from which nobody may copy them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journals(Arc<[Arc<Journal>]>);

impl Journals {
    /// Sets the journals of these zones up, if the block has `transfer`. Those of the configuration before go on where `settings`
    /// are the same: they have to say all that the records depend on beside the objects.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn set_up(
        setup: &mut Setup<'_>,
        zones: &[Name],
        settings: &str,
    ) -> Result<Self, Diagnostic> {
        if !setup.has("transfer") {
            return Ok(Self::default());
        }
        let mut all = Vec::new();
        for zone in zones {
            // Serials go up over all reloads, whatever else changes.
            let given = setup.share(&format!("serials of {zone}"), || {
                Ok(Arc::new(AtomicU32::new(unix_time())))
            })?;
            let key = format!("journal of {zone} by {settings}");
            let journal = setup
                .share(&key, || Ok(Arc::new(Journal::new(zone.clone(), Arc::clone(&given)))))?;
            all.push(journal);
        }
        Ok(Self(all.into()))
    }

    /// Has changes published as long as the configuration lives.
    pub(crate) fn keep_up(&self, setup: &mut Setup<'_>, book: Arc<dyn Book>) {
        if !self.0.is_empty() {
            self.0.iter().for_each(|journal| journal.begin(&*book));
            let own = self.clone();
            setup.task(|stop| own.run(book, stop));
        }
    }

    /// The journal of a zone.
    pub(crate) fn of(&self, zone: &Name) -> Option<&Journal> {
        self.0.iter().find(|journal| journal.zone == *zone).map(|journal| &**journal)
    }

    /// Calls `each` with every zone and its serial.
    pub(crate) fn each(&self, each: &mut dyn FnMut(&Name, u32)) {
        self.0.iter().for_each(|journal| each(&journal.zone, journal.serial()));
    }

    /// The serial of a zone; `plain` if it has no journal.
    pub(crate) fn serial(&self, zone: &Name, plain: u32) -> u32 {
        self.of(zone).map_or(plain, Journal::serial)
    }

    /// Publishes changes until the configuration is replaced.
    async fn run(self, book: Arc<dyn Book>, mut stop: Stop) {
        let publish = async {
            loop {
                sleep(GATHER).await;
                if self.0.iter().any(|journal| journal.is_due(&*book)) {
                    let (own, book) = (self.clone(), Arc::clone(&book));
                    let work = tokio::task::spawn_blocking(move || {
                        own.0.iter().for_each(|journal| journal.publish(&*book));
                    });
                    if let Err(error) = work.await {
                        log::error!("changes of zones could not be published: {error}");
                    }
                }
            }
        };
        tokio::select! {
            () = publish => {}
            () = stop.reached(Stage::Draining) => {}
        }
    }
}

/// What is published of a zone.
#[derive(Debug)]
pub(crate) struct Journal {
    /// The zone.
    zone: Name,
    /// The serial of the last publication.
    serial: AtomicU32,
    /// The last serial that any state of a zone of this name was given.
    given: Arc<AtomicU32>,
    /// The rest.
    state: Mutex<State>,
}

/// What a client gets of a zone.
enum Part {
    /// The SOA record.
    Soa,
    /// What has changed since a serial.
    Changes(u32, Changes),
    /// All units.
    Whole(Vec<Unit>),
}

/// What changes with a publication.
#[derive(Debug)]
struct State {
    /// What the stores had told at the last publication.
    told: Told,
    /// When that was, if there was one.
    at: Option<Instant>,
    /// The records, once somebody has copied them.
    copied: Option<Copied>,
}

impl Journal {
    /// A journal of a zone that nobody has copied yet.
    fn new(zone: Name, given: Arc<AtomicU32>) -> Self {
        let state = Mutex::new(State { told: Told::new(), at: None, copied: None });
        let own = Self { zone, serial: AtomicU32::new(0), given, state };
        own.step();
        own
    }

    /// Has its first serial stand for what there is, unless it goes on from a configuration before.
    fn begin(&self, book: &dyn Book) {
        let mut state = self.lock();
        if state.told.is_empty() {
            state.told = told(book);
        }
    }

    /// The serial of the last publication.
    pub(crate) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Whether there may be something to publish.
    fn is_due(&self, book: &dyn Book) -> bool {
        // This is asked between other tasks, which do not wait for a copy that is being made.
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        told(book) != state.told && may_publish(&state)
    }

    /// Publishes what has changed, unless that was done just now.
    pub(crate) fn publish(&self, book: &dyn Book) {
        self.renew(&mut self.lock(), book);
    }

    /// The zone from SOA to SOA; for a client that has it what has changed since, if that is known and less; the SOA record alone
    /// if the client's is not older than the zone (RFC 1995 §2), or if it wants changes alone and they are not known.
    pub(crate) fn transfer(&self, book: Arc<dyn Book>, wanted: Wanted) -> Box<dyn Stream> {
        let (serial, part) = self.part(&*book, wanted);
        let soa = |serial| {
            let mut answer = Answer::default();
            book.soa(&self.zone, serial, &mut answer);
            answer
        };
        let now = soa(serial);
        let pages = match part {
            Part::Soa => {
                let mut pages = Pages::new();
                pages.extend(&now);
                pages
            }
            Part::Changes(theirs, changes) => changes.pages(&*book, &self.zone, &soa(theirs), &now),
            Part::Whole(units) => {
                return Box::new(Whole::new(book, self.zone.clone(), now, units));
            }
        };
        Pages::read(Arc::new(pages))
    }

    /// The part of the zone that is wanted, and the zone's serial; no longer than that takes is the lock held.
    fn part(&self, book: &dyn Book, wanted: Wanted) -> (u32, Part) {
        let mut state = self.lock();
        self.renew(&mut state, book);
        let is_new = |theirs: u32| theirs.wrapping_sub(self.serial()) < 1 << 31;
        // RFC 1982 §3.2.
        if wanted.serial().is_some_and(is_new) {
            return (self.serial(), Part::Soa);
        }
        // Who asks for changes alone may not be who it seems: a copy is made for nobody else.
        let may_copy = !matches!(wanted, Wanted::Changes(_));
        if may_copy && state.copied.is_none() {
            let now = told(book);
            state.copied = Some(Copied::new(book, &self.zone));
            if now != state.told {
                (state.told, state.at) = (now, Some(Instant::now()));
                self.step();
            }
        }
        let serial = self.serial();
        let Some(copied) = &mut state.copied else { return (serial, Part::Soa) };
        let most = if may_copy { usize::MAX } else { DATAGRAM };
        let changes = wanted.serial().and_then(|theirs| {
            copied.since(theirs, most).map(|changes| Part::Changes(theirs, changes))
        });
        let part = match changes {
            Some(changes) => changes,
            None if may_copy => Part::Whole(copied.all()),
            None => return (serial, Part::Soa),
        };
        copied.hand_out();
        (serial, part)
    }

    /// Publishes what has changed.
    fn renew(&self, state: &mut State, book: &dyn Book) {
        let now = told(book);
        if now == state.told || !may_publish(state) || !book.stores().iter().all(|one| one.synced())
        {
            return;
        }
        state.told = now;
        let before = self.serial();
        let moves = match &mut state.copied {
            Some(copied) => copied.renew(book, &self.zone, before),
            None => true,
        };
        if moves {
            state.at = Some(Instant::now());
            self.step();
        }
    }

    /// Takes the next serial: the time, but always later than the last one (RFC 1982).
    fn step(&self) {
        let now = unix_time();
        let next = |last: u32| {
            let next = last.wrapping_add(1).max(1);
            if now.wrapping_sub(next) < 1 << 31 { now } else { next }
        };
        let before = match self.serial() {
            0 => self.given.load(Ordering::Relaxed),
            own => own,
        };
        let serial = next(before);
        self.serial.store(serial, Ordering::Relaxed);
        // Journals of one zone in several blocks do not drive one another ahead of the time: only a new one begins behind all.
        let later = |given: u32| (serial.wrapping_sub(given) < 1 << 31).then_some(serial);
        let _none_if_another_is_later =
            self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Takes the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the last publication is long enough ago.
fn may_publish(state: &State) -> bool {
    state.at.is_none_or(|at| at.elapsed() >= PACE)
}

/// Stores and how many changes each has told.
type Told = Vec<(usize, u64)>;

/// What the stores have told so far.
fn told(book: &dyn Book) -> Told {
    book.stores().iter().map(|store| (store.id(), store.told())).collect()
}

/// Where the changes of stores are followed from.
fn follow(book: &dyn Book) -> Vec<Mark> {
    book.stores().iter().map(|store| store.follow()).collect()
}

/// The time in Unix seconds, as far as 32 bits go (RFC 1982).
fn unix_time() -> u32 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    passed.as_secs() as u32
}
