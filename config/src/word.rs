//! A word of a Corefile and where it stands.

use crate::Diagnostic;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a word stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, by the name under which it was read.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    /// Writes `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A word and its place. Quotes are taken off and environment variables are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Where it begins; of a quoted word, where its opening quote stands.
    pub place: Place,
}

impl Word {
    /// Makes a diagnostic at this word that reads `'text' what`.
    pub fn wrong(&self, what: impl fmt::Display) -> Diagnostic {
        self.fault(format!("'{}' {what}", self.text))
    }

    /// Tells that this brace must not share the line of `name`.
    pub(crate) fn shares_line(&self, name: &Self) -> Diagnostic {
        let what =
            format!("Unexpected '}}' behind '{name}': a closing brace stands on a line of its own");
        self.fault(what).help("begin a new line before the brace")
    }

    /// Makes a diagnostic at this word that does not quote it.
    pub fn fault(&self, what: impl Into<String>) -> Diagnostic {
        Diagnostic {
            place: Some(self.place.clone()),
            span: self.text.chars().count().max(1),
            ..Diagnostic::new(what)
        }
    }
}

impl fmt::Display for Word {
    /// Writes the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
