//! A zone of a primary: when it is renewed, and when it is too old.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use transports::upstream::Way;
use wire::Name;
use zone::{Soa, Zone};

use super::catalog::Catalog;
use super::primary::{Primaries, Refusal};
use crate::shared::zone::Served;

/// How many zones are copied at a time.
const AT_ONCE: usize = 16;
/// The tickets of those.
static TICKETS: Semaphore = Semaphore::const_new(AT_ONCE);
/// The first time between two tries to get a zone that is not there yet; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The longest.
const LAST_RETRY: Duration = Duration::from_secs(10);
/// The least time between two tries that notices ask for.
const PAUSE: Duration = Duration::from_secs(1);
/// By how much the times of renewals are spread.
const REFRESH_SPREAD: Duration = Duration::from_secs(5);
/// The same for those after a failure.
const RETRY_SPREAD: Duration = Duration::from_secs(2);

/// A zone, where it comes from, and when it is looked for again.
#[derive(Debug)]
pub(super) struct Held {
    /// The zone as it is served.
    pub(super) served: Arc<Served>,
    /// Where it comes from.
    pub(super) primaries: Arc<Primaries>,
    /// Whether it is a catalog, which counts only if it is none that is broken.
    is_catalog: bool,
    /// Tells those who follow it that it has changed.
    changed: watch::Sender<()>,
    times: Mutex<Times>,
    /// Wakes the task that renews it.
    wake: Notify,
    /// Held by the task that renews it: of two configurations one after the other.
    turn: tokio::sync::Mutex<()>,
    /// Whether the last try has failed.
    failing: AtomicBool,
}

/// When a zone is renewed.
#[derive(Debug)]
struct Times {
    /// The next time.
    due: Instant,
    /// The last try.
    tried: Option<Instant>,
    /// When a server has last said that the zone is as it should be.
    good: Instant,
    /// How long the next wait for a zone that is not there yet is.
    backoff: Duration,
    /// Who has told of a change.
    teller: Option<IpAddr>,
    /// What was wrong and has been said.
    told: String,
}

impl Held {
    /// A zone that is not there yet.
    pub(super) fn new(name: Name, primaries: Arc<Primaries>, is_catalog: bool) -> Self {
        let now = Instant::now();
        Self {
            served: Arc::new(Served::new(name)),
            primaries,
            is_catalog,
            changed: watch::Sender::new(()),
            times: Mutex::new(Times {
                due: now,
                tried: None,
                good: now,
                backoff: FIRST_RETRY,
                teller: None,
                told: String::new(),
            }),
            wake: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            failing: AtomicBool::new(false),
        }
    }

    /// The same zone with what is there of it, from other servers.
    pub(super) fn taken_over(other: &Self, primaries: Arc<Primaries>) -> Self {
        let good = other.times().good;
        let mut held = Self::new(other.name().clone(), primaries, other.is_catalog);
        held.served = Arc::clone(&other.served);
        held.times().good = good;
        held
    }

    /// The name of the zone.
    pub(super) fn name(&self) -> &Name {
        self.served.name()
    }

    /// Whether the last try to renew it has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Has the zone looked for soon, since this server says that it has changed.
    pub(super) fn notify(&self, teller: IpAddr) {
        let mut times = self.times();
        times.teller = Some(teller);
        let pause_ends = times.tried.map(|tried| tried + PAUSE);
        let now = Instant::now();
        times.due = times.due.min(pause_ends.map_or(now, |end| end.max(now)));
        drop(times);
        self.wake.notify_one();
    }

    /// When it is renewed, and so on.
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The times of the zone's SOA record, if it is there.
    fn soa(&self) -> Option<Soa> {
        self.served.soa()
    }

    /// When the zone will be too old, if it is there and is not yet.
    fn expires(&self) -> Option<Instant> {
        let soa = self.soa().filter(|_| !self.served.is_expired())?;
        Some(self.times().good + at_least_a_second(soa.expire))
    }

