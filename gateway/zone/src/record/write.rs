//! A record's data as text.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Name;
use wire::text::{name_text, type_name};

use super::fields::{self, Field};
use crate::types::types_in;

/// The data of a record of type `kind`, names in it uncompressed, as text that is read back as the same: in the type's own form, or in
/// that which all types have (RFC 3597 §5).
pub fn data_text(kind: u16, data: &[u8]) -> String {
    own(kind, data).unwrap_or_else(|| {
        let text = format!("\\# {} {}", data.len(), hex(data));
        text.trim_end().to_owned()
    })
}

/// The same in the type's own form; none if that is not known here, or the data is not of it.
fn own(kind: u16, mut data: &[u8]) -> Option<String> {
    let mut words = Vec::new();
    for field in fields::of(kind)? {
        words.push(word(*field, &mut data)?);
    }
    data.is_empty().then(|| words.join(" ").trim_end().to_owned())
}

/// Takes one field from the data.
fn word(field: Field, data: &mut &[u8]) -> Option<String> {
    Some(match field {
        Field::U8 | Field::Algorithm => take::<1>(data)?[0].to_string(),
        Field::U16 | Field::CertType => u16::from_be_bytes(*take(data)?).to_string(),
        Field::U32 | Field::Seconds | Field::Time => u32::from_be_bytes(*take(data)?).to_string(),
        Field::Type => type_name(u16::from_be_bytes(*take(data)?)).into_owned(),
        Field::Name => {
            let (name, rest) = data.split_at_checked(Name::span(data)?)?;
            *data = rest;
            name_text(name)
        }
        Field::V4 => Ipv4Addr::from_octets(*take(data)?).to_string(),
        Field::V6 => Ipv6Addr::from_octets(*take(data)?).to_string(),
        Field::Text => string(data)?,
        Field::Texts => {
            let mut texts = vec![string(data)?];
            while !data.is_empty() {
                texts.push(string(data)?);
            }
            texts.join(" ")
        }
        Field::Rest => quoted(std::mem::take(data)),
        Field::Hex if !data.is_empty() => hex(std::mem::take(data)),
        Field::Base64 if !data.is_empty() => base64(std::mem::take(data)),
        Field::Types => {
            let names: Vec<_> = types_in(std::mem::take(data)).map(type_name).collect();
            names.join(" ")
        }
        Field::Hex
        | Field::Base64
        | Field::MaybeText
        | Field::HexWord
        | Field::Base32
        | Field::Dashed(_)
        | Field::Colons
        | Field::Parameters => return None,
    })
}

/// Takes so many octets.
fn take<'a, const N: usize>(data: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (octets, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(octets)
}

/// Takes a string with its length in front.
fn string(data: &mut &[u8]) -> Option<String> {
    let [len] = *take(data)?;
    let (text, rest) = data.split_at_checked(usize::from(len))?;
    *data = rest;
    Some(quoted(text))
}

/// Octets in quotes.
fn quoted(octets: &[u8]) -> String {
    let mut text = String::from("\"");
    for octet in octets {
        match octet {
            b'"' | b'\\' => text.extend(['\\', char::from(*octet)]),
            0x20..=0x7e => text.push(char::from(*octet)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "\\{octet:03}")),
        }
    }
    text.push('"');
    text
}

/// Octets in hexadecimal digits.
fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        // Writing to a string cannot fail.
        let _unfailing = write!(text, "{octet:02x}");
        text
    })
}

/// Octets in Base 64 (RFC 4648 §4).
fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in octets.chunks(3) {
        let three = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let bits = three[0] << 16 | three[1] << 8 | three[2];
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            // Six bits are below 64.
            let digit = DIGITS.get((bits >> shift & 63) as usize).copied().unwrap_or(b'=');
            text.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}
