//! IPv6 addresses with IPv4 addresses in them (RFC 6052).

use std::net::{IpAddr, Ipv6Addr};

use config::value::{CidrError, Network};

/// The prefix of a NAT64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Its octets; those behind it are zero.
    octets: [u8; 16],
    /// How many octets it has: from 4 to 12.
    len: usize,
}

impl Default for Prefix {
    /// The well-known prefix 64:ff9b::/96 (RFC 6052 §2.1).
    fn default() -> Self {
        Self { octets: Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0).octets(), len: 12 }
    }
}

impl Prefix {
    /// Reads `ADDRESS/LENGTH`; bits behind the length are cleared.
    ///
    /// # Errors
    /// In words, if the text is no network of IPv6 with a length from 32 to 96 in whole octets.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let network: Network = text.parse().map_err(|wrong: CidrError| wrong.to_string())?;
        let IpAddr::V6(address) = network.address else {
            return Err("is no network of IPv6".to_owned());
        };
        match network.prefix {
            bits @ 32..=96 if bits % 8 == 0 => {
                Ok(Self { octets: address.octets(), len: usize::from(bits / 8) })
            }
            bits => Err(format!("has a prefix of {bits} bits")),
        }
    }

    /// Whether RFC 6052 §2.2 has prefixes of this length.
    pub(super) fn is_standard(self) -> bool {
        matches!(self.len, 4..=8 | 12)
    }

    /// The address with an IPv4 address in it: right behind the prefix, and around octet 8, which is zero (RFC 6052 §2.2).
    pub(super) fn embed(self, v4: [u8; 4]) -> [u8; 16] {
        let mut octets = self.octets;
        let free = (self.len..16).filter(|at| *at != 8);
        for (at, octet) in free.zip(v4) {
            octets[at] = octet;
        }
        octets
    }
}
