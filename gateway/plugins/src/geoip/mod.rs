#![doc = include_str!("README.md")]

mod database;
mod provider;
mod setup;
mod source;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "geoip", readme: include_str!("README.md"), setup: setup::setup };
