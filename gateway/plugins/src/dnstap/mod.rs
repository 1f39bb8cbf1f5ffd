#![doc = include_str!("README.md")]

mod feed;
mod frames;
mod handler;
mod listen;
mod message;
mod outlet;
mod setup;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "dnstap", readme: include_str!("README.md"), setup: setup::setup };

/// Where log lines go.
const TARGET: &str = "plugin/dnstap";
