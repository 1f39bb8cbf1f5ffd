//! A directive, and its words taken one by one.

use crate::value::{duration, seconds};
use crate::{Diagnostic, Word};
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A directive or a line of a block: its name, its words, and the lines between its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first word of the line.
    pub name: Word,
    /// The other words of the line.
    pub args: Vec<Word>,
    /// The lines between the braces; `None` without braces.
    pub block: Option<Vec<Self>>,
    /// The brace behind the words, if it closes the block that this line is in.
    pub brace: Option<Word>,
}

impl Directive {
    /// Begins to take the words behind the name.
    pub fn words(&self) -> Words<'_> {
        Words { line: self, last: &self.name, rest: &self.args, block_read: Cell::new(false) }
    }

    /// The lines between the braces, none without braces.
    pub fn lines(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Refuses braces.
    ///
    /// # Errors
    ///
    /// If the directive has a block, an empty one included.
    pub fn no_block(&self) -> Result<(), Diagnostic> {
        match &self.block {
            None => Ok(()),
            Some(_) => Err(self.name.wrong("takes no block").help("take the braces away")),
        }
    }

    /// Refuses words behind the name.
    ///
    /// # Errors
    ///
    /// If there is one.
    pub fn no_words(&self) -> Result<(), Diagnostic> {
        self.words().end()
    }

    /// What the directive says, without places: equal for two directives exactly if they mean the same.
    /// State that outlives a reload is kept under it.
    pub fn fingerprint(&self) -> String {
        let mut text = String::new();
        self.write_fingerprint(&mut text);
        text
    }

    /// Writes the words quoted, so that no two lines of different words look alike.
    fn write_fingerprint(&self, text: &mut String) {
        let words = std::iter::once(&self.name).chain(&self.args);
        words.for_each(|word| text.push_str(&format!("{:?} ", word.text)));
        if let Some(lines) = &self.block {
            text.push('{');
            for line in lines {
                line.write_fingerprint(text);
                text.push(';');
            }
            text.push('}');
        }
    }
}

/// The words of a line, taken one by one.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a Directive,
    last: &'a Word,
    rest: &'a [Word],
    block_read: Cell<bool>,
}

impl<'a> Words<'a> {
    /// The line's first word.
    pub fn name(&self) -> &'a Word {
        &self.line.name
    }

    /// The whole line, for a property with a block of its own. A line with a block whose row does not ask for it is refused.
    pub fn line(&self) -> &'a Directive {
        self.block_read.set(true);
        self.line
    }

    /// How many words are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether no word is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'a Word> {
        self.rest.first()
    }

    /// Takes the next word.
    ///
    /// # Errors
    ///
    /// If none is left.
    pub fn one(&mut self) -> Result<&'a Word, Diagnostic> {
        let Some((first, rest)) = self.rest.split_first() else {
            let what =
                format!("Wrong argument count or unexpected line ending after '{}'", self.last);
            return Err(self.last.fault(what));
        };
        (self.rest, self.last) = (rest, first);
        Ok(first)
    }

    /// Takes the next word if there is one.
    pub fn maybe(&mut self) -> Option<&'a Word> {
        self.one().ok()
    }

    /// Takes the next word as a `T`.
    ///
    /// # Errors
    ///
    /// If none is left or it is no `T`.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&mut self) -> Result<T, Diagnostic> {
        self.read(str::parse)
    }

    /// Takes the next word as bare whole seconds, as the few properties do that know no units.
    ///
    /// # Errors
    ///
    /// If none is left or it is no number of seconds.
    pub fn seconds(&mut self) -> Result<Duration, Diagnostic> {
        self.read(seconds)
    }

    /// Takes the next word as a duration with units: `1h30m`, `500ms`, `0`.
    ///
    /// # Errors
    ///
    /// If none is left, it is no duration, or it is negative.
    pub fn duration(&mut self) -> Result<Duration, Diagnostic> {
        self.read(duration)
    }

    /// Takes the next word and reads it.
    ///
    /// # Errors
    ///
    /// If none is left or `read` refuses it.
    pub fn read<T, E: fmt::Display>(
        &mut self,
        read: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<T, Diagnostic> {
        let word = self.one()?;
        read(&word.text).map_err(|error| word.wrong(format_args!("is wrong: {error}")))
    }

    /// Takes the next word if it is one of `choices`, and gives what stands beside it there.
    ///
    /// # Errors
    ///
    /// If none is left or it is not among them; the help names the nearest.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
        let word = self.one()?;
        let found = choices.iter().find(|(name, _)| *name == word.text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            word.wrong("is not known here").help(crate::value::known(&word.text, &names))
        })
    }

    /// Takes all the words that are left.
    pub fn rest(&mut self) -> &'a [Word] {
        if let Some(last) = self.rest.last() {
            self.last = last;
        }
        std::mem::take(&mut self.rest)
    }

    /// Refuses words left over.
    ///
    /// # Errors
    ///
    /// If there is one.
    pub fn end(&self) -> Result<(), Diagnostic> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => {
                Err(word.fault(format!("Wrong argument count: '{word}' is one too many")))
            }
        }
    }

    /// Refuses words left over, and a block that nobody asked for.
    pub(crate) fn finish(&self) -> Result<(), Diagnostic> {
        self.end()?;
        if self.block_read.get() { Ok(()) } else { self.line.no_block() }
    }
}

#[cfg(test)]
mod tests;
