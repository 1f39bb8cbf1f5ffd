#![doc = include_str!("README.md")]

mod conflicts;
mod explain;
mod handler;
mod lookup;
mod member;
mod ports;
mod records;
mod setup;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Descriptor;
use wire::Name;

use crate::shared::cluster::reach::Order;
use crate::shared::fall::Fall;
use crate::shared::zones::Zones;
use member::Member;

pub(crate) use setup::follows;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "clusterset", readme: include_str!("README.md"), setup: setup::set_up };

/// The plugin: zones that the exported services of several clusters fill.
#[derive(Clone, Debug)]
struct Clusterset(Arc<Set>);

/// What a server block's directive says, and the clusters that answers come from.
#[derive(Debug)]
struct Set {
    /// Its zones.
    zones: Zones,
    /// The clusters, in order.
    members: Box<[Member]>,
    /// How long the share of a cluster that is away stays.
    keep: Duration,
    /// Which names that are not there go on to the next plugin.
    fall: Fall,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// Which addresses names of services that are not headless give, where no controller has chosen any.
    reach: Order,
    /// The addresses of this process, for NS records.
    own: Box<[IpAddr]>,
}

impl Set {
    /// The zone that metrics name the set by.
    fn zone(&self) -> &Name {
        self.zones.iter().next().unwrap_or(&Name::ROOT)
    }
}
