#![doc = include_str!("README.md")]

use engine::Descriptor;

mod data;
mod handler;
mod metrics;
mod setup;

#[cfg(test)]
mod tests;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "template", readme: include_str!("README.md"), setup: setup::setup };
