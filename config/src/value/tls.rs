//! The files of a TLS client, as plugins name them.

use crate::{Diagnostic, Words};
use std::path::{Path, PathBuf};

/// The files that a TLS client uses, as named: nothing is read here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Its certificate and its key, if it shows one.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The authorities that it trusts; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

/// Takes all words that are left as the files of a TLS client: none, `CA`, `CERT KEY`, or `CERT KEY CA`. Relative paths are below
/// `root`.
///
/// # Errors
///
/// If there are more than three.
pub fn tls_files(words: &mut Words<'_>, root: Option<&Path>) -> Result<TlsFiles, Diagnostic> {
    let path = |text: &str| below_root(root, text);
    match words.rest() {
        [] => Ok(TlsFiles::default()),
        [ca] => Ok(TlsFiles { client: None, ca: Some(path(&ca.text)) }),
        [cert, key] => Ok(TlsFiles { client: Some((path(&cert.text), path(&key.text))), ca: None }),
        [cert, key, ca] => Ok(TlsFiles {
            client: Some((path(&cert.text), path(&key.text))),
            ca: Some(path(&ca.text)),
        }),
        [_, _, _, more, ..] => {
            let wrong = more.fault(format!("Wrong argument count: '{more}' is one too many"));
            Err(wrong.help("write nothing, CA, CERT KEY, or CERT KEY CA"))
        }
    }
}

/// A path as a plugin names it: a relative one is below the directory of `root`.
pub fn below_root(root: Option<&Path>, text: &str) -> PathBuf {
    match root {
        Some(root) => root.join(text),
        None => PathBuf::from(text),
    }
}
