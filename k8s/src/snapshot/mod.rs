//! A cluster's last known state on disk, for starts while the API server is away.

mod copy;
mod folder;
mod format;
mod keeper;
mod owner;

use std::{io, path::PathBuf, time::Duration};

pub(crate) use folder::Place;
#[cfg(test)]
pub(crate) use folder::{Found, create};
pub(crate) use format::{Head, read};
pub(crate) use keeper::Keeper;
#[cfg(test)]
pub(crate) use owner::User;

use crate::{config::Config, store::Store};

/// Where snapshots are kept, and how old one may be at a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The folder; made if it is not there.
    pub dir: PathBuf,
    /// The oldest that is taken in at a start, by when the cluster was heard of. What was taken in is then served until the
    /// cluster has been listed, as what is known is in any outage.
    pub max_age: Duration,
}

impl Snapshot {
    /// Writes the snapshot that a watch set of this configuration would find at its start, of a cluster that was heard of at
    /// `taken`, in Unix seconds. Does nothing where none is kept.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(config: &Config, store: &Store, taken: u64) -> io::Result<()> {
        match Place::of(config) {
            Some(place) => place.save(store, taken, &mut || ()).map(drop),
            None => Ok(()),
        }
    }
}

/// Why a snapshot is not used, in words behind its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);
