//! Addresses that no public name should have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Answer, Rr, Section, rtype};

/// The first record of `section` with an address that no public name should have, and that address.
pub(super) fn private(answer: &Answer, section: Section) -> Option<(&Rr, IpAddr)> {
    answer.section(section).find_map(|rr| Some((rr, private_in(rr.rtype, answer.data(rr))?)))
}

/// The first such address in a record's data.
fn private_in(kind: u16, data: &[u8]) -> Option<IpAddr> {
    match kind {
        rtype::A => v4s(data),
        rtype::AAAA => v6s(data),
        rtype::SVCB | rtype::HTTPS => hints(data).find_map(|(key, value)| match key {
            4 => v4s(value),
            6 => v6s(value),
            _ => None,
        }),
        _ => None,
    }
}

/// The parameters of a service binding, key and value, as far as they are well-formed (RFC 9460 §2.2).
fn hints(data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let target = data.get(2..).unwrap_or_default();
    let mut rest = wire::Name::span(target).and_then(|len| target.get(len..)).unwrap_or_default();
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (value, tail) = tail.split_at_checked(len)?;
        rest = tail;
        Some((u16::from_be_bytes([head[0], head[1]]), value))
    })
}

/// The first private one of addresses in a row.
fn v4s(data: &[u8]) -> Option<IpAddr> {
    let (all, _) = data.as_chunks::<4>();
    all.iter().map(|four| Ipv4Addr::from(*four)).find(|addr| is_private_v4(*addr)).map(IpAddr::V4)
}

/// The first private one of addresses in a row.
fn v6s(data: &[u8]) -> Option<IpAddr> {
    let (all, _) = data.as_chunks::<16>();
    all.iter().map(|own| Ipv6Addr::from(*own)).find(|addr| is_private_v6(*addr)).map(IpAddr::V6)
}

/// Whether an address means this host, this link, or a network of one's own: 0/8, 10/8, 100.64/10, 127/8, 169.254/16, 172.16/12,
/// 192.168/16 (RFC 6890, RFC 1918, RFC 6598).
fn is_private_v4(addr: Ipv4Addr) -> bool {
    let [first, second, ..] = addr.octets();
    matches!((first, second), (0 | 10 | 127, _) | (100, 64..=127) | (169, 254))
        || matches!((first, second), (172, 16..=31) | (192, 168))
}

/// The same for IPv6: fc00::/7, fe80::/10, fec0::/10, and all of ::/96 and ::ffff:0:0/96, which hold ::, ::1 and IPv4 addresses in
/// disguise (RFC 4291 §2.5.5); and private IPv4 addresses behind the prefix of NAT64, which must not be there (RFC 6052 §3.1).
fn is_private_v6(addr: Ipv6Addr) -> bool {
    let parts = addr.segments();
    let embedded = Ipv4Addr::from((u32::from(parts[6]) << 16) | u32::from(parts[7]));
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => true,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_private_v4(embedded),
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80,
    }
}
