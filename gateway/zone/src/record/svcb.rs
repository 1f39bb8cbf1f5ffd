//! The parameters of service bindings: `alpn=h2,h3 port=8443` (RFC 9460 §2.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::data::{base64, number};
use super::words::octets;
use super::{BadRecord, Word};

/// Writes the parameters in the order of their keys.
pub(super) fn parameters(words: &[Word<'_>], data: &mut Vec<u8>) -> Result<(), BadRecord> {
    let mut all: Vec<(u16, Vec<u8>)> = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (key, mut value) = match word.text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (&*word.text, None),
        };
        // A value in quotes comes as a word of its own.
        if value == Some("")
            && let Some(quoted) = rest.next_if(|word| word.quoted)
        {
            value = Some(&quoted.text);
        }
        let code = code(key).ok_or_else(|| BadRecord::new(format!("'{key}' is no parameter")))?;
        let wrong =
            || BadRecord::new(format!("'{}' is no value of '{key}'", value.unwrap_or_default()));
        if all.iter().any(|(own, _)| *own == code) {
            return Err(BadRecord::new(format!("'{key}' is there twice")));
        }
        all.push((code, read(code, value).ok_or_else(wrong)?));
    }
    all.sort_unstable_by_key(|(code, _)| *code);
    for (code, value) in &all {
        let len =
            u16::try_from(value.len()).map_err(|_| BadRecord::new("a parameter is too long"))?;
        data.extend_from_slice(&code.to_be_bytes());
        data.extend_from_slice(&len.to_be_bytes());
        data.extend_from_slice(value);
    }
    Ok(())
}

/// The number of a key (RFC 9460 §14.3.2), by its name or as `keyNNN`.
fn code(key: &str) -> Option<u16> {
    let known = [
        "mandatory",
        "alpn",
        "no-default-alpn",
        "port",
        "ipv4hint",
        "ech",
        "ipv6hint",
        "dohpath",
        "ohttp",
    ];
    match known.iter().position(|name| *name == key) {
        Some(at) => u16::try_from(at).ok(),
        None => number(key.strip_prefix("key")?),
    }
}

/// A value in wire form.
fn read(code: u16, value: Option<&str>) -> Option<Vec<u8>> {
    let text = value.unwrap_or_default();
    let list = || text.split(',');
    Some(match code {
        0 => {
            let mut codes = list().map(self::code).collect::<Option<Vec<u16>>>()?;
            codes.sort_unstable();
            codes.iter().flat_map(|code| code.to_be_bytes()).collect()
        }
        1 => {
            let mut out = Vec::new();
            for id in protocols(&octets(text).ok()?) {
                out.push(u8::try_from(id.len()).ok().filter(|len| *len > 0)?);
                out.extend_from_slice(&id);
            }
            out
        }
        2 | 8 => return value.is_none().then(Vec::new),
        3 => number::<u16>(text)?.to_be_bytes().to_vec(),
        4 => {
            let all = list().map(|addr| addr.parse().ok()).collect::<Option<Vec<Ipv4Addr>>>()?;
            all.iter().flat_map(Ipv4Addr::octets).collect()
        }
        5 => base64(text)?,
        6 => {
            let all = list().map(|addr| addr.parse().ok()).collect::<Option<Vec<Ipv6Addr>>>()?;
            all.iter().flat_map(Ipv6Addr::octets).collect()
        }
        _ => octets(text).ok()?,
    })
}

/// The members of a list of protocols, in which a comma or a backslash has a backslash before it (RFC 9460 appendix A.1).
fn protocols(list: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut bytes = list.iter();
    while let Some(byte) = bytes.next() {
        match (byte, all.last_mut()) {
            (b',', _) => all.push(Vec::new()),
            (b'\\', Some(last)) => last.extend(bytes.next()),
            (other, Some(last)) => last.push(*other),
            (_, None) => {}
        }
    }
    all
}
