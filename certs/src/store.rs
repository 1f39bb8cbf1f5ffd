//! Files that are kept: each is there whole or not at all, for its owner alone.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::Error;

/// Makes a folder, and those above it, for its owner alone; one that is there stays as it is.
///
/// # Errors
/// Those of the system.
pub(crate) fn folder(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| unwritable(path, &error))
}

/// Writes a file in a folder that is there, by a rename.
///
/// # Errors
/// Those of the system.
pub(crate) fn write(path: &Path, octets: &[u8]) -> Result<(), Error> {
    let mut half = path.as_os_str().to_owned();
    half.push(format!(".{}", std::process::id()));
    let half = Path::new(&half);
    let written = written(half, octets).and_then(|()| std::fs::rename(half, path));
    if written.is_err() {
        // What is half written is of no use, if it is there at all.
        drop(std::fs::remove_file(half));
    }
    written.map_err(|error| unwritable(path, &error))?;
    // So that the rename outlives a loss of power; some file systems do not know that.
    if let Some(parent) = path.parent() {
        drop(File::open(parent).and_then(|folder| folder.sync_all()));
    }
    Ok(())
}

/// Writes a new file.
fn written(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // One that was left behind may have other rights.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(octets)?;
    file.sync_all()
}

/// Why something cannot be written.
fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::of(path, format!("cannot be written: {error}"))
        .help("give the user that the gateway runs as a folder of its own")
}
