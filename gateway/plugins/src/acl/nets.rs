//! Which addresses a list of networks holds: sorted ranges, so that a list of thousands costs a few comparisons.

use std::net::IpAddr;

use config::value::Network;

/// The addresses of a list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nets {
    four: Box<[(u32, u32)]>,
    six: Box<[(u128, u128)]>,
}

impl Nets {
    /// The addresses of `networks`; those of IPv4 in their IPv6 form (`::ffff:0:0/96`, RFC 4291 §2.5.5.2) are IPv4.
    pub(super) fn new(networks: &[Network]) -> Self {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for network in networks {
            match (network.address.to_canonical(), network.prefix) {
                (IpAddr::V4(first), prefix) => {
                    let bits = if network.address.is_ipv6() { prefix.max(96) - 96 } else { prefix };
                    let first = u32::from(first);
                    four.push((first, first | u32::MAX.checked_shr(bits.into()).unwrap_or(0)));
                }
                (IpAddr::V6(first), prefix) => {
                    let first = u128::from(first);
                    six.push((first, first | u128::MAX.checked_shr(prefix.into()).unwrap_or(0)));
                }
            }
        }
        Self { four: merged(four), six: merged(six) }
    }

    /// Whether they hold `addr`, which is not in its mapped form.
    pub(super) fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => has(&self.four, u32::from(addr)),
            IpAddr::V6(addr) => has(&self.six, u128::from(addr)),
        }
    }
}

/// The ranges in ascending order, those that overlap made one.
fn merged<N: Copy + Ord>(mut ranges: Vec<(N, N)>) -> Box<[(N, N)]> {
    ranges.sort_unstable();
    let mut all: Vec<(N, N)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match all.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => all.push((first, last)),
        }
    }
    all.into()
}

/// Whether one of the ranges holds `number`.
fn has<N: Copy + Ord>(ranges: &[(N, N)], number: N) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= number);
    after.checked_sub(1).is_some_and(|at| number <= ranges[at].1)
}
