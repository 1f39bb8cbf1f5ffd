//! Names as text without allocation: for patterns, which see the presentation form.

use std::fmt;

use engine::Exchange;
use wire::text::write_name;

/// The most that a name takes in presentation form: each octet of 255 as `\DDD`.
const MAX: usize = 1024;

/// A name's presentation form with its last dot, in place.
pub struct NameText {
    len: usize,
    bytes: [u8; MAX],
}

impl NameText {
    /// The text of an uncompressed wire name, its case kept.
    pub fn of(wire: &[u8]) -> Self {
        let mut text = Self { len: 0, bytes: [0; MAX] };
        // No name is longer than the space.
        let _unfailing = write_name(wire, &mut text);
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Presentation form is ASCII.
        self.bytes.get(..self.len).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }
}

impl fmt::Write for NameText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Debug for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of the request in hand as its client spelled it, as long as no plugin has put another in its place.
pub fn spelled(x: &Exchange) -> &[u8] {
    let name = x.request().name.wire();
    match x.query.wire.get(12..12 + name.len()) {
        Some(asked) if asked.eq_ignore_ascii_case(name) => asked,
        _ => name,
    }
}
