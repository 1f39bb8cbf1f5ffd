//! Files that a Corefile names.

use std::fs::{File, Metadata, metadata};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The largest file that is read whole, in octets.
const LARGEST: u64 = 64 << 20;

/// What tells a changed file from the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was changed last.
    pub modified: Option<SystemTime>,
    /// Its octets.
    pub size: u64,
    /// Its number in the file system.
    pub inode: u64,
}

impl Stamp {
    /// That of a file.
    pub fn of(metadata: &Metadata) -> Self {
        Self { modified: metadata.modified().ok(), size: metadata.len(), inode: metadata.ino() }
    }
}

/// Opens a file that has an end: devices and pipes may have none, or make who opens them wait.
///
/// # Errors
/// Those of the system, and [`ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> Result<File> {
    let found = metadata(path)?;
    if found.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "Is a directory"));
    }
    if !found.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    File::open(path)
}

/// Reads a file of at most 64 MiB whole.
///
/// # Errors
/// Those of [`open`] and of reading, and [`ErrorKind::FileTooLarge`].
pub fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(Error::new(ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read() {
        assert_eq!(
            text("/dev/zero".as_ref()).expect_err("a device").kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(text("/".as_ref()).expect_err("a folder").kind(), ErrorKind::IsADirectory);
        let path = std::env::temp_dir().join(format!("causeway-file-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo").expect("a file");
        assert_eq!(text(&path).expect("its text"), "one\ntwo");
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(LARGEST + 1))
            .expect("a hole");
        assert_eq!(text(&path).expect_err("a large file").kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).expect("it goes");
    }
}
