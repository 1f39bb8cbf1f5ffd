#![doc = include_str!("README.md")]

mod handler;
mod prefix;
mod setup;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "dns64", readme: include_str!("README.md"), setup: setup::setup };
