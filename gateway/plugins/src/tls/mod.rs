#![doc = include_str!("README.md")]

mod acme;
mod challenge;
mod figures;
mod own;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "tls", readme: include_str!("README.md"), setup: setup::setup };

/// The target of log lines.
const TARGET: &str = "plugin/tls";
