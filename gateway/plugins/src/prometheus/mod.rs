#![doc = include_str!("README.md")]

mod handler;
mod page;
mod process;
mod setup;
#[cfg(test)]
mod tests;
mod users;
mod web;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "prometheus", readme: include_str!("README.md"), setup: setup::setup };
