#![doc = include_str!("README.md")]

mod classify;
mod figures;
mod handler;
mod setup;
mod store;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "cache", readme: include_str!("README.md"), setup: setup::setup };
