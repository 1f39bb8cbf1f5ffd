//! A database's file, read again when it changes, while what it held before is in use.

use std::io::{Error, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use engine::metrics::{Collect, Figures, collect, describe};
use engine::{Stage, Stop};

use super::database::Database;
use crate::shared::file::{self, Stamp};

/// When the database in use was made.
const MADE: &str = "causeway_geoip_build_timestamp_seconds";

/// How often another one was taken into use.
const SWAPS: &str = "causeway_geoip_swaps_total";

/// How often one was not, because it was wrong.
const REFUSED: &str = "causeway_geoip_refused_swaps_total";

/// Whether that is so now.
const BROKEN: &str = "causeway_geoip_broken";

/// How often the file is looked at.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// The largest file, in octets.
const LARGEST: u64 = 2 << 30;

/// A file, and the database that it held when it was right last.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    now: ArcSwap<Database>,
    seen: Mutex<Seen>,
    taken: AtomicU64,
    refused: AtomicU64,
    broken: AtomicBool,
}

/// What a look has found.
#[derive(Debug, Default)]
struct Seen {
    /// The file as it was; none if it was not there.
    stamp: Option<Stamp>,
    /// What is wrong with it, and for how many looks it has been.
    wrong: Option<(String, u32)>,
}

impl Source {
    /// Reads the file.
    ///
    /// # Errors
    /// In words, if it cannot be read, or is no database that is known.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, String> {
        let (database, stamp) = read(path)?;
        describe(MADE, "When the database in use was made, in seconds since 1970.");
        describe(SWAPS, "How often a new database was taken into use.");
        describe(REFUSED, "How often a new database was wrong, and was not taken.");
        describe(
            BROKEN,
            "Whether what is there is wrong, so that what was there before is in use.",
        );
        let source = Arc::new(Self {
            path: path.to_owned(),
            now: ArcSwap::from_pointee(database),
            seen: Mutex::new(Seen { stamp: Some(stamp), wrong: None }),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        });
        collect(&source);
        Ok(source)
    }

    /// The database in use.
    pub(super) fn now(&self) -> Guard<Arc<Database>> {
        self.now.load()
    }

    /// Reads the file if it has changed, and takes what it holds if that is right.
    pub(super) fn look(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = std::fs::metadata(&self.path).ok().map(|found| Stamp::of(&found));
        // What was wrong is read once more: a file that is being written is wrong for a moment.
        if stamp == seen.stamp && !matches!(seen.wrong, Some((_, 1))) {
            return;
        }
        seen.stamp = stamp;
        let path = self.path.display();
        match self.judge() {
            Ok(database) => {
                self.now.store(Arc::new(database));
                self.taken.fetch_add(1, Ordering::Relaxed);
                self.broken.store(false, Ordering::Relaxed);
                seen.wrong = None;
                log::info!(target: "plugin/geoip", "{path}: a new database is in use");
            }
            Err(error) => {
                let times = match &seen.wrong {
                    Some((known, times)) if *known == error => times.saturating_add(1),
                    _ => 1,
                };
                if times == 2 {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    self.broken.store(true, Ordering::Relaxed);
                    log::warn!(target: "plugin/geoip", "{path}: {error}; the database from before stays in use");
                }
                seen.wrong = Some((error, times));
            }
        }
    }

    /// Reads the file, and looks through all of it: what is in use must not be replaced by something worse.
    fn judge(&self) -> Result<Database, String> {
        let (database, _) = read(&self.path)?;
        if database.schema != self.now().schema {
            return Err("it is about something else than the one in use".to_owned());
        }
        database.verify()?;
        Ok(database)
    }

    /// Looks again and again, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, mut stop: Stop) {
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let source = Arc::clone(&self);
            // A panic in there is said by the process; the next look may do better.
            drop(tokio::task::spawn_blocking(move || source.look()).await);
        }
    }
}

impl Collect for Source {
    fn collect(&self, figures: &mut Figures) {
        let path = self.path.to_string_lossy();
        let labels = &[("file", &*path)];
        figures.gauge(MADE, labels, self.now().made() as f64);
        figures.counter(SWAPS, labels, self.taken.load(Ordering::Relaxed) as f64);
        figures.counter(REFUSED, labels, self.refused.load(Ordering::Relaxed) as f64);
        figures.gauge(BROKEN, labels, f64::from(u8::from(self.broken.load(Ordering::Relaxed))));
    }
}

/// Reads a file, and what it was like.
fn read(path: &Path) -> Result<(Database, Stamp), String> {
    let octets = || {
        let file = file::open(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        if stamp.size > LARGEST {
            return Err(Error::new(ErrorKind::FileTooLarge, "it is larger than 2 GiB"));
        }
        let mut octets = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or_default());
        file.take(LARGEST).read_to_end(&mut octets)?;
        Ok((octets, stamp))
    };
    let (octets, stamp) = octets().map_err(|error| format!("cannot be read: {error}"))?;
    Ok((Database::read(octets)?, stamp))
}
