#![doc = include_str!("README.md")]

mod client;
mod find;
mod handler;
mod key;
mod proto;
mod record;
mod setup;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::Descriptor;
use tokio::sync::Semaphore;

use crate::shared::fall::Fall;
use crate::shared::zones::Zones;
use client::Client;
use key::Path;
use record::Leases;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "etcd", readme: include_str!("README.md"), setup: setup::set_up };

/// The plugin: zones whose records are keys in etcd.
#[derive(Debug)]
struct Etcd {
    /// Its zones.
    zones: Zones,
    /// Which names that are not there go on to the next plugin.
    fall: Fall,
    /// Where the keys are.
    path: Path,
    /// What leases mean for the time to live.
    leases: Leases,
    /// The servers.
    client: Arc<Client>,
    /// Room for so many queries at a time.
    room: Semaphore,
}
