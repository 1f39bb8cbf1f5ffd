#![doc = include_str!("README.md")]

mod cache;
mod denial;
mod figures;
mod handler;
mod outcome;
mod secrets;
mod setup;
mod signer;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "dnssec", readme: include_str!("README.md"), setup: setup::setup };

#[cfg(test)]
mod tests;
