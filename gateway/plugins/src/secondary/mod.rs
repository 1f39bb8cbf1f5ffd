#![doc = include_str!("README.md")]

mod book;
mod catalog;
mod handler;
mod held;
mod primary;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "secondary", readme: include_str!("README.md"), setup: setup::set_up };
