//! What a Corefile means, as one number: comments, spaces and the way it is spread over files do not count.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA512, digest};
use config::Corefile;
use config::corefile::{self, Failure, Memory, Source};

/// The SHA-512 of the meaning of a Corefile, as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Print(String);

impl std::fmt::Display for Print {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Print {
    /// The print of a Corefile.
    pub(super) fn of(corefile: &Corefile) -> Self {
        let mut text = String::new();
        for block in &corefile.blocks {
            for key in &block.keys {
                // Writing to a string cannot fail.
                let _unfailing = write!(text, "{:?} ", key.word.text);
            }
            text.push('{');
            for directive in &block.directives {
                text.push_str(&directive.fingerprint());
                text.push(';');
            }
            text.push('}');
        }
        Self::of_text(&text)
    }

    /// The print of anything else.
    fn of_text(text: &str) -> Self {
        let hash = digest(&SHA512, text.as_bytes());
        Self(hash.as_ref().iter().fold(String::with_capacity(128), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _unfailing = write!(hex, "{byte:02x}");
            hex
        }))
    }
}

/// The files of a configuration as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// They can be read, and mean this.
    Good {
        /// What they mean.
        print: Print,
        /// Every file with its text.
        files: Vec<(PathBuf, String)>,
    },
    /// They are wrong.
    Bad {
        /// All that is wrong.
        why: String,
        /// Tells one wrong state from another.
        print: Print,
    },
}

impl Look {
    /// Reads the Corefile at `path` and all that it imports.
    pub(super) fn at(path: &Path) -> Self {
        Self::from(corefile::load(&Source::File(path.to_path_buf())))
    }

    /// The same for texts read before.
    pub(super) fn back(files: &[(PathBuf, String)]) -> Self {
        let Some((path, text)) = files.first() else {
            let why = "no file was read".to_owned();
            return Self::Bad { print: Print::of_text(&why), why };
        };
        let env = |name: &str| std::env::var(name).ok();
        let memory = Memory(files.iter().cloned().collect());
        let parsed = corefile::parse(path, text, &env, &memory);
        Self::from(parsed.map_err(|errors| Failure { errors, files: files.to_vec() }))
    }
}

impl From<Result<Corefile, Failure>> for Look {
    fn from(loaded: Result<Corefile, Failure>) -> Self {
        match loaded {
            Ok(corefile) => Self::Good { print: Print::of(&corefile), files: corefile.files },
            Err(failure) => {
                let why = failure.to_string();
                Self::Bad { print: Print::of_text(&format!("{why}\n{:?}", failure.files)), why }
            }
        }
    }
}
