//! A cluster's last known state on disk, for starts while the API server is away.

mod copy;
mod folder;
mod format;
mod keeper;

use std::{path::PathBuf, time::Duration};

pub(crate) use folder::Place;
pub(crate) use format::{Head, read};
pub(crate) use keeper::Keeper;

/// Where snapshots are kept, and how old one may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The folder; made if it is not there.
    pub dir: PathBuf,
    /// The oldest that answers are given from, by when the cluster was heard of.
    pub max_age: Duration,
}

/// Why a snapshot is not used, in words behind its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);
