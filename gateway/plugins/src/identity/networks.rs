//! Clients known by their addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use config::value::Network;
use engine::Identity;
use foldhash::fast::FixedState;

/// The networks of one prefix length: the first bits of their addresses, as numbers of 128.
#[derive(Debug)]
struct Length {
    prefix: u32,
    known: HashMap<u128, Arc<Identity>, FixedState>,
}

/// Who is where: the narrowest network with an address tells.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// The longest prefixes first; those of IPv4 have 96 bits more.
    lengths: Vec<Length>,
}

impl Networks {
    /// Adds a network; false if it is there already.
    pub(super) fn add(&mut self, network: Network, identity: Arc<Identity>) -> bool {
        let prefix = match network.address {
            IpAddr::V4(_) => u32::from(network.prefix) + 96,
            IpAddr::V6(_) => u32::from(network.prefix),
        };
        let key = masked(number(network.address), prefix);
        let at = self.lengths.partition_point(|own| own.prefix > prefix);
        if self.lengths.get(at).is_none_or(|own| own.prefix != prefix) {
            self.lengths.insert(at, Length { prefix, known: HashMap::default() });
        }
        self.lengths[at].known.insert(key, identity).is_none()
    }

    /// Who is at an address.
    pub(super) fn at(&self, address: IpAddr) -> Option<Arc<Identity>> {
        // Networks of IPv6 that are wider than all of IPv4 have none of its addresses.
        let least = if address.to_canonical().is_ipv4() { 96 } else { 0 };
        let number = number(address);
        let of = |own: &Length| own.known.get(&masked(number, own.prefix)).cloned();
        self.lengths.iter().take_while(|own| own.prefix >= least).find_map(of)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}

/// An address as a number; one of IPv4 in its IPv6 form (RFC 4291 §2.5.5.2).
fn number(address: IpAddr) -> u128 {
    u128::from(match address {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    })
}

/// The first bits of a number.
fn masked(number: u128, bits: u32) -> u128 {
    number & u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use engine::Method;

    use super::*;

    #[test]
    fn the_narrowest_network_tells() {
        let mut all = Networks::default();
        for text in [
            "198.51.100.0/24",
            "198.51.0.0/16",
            "198.51.100.7/32",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "::/0",
        ] {
            let who =
                Identity { name: text.to_owned(), groups: Vec::new(), method: Method::Network };
            assert!(all.add(text.parse().unwrap(), Arc::new(who.clone())), "{text}");
            assert!(!all.add(text.parse().unwrap(), Arc::new(who)), "{text}");
        }
        for (address, want) in [
            ("198.51.100.7", "198.51.100.7/32"),
            ("198.51.100.8", "198.51.100.0/24"),
            ("::ffff:198.51.100.8", "198.51.100.0/24"),
            ("198.51.0.1", "198.51.0.0/16"),
            ("2001:db8:1::1", "2001:db8:1::/48"),
            ("2001:db8:2::1", "2001:db8::/32"),
            ("2001:db9::1", "::/0"),
            ("203.0.113.1", ""),
        ] {
            let found = all.at(address.parse().unwrap());
            assert_eq!(found.map(|who| who.name.clone()).unwrap_or_default(), want, "{address}");
        }
        let mut four = Networks::default();
        let who = Identity { name: "all".to_owned(), groups: Vec::new(), method: Method::Network };
        four.add("0.0.0.0/0".parse().unwrap(), Arc::new(who));
        assert!(four.at("203.0.113.1".parse().unwrap()).is_some());
        assert!(four.at("2001:db8::1".parse().unwrap()).is_none());
    }
}
