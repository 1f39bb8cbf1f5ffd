//! `tsig [ZONES…] { … }`.

use std::sync::Arc;

use config::{Diagnostic, Prop, Word, Words};
use engine::Setup;
use wire::{opcode, text::type_number};

use super::handler::{Demand, Tsig};
use crate::shared::tsig::{Keys, secret, secrets};
use crate::shared::zones::Zones;

/// The opcodes by their names.
const OPCODES: [(&str, u8); 5] = [
    ("QUERY", opcode::QUERY),
    ("IQUERY", 1),
    ("STATUS", 2),
    ("NOTIFY", opcode::NOTIFY),
    ("UPDATE", 5),
];

/// What the block says.
#[derive(Debug, Default)]
struct Config {
    keys: Keys,
    types: Demand,
    opcodes: Demand,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "secret",
        words: "NAME KEY",
        set: |config, words| secret(&mut config.keys, words),
    },
    Prop { name: "secrets", words: "FILE", set: |config, words| secrets(&mut config.keys, words) },
    Prop {
        name: "require",
        words: "all|none|QTYPE...",
        set: |config, words| {
            demand(words, type_number, "is no record type").map(|found| config.types = found)
        },
    },
    Prop {
        name: "require_opcode",
        words: "all|none|OPCODE...",
        set: |config, words| {
            let number = |text: &str| {
                let found = OPCODES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                found.map(|(_, number)| u16::from(*number))
            };
            let wrong = "is none of QUERY, IQUERY, STATUS, NOTIFY and UPDATE";
            demand(words, number, wrong).map(|found| config.opcodes = found)
        },
    },
];

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let zones = setup.zones_of(&directive.args);
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    setup.keyring(Arc::new(config.keys));
    setup.install(Tsig { zones: Zones::new(zones), types: config.types, opcodes: config.opcodes });
    Ok(())
}

/// Takes all words that are left, at least one.
fn demand(
    words: &mut Words<'_>,
    number: impl Fn(&str) -> Option<u16>,
    wrong: &str,
) -> Result<Demand, Diagnostic> {
    let first = words.clone().one()?;
    let rest = words.rest();
    match (&*first.text, rest) {
        ("all", [_]) => return Ok(Demand::All),
        ("none", [_]) => return Ok(Demand::None),
        _ => {}
    }
    let one = |word: &Word| number(&word.text).ok_or_else(|| word.wrong(wrong));
    let mut numbers = rest.iter().map(one).collect::<Result<Vec<u16>, _>>()?;
    numbers.sort_unstable();
    Ok(Demand::Some(numbers))
}
