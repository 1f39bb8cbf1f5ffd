//! Copies of zones, refreshed beside the queries.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use engine::metrics::{Gauge, describe, gauge};
use engine::{Stage, Stop};
use tokio::time::Instant;
use wire::Name;

use super::records::{self, Listing};
use crate::shared::fetch::{Failure, Kind};
use crate::shared::zone::Served;

/// How long the start waits for an API that cannot be reached.
const START: Duration = Duration::from_secs(15);

/// How soon after the first failure an API is asked again; twice as long after each further one, up to the interval.
const AGAIN: Duration = Duration::from_secs(1);

/// How long an API may have us wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// What an API is being asked for.
pub(crate) type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// An API that has zones.
pub(crate) trait Api: fmt::Debug + Send + Sync + 'static {
    /// Proves that a zone is there and may be read: once, before it is first loaded.
    fn probe<'a>(&'a self, copy: &'a Copy) -> Asking<'a, ()>;

    /// Reads all record sets of a zone.
    fn list<'a>(&'a self, copy: &'a Copy) -> Asking<'a, Listing>;
}

/// The names of a plugin's metrics, each for a `zone` and its `id`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// 1 while the zone cannot be refreshed.
    pub(crate) broken: &'static str,
    /// When it was last refreshed, in seconds since 1970.
    pub(crate) loaded: &'static str,
    /// How many records it has.
    pub(crate) records: &'static str,
    /// How many records were passed over.
    pub(crate) passed_over: &'static str,
}

/// A zone that is copied.
#[derive(Debug)]
pub(crate) struct Copy {
    served: Served,
    /// What the API knows it by, as the Corefile has it.
    id: String,
    /// Which of several kinds it is, if the API has such.
    pub(crate) private: bool,
    broken: Gauge,
    loaded: Gauge,
    records: Gauge,
    passed_over: Gauge,
    said: Mutex<Said>,
}

/// What has been said of a zone.
#[derive(Debug, Default)]
struct Said {
    /// That it cannot be refreshed.
    failure: String,
    /// What is odd about it.
    notes: Vec<String>,
}

impl Copy {
    /// A zone that is not loaded yet.
    pub(crate) fn new(figures: Figures, zone: Name, id: String, private: bool) -> Self {
        describe(
            figures.broken,
            "Whether the zone cannot be refreshed; what was loaded is served.",
        );
        describe(figures.loaded, "When the zone was last refreshed, in seconds since 1970.");
        describe(figures.records, "How many records the zone has.");
        describe(figures.passed_over, "How many records of the zone cannot be served.");
        let shown = zone.to_string();
        let figure = |name| gauge(name, &[("zone", &*shown), ("id", &*id)]);
        Self {
            served: Served::new(zone),
            broken: figure(figures.broken),
            loaded: figure(figures.loaded),
            records: figure(figures.records),
            passed_over: figure(figures.passed_over),
            said: Mutex::default(),
            id,
            private,
        }
    }

    /// The name of the zone.
    pub(crate) fn zone(&self) -> &Name {
        self.served.name()
    }

    /// What the API knows it by, as the Corefile has it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The copy.
    pub(super) fn served(&self) -> &Served {
        &self.served
    }

    /// Whether it was ever loaded.
    fn is_loaded(&self) -> bool {
        self.served.serial().is_some()
    }
}

/// All zones of a directive.
#[derive(Debug)]
pub(crate) struct Source {
    /// The target of log lines: `plugin/NAME`.
    target: &'static str,
    api: Box<dyn Api>,
    copies: Box<[Copy]>,
    interval: Duration,
    turn: tokio::sync::Mutex<Turn>,
}

/// When the next refresh is due.
#[derive(Debug)]
struct Turn {
    due: Instant,
    /// How many have failed in a row.
    failures: u32,
}

impl Source {
    /// Zones of an API, to be refreshed at an interval; `target` is that of log lines, `plugin/NAME`.
    pub(crate) fn new(
        target: &'static str,
        api: Box<dyn Api>,
        copies: Vec<Copy>,
        interval: Duration,
    ) -> Self {
        let turn = tokio::sync::Mutex::new(Turn { due: Instant::now(), failures: 0 });
        Self { target, api, copies: copies.into(), interval, turn }
    }

