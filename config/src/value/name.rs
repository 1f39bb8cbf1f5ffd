//! Domain names as text.

use std::fmt;

/// Why a text is no domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Two dots in a row, or one at the beginning (RFC 1035 section 3.1: only the root's label is empty).
    Empty,
    /// A label of more than 63 octets (RFC 1035 section 2.3.4).
    Label,
    /// More than 255 octets (RFC 1035 section 2.3.4).
    Long,
    /// A backslash that is followed by neither a sign nor three digits up to 255 (RFC 1035 section 5.1).
    Escape,
}

impl fmt::Display for NameError {
    /// Writes what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "has an empty label",
            Self::Label => "has a label of more than 63 octets",
            Self::Long => "is longer than 255 octets",
            Self::Escape => "has a wrong escape (write \\DDD with a number up to 255)",
        })
    }
}

impl std::error::Error for NameError {}

/// Whether a text is a label as Kubernetes has them in names of namespaces and services: at most 63 lower-case letters, digits and
/// dashes, no dash first or last (RFC 1123 section 2.1).
pub fn is_label(text: &str) -> bool {
    let one = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=63).contains(&text.len())
        && text.bytes().all(one)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Checks a domain name and gives it in lower case with its final dot; an empty text is the root.
/// Escapes stay as they are written; octets outside ASCII become escapes.
///
/// # Errors
///
/// If it is no domain name (RFC 1035 sections 2.3.4, 3.1 and 5.1).
pub fn fqdn(text: &str) -> Result<String, NameError> {
    if text.is_empty() || text == "." {
        return Ok(".".to_owned());
    }
    let mut name = String::with_capacity(text.len() + 1);
    // The octets of the wire form: a length before each label, and the root's label.
    let (mut label, mut wire) = (0_usize, 1_usize);
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet == b'.' {
            if label == 0 {
                return Err(NameError::Empty);
            }
            wire += label + 1;
            label = 0;
            name.push('.');
            continue;
        }
        if octet == b'\\' {
            name.push('\\');
            escape(&mut rest, &mut name)?;
        } else if octet.is_ascii() {
            name.push(char::from(octet.to_ascii_lowercase()));
        } else {
            name.push_str(&format!("\\{octet:03}"));
        }
        label += 1;
        if label > 63 {
            return Err(NameError::Label);
        }
    }
    if label > 0 {
        wire += label + 1;
        name.push('.');
    }
    if wire > 255 { Err(NameError::Long) } else { Ok(name) }
}

/// Reads what follows a backslash.
fn escape(rest: &mut std::str::Bytes<'_>, name: &mut String) -> Result<(), NameError> {
    let first = rest.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        // An escaped sign stands for itself; one outside ASCII needs the digits.
        if !first.is_ascii() {
            return Err(NameError::Escape);
        }
        name.push(char::from(first.to_ascii_lowercase()));
        return Ok(());
    }
    let digits = [Some(first), rest.next(), rest.next()];
    let mut number = 0_u32;
    for digit in digits {
        let digit = digit.filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        number = number * 10 + u32::from(digit - b'0');
        name.push(char::from(digit));
    }
    if number > 255 { Err(NameError::Escape) } else { Ok(()) }
}
