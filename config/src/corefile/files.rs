//! Where texts come from: the disk, or memory in tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The most bytes that are read of one file.
const LIMIT: u64 = 64 << 20;

/// Where the texts of a Corefile come from.
pub trait Files {
    /// Reads a text; octets that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is a directory, or is larger than 64 MiB.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Lists the names in a directory, sorted.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Whether something has that name.
    fn exists(&self, path: &Path) -> bool;

    /// The files that match a pattern of `*` and `?` (which match no slash), sorted by directory, then by name.
    ///
    /// # Errors
    ///
    /// If the pattern is none. Directories that cannot be read match nothing.
    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for component in pattern.components() {
            match component {
                Component::Normal(part) if is_pattern(&part.to_string_lossy()) => {
                    let part = part.to_string_lossy();
                    if part.contains('[') {
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, "'[' without ']'"));
                    }
                    let part: Vec<char> = part.chars().collect();
                    found = found
                        .iter()
                        .flat_map(|directory| {
                            let names = self.list(directory).unwrap_or_default();
                            names
                                .into_iter()
                                .filter(|name| matches(&part, name))
                                .map(|name| directory.join(name))
                        })
                        .collect();
                }
                other => found.iter_mut().for_each(|path| path.push(other)),
            }
        }
        found.retain(|path| self.exists(path));
        Ok(found)
    }
}

/// Whether a name has signs of a pattern.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[', '\\'])
}

/// Whether a name matches a pattern of `*`, `?` and escapes.
fn matches(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut sign) = (0, 0);
    // Where the last star stands, and where what it matched ends.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        let (width, hit) = match pattern.get(sign) {
            Some('*') => {
                star = Some((sign, at));
                sign += 1;
                continue;
            }
            Some('?') => (1, true),
            Some('\\') => (2, pattern.get(sign + 1) == name.get(at)),
            Some(c) => (1, Some(c) == name.get(at)),
            None => (0, false),
        };
        if hit {
            (at, sign) = (at + 1, sign + width);
        } else if let Some((place, end)) = star {
            star = Some((place, end + 1));
            (at, sign) = (end + 1, place + 1);
        } else {
            return false;
        }
    }
    pattern[sign.min(pattern.len())..].iter().all(|c| *c == '*')
}

/// The files of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        let mut octets = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut octets)?;
        if octets.len() as u64 > LIMIT {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is larger than 64 MiB"));
        }
        Ok(lossy(octets))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let mut names = Vec::new();
        for entry in directory.read_dir()? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }
}

/// Makes text of octets, without a second copy if they are UTF-8.
fn lossy(octets: Vec<u8>) -> String {
    String::from_utf8(octets)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct Memory(pub BTreeMap<PathBuf, String>);

impl<P: Into<PathBuf>, T: Into<String>> FromIterator<(P, T)> for Memory {
    fn from_iter<I: IntoIterator<Item = (P, T)>>(files: I) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.into(), text.into())).collect())
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<String> {
        match self.0.get(path) {
            Some(text) => Ok(text.clone()),
            None if self.exists(path) => {
                Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let below = self.0.keys().filter_map(|path| path.strip_prefix(directory).ok());
        let mut names: Vec<_> = below
            .filter_map(|rest| rest.components().next())
            .map(|name| name.as_os_str().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file.starts_with(path))
    }
}