    /// The zones, in the order of the Corefile.
    pub(crate) fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// Whether all zones are loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        self.copies.iter().all(Copy::is_loaded)
    }

    /// Loads what is not loaded yet. Waits for an API that cannot be reached, but not for long.
    ///
    /// # Errors
    /// If the API refuses, or cannot be reached in time.
    pub(crate) async fn start(&self) -> Result<(), Failure> {
        let end = Instant::now() + START;
        // Not behind the lock: a refresh under way is no reason to hold up a reload.
        while !self.is_loaded() {
            let mut turn = self.turn.lock().await;
            if self.is_loaded() {
                return Ok(());
            }
            let loaded = tokio::time::timeout_at(end, self.load_missing()).await;
            let failure = match loaded {
                Ok(Ok(())) => {
                    *turn = Turn { due: Instant::now() + self.interval, failures: 0 };
                    return Ok(());
                }
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Failure::away(format!("no zones within {START:?}"))),
            };
            turn.failures += 1;
            turn.due = Instant::now() + self.pause(turn.failures, failure.kind);
            let due = turn.due;
            drop(turn);
            if failure.is_final() || due >= end {
                return Err(failure);
            }
            tokio::time::sleep_until(due).await;
        }
        Ok(())
    }

    /// Proves and loads each zone that is not loaded.
    async fn load_missing(&self) -> Result<(), Failure> {
        for copy in self.copies.iter().filter(|copy| !copy.is_loaded()) {
            let probed = self.api.probe(copy).await;
            probed.map_err(|failure| failure.while_doing(copy.zone()))?;
            self.load(copy).await.map_err(|failure| failure.while_doing(copy.zone()))?;
        }
        Ok(())
    }

    /// Refreshes the zones whenever they are due, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, mut stop: Stop) {
        loop {
            let due = self.turn.lock().await.due;
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = self.once(due) => {}
            }
        }
    }

    /// Refreshes the zones when they are due.
    async fn once(&self, due: Instant) {
        tokio::time::sleep_until(due).await;
        let mut turn = self.turn.lock().await;
        // Another configuration, or block, with the same zones was first.
        if turn.due > Instant::now() {
            return;
        }
        let mut worst: Option<Failure> = None;
        for copy in &self.copies {
            match self.load(copy).await {
                Ok(()) => self.tell_loaded(copy),
                Err(failure) => {
                    self.tell(copy, &failure);
                    worst = Some(failure);
                }
            }
        }
        match worst {
            None => *turn = Turn { due: Instant::now() + self.interval, failures: 0 },
            Some(failure) => {
                turn.failures = turn.failures.saturating_add(1);
                turn.due = Instant::now() + self.pause(turn.failures, failure.kind);
            }
        }
    }

    /// How long to wait after so many failures in a row.
    fn pause(&self, failures: u32, kind: Kind) -> Duration {
        match kind {
            Kind::Busy(wish) => wish.unwrap_or_default().max(self.interval).min(LONGEST),
            Kind::Refused => self.interval,
            Kind::Unknown | Kind::Away => {
                let doubled = AGAIN.saturating_mul(1 << failures.saturating_sub(1).min(16));
                doubled.min(self.interval)
            }
        }
    }

    /// Reads a zone and puts it in the place of what is served. If that fails, what is served stays.
    async fn load(&self, copy: &Copy) -> Result<(), Failure> {
        let loaded = async {
            let listing = self.api.list(copy).await?;
            records::zone(copy.zone(), listing)
        };
        let made = match loaded.await {
            Ok(made) => made,
            Err(failure) => {
                copy.broken.set(1.0);
                return Err(failure);
            }
        };
        let target = self.target;
        let mut said = copy.said.lock().unwrap_or_else(PoisonError::into_inner);
        for note in made.notes.iter().filter(|note| !said.notes.contains(note)) {
            log::warn!(target: target, "{}: passed over: {note}", copy.zone());
        }
        let more = made.passed_over.saturating_sub(made.notes.len());
        if more > 0 && said.notes != made.notes {
            log::warn!(target: target, "{}: {more} more records are passed over", copy.zone());
        }
        said.notes = made.notes;
        drop(said);
        copy.records.set(made.zone.records() as f64);
        copy.passed_over.set(made.passed_over as f64);
        copy.served.replace(made.zone);
        copy.broken.set(0.0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        copy.loaded.set(now.map_or(0.0, |now| now.as_secs_f64()));
        Ok(())
    }

    /// Says that a zone cannot be refreshed, unless that was said already.
    fn tell(&self, copy: &Copy, failure: &Failure) {
        let mut said = copy.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.failure == failure.what {
            return;
        }
        let stays = if copy.is_loaded() { "; what was loaded stays" } else { "" };
        log::error!(target: self.target, "Failed to update zones [{}]: {failure}{stays}", copy.zone());
        said.failure.clone_from(&failure.what);
    }

    /// Says that a zone is refreshed again, if it was said that it was not.
    fn tell_loaded(&self, copy: &Copy) {
        let mut said = copy.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut said.failure).is_empty() {
            log::info!(target: self.target, "{} is up to date again", copy.zone());
        }
    }
}
