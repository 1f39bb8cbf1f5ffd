//! A record's data, field by field.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Name;
use wire::text::{type_name, type_number};

use super::fields::{self, Field};
use super::words::octets;
use super::{BadRecord, Word, name, special, svcb, ttl};
use crate::types::write_types;

/// Reads the data of a record of type `kind`: its own form, or that which all types have (RFC 3597 §5).
pub(super) fn read(kind: u16, words: &[Word<'_>], origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let type_of = || type_name(kind);
    if let Some((mark, rest)) = words.split_first()
        && mark.text == r"\#"
        && !mark.quoted
    {
        return unknown(rest);
    }
    if let Some(read) = special::of(kind) {
        let named = |wrong| BadRecord::new(format!("{}: {wrong}", type_of()));
        return read(words, origin).map_err(named);
    }
    let fields = fields::of(kind).ok_or_else(|| {
        BadRecord::new(format!(
            "records of type {} are written as \\# LENGTH HEXADECIMAL here",
            type_of()
        ))
    })?;
    let mut reader = Reader { rest: words, origin, data: Vec::new() };
    for field in fields {
        reader.field(*field).map_err(|wrong| BadRecord::new(format!("{}: {wrong}", type_of())))?;
    }
    if let Some(word) = reader.rest.first() {
        return Err(BadRecord::new(format!("{}: '{}' is one word too many", type_of(), word.text)));
    }
    if u16::try_from(reader.data.len()).is_err() {
        return Err(BadRecord::new(format!(
            "{}: the data is longer than 65,535 octets",
            type_of()
        )));
    }
    Ok(reader.data)
}

/// The data behind `\#`: its length, and as many octets in hexadecimal.
fn unknown(words: &[Word<'_>]) -> Result<Vec<u8>, BadRecord> {
    let wrong = || BadRecord::new("behind \\# stand a length and as many octets in hexadecimal");
    let (len, rest) = words.split_first().ok_or_else(wrong)?;
    let len: u16 = len.text.parse().map_err(|_| wrong())?;
    let data = hex(&joined(rest)).ok_or_else(wrong)?;
    if data.len() == usize::from(len) { Ok(data) } else { Err(wrong()) }
}

/// Takes fields from words.
struct Reader<'a, 'w> {
    rest: &'w [Word<'a>],
    origin: &'w Name,
    data: Vec<u8>,
}

impl<'a, 'w> Reader<'a, 'w> {
    /// The next word.
    fn word(&mut self) -> Result<&'w Word<'a>, BadRecord> {
        let (word, rest) =
            self.rest.split_first().ok_or_else(|| BadRecord::new("a word is missing"))?;
        self.rest = rest;
        Ok(word)
    }

    /// All words that are left.
    fn all(&mut self) -> &'w [Word<'a>] {
        std::mem::take(&mut self.rest)
    }

    /// The next word as read by `read`.
    fn read<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, BadRecord> {
        let word = self.word()?;
        read(&word.text).ok_or_else(|| BadRecord::new(format!("'{}' is no {what}", word.text)))
    }

    /// Reads one field.
    fn field(&mut self, field: Field) -> Result<(), BadRecord> {
        match field {
            Field::U8 => {
                let number: u8 = self.read("number up to 255", number)?;
                self.data.push(number);
            }
            Field::U16 => {
                let number: u16 = self.read("number up to 65535", number)?;
                self.data.extend_from_slice(&number.to_be_bytes());
            }
            Field::U32 => {
                let number: u32 = self.read("number of 32 bits", number)?;
                self.data.extend_from_slice(&number.to_be_bytes());
            }
            Field::Seconds => {
                let seconds = self.read("time", ttl)?;
                self.data.extend_from_slice(&seconds.to_be_bytes());
            }
            Field::Time => {
                let time = self.read("time such as 20250131235959", time)?;
                self.data.extend_from_slice(&time.to_be_bytes());
            }
            Field::Type => {
                let number = self.read("record type", type_number)?;
                self.data.extend_from_slice(&number.to_be_bytes());
            }
            Field::CertType => {
                let number = self.read("type of certificate", cert_type)?;
                self.data.extend_from_slice(&number.to_be_bytes());
            }
            Field::Algorithm => {
                let number = self.read("algorithm", algorithm)?;
                self.data.push(number);
            }
            Field::Name => {
                let word = self.word()?;
                self.data.extend_from_slice(&name(&word.text, self.origin)?);
            }
            Field::V4 => {
                let addr: Ipv4Addr = self.read("IPv4 address", |text| text.parse().ok())?;
                self.data.extend_from_slice(&addr.octets());
            }
            Field::V6 => {
                let addr: Ipv6Addr = self.read("IPv6 address", |text| text.parse().ok())?;
                self.data.extend_from_slice(&addr.octets());
            }
            Field::Text => {
                let word = self.word()?;
                self.string(&octets(&word.text)?)?;
            }
            Field::MaybeText => {
                if !self.rest.is_empty() {
                    self.field(Field::Text)?;
                }
            }
            Field::Texts => self.texts()?,
            Field::Rest => {
                let word = self.word()?;
                self.data.extend_from_slice(&octets(&word.text)?);
            }
            Field::Hex => {
                let text = joined(self.all());
                let octets = hex(&text).filter(|octets| !octets.is_empty());
                let octets =
                    octets.ok_or_else(|| BadRecord::new(format!("'{text}' is not hexadecimal")))?;
                self.data.extend_from_slice(&octets);
            }
            Field::HexWord => {
                let octets = self.read("hexadecimal number", |text| {
                    if text == "-" { Some(Vec::new()) } else { hex(text) }
                })?;
                self.string(&octets)?;
            }
            Field::Base64 => {
                let text = joined(self.all());
                let octets = base64(&text)
                    .ok_or_else(|| BadRecord::new(format!("'{text}' is no Base 64")))?;
                self.data.extend_from_slice(&octets);
            }
            Field::Base32 => {
                let octets = self.read("Base 32", base32)?;
                self.string(&octets)?;
            }
            Field::Types => self.types()?,
            Field::Dashed(len) => {
                let octets = self.read("number with dashes", |text| grouped(text, '-', 2, len))?;
                self.data.extend_from_slice(&octets);
            }
            Field::Colons => {
                let octets = self.read("number with colons", |text| grouped(text, ':', 4, 4))?;
                self.data.extend_from_slice(&octets);
            }
            Field::Parameters => {
                let words = self.all();
                svcb::parameters(words, &mut self.data)?;
            }
        }
        Ok(())
    }

    /// Writes a string with its length.
    fn string(&mut self, octets: &[u8]) -> Result<(), BadRecord> {
        let len = u8::try_from(octets.len())
            .map_err(|_| BadRecord::new("a string is longer than 255 octets"))?;
        self.data.push(len);
        self.data.extend_from_slice(octets);
        Ok(())
    }

    /// Writes all words that are left as strings; one over 255 octets becomes several.
    fn texts(&mut self) -> Result<(), BadRecord> {
        let words = self.all();
        if words.is_empty() {
            return Err(BadRecord::new("a text is missing"));
        }
        for word in words {
            let octets = octets(&word.text)?;
            if octets.is_empty() {
                self.string(&[])?;
            }
            octets.chunks(255).try_for_each(|chunk| self.string(chunk))?;
        }
        Ok(())
    }

    /// Writes all words that are left as a bit map of types: windows of 256, each with the octets that it needs.
    fn types(&mut self) -> Result<(), BadRecord> {
        let mut types = Vec::new();
        for word in self.all() {
            let kind = type_number(&word.text);
            types.push(
                kind.ok_or_else(|| BadRecord::new(format!("'{}' is no record type", word.text)))?,
            );
        }
        types.sort_unstable();
        write_types(types, &mut self.data);
        Ok(())
    }
}

