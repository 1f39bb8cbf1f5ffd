#![doc = include_str!("README.md")]

mod handler;
mod reply;
mod roots;
mod setup;
mod synthesis;
#[cfg(test)]
mod tests;
mod wildcard;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "recursive", readme: include_str!("README.md"), setup: setup::setup };
