//! What is wrong, where, and what would be right: values first, text last.

use crate::Place;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// What is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where; `None` for what has no place, such as a file that cannot be read.
    pub place: Option<Place>,
    /// How many characters are meant, for the carets.
    pub span: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: Option<String>,
    /// What else is wrong in the same directive.
    pub also: Vec<Self>,
    /// Whether the line holds a secret, so that it is not shown.
    pub hides: bool,
}

impl Diagnostic {
    /// Makes one without a place.
    pub fn new(what: impl Into<String>) -> Self {
        Self { place: None, span: 0, what: what.into(), help: None, also: Vec::new(), hides: false }
    }

    /// Says what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Keeps the line out of what is shown, since it holds a secret.
    #[must_use]
    pub fn hide(mut self) -> Self {
        self.hides = true;
        self
    }

    /// Joins what is wrong in one directive; `None` if nothing is.
    pub fn joined(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut first = all.next()?;
        first.also.extend(all.flat_map(Self::apart));
        Some(first)
    }

    /// Takes what is joined apart.
    pub fn apart(mut self) -> Vec<Self> {
        let also = std::mem::take(&mut self.also);
        let mut all = vec![self];
        all.extend(also);
        all
    }

    /// Writes an error with its place, the line's text with carets under the word, and the help.
    /// `sources` gives the text of a file; without it the line is left out.
    pub fn render(&self, sources: &dyn Fn(&Path) -> Option<String>) -> String {
        self.picture(self.to_string(), sources)
    }

    /// Writes the same for what is odd but not refused.
    pub fn render_warning(&self, sources: &dyn Fn(&Path) -> Option<String>) -> String {
        self.picture(format!("[WARNING] {}", bounded(&self.what)), sources)
    }

    /// Adds place, line, carets and help to a headline.
    fn picture(&self, headline: String, sources: &dyn Fn(&Path) -> Option<String>) -> String {
        let mut text = headline;
        let mut margin = String::new();
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            margin = " ".repeat(number.len());
            text.push_str(&format!("\n{margin}--> {place}"));
            let index = (place.line as usize).checked_sub(1).filter(|_| !self.hides);
            let line = index.and_then(|index| {
                sources(&place.file)?
                    .split('\n')
                    .nth(index)
                    .map(|line| excerpt(line, place.column, self.span))
            });
            if let Some((line, carets)) = line {
                text.push_str(&format!("\n{margin} |\n{number} | {line}\n{margin} | {carets}"));
            }
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\n{margin} = help: {}", bounded(help)));
        }
        text
    }
}

/// The most characters of a line that are shown.
const WIDTH: usize = 160;

/// Cuts the part of a line that holds `span` characters from `column`, without control characters, and draws the carets below it.
fn excerpt(line: &str, column: u32, span: usize) -> (String, String) {
    let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
    let before = (column as usize).saturating_sub(1).min(line.chars().count());
    let skipped = if before < WIDTH / 2 { 0 } else { before - WIDTH / 4 };
    let shown: String = line
        .chars()
        .skip(skipped)
        .take(WIDTH)
        .map(|c| if c == '\t' { ' ' } else { c })
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let length = shown.chars().count();
    let start = (before - skipped).min(length);
    let carets = span.clamp(1, (length - start).max(1));
    (shown.trim_end().to_owned(), " ".repeat(start) + &"^".repeat(carets))
}

/// The most characters of a text that are shown.
const LENGTH: usize = 1_000;

/// A text for a terminal and a log: without control characters, and its middle left out where it is long, as with a word of a megabyte.
fn bounded(text: &str) -> Cow<'_, str> {
    let long = text.len() > LENGTH && text.chars().nth(LENGTH).is_some();
    let control = |c: char| c.is_control() && c != '\n';
    if !long && !text.contains(control) {
        return text.into();
    }
    let plain = |c: char| if control(c) { '\u{fffd}' } else { c };
    if !long {
        return text.chars().map(plain).collect();
    }
    let mut shown: String = text.chars().take(LENGTH / 2).map(plain).collect();
    let end: Vec<char> = text.chars().rev().take(LENGTH / 2).map(plain).collect();
    shown.push('…');
    shown.extend(end.iter().rev());
    shown.into()
}

impl fmt::Display for Diagnostic {
    /// Writes one line, as CoreDNS does: `file:line - Error during parsing: what`, with a plugin's name before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = bounded(&self.what);
        let Some(place) = &self.place else { return f.write_str(&what) };
        let named = what.strip_prefix("plugin/").and_then(|rest| rest.split_once(": "));
        let what = match named {
            Some((plugin, what)) => {
                write!(f, "plugin/{plugin}: ")?;
                what
            }
            None => &*what,
        };
        write!(f, "{}:{} - ", place.file.display(), place.line)?;
        if !self.what.starts_with("Syntax error: ") {
            f.write_str("Error during parsing: ")?;
        }
        f.write_str(what)
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests;
