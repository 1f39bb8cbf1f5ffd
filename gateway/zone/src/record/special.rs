//! Data whose parts depend on one another: places, prefixes, gateways, host identities.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Name;

use super::data::{base64, hex, number};
use super::{BadRecord, Word, name};

/// Reads the data of a type from its words; names are relative to the origin.
pub(super) type Read = fn(&[Word<'_>], &Name) -> Result<Vec<u8>, BadRecord>;

/// The reader of a type.
pub(super) fn of(kind: u16) -> Option<Read> {
    Some(match kind {
        29 => |words, _| {
            loc(words)
                .ok_or_else(|| wrong("write: 52 22 23.000 N 4 53 32.000 E -2.00m 0m 10000m 10m"))
        },
        42 => |words, _| {
            prefixes(words).ok_or_else(|| wrong("write: 1:198.51.100.0/24 !2:2001:db8::/32"))
        },
        45 => ipseckey,
        55 => hip,
        260 => amtrelay,
        _ => return None,
    })
}

/// What is wrong.
fn wrong(what: &'static str) -> BadRecord {
    BadRecord::new(what)
}

/// A number with up to so many decimals, times ten for each of them.
fn fixed(text: &str, decimals: usize) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty()
        || part.len() > decimals
        || whole.len() > 9
        || !part.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let scaled = format!("{whole}{part:0<decimals$}");
    number::<i64>(&scaled).map(|value| sign * value)
}

/// A place on earth (RFC 1876 §3).
fn loc(words: &[Word<'_>]) -> Option<Vec<u8>> {
    let mut rest = words.iter().map(|word| &*word.text).peekable();
    let mut angle = |most: i64, plus: &str, minus: &str| {
        let mut parts = [0; 3];
        let limits = [most, 59, 59_999];
        let mut count = 0;
        loop {
            let word = rest.next()?;
            let upper = word.to_ascii_uppercase();
            let sign = if upper == plus {
                1
            } else if upper == minus {
                -1
            } else {
                let decimals = if count == 2 { 3 } else { 0 };
                let limit = *limits.get(count)?;
                let value = fixed(word, decimals).filter(|value| (0..=limit).contains(value))?;
                *parts.get_mut(count)? = value;
                count += 1;
                continue;
            };
            let [degrees, minutes, seconds] = parts;
            let total = (degrees * 60 + minutes) * 60_000 + seconds;
            let fits = count > 0 && total <= most * 3_600_000;
            return fits.then(|| u32::try_from((1 << 31) + sign * total).ok())?;
        }
    };
    let latitude = angle(90, "N", "S")?;
    let longitude = angle(180, "E", "W")?;
    let metres = |text: &str| fixed(text.strip_suffix('m').unwrap_or(text), 2);
    let altitude = u32::try_from(metres(rest.next()?)? + 10_000_000).ok()?;
    let mut data = vec![0];
    for default in [0x12, 0x16, 0x13] {
        data.push(match rest.next() {
            Some(text) => {
                let mut left = metres(text).filter(|value| (0..=9_000_000_000).contains(value))?;
                let mut power = 0u8;
                while left > 9 {
                    (left, power) = (left / 10, power + 1);
                }
                u8::try_from(left).ok()? << 4 | power
            }
            None => default,
        });
    }
    for value in [latitude, longitude, altitude] {
        data.extend_from_slice(&value.to_be_bytes());
    }
    rest.next().is_none().then_some(data)
}

/// Prefixes of addresses (RFC 3123 §5).
fn prefixes(words: &[Word<'_>]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for word in words {
        let bare = word.text.strip_prefix('!');
        let (family, prefix) = bare.unwrap_or(&word.text).split_once(':')?;
        let (addr, len) = prefix.split_once('/')?;
        let len: u8 = number(len)?;
        let (octets, bits): (Vec<u8>, u8) = match family {
            "1" => (addr.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
            "2" => (addr.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
            _ => return None,
        };
        let used = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        let negated = if bare.is_some() { 0x80 } else { 0 };
        let count = u8::try_from(used).ok()?;
        data.extend_from_slice(&[0, bits / 96 + 1, len, negated | count]);
        data.extend_from_slice(octets.get(..used)?);
        if len > bits {
            return None;
        }
    }
    Some(data)
}

/// A gateway or relay in one of four forms: none, an IPv4 address, an IPv6 address, a name.
fn gateway(kind: u8, word: &Word<'_>, origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let addr = word.text.parse::<IpAddr>();
    match (kind, addr) {
        (0, _) if word.text == "." => Ok(Vec::new()),
        (1, Ok(IpAddr::V4(addr))) => Ok(addr.octets().to_vec()),
        (2, Ok(IpAddr::V6(addr))) => Ok(addr.octets().to_vec()),
        (3, _) => name(&word.text, origin),
        _ => Err(BadRecord::new(format!("'{}' is no gateway of type {kind}", word.text))),
    }
}

/// A key of IPsec (RFC 4025 §3.1).
fn ipseckey(words: &[Word<'_>], origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let usage = || wrong("write: PRECEDENCE GATEWAY-TYPE ALGORITHM GATEWAY KEY");
    let [precedence, kind, algorithm, gate, key @ ..] = words else { return Err(usage()) };
    let numbers = [precedence, kind, algorithm].map(|word| number::<u8>(&word.text));
    let [Some(precedence), Some(kind), Some(algorithm)] = numbers else { return Err(usage()) };
    let mut data = vec![precedence, kind, algorithm];
    data.extend_from_slice(&gateway(kind, gate, origin)?);
    if !key.is_empty() {
        let text: String = key.iter().map(|word| &*word.text).collect();
        data.extend_from_slice(&base64(&text).ok_or_else(usage)?);
    }
    Ok(data)
}

/// A host identity (RFC 8005 §6).
fn hip(words: &[Word<'_>], origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let usage = || wrong("write: ALGORITHM HIT KEY [SERVER...]");
    let [algorithm, hit, key, servers @ ..] = words else { return Err(usage()) };
    let algorithm: u8 = number(&algorithm.text).ok_or_else(usage)?;
    let (hit, key) = hex(&hit.text).zip(base64(&key.text)).ok_or_else(usage)?;
    let hit_len = u8::try_from(hit.len()).map_err(|_| usage())?;
    let [high, low] = u16::try_from(key.len()).map_err(|_| usage())?.to_be_bytes();
    let mut data = vec![hit_len, algorithm, high, low];
    data.extend_from_slice(&hit);
    data.extend_from_slice(&key);
    for server in servers {
        data.extend_from_slice(&name(&server.text, origin)?);
    }
    Ok(data)
}

/// A relay of multicast (RFC 8777 §4.3).
fn amtrelay(words: &[Word<'_>], origin: &Name) -> Result<Vec<u8>, BadRecord> {
    let usage = || wrong("write: PRECEDENCE DISCOVERY TYPE RELAY");
    let [precedence, discovery, kind, relay] = words else { return Err(usage()) };
    let precedence: u8 = number(&precedence.text).ok_or_else(usage)?;
    let optional: u8 = number(&discovery.text).filter(|bit| *bit < 2).ok_or_else(usage)?;
    let kind: u8 = number(&kind.text).filter(|kind| *kind < 4).ok_or_else(usage)?;
    let mut data = vec![precedence, optional << 7 | kind];
    data.extend_from_slice(&gateway(kind, relay, origin)?);
    Ok(data)
}
