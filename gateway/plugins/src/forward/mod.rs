#![doc = include_str!("README.md")]

mod flight;
mod handler;
mod message;
mod setup;
mod sift;
mod target;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "forward", readme: include_str!("README.md"), setup: setup::setup };
