#![doc = include_str!("README.md")]

mod handler;
mod setup;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "erratic", readme: include_str!("README.md"), setup: setup::setup };
