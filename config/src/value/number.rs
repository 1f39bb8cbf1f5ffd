//! Numbers: plain ones, ones in other bases, and sizes.

use std::fmt;

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNumber {
    /// It is no number of that form.
    Form,
    /// It is too large.
    Large,
}

impl fmt::Display for NotNumber {
    /// Writes what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "not a number",
            Self::Large => "the number is too large",
        })
    }
}

impl std::error::Error for NotNumber {}

/// Reads a whole number in decimal with an optional sign.
///
/// # Errors
///
/// If it is none, or does not fit in 64 bits.
pub fn integer(text: &str) -> Result<i64, NotNumber> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NotNumber::Form);
    }
    text.parse().map_err(|_| NotNumber::Large)
}

/// Reads a whole number in decimal, or in the base of its prefix: `0x` 16, `0o` or `0` 8, `0b` 2.
///
/// # Errors
///
/// If it is none, or does not fit in 64 bits.
pub fn based_integer(text: &str) -> Result<u64, NotNumber> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'o' | b'O', ..] => (&text[2..], 8),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(NotNumber::Form);
    }
    u64::from_str_radix(digits, base).map_err(|_| NotNumber::Large)
}

/// Reads a number of octets: `512`, `64KiB`, `10MB`. `K`, `M`, `G` alone and with `iB` count by 1,024, with `B` by 1,000.
///
/// # Errors
///
/// If it is none, or does not fit in 64 bits.
pub fn size(text: &str) -> Result<u64, NotNumber> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    if digits.is_empty() {
        return Err(NotNumber::Form);
    }
    let scale: u64 = match unit.trim_start_matches(' ').to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(NotNumber::Form),
    };
    let number: u64 = digits.parse().map_err(|_| NotNumber::Large)?;
    number.checked_mul(scale).ok_or(NotNumber::Large)
}
