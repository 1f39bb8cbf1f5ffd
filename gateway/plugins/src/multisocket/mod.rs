#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "multisocket", readme: include_str!("README.md"), setup };

/// The most sockets of one address.
const MOST: usize = 1024;

/// Sets the number of sockets of the block's listeners.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_block()?;
    let mut words = directive.words();
    let sockets = match words.maybe() {
        None => setup.process().workers.clamp(1, MOST),
        Some(word) => {
            let number = word.text.parse::<usize>().ok().filter(|n| (1..=MOST).contains(n));
            number.ok_or_else(|| {
                word.wrong("is no number of sockets").help(format!("write 1 to {MOST}"))
            })?
        }
    };
    words.end()?;
    setup.listener().sockets = Some(sockets);
    Ok(())
}

#[cfg(test)]
mod tests;
