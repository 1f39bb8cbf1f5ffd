#![doc = include_str!("README.md")]

mod address;
mod handler;
mod setup;
mod zones;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "guard", readme: include_str!("README.md"), setup: setup::setup };
