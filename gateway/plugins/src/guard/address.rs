//! Addresses that no public name should have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Answer, Rr, Section, rtype};

use crate::shared::private::{is_private_v4, is_private_v6};

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
