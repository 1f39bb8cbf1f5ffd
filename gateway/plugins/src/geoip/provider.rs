//! The metadata of a client's address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use engine::{Exchange, Provider};
use wire::{Options, option};

use super::source::Source;

/// Looks clients up.
#[derive(Debug)]
pub(super) struct Geoip {
    pub(super) source: Arc<Source>,
    /// Whether the subnet that a query states counts before the client's address.
    pub(super) by_subnet: bool,
}

impl Provider for Geoip {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let subnet = || {
            let mut options = Options::each(x.client_options());
            options.find(|(code, _)| *code == option::SUBNET).and_then(|(_, data)| subnet(data))
        };
        let stated = if self.by_subnet { subnet() } else { None };
        let addr = stated.unwrap_or_else(|| x.query.peer.ip().to_canonical());
        let known = self.source.now().write(addr, label, out);
        if known {
            // Another client may get another answer.
            x.note_personal();
        }
        known.then_some(())
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        self.source.now().schema.labels().iter().for_each(|label| each(label.name));
    }
}

/// The address of a client subnet option (RFC 7871 §6): the family, two prefix lengths, and as many octets as the first needs;
/// those that are missing are zero.
pub(super) fn subnet(data: &[u8]) -> Option<IpAddr> {
    let (head, octets) = data.split_first_chunk::<4>()?;
    let mut addr = [0u8; 16];
    addr.get_mut(..octets.len())?.copy_from_slice(octets);
    match u16::from_be_bytes([head[0], head[1]]) {
        1 if octets.len() <= 4 => Some(Ipv4Addr::new(addr[0], addr[1], addr[2], addr[3]).into()),
        2 => Some(Ipv6Addr::from(addr).to_canonical()),
        _ => None,
    }
}
