//! Where the root's servers are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Their addresses of IPv4, from IANA's root hints; a to m.
const IPV4: [[u8; 4]; 13] = [
    [198, 41, 0, 4],
    [170, 247, 170, 2],
    [192, 33, 4, 12],
    [199, 7, 91, 13],
    [192, 203, 230, 10],
    [192, 5, 5, 241],
    [192, 112, 36, 4],
    [198, 97, 190, 53],
    [192, 36, 148, 17],
    [192, 58, 128, 30],
    [193, 0, 14, 129],
    [199, 7, 83, 42],
    [202, 12, 27, 33],
];

/// Those of IPv6.
const IPV6: [[u16; 8]; 13] = [
    [0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30],
    [0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb],
    [0x2001, 0x500, 0x2, 0, 0, 0, 0, 0xc],
    [0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd],
    [0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe],
    [0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf],
    [0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d],
    [0x2001, 0x500, 0x1, 0, 0, 0, 0, 0x53],
    [0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53],
    [0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30],
    [0x2001, 0x7fd, 0, 0, 0, 0, 0, 1],
    [0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42],
    [0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35],
];

/// The addresses that are built in.
pub(super) fn known() -> Vec<IpAddr> {
    let four = IPV4.iter().map(|octets| Ipv4Addr::from_octets(*octets).into());
    let six = IPV6.iter().map(|segments| Ipv6Addr::from_segments(*segments).into());
    four.chain(six).collect()
}

/// The addresses of a file of root hints: its A and AAAA records, in the form of a zone file.
///
/// # Errors
/// If a record has no address, or there is none.
pub(super) fn read(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split(';').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        if words.any(|word| word.eq_ignore_ascii_case("A") || word.eq_ignore_ascii_case("AAAA")) {
            let ip = words.next().and_then(|word| word.parse().ok());
            found.push(ip.ok_or_else(|| format!("line {} has no address", at + 1))?);
        }
    }
    if found.is_empty() {
        return Err("it has no A or AAAA record".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_addresses() {
        assert_eq!(known().len(), 26);
        let text = "; the root\n. 3600000 NS A.ROOT-SERVERS.NET.\n\
                    A.ROOT-SERVERS.NET. 3600000 A 127.0.0.1 ; here\n\
                    A.ROOT-SERVERS.NET. 3600000 IN AAAA ::1\n";
        assert_eq!(read(text), Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
        assert_eq!(read(". NS a.\n"), Err("it has no A or AAAA record".to_owned()));
        assert_eq!(read("a. 1 IN A x\n"), Err("line 1 has no address".to_owned()));
        assert_eq!(read("\na. 1 IN A\n"), Err("line 2 has no address".to_owned()));
    }
}
