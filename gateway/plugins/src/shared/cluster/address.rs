//! Addresses as labels and as reverse names.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Name;

/// A label under construction, of at most 63 octets (RFC 1035 §2.3.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// Its length, then itself.
    wire: [u8; 64],
}

impl Label {
    /// An empty label, which is none.
    pub(crate) const fn new() -> Self {
        Self { wire: [0; 64] }
    }

    /// A label of these octets in lower case; none if it would be empty or too long.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let mut label = Self::new();
        label.extend(bytes).filter(|()| !bytes.is_empty()).map(|()| label)
    }

    /// The address with dashes, as endpoints without a name have it: `172-16-1-1`, `fd00-b--3-1`. A dash at the end is followed
    /// by a 0, for host names end in none.
    pub(crate) fn dashed(address: IpAddr) -> Self {
        let mut label = Self::new();
        // At most 45 octets are written, which fit.
        let _unfailing = write!(label, "{address}");
        label.dash();
        label
    }

    /// The same for the text of a name.
    pub(crate) fn dashed_text(text: &[u8]) -> Option<Self> {
        let mut label = Self::of(text)?;
        label.dash();
        Some(label)
    }

    /// Puts dashes for dots and colons.
    fn dash(&mut self) {
        let len = usize::from(self.wire[0]);
        for byte in &mut self.wire[1..=len] {
            if matches!(byte, b'.' | b':') {
                *byte = b'-';
            }
        }
        if self.wire[len] == b'-' {
            self.extend(b"0");
        }
    }

    /// Appends octets in lower case; none if there is no room for them.
    fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        let from = 1 + usize::from(self.wire[0]);
        let room = self.wire.get_mut(from..from + bytes.len())?;
        room.copy_from_slice(bytes);
        room.make_ascii_lowercase();
        // The room is within 63 octets.
        self.wire[0] += bytes.len() as u8;
        Some(())
    }

    /// The length octet and the label.
    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire[..=usize::from(self.wire[0])]
    }

    /// The label without its length.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.wire()[1..]
    }
}

impl fmt::Write for Label {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend(text.as_bytes()).ok_or(fmt::Error)
    }
}

/// The address that [`Label::dashed`] would have given this label for.
pub(crate) fn undashed(label: &[u8]) -> Option<IpAddr> {
    let address = pod_address(label)?;
    (Label::dashed(address).bytes() == label).then_some(address)
}

/// The address in a pod's name, which need not be in its shortest form: three dashes that are apart make an IPv4 address, all
/// else an IPv6 one.
pub(crate) fn pod_address(label: &[u8]) -> Option<IpAddr> {
    let dashes = label.iter().filter(|byte| **byte == b'-').count();
    let together = label.windows(2).any(|pair| pair == b"--");
    let v4 = dashes == 3 && !together;
    let mut text = [0u8; 63];
    let text = text.get_mut(..label.len())?;
    for (to, from) in text.iter_mut().zip(label) {
        *to = match from {
            b'-' if v4 => b'.',
            b'-' => b':',
            other => *other,
        };
    }
    let text = std::str::from_utf8(text).ok()?;
    if v4 { text.parse().ok().map(IpAddr::V4) } else { text.parse().ok().map(IpAddr::V6) }
}

/// What a name below `in-addr.arpa` or `ip6.arpa` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reverse {
    /// An address (RFC 1035 §3.5, RFC 3596 §2.5).
    Address(IpAddr),
    /// Many: there may be names below it.
    Part,
    /// Nothing.
    Nothing,
}

/// `\x07in-addr\x04arpa` as a name.
const IN_ADDR: &[u8] = b"\x07in-addr\x04arpa\0";
/// `\x03ip6\x04arpa` as a name.
const IP6: &[u8] = b"\x03ip6\x04arpa\0";

/// Whether a zone is one of addresses.
pub(crate) fn is_reverse(zone: &Name) -> bool {
    zone.below_wire(IN_ADDR).is_some() || zone.below_wire(IP6).is_some()
}

/// Reads a name in a zone of addresses.
pub(crate) fn reverse(name: &Name) -> Reverse {
    let read = if let Some(labels) = name.below_wire(IN_ADDR) {
        reverse_v4(labels)
    } else if let Some(labels) = name.below_wire(IP6) {
        reverse_v6(labels)
    } else {
        None
    };
    read.unwrap_or(Reverse::Nothing)
}

/// Reads the labels before `in-addr.arpa`.
fn reverse_v4(labels: &[u8]) -> Option<Reverse> {
    let mut octets = [0u8; 4];
    let mut count = 0;
    for label in Name::labels_of(labels) {
        let canonical = !label.starts_with(b"0") || label == b"0";
        let digits = label.iter().all(u8::is_ascii_digit);
        let octet = std::str::from_utf8(label).ok().filter(|_| canonical && digits)?;
        *octets.get_mut(count)? = octet.parse().ok()?;
        count += 1;
    }
    octets.reverse();
    Some(if count == 4 { Reverse::Address(Ipv4Addr::from(octets).into()) } else { Reverse::Part })
}

/// Reads the labels before `ip6.arpa`.
fn reverse_v6(labels: &[u8]) -> Option<Reverse> {
    let (mut bits, mut count) = (0u128, 0u32);
    for label in Name::labels_of(labels) {
        let [digit] = label else { return None };
        let nibble = char::from(*digit).to_digit(16)?;
        bits |= u128::from(nibble).checked_shl(count * 4)?;
        count += 1;
    }
    Some(if count == 32 { Reverse::Address(Ipv6Addr::from(bits).into()) } else { Reverse::Part })
}

/// The addresses of a run are those whose other bits are equal.
const RUN: u8 = 0xf;

/// Calls `each` with the octets of the first address of the run that an address is in.
pub(crate) fn with_run(address: IpAddr, each: &mut dyn FnMut(&[u8])) {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, last] = address.octets();
            each(&[a, b, c, last & !RUN]);
        }
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[15] &= !RUN;
            each(&octets);
        }
    }
}

/// The addresses of the run that begins with these octets; none if they are no address.
pub(crate) fn run(first: &[u8]) -> impl Iterator<Item = IpAddr> {
    let at = move |index: u8| {
        if let Ok(mut octets) = <[u8; 4]>::try_from(first) {
            octets[3] |= index;
            return Some(IpAddr::from(octets));
        }
        let mut octets = <[u8; 16]>::try_from(first).ok()?;
        octets[15] |= index;
        Some(IpAddr::from(octets))
    };
    (0..=RUN).filter_map(at)
}

/// The reverse name of an address, as far as the zone's labels.
pub(crate) fn reverse_name(address: IpAddr) -> Option<Name> {
    let mut text = String::new();
    match address {
        IpAddr::V4(address) => {
            for octet in address.octets().iter().rev() {
                // Writing to a string cannot fail.
                let _unfailing = write!(text, "{octet}.");
            }
            text.push_str("in-addr.arpa.");
        }
        IpAddr::V6(address) => {
            for octet in address.octets().iter().rev() {
                // Writing to a string cannot fail.
                let _unfailing = write!(text, "{:x}.{:x}.", octet & 0xf, octet >> 4);
            }
            text.push_str("ip6.arpa.");
        }
    }
    Name::parse(&text)
}
