#![doc = include_str!("README.md")]

mod job;
mod setup;
mod signed;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "sign", readme: include_str!("README.md"), setup: setup::setup };

#[cfg(test)]
mod tests;
