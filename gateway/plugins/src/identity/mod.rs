#![doc = include_str!("README.md")]

mod door;
mod figures;
mod files;
mod metadata;
mod networks;
mod secrets;
mod setup;
mod words;

#[cfg(test)]
mod tests;

pub use secrets::{Minted, mint};

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "identity", readme: include_str!("README.md"), setup: setup::setup };
