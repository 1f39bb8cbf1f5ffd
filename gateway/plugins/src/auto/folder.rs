//! A folder of zone files, walked again and again.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use engine::metrics::{Collect, Figures, Gauge};
use engine::{Stage, Stop};
use wire::Name;

use super::setup::{Origins, TARGET};
use crate::shared::zone::{Served, Source, Table, Trouble};

/// How many zones a folder has.
const ZONES: &str = "causeway_auto_zones";
/// How many of its files cannot be used.
const BROKEN: &str = "causeway_auto_broken";

/// A folder with the zones of its files.
pub(super) struct Folder {
    place: PathBuf,
    origins: Origins,
    now: ArcSwap<Table<Arc<Served>>>,
    seen: Mutex<Seen>,
    /// The files that cannot be used.
    broken: AtomicUsize,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Folder").field(&self.place).finish()
    }
}

/// What the last walk has seen.
#[derive(Debug, Default)]
struct Seen {
    /// The files of the zones.
    sources: BTreeMap<Name, Arc<Source>>,
    /// What is wrong with files and has been said.
    told: HashMap<PathBuf, String>,
}

impl Folder {
    /// A folder that is not walked yet.
    pub(super) fn new(place: PathBuf, origins: Origins) -> Arc<Self> {
        engine::metrics::describe(ZONES, "The zones of a folder.");
        engine::metrics::describe(BROKEN, "The files of a folder that cannot be used.");
        let folder = Arc::new(Self {
            place,
            origins,
            now: ArcSwap::default(),
            seen: Mutex::default(),
            broken: AtomicUsize::new(0),
        });
        engine::metrics::collect(&folder);
        folder
    }

    /// The zones as they are now.
    pub(super) fn zones(&self) -> Guard<Arc<Table<Arc<Served>>>> {
        self.now.load()
    }

    /// Walks the folder: files that are new become zones, changed ones are read again, and zones go whose files are gone. A folder
    /// that cannot be read changes nothing.
    ///
    /// # Errors
    /// If the folder itself cannot be read.
    pub(super) fn scan(&self) -> io::Result<()> {
        // Held meanwhile, so that two tasks do not read the same files.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = Vec::new();
        walk(&self.place, &mut files)?;
        let before = std::mem::take(&mut seen.sources);
        let told = std::mem::take(&mut seen.told);
        let mut telling = Telling { before: told, now: HashMap::new() };
        let mut broken = 0;
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(origin) = self.origins.of(&name) else { continue };
            if let Some(first) = seen.sources.get(&origin) {
                let (first, second) = (first.path().display(), path.display());
                telling.tell(
                    &path,
                    &format!(
                        "Ignoring \"{second}\": \"{first}\" is the file of `{origin}' already"
                    ),
                );
                continue;
            }
            match before.get(&origin) {
                Some(known) => {
                    // A zone whose file was renamed stays as it is until the file says otherwise.
                    let source = if known.path() == path {
                        Arc::clone(known)
                    } else {
                        let zones = known.zones().map(|served| (Arc::clone(served), Gauge::noop()));
                        Arc::new(Source::new(path.clone(), zones.collect(), Gauge::noop()))
                    };
                    if let Err(trouble) = source.refresh(false) {
                        broken += 1;
                        telling.trouble(&path, &origin, &trouble);
                    }
                    seen.sources.insert(origin, source);
                }
                None => {
                    let served = Arc::new(Served::new(origin.clone()));
                    let zones = [(served, Gauge::noop())];
                    let source = Source::new(path.clone(), Box::new(zones), Gauge::noop());
                    if let Err(trouble) = source.refresh(false) {
                        broken += 1;
                        telling.trouble(&path, &origin, &trouble);
                        continue;
                    }
                    log::info!(target: TARGET, "Inserting zone `{origin}' from: {}", path.display());
                    seen.sources.insert(origin, Arc::new(source));
                }
            }
        }
        for (origin, _) in before.iter().filter(|(origin, _)| !seen.sources.contains_key(origin)) {
            log::info!(target: TARGET, "Deleting zone `{origin}'");
        }
        self.broken.store(broken, Ordering::Relaxed);
        seen.told = telling.now;
        if !before.keys().eq(seen.sources.keys()) {
            let served = seen.sources.values().flat_map(|source| source.zones());
            let named = served.map(|served| (served.name().clone(), Arc::clone(served)));
            self.now.store(Arc::new(named.collect()));
        }
        Ok(())
    }

    /// Walks it every `interval`, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, interval: Duration, mut stop: Stop) {
        let mut is_told = false;
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(interval) => {}
            }
            let folder = Arc::clone(&self);
            let place = self.place.display();
            match tokio::task::spawn_blocking(move || folder.scan()).await {
                Ok(Ok(())) => is_told = false,
                Ok(Err(error)) if !is_told => {
                    log::error!(target: TARGET, "Reading the folder \"{place}\" failed: {error}; its zones stay");
                    is_told = true;
                }
                Ok(Err(_)) => {}
                Err(error) => log::error!(target: TARGET, "reading {place} ended early: {error}"),
            }
        }
    }
}

/// Says what is wrong with files, each thing once.
struct Telling {
    before: HashMap<PathBuf, String>,
    now: HashMap<PathBuf, String>,
}

impl Telling {
    /// Says something of a file.
    fn tell(&mut self, path: &Path, text: &str) {
        if self.before.get(path).is_none_or(|known| known != text) {
            log::warn!(target: TARGET, "{text}");
        }
        self.now.insert(path.to_owned(), text.to_owned());
    }

    /// Says why a file gives no zone.
    fn trouble(&mut self, path: &Path, origin: &Name, trouble: &Trouble) {
        let text = match trouble {
            Trouble::Open(error) => format!("Opening \"{}\" failed: {error}", path.display()),
            Trouble::Parse(wrong) => format!("Parse zone `{origin}': {wrong}"),
        };
        self.tell(path, &text);
    }
}

impl Collect for Folder {
    fn collect(&self, figures: &mut Figures) {
        let place = self.place.to_string_lossy();
        let labels = [("directory", &*place)];
        figures.gauge(ZONES, &labels, self.zones().len() as f64);
        figures.gauge(BROKEN, &labels, self.broken.load(Ordering::Relaxed) as f64);
    }
}

/// Appends the files in a folder and in those below it, in the order of their names. Links to files count as files, links to folders
/// are not followed, and of folders whose name begins with two dots only the links into them are seen: a volume of Kubernetes keeps
/// its versions there.
fn walk(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = std::fs::read_dir(folder)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b"..");
            // One that cannot be read, or is gone meanwhile, does not keep the others from being read.
            if !is_hidden && let Err(error) = walk(&path, into) {
                log::debug!(target: TARGET, "{} is passed over: {error}", path.display());
            }
        } else if std::fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            into.push(path);
        }
    }
    Ok(())
}
