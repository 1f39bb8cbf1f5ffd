//! Records in presentation format (RFC 1035 §5.1): `example.org. 1h IN MX 10 mail`.

mod data;
mod fields;
mod special;
mod svcb;
mod words;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use wire::text::{class_number, read_name, type_number};
use wire::{Name, class, rtype};

pub use words::{Word, words};
pub use write::data_text;

/// A record read from text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner, an uncompressed wire name in the case that it was written in.
    pub owner: Vec<u8>,
    /// The class.
    pub class: u16,
    /// The type.
    pub rtype: u16,
    /// The time to live in seconds.
    pub ttl: u32,
    /// The data, names in it uncompressed.
    pub data: Vec<u8>,
}

/// What a text leaves open.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// What is put behind names without a last dot.
    pub origin: Name,
    /// The time to live in seconds.
    pub ttl: u32,
    /// The class.
    pub class: u16,
}

impl Default for Defaults {
    /// Names are absolute, the time to live is an hour, the class IN.
    fn default() -> Self {
        Self { origin: Name::ROOT, ttl: 3600, class: class::IN }
    }
}

/// Why a text is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord(Cow<'static, str>);

impl BadRecord {
    /// With these words.
    pub(crate) fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRecord {}

impl Record {
    /// Reads the first record of a text; none if there are only spaces and comments.
    ///
    /// # Errors
    /// If it is no record.
    pub fn parse(text: &str, defaults: &Defaults) -> Result<Option<Self>, BadRecord> {
        let words = words(text)?;
        let Some((owner, rest)) = words.split_first() else { return Ok(None) };
        let owner = name(&owner.text, &defaults.origin)?;
        let Body { ttl, class, rtype, data } = Body::read(rest, &defaults.origin)?;
        let (ttl, class) = (ttl.unwrap_or(defaults.ttl), class.unwrap_or(defaults.class));
        Ok(Some(Self { owner, class, rtype, ttl, data }))
    }
}

/// What stands behind a record's owner.
pub(crate) struct Body {
    /// The time to live in seconds, if it is written.
    pub(crate) ttl: Option<u32>,
    /// The class, if it is written.
    pub(crate) class: Option<u16>,
    /// The type.
    pub(crate) rtype: u16,
    /// The data, names in it uncompressed.
    pub(crate) data: Vec<u8>,
}

impl Body {
    /// Reads it.
    pub(crate) fn read(words: &[Word<'_>], origin: &Name) -> Result<Self, BadRecord> {
        let (Head { ttl, class, rtype }, rest) = Head::read(words)?;
        let data = data::read(rtype, rest, origin)?;
        Ok(Self { ttl, class, rtype, data })
    }
}

/// What stands between the owner and the data: time to live and class, both optional and in any order, and the type.
struct Head {
    /// In seconds.
    ttl: Option<u32>,
    class: Option<u16>,
    rtype: u16,
}

impl Head {
    /// Reads it; gives the words behind.
    fn read<'a, 'w>(words: &'w [Word<'a>]) -> Result<(Self, &'w [Word<'a>]), BadRecord> {
        let (mut ttl, mut class, mut rest) = (None, None, words);
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            if let Some(rtype) = type_number(&word.text).filter(|n| !is_question(*n)) {
                return Ok((Self { ttl, class, rtype }, rest));
            }
            if ttl.is_none()
                && let Some(seconds) = self::ttl(&word.text)
            {
                ttl = Some(seconds);
            } else if class.is_none()
                && let Some(number) = class_number(&word.text)
            {
                class = Some(number);
            } else {
                return Err(BadRecord::new(format!(
                    "'{}' is no time to live, class or record type",
                    word.text
                )));
            }
        }
        Err(BadRecord::new("the record type is missing"))
    }
}

/// Whether a type only stands in questions or in the protocol (RFC 6895 §3.1): no record in a text has it. ANY is a class
/// there.
fn is_question(number: u16) -> bool {
    number == rtype::OPT || (rtype::TKEY..=rtype::ANY).contains(&number)
}

/// A time in seconds, or with the units `s`, `m`, `h`, `d` and `w`.
pub fn ttl(text: &str) -> Option<u32> {
    let (mut total, mut number, mut digits) = (0u32, 0u32, false);
    for c in text.bytes() {
        let unit = match c.to_ascii_lowercase() {
            b'0'..=b'9' => {
                number = number.checked_mul(10)?.checked_add(u32::from(c - b'0'))?;
                digits = true;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        if !digits {
            return None;
        }
        total = total.checked_add(number.checked_mul(unit)?)?;
        (number, digits) = (0, false);
    }
    if text.bytes().all(|c| c.is_ascii_digit()) && !digits {
        return None;
    }
    total.checked_add(number)
}

/// A name in wire form, its case kept; `@` is the origin, which follows where the last dot is missing.
pub(crate) fn name(text: &str, origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let wrong = || BadRecord::new(format!("'{text}' is no domain name"));
    if text == "@" {
        return Ok(origin.wire().to_vec());
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let mut wire = [0; 256];
    let len = read_name(text, &mut wire).ok_or_else(wrong)?;
    let name = wire.get(..len).ok_or_else(wrong)?;
    if is_absolute(text) || origin.is_root() {
        return Ok(name.to_vec());
    }
    let labels = name.get(..len - 1).unwrap_or_default();
    let whole = [labels, origin.wire()].concat();
    if whole.len() > 255 { Err(wrong()) } else { Ok(whole) }
}

/// Whether a name ends in a dot that is not escaped.
fn is_absolute(text: &str) -> bool {
    let Some(head) = text.strip_suffix('.') else { return false };
    (head.len() - head.trim_end_matches('\\').len()).is_multiple_of(2)
}
