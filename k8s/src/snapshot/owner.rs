//! Who may have written a snapshot: whoever can, decides what is answered.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _, path::Path};

use rustix::process::{getegid, geteuid, getgroups};

/// Everybody may write.
const ALL_WRITE: u32 = 0o002;
/// The group may write.
const GROUP_WRITES: u32 = 0o020;
/// Files in the folder are for their owners to remove.
const STICKY: u32 = 0o1000;

/// A user with their groups.
#[derive(Debug)]
pub(crate) struct User {
    /// The number.
    pub(crate) id: u32,
    /// The groups' numbers.
    pub(crate) groups: Vec<u32>,
}

impl User {
    /// That of this process.
    fn own() -> Self {
        // Without a list only the first group counts.
        let more = getgroups().unwrap_or_default();
        let groups = more.into_iter().chain([getegid()]).map(|group| group.as_raw()).collect();
        Self { id: geteuid().as_raw(), groups }
    }

    /// Why a file of this owner, group and mode may be somebody else's work, in words behind its name; none if only this user, root,
    /// and the user's own groups may write to it.
    ///
    /// Volumes of Kubernetes with an `fsGroup` let that group write, which is one of the user's then.
    pub(crate) fn mistrusts(&self, owner: u32, group: u32, mode: u32) -> Option<String> {
        if owner != self.id && owner != 0 {
            return Some(format!("is of the user {owner}"));
        }
        if mode & ALL_WRITE != 0 {
            return Some("may be written by everybody".to_owned());
        }
        let other = mode & GROUP_WRITES != 0 && !self.groups.contains(&group);
        other.then(|| format!("may be written by the group {group}"))
    }
}

/// Why a file may be somebody else's work, in words behind its name.
pub(crate) fn foreign(file: &Metadata) -> Option<String> {
    User::own().mistrusts(file.uid(), file.gid(), file.mode())
}

/// What is odd about a folder to which everybody may write, in words behind its name. Where files are their owners' to remove
/// nobody can put another in the place of one.
pub(crate) fn odd_folder(folder: &Path) -> Option<&'static str> {
    let mode = std::fs::metadata(folder).ok()?.mode();
    (mode & ALL_WRITE != 0 && mode & STICKY == 0).then_some(
        "may be written by everybody, who can so take snapshots away, though not have others used (state a folder of this user, or one below it)",
    )
}
