#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop};
use engine::{Descriptor, HttpSpec, Setup};

use crate::shared::web::{JSON, MAX_CONNECTIONS, PATH, TRUSTED_PROXIES, number};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "https3", readme: include_str!("README.md"), setup };

/// The properties of the block.
static PROPS: &[Prop<HttpSpec>] = &[
    Prop {
        name: "max_streams",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.max_streams, words),
    },
    MAX_CONNECTIONS,
    PATH,
    JSON,
    TRUSTED_PROXIES,
];

/// Sets what the block says of its listeners.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut spec = HttpSpec::default();
    directive.read_block(PROPS, &mut spec)?;
    setup.listener().https3 = spec;
    Ok(())
}

#[cfg(test)]
mod tests;
