#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop, Words};
use engine::{Descriptor, QuicSpec, Retry, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "quic", readme: include_str!("README.md"), setup };

/// The properties of the block.
static PROPS: &[Prop<QuicSpec>] = &[
    Prop {
        name: "max_streams",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.max_streams, words, 1),
    },
    Prop {
        name: "worker_pool_size",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.worker_pool_size, words, 1),
    },
    Prop {
        name: "max_connections",
        words: "NUMBER",
        set: |spec, words| number(&mut spec.max_connections, words, 0),
    },
    Prop { name: "retry", words: "never|load|always", set: retry },
    Prop {
        name: "early_data",
        words: "",
        set: |spec, _| {
            spec.early_data = true;
            Ok(())
        },
    },
];

/// Sets what the block says of its listeners.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut spec = QuicSpec::default();
    directive.read_block(PROPS, &mut spec)?;
    setup.listener().quic = spec;
    Ok(())
}

/// Takes a number, once.
fn number(
    value: &mut Option<usize>,
    words: &mut Words<'_>,
    least: usize,
) -> Result<(), Diagnostic> {
    let word = words.one()?;
    if value.is_some() {
        return Err(words.name().wrong("is stated twice"));
    }
    let number = word.text.parse::<usize>().ok().filter(|number| *number >= least);
    *value = Some(number.ok_or_else(|| {
        word.wrong("is no number for this").help(format!("write {least} or more"))
    })?);
    Ok(())
}

/// Takes when clients have to prove their address, once.
fn retry(spec: &mut QuicSpec, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    if spec.retry.is_some() {
        return Err(words.name().wrong("is stated twice"));
    }
    spec.retry = Some(match &*word.text {
        "never" => Retry::Never,
        "load" => Retry::Load,
        "always" => Retry::Always,
        _ => return Err(word.wrong("is none of never, load and always")),
    });
    Ok(())
}

#[cfg(test)]
mod tests;
