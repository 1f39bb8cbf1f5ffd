#![doc = include_str!("README.md")]

mod api;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "route53", readme: include_str!("README.md"), setup: setup::set_up };
