#![doc = include_str!("README.md")]

use std::time::Duration;

use config::value::{duration, seconds};
use config::{Diagnostic, Prop, Words};
use engine::{Descriptor, ListenSpec, Setup};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "timeouts", readme: include_str!("README.md"), setup };

/// The properties of the block.
static PROPS: &[Prop<ListenSpec>] = &[
    Prop {
        name: "read",
        words: "DURATION",
        set: |spec, words| read(words).map(|time| spec.read = Some(time)),
    },
    Prop {
        name: "write",
        words: "DURATION",
        set: |spec, words| read(words).map(|time| spec.write = Some(time)),
    },
    Prop {
        name: "idle",
        words: "DURATION",
        set: |spec, words| read(words).map(|time| spec.idle = Some(time)),
    },
    Prop {
        name: "maxtcpqueries",
        words: "MAXIMUM",
        set: |spec, words| maximum(words).map(|most| spec.max_queries = Some(most)),
    },
];

/// Sets what the block says of its listeners; later lines overwrite.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        directive.no_words()?;
        if directive.lines().is_empty() {
            return Err(directive
                .name
                .wrong("has no timeout in its block")
                .help("write at least one of: read, write, idle, maxtcpqueries"));
        }
        directive.read_block(PROPS, setup.listener())?;
    }
    Ok(())
}

/// Takes a duration between a second and a day; a bare number is seconds.
fn read(words: &mut Words<'_>) -> Result<Duration, Diagnostic> {
    let word = words.one()?;
    let bare = word.text.bytes().all(|byte| byte.is_ascii_digit());
    let time = if bare { seconds(&word.text) } else { duration(&word.text) };
    let time = time.map_err(|error| word.wrong(format_args!("is wrong: {error}")))?;
    if (Duration::from_secs(1)..=Duration::from_secs(24 * 3600)).contains(&time) {
        return Ok(time);
    }
    Err(word.wrong("needs to be between 1 second and 24 hours"))
}

/// Takes a number of queries, 0 for no limit, which is written -1.
fn maximum(words: &mut Words<'_>) -> Result<usize, Diagnostic> {
    let word = words.one()?;
    match word.text.parse::<i64>().ok().map(|number| (number, usize::try_from(number))) {
        Some((-1, _)) => Ok(0),
        Some((1.., Ok(most))) => Ok(most),
        _ => Err(word.wrong("is no number of queries").help("write 1 or more, or -1 for no limit")),
    }
}

#[cfg(test)]
mod tests;
