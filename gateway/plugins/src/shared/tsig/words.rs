//! Keys as Corefiles and files have them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::{Diagnostic, Directive, Word, Words};
use engine::Setup;
use wire::Name;

use super::client::Key;
use super::keyfile;
use super::keys::Keys;
use crate::shared::file;

/// `key NAME [ALGORITHM]`: the key that messages of our own are signed with, one of those that `tsig` has in the block.
pub(crate) fn own(
    setup: &Setup<'_>,
    name: &Word,
    algorithm: Option<&Word>,
) -> Result<Key, Diagnostic> {
    let parsed = Name::parse(&name.text).ok_or_else(|| name.wrong("is not a domain name"))?;
    let mut keys = Keys::default();
    for line in setup.others("tsig").flat_map(Directive::lines) {
        // What is wrong with it is said when `tsig` is set up.
        let _said_there = match &*line.name.text {
            "secret" => secret(&mut keys, &mut line.words()),
            "secrets" => secrets(&mut keys, &mut line.words()),
            _ => Ok(()),
        };
    }
    let Some(secret) = keys.0.get(&parsed) else {
        let wrong = name.wrong("is none of the keys that tsig has in this block");
        return Err(wrong.help("write: tsig { secret NAME KEY }"));
    };
    let kind = algorithm.map_or("hmac-sha256", |word| &*word.text);
    Key::new(parsed, kind, secret).ok_or_else(|| {
        algorithm
            .unwrap_or(name)
            .wrong("is no algorithm of signatures")
            .help("write hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 or hmac-sha512")
    })
}

/// `secret NAME KEY`. The line holds a secret, so that no error shows it.
pub(crate) fn secret(keys: &mut Keys, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let property = words.name();
    let [name, key] = words.rest() else {
        return Err(property.fault("`secret` takes the name of a key and its secret").hide());
    };
    let parsed =
        Name::parse(&name.text).ok_or_else(|| name.wrong("is not a domain name").hide())?;
    let wrong = |what| name.fault(format!("the secret of {} {what}", name.text)).hide();
    add(keys, parsed, &key.text).map_err(wrong)
}

/// `secrets FILE`.
pub(crate) fn secrets(keys: &mut Keys, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    let text = file::text(Path::new(&*word.text));
    let text = text.map_err(|error| word.wrong(format_args!("cannot be read: {error}")))?;
    let at = |line: usize, what: &str| {
        word.fault(format!("{}:{line}: {what}", word.text))
            .help("write: key \"NAME\" { algorithm hmac-sha256; secret \"BASE64\"; };")
    };
    let entries = keyfile::read(&text).map_err(|(line, what)| at(line, what))?;
    for entry in entries {
        add(keys, entry.name, &entry.secret)
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
