//! Regular expressions as Corefiles have them: Go's RE2 syntax, put into that of the `regex` crate.
//!
//! The two agree on most. Here `\d`, `\w`, `\s` and `\b` know ASCII alone, `\Q…\E` quotes, a brace that is no repetition is itself,
//! octal escapes are read, and what only the crate gives a meaning (set operations and classes within classes, `\<`,
//! the flags `x`, `u` and `R`) has none.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use config::{Diagnostic, Word};
pub use regex::Regex;

/// The longest pattern, in octets.
pub const MAX: usize = 10_000;

/// The most that a repetition may count to, as in Go.
const MAX_REPEAT: u32 = 1000;

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern(String);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPattern {}

/// Compiles a pattern in Go's syntax. It matches anywhere in a text, the leftmost alternative first.
///
/// # Errors
/// If it is longer than [`MAX`] or no regular expression.
pub fn compile(pattern: &str) -> Result<Regex, BadPattern> {
    if pattern.len() > MAX {
        return Err(BadPattern(format!(
            "the pattern has {} octets, more than {MAX}",
            pattern.len()
        )));
    }
    let translated = translate(pattern)?;
    Regex::new(&translated).map_err(|wrong| match wrong {
        regex::Error::CompiledTooBig(_) => BadPattern("the pattern is too large".to_owned()),
        // The last line of the crate's message says what is wrong; those before it draw the translated pattern.
        wrong => {
            let text = wrong.to_string();
            let last = text.lines().last().unwrap_or_default();
            BadPattern(last.trim_start_matches("error: ").to_owned())
        }
    })
}

/// The same for a word of the Corefile.
///
/// # Errors
/// As [`compile`], at the word.
pub fn read(word: &Word) -> Result<Regex, Diagnostic> {
    compile(&word.text).map_err(|wrong| refuse(word, &wrong))
}

/// The same for a word that matches in upper and lower case.
///
/// # Errors
/// As [`compile`], at the word.
pub fn read_folded(word: &Word) -> Result<Regex, Diagnostic> {
    compile(&format!("(?i){}", word.text)).map_err(|wrong| refuse(word, &wrong))
}

/// Says at a word what is wrong with its pattern.
fn refuse(word: &Word, wrong: &BadPattern) -> Diagnostic {
    word.wrong(format_args!("is no regular expression: {wrong}"))
        .help("write a pattern in RE2 syntax (https://github.com/google/re2/wiki/Syntax); quote it if it has spaces or braces")
}

