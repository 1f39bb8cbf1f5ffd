//! Snapshots as files: found, taken in, replaced and set aside.

use std::{
    collections::hash_map::RandomState,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::BuildHasher as _,
    io::{self, BufReader, BufWriter, Seek as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{Head, Refused, copy, owner, read};
use crate::{
    config::{Config, Source},
    object::{Event, Kind},
    store::{Store, Writer, unix_time},
};

/// How far in the future a snapshot may be from: clocks are set.
const SKEW: u64 = 300;
/// How old a file of a writer must be to be taken for one that a crash has left.
const LEFT: Duration = Duration::from_secs(600);
/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// Names that are tried for a file, before a writer gives up.
const TRIES: usize = 16;

/// Where the snapshot of one watch set is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder.
    dir: PathBuf,
    /// The file's name.
    name: String,
    /// What the snapshot must be of.
    identity: String,
    /// The oldest that is taken in.
    max_age: Duration,
}

/// What came of looking for a snapshot.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is none.
    Nothing,
    /// It is in the store; the cluster was heard of at this Unix time, in seconds.
    Taken(u64),
    /// It may not be used, and is set aside.
    Refused(Refused),
    /// Its time is wrong by the clock of now. It stays, since that may be what is wrong.
    Untimely(Refused),
    /// The file or its folder cannot be read.
    Unreadable(io::Error),
}

impl Place {
    /// The place of a configuration's snapshot; none if it has none, or needs none.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let snapshot = config.snapshot.as_ref()?;
        if matches!(config.source, Source::Manifests(_)) {
            return None;
        }
        let identity = config.identity();
        let words = config.source.word().to_lowercase();
        let word: String = words
            .chars()
            .map(|sign| if sign.is_ascii_alphanumeric() || sign == '-' { sign } else { '_' })
            .collect();
        let word = word.get(word.len().saturating_sub(48)..).unwrap_or_default();
        let name = format!("{word}-{:016x}.snapshot", hash(&identity));
        Some(Self { dir: snapshot.dir.clone(), name, identity, max_age: snapshot.max_age })
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// The oldest that is taken in.
    pub(crate) const fn max_age(&self) -> Duration {
        self.max_age
    }

