//! Where the Corefile is: a file, a pipe, or the default.

use super::{Corefile, DEFAULT, Disk, Files, parse_all, source};
use crate::Diagnostic;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where the Corefile is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, which must be there.
    File(PathBuf),
    /// A text that was read from standard input.
    Stdin(String),
    /// The file `Corefile` in the working directory if it is there, else `. { whoami; log }`.
    Default,
}

/// A Corefile that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// All that is wrong, in the order of the text.
    pub errors: Vec<Diagnostic>,
    /// Every text that was read.
    pub files: Vec<(PathBuf, String)>,
}

impl fmt::Display for Failure {
    /// Writes each error with the line that it means.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(&error.render(&|path| source(&self.files, path)))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Reads the Corefile with the process's environment.
///
/// # Errors
///
/// If a named file cannot be read, or all that is wrong with its text.
pub fn load(source: &Source) -> Result<Corefile, Failure> {
    let env = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    match source {
        Source::File(path) => match Disk.read(path) {
            Ok(text) => parse_all(path, &text, &env, &Disk),
            Err(error) => Err(unreadable(path, &error)),
        },
        Source::Stdin(text) => parse_all(Path::new("stdin"), text, &env, &Disk),
        Source::Default => match Disk.read(Path::new("Corefile")) {
            Ok(text) => parse_all(Path::new("Corefile"), &text, &env, &Disk),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                parse_all(Path::new("Corefile"), DEFAULT, &env, &Disk)
            }
            Err(error) => Err(unreadable(Path::new("Corefile"), &error)),
        },
    }
}

/// Says that the main file cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let wrong = Diagnostic::new(format!("the Corefile {} cannot be read: {error}", path.display()));
    Failure { errors: vec![wrong], files: Vec::new() }
}
