//! Text to words with places.

use crate::{Diagnostic, Place};
use std::path::Path;
use std::sync::Arc;

/// A word before its environment variables are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The word without its quotes.
    pub(super) text: String,
    /// Where it begins.
    pub(super) place: Place,
    /// Whether it is the first of its line. A quoted word ends where its closing quote stands.
    pub(super) first: bool,
}

impl Token {
    /// Makes a diagnostic at this word that does not quote it.
    pub(super) fn fault(&self, what: impl Into<String>) -> Diagnostic {
        let span = self.text.chars().count().max(1);
        Diagnostic { place: Some(self.place.clone()), span, ..Diagnostic::new(what) }
    }
}

/// A text being read.
struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    file: &'a Arc<Path>,
    line: u32,
    column: u32,
}

/// Splits a text into words, at most `limit`.
///
/// # Errors
///
/// The words before it and a diagnostic, if a quote is not closed or there are more than `limit` words.
pub(super) fn lex(file: &Arc<Path>, text: &str, limit: usize) -> (Vec<Token>, Option<Diagnostic>) {
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { rest: text.chars().peekable(), file, line: 1, column: 1 };
    let mut tokens: Vec<Token> = Vec::new();
    // The line on which the last word ended.
    let mut ended = 0;
    while lexer.skip() {
        let (place, first) = (lexer.place(), lexer.line > ended);
        let (text, closed) = lexer.word();
        ended = lexer.line;
        let token = Token { text, place, first };
        if !closed {
            let what = "Unexpected EOF: the quote that opens here is not closed";
            return (
                tokens,
                Some(Diagnostic { span: 1, ..token.fault(what) }.help("put a '\"' at its end")),
            );
        }
        if tokens.len() >= limit {
            return (tokens, Some(token.fault("there are too many words up to here")));
        }
        tokens.push(token);
    }
    (tokens, None)
}

impl Lexer<'_> {
    /// Where the next sign stands.
    fn place(&self) -> Place {
        Place { file: Arc::clone(self.file), line: self.line, column: self.column }
    }

    /// Takes the next sign.
    fn take(&mut self) -> Option<char> {
        let sign = self.rest.next()?;
        if sign == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(sign)
    }

    /// Goes to the next word; `false` at the end.
    fn skip(&mut self) -> bool {
        while let Some(sign) = self.rest.peek() {
            match sign {
                '#' => self.comment(),
                sign if sign.is_whitespace() => {
                    self.take();
                }
                _ => return true,
            }
        }
        false
    }

    /// Takes the rest of the line.
    fn comment(&mut self) {
        while self.rest.peek().is_some_and(|sign| *sign != '\n') {
            self.take();
        }
    }

    /// Takes a word, and says whether its quote, if it has one, is closed.
    fn word(&mut self) -> (String, bool) {
        let mut word = String::new();
        if self.rest.peek() == Some(&'"') {
            self.take();
            return self.quoted(word);
        }
        while let Some(sign) = self.rest.peek().copied() {
            match sign {
                // Carriage returns are nothing, not even the end of a word.
                '\r' => {}
                '#' => {
                    self.comment();
                    break;
                }
                sign if sign.is_whitespace() => break,
                sign => word.push(sign),
            }
            self.take();
        }
        (word, true)
    }

    /// Takes a quoted word behind its opening quote. Only a quote can be escaped; other backslashes stay.
    fn quoted(&mut self, mut word: String) -> (String, bool) {
        while let Some(sign) = self.take() {
            match sign {
                '"' => return (word, true),
                '\\' => match self.take() {
                    Some('"') => word.push('"'),
                    Some(sign) => word.extend(['\\', sign]),
                    None => break,
                },
                sign => word.push(sign),
            }
        }
        (word, false)
    }
}
