//! `$GENERATE`: many records from one line.

use crate::record::{BadRecord, Word};

/// The most records of one line.
const MOST: u64 = 65_536;
/// The widest number, in digits.
const WIDEST: usize = 255;

/// The numbers of a range, `FROM-TO` or `FROM-TO/STEP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    from: u32,
    to: u32,
    step: u32,
}

impl Range {
    /// Reads it.
    pub(crate) fn read(text: &str) -> Result<Self, BadRecord> {
        let wrong = |why| BadRecord::new(format!("'{text}' is no range: {why}"));
        let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
        let (from, to) =
            ends.split_once('-').ok_or_else(|| wrong("write FROM-TO or FROM-TO/STEP"))?;
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= i32::MAX as u32);
        let numbers = number(from).zip(number(to)).zip(number(step).filter(|step| *step > 0));
        let ((from, to), step) = numbers.ok_or_else(|| wrong("numbers and a step above 0"))?;
        if to < from {
            return Err(wrong("it ends before it begins"));
        }
        let range = Self { from, to, step };
        if range.len() > MOST { Err(wrong("it has more than 65,536 numbers")) } else { Ok(range) }
    }

    /// How many there are.
    pub(crate) fn len(self) -> u64 {
        u64::from((self.to - self.from) / self.step) + 1
    }

    /// The numbers.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (self.from..=self.to).step_by(self.step as usize)
    }
}

/// A word with the number put in: `$` is the number, `${OFFSET,WIDTH,BASE}` a changed one, `\$` and `$$` are a dollar sign.
pub(crate) fn put(word: &Word<'_>, number: u32) -> Result<Word<'static>, BadRecord> {
    let mut out = String::with_capacity(word.text.len() + 8);
    let mut rest = &*word.text;
    while let Some(at) = rest.find(['$', '\\']) {
        let (plain, found) = rest.split_at(at);
        out.push_str(plain);
        rest = match found.strip_prefix('$') {
            Some(behind) => match (behind.strip_prefix('$'), behind.strip_prefix('{')) {
                (Some(behind), _) => {
                    out.push('$');
                    behind
                }
                (_, Some(inner)) => {
                    let wrong = || BadRecord::new("a ${...} is not closed");
                    let (how, behind) = inner.split_once('}').ok_or_else(wrong)?;
                    out.push_str(&changed(how, number)?);
                    behind
                }
                _ => {
                    out.push_str(&number.to_string());
                    behind
                }
            },
            None => {
                // An escape stays one, but for that of the dollar sign.
                let mut chars = found.chars();
                chars.next();
                match chars.next() {
                    Some('$') => out.push('$'),
                    Some(c) => out.extend(['\\', c]),
                    None => out.push('\\'),
                }
                chars.as_str()
            }
        };
    }
    out.push_str(rest);
    Ok(Word { text: out.into(), quoted: word.quoted })
}

/// The number as `OFFSET,WIDTH,BASE` says.
fn changed(how: &str, number: u32) -> Result<String, BadRecord> {
    let wrong = |why| BadRecord::new(format!("'${{{how}}}' cannot be used: {why}"));
    let mut parts = how.split(',');
    let offset = parts.next().unwrap_or_default();
    let offset: i64 = offset.parse().map_err(|_| wrong("the offset is no number"))?;
    let width = parts.next().unwrap_or("0");
    let width = width.parse().ok().filter(|width: &usize| *width <= WIDEST);
    let width = width.ok_or_else(|| wrong("the width is no number up to 255"))?;
    let value = offset.checked_add(i64::from(number));
    let value = value.filter(|value| (0..=i64::from(i32::MAX)).contains(value));
    let value = value.ok_or_else(|| wrong("the number is negative or too large"))?;
    let text = match parts.next().unwrap_or("d") {
        "d" => format!("{value:0width$}"),
        "o" => format!("{value:0width$o}"),
        "x" => format!("{value:0width$x}"),
        "X" => format!("{value:0width$X}"),
        _ => return Err(wrong("the base is d, o, x or X")),
    };
    if parts.next().is_some() { Err(wrong("it has more than three parts")) } else { Ok(text) }
}
