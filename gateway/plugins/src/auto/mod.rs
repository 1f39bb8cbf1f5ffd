#![doc = include_str!("README.md")]

mod folder;
mod handler;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "auto", readme: include_str!("README.md"), setup: setup::set_up };
