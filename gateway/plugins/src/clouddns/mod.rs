#![doc = include_str!("README.md")]

mod api;
mod auth;
mod external;
mod setup;

#[cfg(test)]
mod tests;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "clouddns", readme: include_str!("README.md"), setup: setup::set_up };
