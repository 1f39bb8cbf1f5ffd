#![doc = include_str!("README.md")]

mod handler;
mod setup;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "tsig", readme: include_str!("README.md"), setup: setup::setup };

#[cfg(test)]
mod tests;
