#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Setup};

#[cfg(test)]
mod tests;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "metadata", readme: include_str!("README.md"), setup };

/// Turns the block's metadata on for the zones named.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_block()?;
    let zones = setup.zones_of(&directive.args);
    setup.enable_metadata(zones);
    Ok(())
}
