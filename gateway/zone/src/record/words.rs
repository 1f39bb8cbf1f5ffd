//! A line of a zone file, taken apart into words.

use std::borrow::Cow;

use super::BadRecord;

/// A word of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// As it was written, with its escapes; without its quotes.
    pub text: Cow<'a, str>,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// The words of the first line that has any. Spaces and tabs part them, a semicolon begins a comment, parentheses join lines,
/// quotes hold a word together.
///
/// # Errors
/// If a quote or a parenthesis is open at the end, or closed and never opened.
pub fn words(text: &str) -> Result<Vec<Word<'_>>, BadRecord> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let tail = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\n' if depth == 0 && !words.is_empty() => return Ok(words),
            ' ' | '\t' | '\r' | '\n' => rest = tail,
            ';' => rest = tail.find('\n').and_then(|at| tail.get(at..)).unwrap_or_default(),
            '(' => (depth, rest) = (depth + 1, tail),
            ')' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| BadRecord::new("a parenthesis is closed that is not open"))?;
                rest = tail;
            }
            '"' => {
                let end = end(tail, |c| c == '"');
                let (word, behind) = tail.split_at(end);
                rest = behind
                    .strip_prefix('"')
                    .ok_or_else(|| BadRecord::new("a quote is not closed"))?;
                words.push(Word { text: Cow::Borrowed(word), quoted: true });
            }
            _ => {
                let end =
                    end(rest, |c| matches!(c, ' ' | '\t' | '\r' | '\n' | ';' | '(' | ')' | '"'));
                let (word, behind) = rest.split_at(end);
                rest = behind;
                words.push(Word { text: Cow::Borrowed(word), quoted: false });
            }
        }
    }
    if depth > 0 { Err(BadRecord::new("a parenthesis is not closed")) } else { Ok(words) }
}

/// Where the first character lies that `stops`, unless a backslash stands before it.
fn end(text: &str, stops: impl Fn(char) -> bool) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if stops(c) {
            return at;
        }
    }
    text.len()
}

/// The octets of a word, its escapes resolved: `\DDD` is an octet, `\` and a character that character.
pub(crate) fn octets(text: &str) -> Result<Vec<u8>, BadRecord> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let wrong = || {
            BadRecord::new(format!("'{text}' has an escape that is none: write \\DDD up to 255"))
        };
        let first = bytes.next().ok_or_else(wrong)?;
        if !first.is_ascii_digit() {
            out.push(first);
            continue;
        }
        let mut number = u32::from(first - b'0');
        for _ in 0..2 {
            let digit = bytes.next().filter(u8::is_ascii_digit).ok_or_else(wrong)?;
            number = number * 10 + u32::from(digit - b'0');
        }
        out.push(u8::try_from(number).map_err(|_| wrong())?);
    }
    Ok(out)
}
