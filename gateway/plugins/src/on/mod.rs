#![doc = include_str!("README.md")]

mod command;
mod setup;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "on", readme: include_str!("README.md"), setup: setup::setup };
