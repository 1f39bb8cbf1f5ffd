#![doc = include_str!("README.md")]

mod handler;
mod setup;
mod source;
mod table;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "hosts", readme: include_str!("README.md"), setup: setup::setup };
