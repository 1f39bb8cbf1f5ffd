//! Secrets of sessions in a file, for those who look at traffic to find a fault.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::KeyLog;

use crate::Error;

/// A file in NSS's form, appended to; for its owner alone.
pub(crate) struct KeyLogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLogFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeyLogFile {
    /// Opens it.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(path: PathBuf) -> Result<Arc<Self>, Error> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        match file {
            Ok(file) => Ok(Arc::new(Self { path, file: Mutex::new(file) })),
            Err(error) => Err(Error::of(path, format!("cannot be written: {error}"))),
        }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex =
            |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk is no reason to end handshakes.
        drop(file.write_all(line.as_bytes()));
    }
}
