#![doc = include_str!("README.md")]

use std::io::ErrorKind;
use std::path::PathBuf;

use config::Diagnostic;
use engine::{Descriptor, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "root", readme: include_str!("README.md"), setup };

/// Sets the block's directory; of several lines the last counts.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        directive.no_block()?;
        let mut words = directive.words();
        let word = words.one()?;
        words.end()?;
        let path = PathBuf::from(&word.text);
        match std::fs::metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!("Root path does not exist: {}", word.text);
                setup.warn(word.fault(what));
            }
            Err(error) => {
                let what = format!("Unable to access root path '{word}': {error}");
                return Err(word.fault(what));
            }
        }
        setup.set_root(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
