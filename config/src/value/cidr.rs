//! Networks in CIDR text and the reverse zones that cover them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its first address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address: host bits are masked off.
    pub address: IpAddr,
    /// How many bits are fixed: up to 32 or 128.
    pub prefix: u8,
}

/// Why a text is no network, or no reverse zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// It is no address, slash and prefix length at all.
    Form,
    /// A reverse zone for everything, or an IPv6 network that is not written out from its first group.
    Zone,
}

impl fmt::Display for CidrError {
    /// Writes what would be right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "is no network such as 10.0.0.0/8 or 2001:db8::/32",
            Self::Zone => "stands for no reverse zone: the prefix must be 1 or longer, and an IPv6 network may not begin with ':' or '0'",
        })
    }
}

impl std::error::Error for CidrError {}

impl std::str::FromStr for Network {
    type Err = CidrError;

    /// Reads `ADDRESS/LENGTH` and masks host bits off.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = text.split_once('/').ok_or(CidrError::Form)?;
        let address: IpAddr = address.parse().map_err(|_| CidrError::Form)?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(CidrError::Form);
        }
        let prefix: u8 = prefix.parse().map_err(|_| CidrError::Form)?;
        match address {
            IpAddr::V4(_) if prefix > 32 => Err(CidrError::Form),
            IpAddr::V6(_) if prefix > 128 => Err(CidrError::Form),
            _ => Ok(Self { address: masked(address, prefix), prefix }),
        }
    }
}

impl fmt::Display for Network {
    /// Writes `ADDRESS/LENGTH`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// Reads `ADDRESS/LENGTH`, or an address alone.
    ///
    /// # Errors
    ///
    /// [`CidrError::Form`] if the text is neither.
    pub fn or_address(text: &str) -> Result<Self, CidrError> {
        let alone =
            |address: IpAddr| Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } };
        text.parse().map(alone).or_else(|_| text.parse())
    }

    /// Whether the address is in the network; an address of the other family never is.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

/// The address with the bits behind the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

/// The reverse zones that cover a network exactly, in lower case with final dots, in ascending order: one at an octet's boundary (of IPv6: a
/// hexadecimal digit's, RFC 3596 section 2.5), else as many as the next boundary has, at most 128.
///
/// # Errors
///
/// [`CidrError::Form`] if the text is no network; [`CidrError::Zone`] if it is one for which no zone can be written.
pub fn cidr_zones(text: &str) -> Result<Vec<String>, CidrError> {
    let network: Network = text.parse()?;
    if network.prefix == 0 || text.starts_with(':') || (text.starts_with('0') && text.contains(':'))
    {
        return Err(CidrError::Zone);
    }
    Ok(match network.address {
        IpAddr::V4(v4) => {
            let octets = usize::from(network.prefix.div_ceil(8));
            let step = 1_u64 << (32 - 8 * octets);
            let count = 1_u64 << (8 * octets - usize::from(network.prefix));
            let first = u64::from(u32::from(v4));
            (0..count)
                .filter_map(|index| u32::try_from(first + index * step).ok())
                .map(|address| {
                    zone(
                        address.to_be_bytes().iter().take(octets).map(u8::to_string),
                        "in-addr.arpa.",
                    )
                })
                .collect()
        }
        IpAddr::V6(v6) => {
            let digits = usize::from(network.prefix.div_ceil(4));
            let shift = 128 - 4 * digits;
            let count = 1_u128 << (4 * digits - usize::from(network.prefix));
            let first = u128::from(v6) >> shift;
            (0..count)
                .map(|index| {
                    let text = format!("{:0digits$x}", first + index);
                    zone(text.chars().map(String::from), "ip6.arpa.")
                })
                .collect()
        }
    })
}

/// Joins the labels, last first, with the tree's name.
fn zone(labels: impl DoubleEndedIterator<Item = String>, tree: &str) -> String {
    let mut name = String::new();
    for label in labels.rev() {
        name.push_str(&label);
        name.push('.');
    }
    name + tree
}
