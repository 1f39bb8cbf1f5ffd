//! A zone file with its zones, read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use engine::metrics::Gauge;
use engine::{Stage, Stop};

use super::load::{Loaded, Trouble, load};
use super::served::Served;
use crate::shared::file::Stamp;

/// A file that was changed so short a time ago may be changed once more without its stamp telling.
const FRESH: Duration = Duration::from_secs(2);

/// A zone file, and the zones that are made of it.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// Each with where its serial is shown.
    zones: Box<[(Arc<Served>, Gauge)]>,
    seen: Mutex<Seen>,
    /// Whether the file cannot be used.
    is_broken: AtomicBool,
    /// Shows the same.
    broken: Gauge,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct Seen {
    /// The files, as they were.
    stamps: Vec<(PathBuf, Stamp)>,
    /// Whether other stamps would tell a change.
    settled: bool,
    /// What was wrong and has been said.
    trouble: String,
}

impl Source {
    /// The file at `path`, of which these zones are made, each with the gauge of its serial; `broken` is 1 while the file cannot be
    /// used. Nothing is read yet: that is [`Source::refresh`]'s.
    pub fn new(path: PathBuf, zones: Box<[(Arc<Served>, Gauge)]>, broken: Gauge) -> Self {
        Self { path, zones, seen: Mutex::default(), is_broken: AtomicBool::new(false), broken }
    }

    /// The zones, in the order in which they were given.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.zones.iter().map(|(served, _)| served)
    }

    /// Whether something is wrong with the file, as the last look has shown.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file if it or one that it includes has changed, and puts its zones in the place of those with another serial, or
    /// of all if `always`, whatever their serials. On a failure what is served stays.
    ///
    /// # Errors
    /// What is wrong.
    pub fn refresh(&self, always: bool) -> Result<(), Trouble> {
        // Held while reading, so that two tasks do not read the same file twice.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(path, stamp): &(PathBuf, Stamp)| {
            std::fs::metadata(path).is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        if seen.settled && seen.stamps.iter().all(same) {
            return Ok(());
        }
        let now = SystemTime::now();
        let mut stamps = Vec::new();
        let loaded: Result<Vec<Loaded>, Trouble> = self
            .zones()
            .map(|served| {
                stamps.clear();
                load(&self.path, served.name(), &mut stamps)
            })
            .collect();
        let old = |(_, stamp): &(PathBuf, Stamp)| {
            let age = stamp.modified.and_then(|time| now.duration_since(time).ok());
            age.is_some_and(|age| age > FRESH)
        };
        // What is broken may be mended elsewhere: by a file that was missing.
        seen.settled = loaded.is_ok() && !stamps.is_empty() && stamps.iter().all(old);
        let always = always && seen.stamps != stamps;
        seen.stamps = stamps;
        self.is_broken.store(loaded.is_err(), Ordering::Relaxed);
        self.broken.set(if loaded.is_ok() { 0.0 } else { 1.0 });
        for ((served, shown), loaded) in self.zones.iter().zip(loaded?) {
            self.take(served, shown, loaded, always);
        }
        seen.trouble.clear();
        Ok(())
    }

    /// Takes up what was read of a zone.
    fn take(&self, served: &Served, shown: &Gauge, loaded: Loaded, always: bool) {
        let (file, serial) = (self.path.display(), loaded.zone.soa().serial);
        let before = served.serial();
        if before == Some(serial) && !always {
            return;
        }
        for note in &loaded.notes {
            log::warn!(target: "plugin/file", "{note}");
        }
        let more = loaded.passed_over.saturating_sub(loaded.notes.len());
        if more > 0 {
            log::warn!(target: "plugin/file", "{file}: {more} more records are passed over");
        }
        served.replace(loaded.zone);
        shown.set(f64::from(serial));
        if before.is_some() {
            let name = served.name();
            log::info!(
                target: "plugin/file",
                "Successfully reloaded zone \"{name}\" in \"{file}\" with {serial} SOA serial"
            );
        }
    }

    /// Says what is wrong with the file, unless that was said already.
    pub fn tell(&self, trouble: &Trouble, interval: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = trouble.to_string();
        if seen.trouble == text {
            return;
        }
        let file = self.path.display();
        match trouble {
            Trouble::Open(error) => {
                log::error!(
                    target: "plugin/file",
                    "Failed to open \"{file}\": {error}, trying again in {interval:?}; what was loaded stays"
                );
            }
            Trouble::Parse(wrong) => {
                let names: Vec<String> =
                    self.zones().map(|served| format!("\"{}\"", served.name())).collect();
                let names = names.join(", ");
                log::error!(
                    target: "plugin/file",
                    "Parsing zone {names} in \"{file}\": {wrong}; what was loaded stays"
                );
            }
        }
        seen.trouble = text;
    }

    /// Notes what was wrong at set-up and is said there.
    pub fn told(&self, trouble: &Trouble) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.trouble = trouble.to_string();
    }

    /// Looks for changes every `interval`, until told to stop.
    pub async fn watch(self: Arc<Self>, interval: Duration, always: bool, mut stop: Stop) {
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(interval) => {}
            }
            let source = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                if let Err(trouble) = source.refresh(always) {
                    source.tell(&trouble, interval);
                }
            });
            if let Err(error) = looked.await {
                log::error!(target: "plugin/file", "reading {} ended early: {error}", self.path.display());
            }
        }
    }
}