    /// Tells of every time that the zone is replaced.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Renews the zone again and again.
    pub(super) async fn run(self: Arc<Self>) {
        let _turn = self.turn.lock().await;
        loop {
            let due = self.times().due;
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.wake.notified() => continue,
                () = self.expiry() => {
                    self.expire();
                    continue;
                }
            }
            let attempt = self.try_all();
            tokio::pin!(attempt);
            loop {
                tokio::select! {
                    () = &mut attempt => break,
                    () = self.expiry() => self.expire(),
                }
            }
        }
    }

    /// Resolves when the zone is too old.
    async fn expiry(&self) {
        match self.expires() {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Serves the zone no more, until it is renewed.
    fn expire(&self) {
        if self.expires().is_some_and(|at| at <= Instant::now()) {
            self.served.set_expired(true);
            log::error!(target: "plugin/file", "Zone {} is expired", self.name());
        }
    }

    /// Asks the servers in turn until one answers, and says when to ask again.
    async fn try_all(&self) {
        // The semaphore is never closed.
        let Ok(_ticket) = TICKETS.acquire().await else { return };
        let teller = {
            let mut times = self.times();
            times.tried = Some(Instant::now());
            times.teller.take()
        };
        let mut failures = Vec::new();
        for way in self.primaries.from(teller) {
            match self.renew(way).await {
                Ok(()) => return self.succeeded(),
                Err(refusal) => failures.push(format!("{}: {refusal}", way.addr())),
            }
        }
        self.failed(&failures.join("; "));
    }

    /// Takes up what a server has, if it is new.
    async fn renew(&self, way: &Way) -> Result<(), Refusal> {
        let (name, addr) = (self.name(), way.addr());
        // A zone that is too old is taken whatever the serial is.
        let old = self.served.version().filter(|_| !self.served.is_expired());
        let have = old.as_ref().map(|old| (old.zone.soa().serial, old.zone.soa_record().1));
        let Some(incoming) = self.primaries.fetch(way, name, have).await? else { return Ok(()) };
        let (records, passed_over) = (incoming.records(), incoming.passed_over());
        let kind = if incoming.is_incremental() { "IXFR" } else { "AXFR" };
        // Large zones take their time, which others are not to wait for.
        let built =
            tokio::task::spawn_blocking(move || incoming.finish(old.as_ref().map(|old| &old.zone)));
        let built = built.await.map_err(|error| Refusal::Wrong(error.to_string()))?;
        let Some(zone) = built? else { return Ok(()) };
        if self.is_catalog {
            let members = Catalog::read(&zone).map_err(Refusal::Wrong)?.len();
            log::info!(target: "plugin/secondary", "Parsed catalog zone {name} with {members} member zones");
        }
        let serial = zone.soa().serial;
        self.put(zone).await?;
        log::info!(target: "plugin/file", "Transferred: {name} from {addr}");
        log::debug!(target: "plugin/secondary", "{name}: {kind} of {records} records, now of serial {serial}");
        if passed_over > 0 {
            log::warn!(target: "plugin/secondary", "{name}: {passed_over} records from {addr} are outside of the zone and are passed over");
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// Serves a zone from now on.
    async fn put(&self, zone: Zone) -> Result<(), Refusal> {
        let served = Arc::clone(&self.served);
        let put = tokio::task::spawn_blocking(move || served.replace(zone));
        put.await.map_err(|error| Refusal::Wrong(error.to_string()))
    }

    /// Notes that a server has answered.
    fn succeeded(&self) {
        self.failing.store(false, Ordering::Relaxed);
        if self.served.is_expired() {
            self.served.set_expired(false);
            log::info!(target: "plugin/secondary", "Zone {} is served again", self.name());
        }
        let refresh = at_least_a_second(self.soa().unwrap_or_default().refresh);
        let now = Instant::now();
        let mut times = self.times();
        if !std::mem::take(&mut times.told).is_empty() {
            log::info!(target: "plugin/secondary", "Zone {} can be renewed again", self.name());
        }
        times.good = now;
        times.backoff = FIRST_RETRY;
        // A notice that came meanwhile may be of a later change.
        times.due = match times.teller {
            Some(_) => now + PAUSE,
            None => now + refresh + spread(REFRESH_SPREAD),
        };
    }

    /// Notes that none has.
    fn failed(&self, why: &str) {
        self.failing.store(true, Ordering::Relaxed);
        let soa = self.soa();
        let mut times = self.times();
        let wait = match soa {
            Some(soa) => at_least_a_second(soa.retry) + spread(RETRY_SPREAD),
            None => {
                let wait = times.backoff;
                times.backoff = (2 * wait).min(LAST_RETRY);
                wait
            }
        };
        times.due = Instant::now() + wait;
        if times.told != why {
            log::warn!(
                target: "plugin/secondary",
                "All '{}' masters failed to transfer, retrying in {wait:?}: {why}", self.name()
            );
            why.clone_into(&mut times.told);
        }
    }
}

/// So many seconds, one at least.
fn at_least_a_second(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds.max(1)))
}

/// A random part of a time.
fn spread(most: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0) as u32;
    most * (random >> 16) / (1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_and_a_second_at_least() {
        assert_eq!([0, 1, 7].map(at_least_a_second), [1, 1, 7].map(Duration::from_secs));
        let all: Vec<Duration> = (0..100).map(|_| spread(REFRESH_SPREAD)).collect();
        assert!(all.iter().all(|one| *one < Duration::from_secs(5)), "{all:?}");
        let (least, most) = (all.iter().min(), all.iter().max());
        assert!(most.unwrap().saturating_sub(*least.unwrap()) > Duration::from_secs(2), "{all:?}");
    }
}
