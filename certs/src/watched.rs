//! Files that are read again when they change, while what they held before is in use.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use tokio::runtime::Handle;

use crate::file::Stamp;
use crate::{Error, file, now};

/// How often files are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(250);

/// What files hold.
pub(crate) trait Content: Sized + Send + Sync + 'static {
    /// Makes it of the files' octets.
    fn read(files: &[PathBuf], octets: &[Vec<u8>]) -> Result<Self, Error>;

    /// Why it is no good instead of another one, at `now` in seconds since 1970.
    fn unfit(&self, _now: i64) -> Option<String> {
        None
    }

    /// What it is, for the log.
    fn told(&self) -> String;
}

/// Files, and what they held when they were right last.
pub(crate) struct Watched<T> {
    files: Box<[PathBuf]>,
    /// The target of log lines.
    target: &'static str,
    now: ArcSwap<T>,
    seen: Mutex<Seen>,
    taken: AtomicU64,
    refused: AtomicU64,
    broken: AtomicBool,
}

/// What a look has found.
struct Seen {
    stamps: Vec<Option<Stamp>>,
    /// The hash of what is in use.
    used: [u8; 32],
    /// What is wrong with the files, and for how many looks it has been.
    wrong: Option<(Error, u32)>,
    /// Whether the next look must read the files even if their stamps are the same.
    again: bool,
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T: Content> Watched<T> {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read, or what they hold is wrong.
    pub(crate) fn new(
        files: impl Into<Box<[PathBuf]>>,
        target: &'static str,
    ) -> Result<Arc<Self>, Error> {
        let files = files.into();
        let stamps = stamps(&files);
        let octets = read(&files)?;
        let content = T::read(&files, &octets)?;
        let seen = Seen { stamps, used: hash(&octets), wrong: None, again: true };
        Ok(Arc::new(Self {
            files,
            target,
            now: ArcSwap::from_pointee(content),
            seen: Mutex::new(seen),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        }))
    }

    /// What is in use.
    pub(crate) fn now(&self) -> Arc<T> {
        self.now.load_full()
    }

    /// The files.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// How often new content was taken, how often it was refused, and whether it is wrong now.
    pub(crate) fn counts(&self) -> (u64, u64, bool) {
        (
            self.taken.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed),
            self.broken.load(Ordering::Relaxed),
        )
    }

    /// Reads the files if they have changed, and takes what they hold if it is right; true if so.
    pub(crate) fn look(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.files);
        if stamps == seen.stamps && !seen.again {
            return false;
        }
        // A file may change while it is read: that shows in its stamp at the next look.
        seen.again = stamps.iter().flatten().any(Stamp::is_fresh);
        seen.stamps = stamps;
        match self.judge(&seen.used) {
            Ok(None) => {
                self.right(&mut seen);
                false
            }
            Ok(Some((content, used))) => {
                log::info!(target: self.target, "{}: in use now: {}", self.files[0].display(), content.told());
                self.now.store(Arc::new(content));
                self.taken.fetch_add(1, Ordering::Relaxed);
                seen.used = used;
                seen.wrong = None;
                self.broken.store(false, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.wrong(&mut seen, error);
                false
            }
        }
    }

    /// Reads the files: none if they hold what is in use, else what they hold, with its hash.
    fn judge(&self, used: &[u8; 32]) -> Result<Option<(T, [u8; 32])>, Error> {
        let octets = read(&self.files)?;
        let new = hash(&octets);
        if new == *used {
            return Ok(None);
        }
        let content = T::read(&self.files, &octets)?;
        match content.unfit(now()) {
            Some(what) => Err(Error::of(&self.files[0], what)),
            None => Ok(Some((content, new))),
        }
    }

    /// Notes that the files hold what is in use, after they did not.
    fn right(&self, seen: &mut Seen) {
        if seen.wrong.take().is_some() && self.broken.swap(false, Ordering::Relaxed) {
            log::info!(target: self.target, "{}: as it was before", self.files[0].display());
        }
    }

    /// Notes what is wrong. It is said at the second look: files that are replaced one after another are wrong for a moment.
    fn wrong(&self, seen: &mut Seen, error: Error) {
        let times = match &seen.wrong {
            Some((known, times)) if *known == error => times.saturating_add(1),
            _ => 1,
        };
        if times == 2 {
            log::warn!(target: self.target, "{error}; what was read before stays in use");
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.broken.store(true, Ordering::Relaxed);
        }
        // What is wrong may be the time: it passes without a change of the files.
        seen.again = true;
        seen.wrong = Some((error, times));
    }
}

/// The stamps of files.
fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| Stamp::of(file)).collect()
}

/// Reads files.
fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, Error> {
    files.iter().map(|file| file::read(file)).collect()
}

/// The hash of files.
fn hash(octets: &[Vec<u8>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for one in octets {
        context.update(&one.len().to_be_bytes());
        context.update(one);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Looks at something again and again, beside everything else, as long as it is there. Without a runtime nobody looks.
pub(crate) fn watch<T: Send + Sync + 'static>(what: &Arc<T>, look: fn(&T)) {
    let Ok(runtime) = Handle::try_current() else { return };
    let weak: Weak<T> = Arc::downgrade(what);
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(what) = weak.upgrade() else { return };
            // A panic in there is said by the process; the next look may do better.
            drop(tokio::task::spawn_blocking(move || look(&what)).await);
        }
    });
}
