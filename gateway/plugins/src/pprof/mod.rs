#![doc = include_str!("README.md")]

mod heap;
mod page;
mod profile;
mod setup;
#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "pprof", readme: include_str!("README.md"), setup: setup::setup };
