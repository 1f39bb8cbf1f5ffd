//! Why certificates cannot be used.

use std::path::PathBuf;

/// Why certificates cannot be used: the file, if it is one's fault, what is wrong with it, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default())]
pub struct Error {
    /// The file.
    pub file: Option<PathBuf>,
    /// What is wrong; never any of a file's octets.
    pub what: String,
    /// What helps, if that is known.
    pub help: Option<String>,
}

impl Error {
    /// What is wrong with a file.
    pub(crate) fn of(file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { file: Some(file.into()), what: what.into(), help: None }
    }

    /// What is wrong in general.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { file: None, what: what.into(), help: None }
    }

    /// The same with what helps.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
