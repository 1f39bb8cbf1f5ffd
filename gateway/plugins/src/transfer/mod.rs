#![doc = include_str!("README.md")]

mod handler;
mod notify;
mod setup;
#[cfg(test)]
mod tests;
mod told;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::{Descriptor, Roles};
use tokio::sync::Semaphore;
use wire::Name;

use crate::shared::tsig::Key;
use crate::shared::zones::Zones;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "transfer", readme: include_str!("README.md"), setup: setup::set_up };

/// Who may copy which zones.
#[derive(Clone, Debug, Default)]
struct Stanza {
    /// The zones.
    zones: Zones,
    /// Whether everybody may.
    anyone: bool,
    /// The servers that may, where they are told of changes.
    to: Vec<SocketAddr>,
    /// The address that they are told from.
    source: Option<IpAddr>,
    /// What they are told is signed with.
    key: Option<Key>,
}

/// Hands out zones that other plugins of the block have.
#[derive(Debug)]
struct Transfer {
    /// Who may copy what.
    stanzas: Vec<Stanza>,
    /// What the block's other plugins offer.
    roles: Roles,
    /// The places for transfers under way.
    slots: Arc<Semaphore>,
}

impl Stanza {
    /// Whether a client may.
    fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.anyone || self.to.iter().any(|server| server.ip().to_canonical() == client)
    }
}

/// The stanza with the longest zone that a name is in; of two with the same zone the first.
fn longest<'s>(stanzas: &'s [Stanza], name: &Name) -> Option<&'s Stanza> {
    let zones = stanzas.iter().filter_map(|stanza| Some((stanza.zones.longest(name)?, stanza)));
    zones.rev().max_by_key(|(zone, _)| zone.wire().len()).map(|(_, stanza)| stanza)
}
