#![doc = include_str!("README.md")]

use engine::Descriptor;

/// The registry entry.
pub static PLUGIN: Descriptor = Descriptor {
    name: "any",
    readme: include_str!("README.md"),
    setup: |setup| Err(setup.directive().name.wrong("is not built in yet")),
};
