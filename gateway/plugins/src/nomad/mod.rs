#![doc = include_str!("README.md")]

mod agent;
mod handler;
mod metrics;
mod setup;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::Descriptor;
use tokio::sync::Semaphore;
use wire::Name;

use agent::Agents;
use metrics::Figures;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "nomad", readme: include_str!("README.md"), setup: setup::set_up };

/// The target of log lines.
const LOG: &str = "plugin/nomad";

/// The plugin: a zone of the services that Nomad knows.
#[derive(Debug)]
struct Nomad {
    /// The zone.
    zone: Name,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// Whom it asks.
    agents: Arc<Agents>,
    /// How often that went well or ill.
    figures: Figures,
    /// Room for so many queries at a time.
    room: Semaphore,
}
