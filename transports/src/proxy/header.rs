//! PROXY headers as octets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::accept::Ends;

/// The longest header: one that fits into the smallest segment of IPv4 (RFC 9293 §3.7.1) is sent at once, as the
/// specification demands (§2), in octets.
pub(super) const MOST: usize = 536;

/// The longest line of version 1, its end included (§2.1), in octets.
const LINE: usize = 107;

/// What version 1 begins with.
const FIRST: &[u8] = b"PROXY ";

/// What version 2 begins with (§2.2).
const SECOND: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The octets of version 2 before the addresses.
const FIXED: usize = 16;

/// The type of the field with the header's checksum (§2.2.4).
const CHECKSUM: u8 = 0x03;

/// What octets begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// No header.
    None,
    /// Perhaps a header: more have to come.
    More,
    /// A header that is wrong.
    Bad(&'static str),
    /// A header.
    Found(Found),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its length.
    pub(super) len: usize,
    /// Whom it speaks for, and whom that one asked; none if it speaks for the proxy itself, or for ends without an address.
    pub(super) ends: Option<Ends>,
    /// Whether it says that the client's query was a datagram; none if it says nothing.
    pub(super) is_datagram: Option<bool>,
}

/// Reads the header at the beginning of a stream.
pub(super) fn stream(bytes: &[u8]) -> Head {
    if bytes.starts_with(SECOND) {
        return second(bytes);
    }
    if bytes.starts_with(FIRST) {
        return first(bytes);
    }
    match FIRST.starts_with(bytes) || SECOND.starts_with(bytes) {
        true => Head::More,
        false => Head::None,
    }
}

/// Reads the header at the beginning of a datagram: version 2 alone, and whole.
pub(super) fn datagram(bytes: &[u8]) -> Head {
    if bytes.starts_with(FIRST) {
        return Head::Bad("version 1 is for streams");
    }
    if !bytes.starts_with(SECOND) {
        return Head::None;
    }
    match second(bytes) {
        Head::More => Head::Bad("it is cut"),
        Head::Found(Found { is_datagram: Some(false), .. }) => Head::Bad("it is of a stream"),
        head => head,
    }
}

/// Reads version 1: a line of text (§2.1).
fn first(bytes: &[u8]) -> Head {
    let line = bytes.get(..LINE.min(bytes.len())).unwrap_or_default();
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE { Head::More } else { Head::Bad("its line is too long") };
    };
    let Some(line) = bytes.get(..end).and_then(|line| std::str::from_utf8(line).ok()) else {
        return Head::Bad("its line is no text");
    };
    let found = |ends| Head::Found(Found { len: end + 2, ends, is_datagram: None });
    let mut words = line.split(' ').skip(1);
    let is_v4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        // What follows is to be passed over.
        Some("UNKNOWN") => return found(None),
        _ => return Head::Bad("its family is unknown"),
    };
    let mut addr = || {
        let addr: IpAddr = words.next()?.parse().ok()?;
        (addr.is_ipv4() == is_v4).then(|| addr.to_canonical())
    };
    let (peer, local) = (addr(), addr());
    let mut port = || {
        let word = words.next()?;
        let is_plain = word.bytes().all(|byte| byte.is_ascii_digit())
            && (word == "0" || !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| is_plain)
    };
    let ports = (port(), port());
    match (peer, local, ports, words.next()) {
        (Some(peer), Some(local), (Some(from), Some(to)), None) => found(Some(Ends {
            peer: SocketAddr::new(peer, from),
            local: SocketAddr::new(local, to),
        })),
        _ => Head::Bad("its addresses are wrong"),
    }
}

/// Reads version 2: binary (§2.2).
fn second(bytes: &[u8]) -> Head {
    let Some((head, rest)) = bytes.split_first_chunk::<FIXED>() else { return Head::More };
    let (command, family) = (head[12], head[13]);
    let len = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if command >> 4 != 2 {
        return Head::Bad("its version is unknown");
    }
    if FIXED + len > MOST {
        return Head::Bad("it is too long");
    }
    let Some(rest) = rest.get(..len) else { return Head::More };
    let is_local = match command & 0xf {
        0 => true,
        1 => false,
        _ => return Head::Bad("its command is unknown"),
    };
    let (addrs, ends) = match family >> 4 {
        0 => (0, None),
        1 => (12, v4(rest)),
        2 => (36, v6(rest)),
        // Ends on the proxy's machine, with paths for addresses.
        3 => (216, None),
        _ => return Head::Bad("its family is unknown"),
    };
    let is_datagram = match family & 0xf {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Head::Bad("its protocol is unknown"),
    };
    // The receiver of a LOCAL header passes the addresses over, even if they are wrong.
    let fields = if is_local {
        rest.get(addrs..).unwrap_or_default()
    } else {
        match rest.get(addrs..) {
            Some(fields) => fields,
            None => return Head::Bad("its addresses are cut"),
        }
    };
    let whole = bytes.get(..FIXED + len).unwrap_or_default();
    if let Err(why) = check(whole, fields) {
        return Head::Bad(why);
    }
    Head::Found(Found {
        len: FIXED + len,
        ends: ends.filter(|_| !is_local),
        is_datagram: is_datagram.filter(|_| !is_local),
    })
}

/// The addresses and ports of IPv4.
fn v4(rest: &[u8]) -> Option<Ends> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *rest.first_chunk()?;
    Some(Ends {
        peer: (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([i, j])).into(),
        local: (Ipv4Addr::new(e, f, g, h), u16::from_be_bytes([k, l])).into(),
    })
}

/// The addresses and ports of IPv6.
fn v6(rest: &[u8]) -> Option<Ends> {
    let (peer, rest) = rest.split_first_chunk::<16>()?;
    let (local, rest) = rest.split_first_chunk::<16>()?;
    let [i, j, k, l] = *rest.first_chunk()?;
    let end = |addr: &[u8; 16], port| {
        SocketAddr::new(Ipv6Addr::from(*addr).to_canonical(), u16::from_be_bytes(port))
    };
    Some(Ends { peer: end(peer, [i, j]), local: end(local, [k, l]) })
}

/// Goes through the fields behind the addresses, and checks the checksum if there is one (§2.2.4).
fn check(whole: &[u8], fields: &[u8]) -> Result<(), &'static str> {
    let mut rest = fields;
    while let Some((head, behind)) = rest.split_first_chunk::<3>() {
        let len = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let Some((value, behind)) = behind.split_at_checked(len) else {
            return Err("a field is cut");
        };
        if head[0] == CHECKSUM {
            let Ok(value) = <[u8; 4]>::try_from(value) else {
                return Err("its checksum is no checksum");
            };
            // Of the header with zeros in its place.
            let at = whole.len() - behind.len() - 4;
            let (before, after) = (&whole[..at], behind);
            if crc32c([before, &[0; 4], after]) != u32::from_be_bytes(value) {
                return Err("its checksum is wrong");
            }
        }
        rest = behind;
    }
    if rest.is_empty() { Ok(()) } else { Err("a field is cut") }
}

/// The checksum CRC-32C (RFC 9260, appendix A).
pub(super) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let octet = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    };
    !parts.into_iter().flatten().fold(!0, octet)
}
