#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Setup};

#[cfg(test)]
mod tests;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "debug", readme: include_str!("README.md"), setup };

/// Turns debug messages on, and the places of panics, for the whole process.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        directive.no_words()?;
        directive.no_block()?;
    }
    setup.debug();
    setup.stacktrace();
    Ok(())
}