    /// What is odd about the folder, in words behind its name.
    pub(crate) fn odd(&self) -> Option<&'static str> {
        owner::odd_folder(&self.dir)
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the snapshot into an empty store. One that is damaged, of something else, or that others may have written is set
    /// aside, and one whose time is wrong stays: the store is empty then.
    pub(crate) fn load(&self, writer: &mut Writer) -> Found {
        let path = self.path();
        // What is no regular file may have no end, or make who opens it wait.
        let file = match fs::metadata(&path) {
            Ok(found) if found.is_file() => File::open(&path),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
            Err(error) => Err(error),
        };
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Unreadable(error),
        };
        match self.take(&file, writer) {
            Ok(found) => found,
            Err(refused) => {
                let aside = path.with_extension("refused");
                if let Err(error) = fs::rename(&path, &aside) {
                    return Found::Refused(Refused(format!(
                        "{refused} (it cannot be set aside either: {error})"
                    )));
                }
                Found::Refused(refused)
            }
        }
    }

    /// Checks a snapshot as a whole, then takes it in.
    fn take(&self, mut file: &File, writer: &mut Writer) -> Result<Found, Refused> {
        let found = file.metadata();
        let found = found.map_err(|error| Refused(format!("it cannot be read: {error}")))?;
        if let Some(why) = owner::foreign(&found) {
            return Err(Refused(format!("it {why}: what it tells may be made up")));
        }
        let wanted = writer.store().keep().clone();
        let mut judge = |head: &Head| {
            let held = |kind: &Kind| wanted.holds(*kind);
            if head.identity != self.identity {
                return Err(Refused(format!("it is of another cluster: {}", head.identity)));
            }
            if !head.listed.iter().chain(&head.waived).all(held) {
                return Err(Refused("it holds other kinds of objects".to_owned()));
            }
            Ok(())
        };
        let head = read(BufReader::with_capacity(READ, file), &mut judge, &mut |_| ())?;
        if let Some(why) = self.untimely(head.taken) {
            return Ok(Found::Untimely(why));
        }
        let rewound = file.rewind();
        rewound.map_err(|error| Refused(format!("it cannot be read: {error}")))?;
        writer.begin_kept();
        let head = read(BufReader::with_capacity(READ, file), &mut judge, &mut |object| {
            writer.apply(&Event::Apply(object));
        });
        match head {
            Ok(head) => {
                writer.end_kept(&head);
                Ok(Found::Taken(head.taken))
            }
            // It was checked: somebody writes into the file.
            Err(refused) => {
                writer.discard_kept();
                Err(refused)
            }
        }
    }

    /// Says what is wrong with the time that a snapshot is from, in Unix seconds.
    fn untimely(&self, taken: u64) -> Option<Refused> {
        let (now, most) = (unix_time().0, self.max_age.as_secs());
        let ahead = taken.saturating_sub(now);
        let age = now.saturating_sub(taken);
        let why = match () {
            () if ahead > SKEW => format!("it is from {ahead} s in the future"),
            () if age > most => format!("it is {age} s old, and at most {most} s are allowed"),
            () => return None,
        };
        Some(Refused(why))
    }

    /// Puts the store's present state in the place of the snapshot. Gives the number of bytes.
    ///
    /// A reader sees the old file or the new one, whole, whatever happens in between, and however many write.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn save(
        &self,
        store: &Store,
        taken: u64,
        rest: &mut dyn FnMut(),
    ) -> io::Result<u64> {
        if !self.dir.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        }
        self.tidy();
        // A number of the process is no help: in containers all have the same.
        let random = || self.dir.join(format!(".{}.{:016x}", self.name, chance()));
        let (fresh, file) = create(std::iter::repeat_with(random).take(TRIES))?;
        let written = self.write(&fresh, file, store, taken, rest);
        if written.is_err() {
            // What cannot be removed is removed later, by its age.
            fs::remove_file(&fresh).unwrap_or_default();
        }
        written
    }

    /// Writes a new file and moves it to its place.
    fn write(
        &self,
        fresh: &Path,
        file: File,
        store: &Store,
        taken: u64,
        rest: &mut dyn FnMut(),
    ) -> io::Result<u64> {
        // Some file systems make up owners and modes. What would be refused at the start is of no use.
        if let Some(why) = owner::foreign(&file.metadata()?) {
            let why = format!(
                "here a new file of mode 0600 {why} (use a file system that keeps owners and modes, or mount it with this user as the owner and files of mode 0600)"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let head = store.head(taken, &self.identity);
        let out = BufWriter::with_capacity(READ, file);
        let (out, bytes) = copy::write(store, &head, out, rest)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(fresh, self.path())?;
        // The name is on disk only when its folder is.
        File::open(&self.dir)?.sync_all()?;
        Ok(bytes)
    }

    /// Removes what writers that ended in the middle have left.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let begins = format!(".{}.", self.name);
        let now = SystemTime::now();
        for entry in entries.flatten() {
            let left = entry.file_name().as_encoded_bytes().starts_with(begins.as_bytes());
            let old = || {
                let modified = entry.metadata().and_then(|found| found.modified()).ok()?;
                now.duration_since(modified).ok()
            };
            if left && old().is_some_and(|age| age > LEFT) {
                fs::remove_file(entry.path()).unwrap_or_default();
            }
        }
    }
}

/// Creates a private file by the first of these names that nobody has.
///
/// # Errors
/// Those of the file system; that all of the names are taken. What is there stays as it is.
pub(crate) fn create(mut names: impl Iterator<Item = PathBuf>) -> io::Result<(PathBuf, File)> {
    loop {
        let taken = || io::Error::new(io::ErrorKind::AlreadyExists, "no name is left for a file");
        let name = names.next().ok_or_else(taken)?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((name, opened?)),
        }
    }
}

/// A number that nobody else gets, most likely; no secret.
fn chance() -> u64 {
    // A hasher with a fresh key is as good as a random number here.
    RandomState::new().hash_one(())
}

/// Hashes a text, the same in all versions of the program (FNV-1a, 64 bits).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
