//! The files with secrets and authorities, read again when they change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use certs::ClientCas;

use super::secrets::Secrets;
use crate::shared::file;

/// How long a file has to stay as it is before it is read: one that is being written has not all its lines yet.
const SETTLES: Duration = Duration::from_millis(50);

/// How often that is waited for.
const PATIENCE: usize = 20;

/// Which files there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// The secrets.
    pub(super) secrets: Option<PathBuf>,
    /// The authorities of clients' certificates.
    pub(super) authorities: Vec<PathBuf>,
}

/// What the files say.
#[derive(Debug)]
pub(super) struct Known {
    /// Unlike that of all others in the process.
    pub(super) generation: u64,
    /// The secrets.
    pub(super) secrets: Secrets,
    /// The authorities, if any are asked for.
    pub(super) cas: Option<ClientCas>,
}

/// Why the files cannot be used: the file, and what is wrong, which says nothing of what stands there.
#[derive(Debug)]
pub(super) struct Unread {
    /// The file.
    pub(super) file: PathBuf,
    /// What is wrong, to be put behind the file's name.
    pub(super) why: String,
    /// Whether that may pass without a change of the file, as a lack of file descriptors does.
    pub(super) passes: bool,
}

/// What is seen of a file without reading it; nothing of one that is not there.
pub(super) type Stamp = Option<(Option<SystemTime>, i64, i64, u64, u64)>;

impl Files {
    /// Reads all of them.
    pub(super) fn read(&self) -> Result<Known, Unread> {
        /// The next generation.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let secrets = self.secrets.as_deref().map(secrets).transpose()?.unwrap_or_default();
        let cas = match &*self.authorities {
            [] => None,
            files => Some(ClientCas::read(files).map_err(|wrong| Unread {
                why: format!(": {}", wrong.what),
                file: wrong.file.unwrap_or_default(),
                passes: true,
            })?),
        };
        Ok(Known { generation: NEXT.fetch_add(1, Ordering::Relaxed), secrets, cas })
    }

    /// What is seen of them.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.secrets.iter().chain(&self.authorities).map(|path| stamp(path)).collect()
    }

    /// What is seen of them, if that is something else than before; waits a little until it stays so.
    pub(super) fn changed(&self, before: &[Stamp]) -> Option<Vec<Stamp>> {
        let mut now = self.stamps();
        if now == before {
            return None;
        }
        for _ in 0..PATIENCE {
            std::thread::sleep(SETTLES);
            let later = self.stamps();
            if later == now {
                break;
            }
            now = later;
        }
        Some(now)
    }

    /// Whether everybody on this machine may read the secrets.
    pub(super) fn are_open(&self) -> bool {
        let mode = |path: &PathBuf| std::fs::metadata(path).map(|found| found.mode());
        self.secrets.as_ref().is_some_and(|path| mode(path).is_ok_and(|mode| mode & 0o004 != 0))
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_none() && self.authorities.is_empty()
    }
}

/// Reads a file of secrets.
fn secrets(path: &Path) -> Result<Secrets, Unread> {
    let unread = |why: String, passes| Unread { file: path.to_owned(), why, passes };
    let text = file::text(path).map_err(|error| unread(format!(": {error}"), true))?;
    Secrets::read(&text).map_err(|wrong| unread(format!(":{}: {}", wrong.line, wrong.why), false))
}

/// What is seen of a file.
fn stamp(path: &Path) -> Stamp {
    let of = |found: Metadata| {
        (found.modified().ok(), found.ctime(), found.ctime_nsec(), found.size(), found.ino())
    };
    std::fs::metadata(path).ok().map(of)
}
