//! Reverse names (RFC 1035 §3.5, RFC 3596 §2.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Name;

/// The zone of IPv4's reverse names, in wire form.
const IN_ADDR: &[u8] = b"\x07in-addr\x04arpa\0";

/// The zone of IPv6's reverse names, in wire form.
const IP6: &[u8] = b"\x03ip6\x04arpa\0";

/// The address that a reverse name stands for; none if it is no reverse name, or one of a whole network.
pub fn address(name: &Name) -> Option<IpAddr> {
    if let Some(head) = name.below_wire(IN_ADDR) {
        let mut octets = [0; 4];
        let mut labels = Name::labels_of(head);
        for octet in octets.iter_mut().rev() {
            *octet = decimal(labels.next()?)?;
        }
        return labels.next().is_none().then(|| Ipv4Addr::from(octets).into());
    }
    let head = name.below_wire(IP6)?;
    let mut labels = Name::labels_of(head);
    let mut number = 0u128;
    for place in 0..32 {
        let digit = match labels.next()? {
            [digit] => char::from(*digit).to_digit(16)?,
            _ => return None,
        };
        number |= u128::from(digit) << (4 * place);
    }
    labels.next().is_none().then(|| Ipv6Addr::from(number).into())
}

/// Reads an octet in decimal, without leading zeros, so that every address has one name.
fn decimal(label: &[u8]) -> Option<u8> {
    match label {
        [b'0', _, ..] | [] => None,
        _ => label.iter().try_fold(0u8, |number, digit| {
            let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
            number.checked_mul(10)?.checked_add(digit)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_reverse_names_stand_for_addresses() {
        let six = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        for (name, want) in [
            ("7.113.0.203.in-addr.arpa", Some("203.0.113.7")),
            ("0.0.0.0.IN-ADDR.ARPA", Some("0.0.0.0")),
            (six, Some("2001:db8::1")),
            ("256.113.0.203.in-addr.arpa", None),
            ("07.113.0.203.in-addr.arpa", None),
            ("1.7.113.0.203.in-addr.arpa", None),
            ("113.0.203.in-addr.arpa", None),
            ("in-addr.arpa", None),
            ("8.b.d.0.1.0.0.2.ip6.arpa", None),
            ("7.113.0.203.example.org", None),
        ] {
            let name = Name::parse(name).unwrap();
            assert_eq!(address(&name), want.map(|text| text.parse().unwrap()), "{name}");
        }
        let name = Name::parse(&six.replacen("1.0", "10.0", 1)).unwrap();
        assert_eq!(address(&name), None, "two digits in one label");
    }
}
