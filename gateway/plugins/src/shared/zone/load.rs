//! Zone files from the disk, with those that they include.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use wire::Name;
/// A zone from a file, with what was passed over.
pub use zone::reader::Read as Loaded;
use zone::reader::{self, BadZone, Files};

use crate::shared::file::{self, Stamp};

/// Why a file gives no zone.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot be opened.
    Open(io::Error),
    /// What it says is wrong.
    Parse(BadZone),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Parse(wrong) => wrong.fmt(f),
        }
    }
}

/// Reads the zone `origin` from the file at `path`; adds all files that it is made of to `stamps`, as they were when they were opened.
///
/// # Errors
/// If a file cannot be opened or is wrong.
pub fn load(
    path: &Path,
    origin: &Name,
    stamps: &mut Vec<(PathBuf, Stamp)>,
) -> Result<Loaded, Trouble> {
    let opened = file::open(path).map_err(Trouble::Open)?;
    let stamp = opened.metadata().map_err(Trouble::Open)?;
    stamps.push((path.to_owned(), Stamp::of(&stamp)));
    let disk = Disk(RefCell::new(Vec::new()));
    let name = path.to_string_lossy();
    let read = reader::read(BufReader::new(opened), &name, origin, &disk);
    stamps.append(&mut disk.0.into_inner());
    read.map_err(Trouble::Parse)
}

/// Opens included files, relative to the one that includes them, and remembers them.
struct Disk(RefCell<Vec<(PathBuf, Stamp)>>);

impl Files for Disk {
    fn open(&self, name: &str, by: &str) -> io::Result<(Box<dyn BufRead>, String)> {
        let path = Path::new(by).parent().unwrap_or_else(|| Path::new("")).join(name);
        let opened = file::open(&path)?;
        let stamp = Stamp::of(&opened.metadata()?);
        let shown = path.to_string_lossy().into_owned();
        self.0.borrow_mut().push((path, stamp));
        Ok((Box::new(BufReader::new(opened)), shown))
    }
}
