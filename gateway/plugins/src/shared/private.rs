//! Addresses that mean this host, this link, or a network of one's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is such a one.
pub fn is_private(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => is_private_v4(addr),
        IpAddr::V6(addr) => is_private_v6(addr),
    }
}

/// Whether it is one of 0/8, 10/8, 100.64/10, 127/8, 169.254/16, 172.16/12, 192.168/16 (RFC 6890, RFC 1918, RFC 6598).
pub fn is_private_v4(addr: Ipv4Addr) -> bool {
    let [first, second, ..] = addr.octets();
    matches!((first, second), (0 | 10 | 127, _) | (100, 64..=127) | (169, 254))
        || matches!((first, second), (172, 16..=31) | (192, 168))
}

/// Whether it is one of fc00::/7, fe80::/10, fec0::/10, ::/96 and ::ffff:0:0/96, of which the last two hold ::, ::1 and IPv4 addresses
/// in disguise (RFC 4291 §2.5.5); or a private IPv4 address behind the prefix of NAT64, which must not be there (RFC 6052 §3.1).
pub fn is_private_v6(addr: Ipv6Addr) -> bool {
    let parts = addr.segments();
    let embedded = Ipv4Addr::from((u32::from(parts[6]) << 16) | u32::from(parts[7]));
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => true,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_private_v4(embedded),
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80,
    }
}
