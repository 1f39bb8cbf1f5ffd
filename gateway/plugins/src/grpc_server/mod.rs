#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop};
use engine::{Descriptor, GrpcSpec, Setup};

use crate::shared::web::number;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "grpc_server", readme: include_str!("README.md"), setup };

/// The properties of the block.
static PROPS: &[Prop<GrpcSpec>] = &[
    Prop {
        name: "max_streams",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.max_streams, words),
    },
    Prop {
        name: "max_connections",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.max_connections, words),
    },
];

/// Sets what the block says of its listeners.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut spec = GrpcSpec::default();
    directive.read_block(PROPS, &mut spec)?;
    setup.listener().grpc = spec;
    Ok(())
}

#[cfg(test)]
mod tests;
