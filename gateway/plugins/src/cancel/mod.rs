#![doc = include_str!("README.md")]

use std::time::Duration;

use config::Diagnostic;
use engine::{Descriptor, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "cancel", readme: include_str!("README.md"), setup };

/// How long a query may take without another word: just over the five seconds that most clients wait.
const DEFAULT: Duration = Duration::from_millis(5001);

/// Sets the block's deadline; of several lines the last counts.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        directive.no_block()?;
        let mut words = directive.words();
        let timeout = if words.is_empty() { DEFAULT } else { words.duration()? };
        words.end()?;
        if timeout.is_zero() {
            let word = directive.args.first().unwrap_or(&directive.name);
            return Err(word
                .wrong("is no time to answer in")
                .help("write a duration above zero, such as 5s"));
        }
        setup.deadline(timeout);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
