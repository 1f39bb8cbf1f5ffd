//! A cluster out of manifests: a folder of YAML files, or a text.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use crate::{
    object::Event,
    probe::Quiet,
    resolve::{self, Filter},
    store::{Keep, Store, Writer},
    yaml::{self, Document, Problem},
};

/// How deep folders in folders are looked into.
const DEPTH: usize = 8;
/// A file larger than this, in bytes, is no manifest.
const LARGEST: u64 = 64 << 20;

/// Reads manifests from a text of one or more YAML documents and gives the events of a complete cluster: a list of every
/// kind. Namespaces that are only mentioned are implied, cluster IPs are chosen where a Service states none, slices are
/// made from Pods where a Service with a selector has none.
///
/// # Errors
///
/// All documents that can not be read, by line.
pub fn from_yaml(text: &str) -> Result<Vec<Event<'static>>, Vec<Problem>> {
    let (documents, problems) = yaml::parse(text);
    if problems.is_empty() {
        Ok(resolve::events(&documents, &Filter::default()))
    } else {
        Err(problems)
    }
}

/// Fills a store from manifests, for tests of what reads it.
///
/// # Errors
///
/// As [`from_yaml`].
pub fn store_from_yaml(text: &str, keep: Keep) -> Result<(Writer, Store), Vec<Problem>> {
    let (documents, problems) = yaml::parse(text);
    if !problems.is_empty() {
        return Err(problems);
    }
    let events =
        resolve::events(&documents, &Filter { exports: keep.exports, ..Filter::default() });
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    events.iter().for_each(|event| writer.apply(event));
    Ok((writer, store))
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    /// When it was changed.
    modified: Option<SystemTime>,
    /// Its length in bytes.
    len: u64,
}

/// A file and what was read from it.
#[derive(Debug)]
struct File {
    /// Its state when it was read.
    stamp: Stamp,
    /// Its documents, of the last state in which all were good.
    documents: Vec<Document>,
    /// Whether there was such a state.
    good: bool,
}

/// A folder of manifests, read again as it changes.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The folder.
    path: PathBuf,
    /// Which documents count.
    filter: Filter,
    /// The files by path.
    files: BTreeMap<PathBuf, File>,
    /// Whether anything has been read.
    read: bool,
}

/// What looking at a folder gave.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The events of the whole folder, if it changed.
    pub(crate) events: Option<Vec<Event<'static>>>,
    /// What can not be read, of files that changed.
    pub(crate) problems: Vec<Problem>,
}

impl Folder {
    /// Makes a folder that nothing has been read of.
    pub(crate) const fn new(path: PathBuf, filter: Filter) -> Self {
        Self { path, filter, files: BTreeMap::new(), read: false }
    }

    /// Reads what has changed. Does blocking I/O.
    ///
    /// # Errors
    ///
    /// The folder itself can not be read; what was read before is kept.
    pub(crate) fn look(&mut self) -> Result<Look, Problem> {
        let mut found = BTreeMap::new();
        list(&self.path, DEPTH, &mut found).map_err(|error| problem(&self.path, &error))?;
        let mut look = Look::default();
        let before = self.files.len();
        self.files.retain(|path, _| found.contains_key(path));
        let mut changed = !self.read || self.files.len() != before;
        for (path, stamp) in found {
            if self.files.get(&path).is_some_and(|file| file.stamp == stamp) {
                continue;
            }
            changed |= self.load(path, stamp, &mut look.problems);
        }
        if changed {
            self.read = true;
            let documents: Vec<_> =
                self.files.values().flat_map(|file| file.documents.iter().cloned()).collect();
            look.events = Some(resolve::events(&documents, &self.filter));
        }
        Ok(look)
    }

    /// Reads one file; says whether it gave something else than before.
    fn load(&mut self, path: PathBuf, stamp: Stamp, problems: &mut Vec<Problem>) -> bool {
        let text = if stamp.len > LARGEST {
            Err(std::io::Error::other("it is larger than 64 MiB"))
        } else if path.is_file() {
            std::fs::read_to_string(&path)
        } else {
            Err(std::io::Error::other("it is no regular file"))
        };
        let (documents, wrong) = match text {
            Ok(text) => yaml::parse(&text),
            Err(error) => (Vec::new(), vec![problem(&path, &error)]),
        };
        let file = path.display().to_string();
        let good = wrong.is_empty();
        let kept = self.files.get(&path).is_some_and(|old| old.good);
        let served = match documents.is_empty() {
            _ if kept => "what it said before is served on",
            true => "nothing of it is served",
            false => "what is good in it is served",
        };
        problems.extend(wrong.into_iter().map(|problem| Problem {
            file: file.clone(),
            what: format!("{}; {served}", problem.what),
            ..problem
        }));
        match self.files.get_mut(&path) {
            Some(old) if !good && old.good => {
                old.stamp = stamp;
                false
            }
            _ => {
                self.files.insert(path, File { stamp, documents, good });
                true
            }
        }
    }
}

/// Finds the manifests in a folder. Hidden files are passed over: editors and volume mounts keep theirs there.
fn list(folder: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Stamp>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // A file may go away between the two calls; it is then not there.
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.is_dir() {
            if depth > 0 {
                list(&path, depth - 1, found)?;
            }
            continue;
        }
        let extension = path.extension().unwrap_or_default();
        if ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known)) {
            found.insert(path, Stamp { modified: metadata.modified().ok(), len: metadata.len() });
        }
    }
    Ok(())
}

/// Makes a problem of an I/O error.
fn problem(path: &Path, error: &std::io::Error) -> Problem {
    Problem { file: path.display().to_string(), line: 0, what: format!("can not be read: {error}") }
}