/// A number in decimal digits and nothing else.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Words put together.
fn joined(words: &[Word<'_>]) -> String {
    words.iter().map(|word| &*word.text).collect()
}

/// Octets in hexadecimal digits, two each.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// So many groups of so many hexadecimal digits with something in between.
fn grouped(text: &str, between: char, digits: usize, groups: usize) -> Option<Vec<u8>> {
    let all: Vec<&str> = text.split(between).collect();
    if all.len() != groups || all.iter().any(|group| group.len() != digits) {
        return None;
    }
    hex(&all.concat())
}

/// Octets in Base 64 (RFC 4648 §4); the padding may be missing.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    digits(text, 6, |byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    })
}

/// Octets in Base 32 with the extended hexadecimal alphabet, without padding (RFC 5155 §3.3).
fn base32(text: &str) -> Option<Vec<u8>> {
    digits(text, 5, |byte| match byte.to_ascii_uppercase() {
        upper @ b'A'..=b'V' => Some(upper - b'A' + 10),
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        _ => None,
    })
}

/// Octets written in digits of so many bits; none if a digit is none, there is no digit, or bits are left over that are set.
fn digits(text: &str, bits: u32, value: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let (mut out, mut held, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.bytes() {
        held = held << bits | u32::from(value(byte)?);
        count += bits;
        if count >= 8 {
            count -= 8;
            out.push((held >> count & 0xff) as u8);
            held &= (1 << count) - 1;
        }
    }
    (!text.is_empty() && held == 0 && count < bits).then_some(out)
}

/// A type of certificate by number or mnemonic (RFC 4398 §2.1).
fn cert_type(text: &str) -> Option<u16> {
    Some(match text {
        "PKIX" => 1,
        "SPKI" => 2,
        "PGP" => 3,
        "IPKIX" => 4,
        "ISPKI" => 5,
        "IPGP" => 6,
        "ACPKIX" => 7,
        "IACPKIX" => 8,
        "URI" => 253,
        "OID" => 254,
        other => return number(other),
    })
}

/// A DNSSEC algorithm by number or mnemonic.
fn algorithm(text: &str) -> Option<u8> {
    Some(match text {
        "RSAMD5" => 1,
        "DH" => 2,
        "DSA" => 3,
        "RSASHA1" => 5,
        "DSA-NSEC3-SHA1" => 6,
        "RSASHA1-NSEC3-SHA1" => 7,
        "RSASHA256" => 8,
        "RSASHA512" => 10,
        "ECC-GOST" => 12,
        "ECDSAP256SHA256" => 13,
        "ECDSAP384SHA384" => 14,
        "ED25519" => 15,
        "ED448" => 16,
        "INDIRECT" => 252,
        "PRIVATEDNS" => 253,
        "PRIVATEOID" => 254,
        other => return number(other),
    })
}

/// A moment as fourteen digits, or in seconds; it wraps at 2106 (RFC 4034 §3.1.5).
fn time(text: &str) -> Option<u32> {
    if text.len() != 14 {
        return number(text);
    }
    let part = |from: usize, to: usize| number::<u64>(text.get(from..to)?);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    if year < 1970
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Days since 1970 in years that begin in March, so that the leap day is the last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day
        - 1
        - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    u32::try_from(seconds & u64::from(u32::MAX)).ok()
}
