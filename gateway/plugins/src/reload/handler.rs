//! Reads the configuration's files again and again, and asks for a reload when they mean something else.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::metrics::{self, Collect, Counter, Figures};
use engine::{Origin, Process, Stage, Stop};
use tokio::time::sleep;

use super::print::{Look, Print};
use super::setup::Pace;

/// Where lines go.
const TARGET: &str = "plugin/reload";

/// Reloads that failed.
const FAILED: &str = "coredns_reload_failed_total";

/// What runs.
const VERSION: &str = "coredns_reload_version_info";

/// How often it is looked whether a reload that was asked for has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The number of the watch that is at work: the process has one, whichever blocks ask for it.
#[derive(Debug, Default)]
pub(super) struct Turns(AtomicU64);

/// The configuration that runs, as a metric for as long as it does.
#[derive(Debug)]
struct Running(Print);

impl Collect for Running {
    fn collect(&self, figures: &mut Figures) {
        let value = self.0.to_string();
        figures.gauge(VERSION, &[("hash", "sha512"), ("value", &value)], 1.0);
    }
}

/// Watches over the files of one configuration.
#[derive(Debug)]
pub(super) struct Watch {
    pace: Pace,
    path: PathBuf,
    origin: Arc<Origin>,
    process: Arc<Process>,
    turns: Arc<Turns>,
    failed: Counter,
}

impl Watch {
    /// A watch over the Corefile at `path`, which was read as `origin` has it.
    pub(super) fn new(
        pace: Pace,
        path: PathBuf,
        origin: Arc<Origin>,
        process: Arc<Process>,
        turns: Arc<Turns>,
    ) -> Self {
        metrics::describe(FAILED, "Changed configurations that could not be taken up.");
        metrics::describe(VERSION, "The SHA-512 of the configuration that runs: always 1.");
        let failed = metrics::counter(FAILED, &[]);
        Self { pace, path, origin, process, turns, failed }
    }

    /// Watches until the configuration is replaced, or another watch takes its turn.
    pub(super) async fn run(self, mut stop: Stop) {
        let turn = self.turns.0.fetch_add(1, Ordering::AcqRel) + 1;
        tokio::select! {
            () = self.watch(turn) => {}
            () = stop.reached(Stage::Draining) => {}
        }
    }

    /// The files as they are now, read where waiting holds up nobody; none if the runtime ends.
    async fn look(&self) -> Option<Look> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || Look::at(&path)).await.ok()
    }

    /// Reads again and again.
    async fn watch(&self, turn: u64) {
        // Another watch of this configuration may take the turn at once.
        tokio::task::yield_now().await;
        if !self.has(turn) {
            return;
        }
        let Some(first) = self.look().await else { return };
        // What runs is what was read when it was built, even if the files have changed since.
        let running = match first {
            Look::Good { print, files } if files == self.origin.files => print,
            _ => match Look::back(&self.origin.files) {
                Look::Good { print, .. } | Look::Bad { print, .. } => print,
            },
        };
        log::info!(target: TARGET, "Running configuration SHA512 = {running}");
        let shown = Arc::new(Running(running.clone()));
        metrics::collect(&shown);
        let mut known = running.clone();
        loop {
            sleep(self.interval()).await;
            if !self.has(turn) {
                return;
            }
            match self.look().await {
                None => return,
                Some(Look::Good { print, .. }) if print == running => known = print,
                // What was tried and failed is not tried again.
                Some(Look::Good { print, .. } | Look::Bad { print, .. }) if print == known => {}
                Some(Look::Good { print, .. }) => {
                    known = print;
                    self.reload().await;
                }
                Some(Look::Bad { print, why }) => {
                    known = print;
                    self.failed.increment(1);
                    log::warn!(target: TARGET, "Corefile parse failed: {why}");
                }
            }
        }
    }

    /// Whether this watch is the one at work.
    fn has(&self, turn: u64) -> bool {
        self.turns.0.load(Ordering::Acquire) == turn
    }

    /// Asks for a reload and waits for its end; after a good one the configuration and its watch end.
    async fn reload(&self) {
        let (before, _) = self.process.reloads();
        self.process.ask_reload();
        loop {
            sleep(LOOK).await;
            let (count, failed) = self.process.reloads();
            if count == before {
                continue;
            }
            if failed {
                self.failed.increment(1);
                log::error!(target: TARGET, "Corefile changed but reload failed: the old configuration goes on");
            }
            return;
        }
    }

    /// The time until the next look: the interval, give or take half the jitter.
    pub(super) fn interval(&self) -> Duration {
        let Pace { interval, jitter } = self.pace;
        let range = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX);
        let random = RandomState::new().hash_one(0);
        let part = random.checked_rem(range).unwrap_or(0);
        interval.saturating_sub(jitter / 2).saturating_add(Duration::from_nanos(part))
    }
}
