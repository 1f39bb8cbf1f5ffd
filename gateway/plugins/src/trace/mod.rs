#![doc = include_str!("README.md")]

mod datadog;
mod handler;
mod otlp;
mod parent;
mod report;
mod setup;
mod span;
#[cfg(test)]
mod tests;
mod zipkin;

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "trace", readme: include_str!("README.md"), setup: setup::setup };

/// Where log lines go.
const TARGET: &str = "plugin/trace";
