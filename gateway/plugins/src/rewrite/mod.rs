#![doc = include_str!("README.md")]

use engine::Descriptor;

mod edns;
mod handler;
mod names;
mod response;
mod setup;

#[cfg(test)]
mod tests;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "rewrite", readme: include_str!("README.md"), setup: setup::setup };
