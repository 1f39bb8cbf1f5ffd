#![doc = include_str!("README.md")]

mod copy;
mod handler;
mod lookup;
mod name;
mod setup;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use engine::Descriptor;
use wire::Name;

use crate::shared::cluster::View;
use crate::shared::fall::Fall;
use crate::shared::journal::Journals;
use crate::shared::zones::Zones;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "k8s_external", readme: include_str!("README.md"), setup: setup::set_up };

/// The plugin: zones of what a cluster shows to the outside.
#[derive(Clone, Debug)]
struct External(Arc<Outside>);

/// What a directive says, and the cluster that answers come from.
#[derive(Debug)]
struct Outside {
    /// Its zones.
    zones: Zones,
    /// The zone that reverse names lead to.
    primary: Name,
    /// The labels below a zone that its own servers are named under, in wire form.
    apex: Box<[u8]>,
    /// Which names that are not there go on to the next plugin.
    fall: Fall,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// Whether headless services are shown by their endpoints.
    headless: bool,
    /// The block's cluster, set before the first query.
    view: Arc<OnceLock<Arc<View>>>,
    /// What others copy of the zones.
    journals: Journals,
}
