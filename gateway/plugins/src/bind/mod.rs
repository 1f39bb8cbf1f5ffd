#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Setup};

use crate::shared::bound;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "bind", readme: include_str!("README.md"), setup };

/// Sets the addresses of the block's listeners; the lines add up.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let all = bound::all(setup.directives().iter().copied())?;
    if all.is_empty() {
        let name = &setup.directive().name;
        setup.warn(name.wrong("leaves no address: the block listens nowhere"));
    }
    let listener = setup.listener();
    listener.nowhere = all.is_empty();
    listener.bind = all;
    Ok(())
}

#[cfg(test)]
mod tests;
