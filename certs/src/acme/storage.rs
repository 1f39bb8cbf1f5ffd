//! What is kept of ACME: the account, certificates with their keys, and who is at it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use crate::{Error, store};

/// The folder of one CA and account, which replicas may share.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    folder: PathBuf,
}

/// Held by whoever is at it. It goes with the process, whatever becomes of that.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Storage {
    /// That of a CA's directory and the account of an address.
    pub(super) fn new(root: &Path, directory: &str, email: Option<&str>) -> Self {
        let host = directory.split_once("://").map_or(directory, |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or_default();
        let text = format!("{directory} {}", email.unwrap_or_default());
        let hash = digest(&SHA256, text.as_bytes());
        let hash: String =
            hash.as_ref().iter().take(4).map(|octet| format!("{octet:02x}")).collect();
        Self { folder: root.join(format!("{}-{hash}", safe(host))) }
    }

    /// The file of a domain's certificate, with its key.
    pub(super) fn certificate(&self, domain: &str) -> PathBuf {
        self.folder.join(format!("{}.pem", safe(domain)))
    }

    /// The folder of challenges that are under way, and what the names of a domain's begin with.
    pub(super) fn challenges(&self, domain: &str) -> (PathBuf, String) {
        (self.folder.join("challenges"), safe(domain))
    }

    /// The file of the account.
    pub(super) fn account(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    /// Takes the lock; none if somebody else has it. Waits for the disk.
    pub(super) fn lock(&self) -> Result<Option<Lock>, Error> {
        store::folder(&self.folder)?;
        let path = self.folder.join("lock");
        let wrong = |error: std::io::Error| Error::of(&path, format!("cannot be locked: {error}"));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(wrong(error)),
        }
    }
}

/// A name as one of a file.
fn safe(name: &str) -> String {
    let name = name.replace('*', "_");
    let good = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.' | '_');
    name.chars().map(|sign| if good(sign) { sign } else { '_' }).collect()
}
