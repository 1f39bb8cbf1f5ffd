#![doc = include_str!("README.md")]

mod binding;
mod handler;
mod offer;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "ddr", readme: include_str!("README.md"), setup: setup::setup };
