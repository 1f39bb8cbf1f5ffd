#![doc = include_str!("README.md")]

use std::time::Duration;

use config::{Diagnostic, Prop, Word, Words};
use engine::{Descriptor, LimitSpec, Rate, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "limits", readme: include_str!("README.md"), setup };

/// The properties of the block.
static PROPS: &[Prop<LimitSpec>] = &[
    Prop {
        name: "connections",
        words: "NUMBER",
        set: |spec, words| once(&mut spec.connections, words, number),
    },
    Prop {
        name: "connections_per_client",
        words: "NUMBER",
        set: |spec, words| once(&mut spec.connections_per_client, words, number),
    },
    Prop {
        name: "queries_per_client",
        words: "RATE [BURST]",
        set: |spec, words| once(&mut spec.queries_per_client, words, rate),
    },
    Prop {
        name: "handshake",
        words: "DURATION",
        set: |spec, words| {
            once(&mut spec.handshake, words, |words| {
                time(words, Duration::from_millis(100), Duration::from_secs(60))
            })
        },
    },
    Prop {
        name: "age",
        words: "DURATION",
        set: |spec, words| {
            once(&mut spec.age, words, |words| {
                time(words, Duration::from_secs(60), Duration::from_secs(30 * 24 * 3600))
            })
        },
    },
];

/// Sets what the clients of the block's listeners may take.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    if directive.lines().is_empty() {
        let names: Vec<_> = PROPS.iter().map(|prop| prop.name).collect();
        return Err(directive
            .name
            .wrong("has no limit in its block")
            .help(format!("write at least one of: {}", names.join(", "))));
    }
    let mut spec = LimitSpec::default();
    directive.read_block(PROPS, &mut spec)?;
    setup.listener().limits = spec;
    Ok(())
}

/// Sets a value that is stated once.
fn once<T>(
    value: &mut Option<T>,
    words: &mut Words<'_>,
    read: impl FnOnce(&mut Words<'_>) -> Result<T, Diagnostic>,
) -> Result<(), Diagnostic> {
    if value.is_some() {
        return Err(words.name().wrong("is stated twice"));
    }
    *value = Some(read(words)?);
    Ok(())
}

/// Takes a number of connections.
fn number(words: &mut Words<'_>) -> Result<usize, Diagnostic> {
    let word = words.one()?;
    let number = word.text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| word.wrong("is no number of connections").help("write 1 or more"))
}

/// Takes a rate, and what may come at once: as much as in a second if it is not stated.
fn rate(words: &mut Words<'_>) -> Result<Rate, Diagnostic> {
    let per_second = queries(words.one()?)?;
    let burst = words.maybe().map_or(Ok(per_second), queries)?;
    Ok(Rate { per_second, burst })
}

/// Reads a number of queries.
fn queries(word: &Word) -> Result<u32, Diagnostic> {
    let number = word.text.parse::<u32>().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| word.wrong("is no number of queries").help(format!("write 1 to {MOST}")))
}

/// The most queries a second that are told apart.
const MOST: u32 = 1_000_000;

/// Takes a duration within bounds.
fn time(words: &mut Words<'_>, least: Duration, most: Duration) -> Result<Duration, Diagnostic> {
    let word = words.peek();
    let time = words.duration()?;
    match word {
        Some(word) if !(least..=most).contains(&time) => {
            Err(word.wrong(format!("needs to be between {least:?} and {most:?}")))
        }
        _ => Ok(time),
    }
}

#[cfg(test)]
mod tests;