/// Puts a pattern of Go's syntax into the crate's.
fn translate(pattern: &str) -> Result<String, BadPattern> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => outside(&mut rest, &mut out)?,
            '[' => class(&mut rest, &mut out)?,
            '{' => match repetition(&rest)? {
                Some(len) => {
                    out.push('{');
                    out.extend(rest.by_ref().take(len));
                }
                None => out.push_str("\\{"),
            },
            '(' => {
                out.push('(');
                if rest.peek() == Some(&'?') {
                    flags(&rest)?;
                }
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// The length, braces and all, of the repetition that stands behind an opening brace; none if it is no repetition.
fn repetition(rest: &Peekable<Chars<'_>>) -> Result<Option<usize>, BadPattern> {
    let (mut len, mut numbers, mut number) = (0, 0, String::new());
    for c in rest.clone() {
        len += 1;
        match c {
            '0'..='9' => number.push(c),
            // The second number may be missing, the first may not.
            ',' | '}' if number.is_empty() && numbers == 0 => return Ok(None),
            ',' if numbers == 0 => {
                numbers = 1;
                if number.parse().is_ok_and(|n: u32| n > MAX_REPEAT) {
                    return Err(BadPattern(format!("a repetition counts to {MAX_REPEAT} at most")));
                }
                number.clear();
            }
            '}' => {
                if !number.is_empty() && !number.parse().is_ok_and(|n: u32| n <= MAX_REPEAT) {
                    return Err(BadPattern(format!("a repetition counts to {MAX_REPEAT} at most")));
                }
                return Ok(Some(len));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Refuses flags that Go does not know.
fn flags(rest: &Peekable<Chars<'_>>) -> Result<(), BadPattern> {
    let mut ahead = rest.clone();
    ahead.next();
    for c in ahead {
        match c {
            'i' | 'm' | 's' | 'U' | '-' => {}
            // The end of the flags; or a group with a name, which only the crate judges.
            ':' | ')' | 'P' | '<' => return Ok(()),
            other => return Err(BadPattern(format!("(?{other}…) is not known"))),
        }
    }
    Ok(())
}

/// An escape outside of brackets; the backslash is taken.
fn outside(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), BadPattern> {
    match rest.peek() {
        Some('Q') => {
            rest.next();
            quoted(rest, out);
        }
        Some('b') => {
            rest.next();
            out.push_str(r"(?-u:\b)");
        }
        Some('B') => {
            rest.next();
            out.push_str(r"(?-u:\B)");
        }
        Some('A' | 'z') => {
            out.push('\\');
            out.extend(rest.next());
        }
        _ => match escape(rest)? {
            Escape::Class(true, set) => {
                out.push('[');
                out.push_str(set);
                out.push(']');
            }
            other => other.write(rest, out),
        },
    }
    Ok(())
}

/// What stands between `\Q` and `\E`, or the end.
fn quoted(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = rest.next() {
        if c == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            return;
        }
        literal(c, out);
    }
}

/// An escape that means the same within brackets and outside.
#[derive(Clone, Copy)]
enum Escape {
    /// One character.
    Char(char),
    /// A class: whether it is meant as it stands (and not all else), and its members.
    Class(bool, &'static str),
    /// A class of Unicode, whose name is still to be read.
    Unicode,
}

impl Escape {
    /// Writes it as it stands within brackets.
    fn write(self, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
        match self {
            Self::Char(c) => literal(c, out),
            Self::Class(true, set) => out.push_str(set),
            Self::Class(false, set) => {
                out.push_str("[^");
                out.push_str(set);
                out.push(']');
            }
            Self::Unicode => unicode(rest, out),
        }
    }
}

/// Reads an escape whose backslash is taken. Of a class of Unicode nothing more is taken.
fn escape(rest: &mut Peekable<Chars<'_>>) -> Result<Escape, BadPattern> {
    const DIGITS: &str = "0-9";
    const WORDS: &str = "0-9A-Za-z_";
    const SPACES: &str = r"\t\n\f\r ";
    if matches!(rest.peek(), Some('p' | 'P')) {
        return Ok(Escape::Unicode);
    }
    let c = rest.next().ok_or_else(|| BadPattern("a backslash stands at the end".to_owned()))?;
    Ok(match c {
        'd' => Escape::Class(true, DIGITS),
        'D' => Escape::Class(false, DIGITS),
        'w' => Escape::Class(true, WORDS),
        'W' => Escape::Class(false, WORDS),
        's' => Escape::Class(true, SPACES),
        'S' => Escape::Class(false, SPACES),
        'a' => Escape::Char('\x07'),
        'f' => Escape::Char('\x0c'),
        'n' => Escape::Char('\n'),
        'r' => Escape::Char('\r'),
        't' => Escape::Char('\t'),
        'v' => Escape::Char('\x0b'),
        'x' => Escape::Char(hexadecimal(rest)?),
        // One digit alone would be a backreference.
        '1'..='7' if !matches!(rest.peek(), Some('0'..='7')) => {
            return Err(BadPattern(format!("\\{c}: there are no backreferences")));
        }
        '0'..='7' => {
            let mut number = c.to_digit(8).unwrap_or(0);
            for _ in 0..2 {
                let Some(digit) = rest.peek().and_then(|c| c.to_digit(8)) else { break };
                number = number * 8 + digit;
                rest.next();
            }
            Escape::Char(char::from_u32(number).unwrap_or('\0'))
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Escape::Char(c),
        other => return Err(BadPattern(format!("\\{other} is not known"))),
    })
}

/// The character of a hexadecimal escape whose `\x` is taken.
fn hexadecimal(rest: &mut Peekable<Chars<'_>>) -> Result<char, BadPattern> {
    let wrong = || BadPattern(r"\x takes two hexadecimal digits, or some in braces".to_owned());
    let mut digits = String::new();
    if rest.next_if_eq(&'{').is_some() {
        while let Some(c) = rest.next_if(|c| *c != '}') {
            digits.push(c);
        }
        rest.next().ok_or_else(wrong)?;
    } else {
        digits.extend(rest.by_ref().take(2));
        if digits.len() != 2 {
            return Err(wrong());
        }
    }
    if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or_else(wrong)
}

/// Writes a character that stands for itself, within brackets or outside.
fn literal(c: char, out: &mut String) {
    if c.is_ascii_control() || matches!(c, '<' | '>') {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
    } else {
        if c.is_ascii_punctuation() && c != '_' {
            out.push('\\');
        }
        out.push(c);
    }
}

/// A bracketed class whose opening bracket is taken.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), BadPattern> {
    let unclosed = || BadPattern("a bracket is not closed".to_owned());
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        let c = rest.next().ok_or_else(unclosed)?;
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            '[' if rest.peek() == Some(&':') => named(rest, out),
            '\\' => {
                let escape = escape(rest)?;
                escape.write(rest, out);
            }
            other => literal(other, out),
        }
        first = false;
        // A range, if something other than the closing bracket follows.
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && !matches!(ahead.next(), Some(']') | None) {
            rest.next();
            out.push('-');
            match rest.next().ok_or_else(unclosed)? {
                '\\' => match escape(rest)? {
                    Escape::Char(c) => literal(c, out),
                    _ => return Err(BadPattern("a range ends in a class".to_owned())),
                },
                other => literal(other, out),
            }
        }
    }
}

/// A class such as `[:alpha:]`, whose first bracket is taken, if it is one.
fn named(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let name: String = rest.clone().skip(1).take_while(|c| *c != ':').collect();
    let end = rest.clone().nth(2 + name.len());
    if name.chars().all(|c| c.is_ascii_lowercase() || c == '^') && end == Some(']') {
        out.push('[');
        out.extend(rest.by_ref().take(name.len() + 3));
    } else {
        out.push_str("\\[");
    }
}

/// A class of Unicode such as `\pL` or `\P{Greek}`, whose backslash is taken.
fn unicode(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('\\');
    out.extend(rest.next());
    if rest.peek() == Some(&'{') {
        while let Some(c) = rest.next_if(|c| *c != '}') {
            out.push(c);
        }
    }
    out.extend(rest.next());
}

#[cfg(test)]
mod tests;
