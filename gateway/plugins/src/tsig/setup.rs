//! `tsig [ZONES…] { … }`.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::{Diagnostic, Prop, Word, Words};
use engine::Setup;
use wire::{Name, opcode, text::type_number};

use super::handler::{Demand, Tsig};
use super::keyfile;
use super::keys::Keys;
use crate::shared::file;
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
    Prop { name: "secret", words: "NAME KEY", set: set_secret },
    Prop { name: "secrets", words: "FILE", set: set_secrets },
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

/// `secret NAME KEY`. The line holds a secret, so that no error shows it.
fn set_secret(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let property = words.name();
    let [name, key] = words.rest() else {
        return Err(property.fault("`secret` takes the name of a key and its secret").hide());
    };
    let parsed =
        Name::parse(&name.text).ok_or_else(|| name.wrong("is not a domain name").hide())?;
    let wrong = |what| name.fault(format!("the secret of {} {what}", name.text)).hide();
    add(&mut config.keys, parsed, &key.text).map_err(wrong)
}

/// `secrets FILE`.
fn set_secrets(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    let text = file::text(Path::new(&*word.text));
    let text = text.map_err(|error| word.wrong(format_args!("cannot be read: {error}")))?;
    let at = |line: usize, what: &str| {
        word.fault(format!("{}:{line}: {what}", word.text))
            .help("write: key \"NAME\" { algorithm hmac-sha256; secret \"BASE64\"; };")
    };
    let entries = keyfile::read(&text).map_err(|(line, what)| at(line, what))?;
    for entry in entries {
        add(&mut config.keys, entry.name, &entry.secret)
            .map_err(|what| at(entry.line, &format!("the secret {what}")))?;
    }
    Ok(())
}

/// Adds a key; an error says what is wrong with its secret.
fn add(keys: &mut Keys, name: Name, secret: &str) -> Result<(), &'static str> {
    let secret = STANDARD.decode(secret).map_err(|_| "is not base64")?;
    if secret.is_empty() {
        return Err("is empty");
    }
    match keys.0.insert(name, secret) {
        None => Ok(()),
        Some(_) => Err("is there twice"),
    }
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
