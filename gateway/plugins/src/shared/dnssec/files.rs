//! Files of keys: `Kexample.org.+013+51118.key` and `.private`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::key::{BadKey, Key};
use crate::shared::file::{self, Stamp};

/// The files of some keys, read again when they change.
#[derive(Debug)]
pub struct KeyFiles {
    /// The two files of each key: the public one, the private one.
    pairs: Box<[[PathBuf; 2]]>,
    /// The files as they were when they were read last, one for each; none for one that was not there.
    seen: Mutex<Vec<Option<Stamp>>>,
}

impl KeyFiles {
    /// The files with these names, with `.key` or `.private` behind them or neither. Nothing is read yet.
    pub fn new(names: impl IntoIterator<Item = PathBuf>) -> Self {
        let pairs = names.into_iter().map(|name| {
            let text = name.to_string_lossy();
            let bare = text.strip_suffix(".key").or_else(|| text.strip_suffix(".private"));
            // A name that is no text has no ending that could be cut off.
            let base = bare.map_or_else(|| name.clone(), PathBuf::from);
            [".key", ".private"].map(|ending| {
                let mut path = base.clone().into_os_string();
                path.push(ending);
                path.into()
            })
        });
        Self { pairs: pairs.collect(), seen: Mutex::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Reads all keys, in the order of their names.
    ///
    /// # Errors
    /// What is wrong with the first that is.
    pub fn read(&self) -> Result<Vec<Key>, BadKey> {
        // First, so that a change while they are read is one afterwards.
        let stamps = self.stamps();
        let keys: Result<Vec<Key>, BadKey> = self.pairs.iter().map(read).collect();
        // What is wrong may be mended without a trace in the files, such as by their rights: then they are read again.
        let seen = if keys.is_ok() { stamps } else { Vec::new() };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        keys
    }

    /// Whether a file is not as it was when it was read last, or was wrong then.
    pub fn have_changed(&self) -> bool {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != self.stamps()
    }

    /// The files as they are.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |path: &PathBuf| std::fs::metadata(path).ok().map(|now| Stamp::of(&now));
        self.pairs.iter().flatten().map(stamp).collect()
    }
}

/// Reads a key.
fn read([public, private]: &[PathBuf; 2]) -> Result<Key, BadKey> {
    let text = |path: &Path| {
        file::text(path)
            .map_err(|error| BadKey::new(format!("cannot read {}: {error}", path.display())))
    };
    let (first, second) = (text(public)?, text(private)?);
    Key::read(&first, &second)
        .map_err(|wrong| BadKey::new(format!("{}: {wrong}", public.display())))
}
