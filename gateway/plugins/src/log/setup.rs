//! From directives to rules.

use config::{Diagnostic, Directive, Prop, Word};
use engine::Setup;
use wire::Name;

use super::handler::{Classes, Labels, Log, Rule};
use crate::shared::replacer::{COMMON, Format};
use crate::shared::response::Class;

/// What a block may say.
pub(super) const PROPS: &[Prop<Classes>] = &[Prop {
    name: "class",
    words: "CLASSES...",
    set: |classes, words| {
        classes.add(words.choice(CLASSES)?);
        while !words.is_empty() {
            classes.add(words.choice(CLASSES)?);
        }
        Ok(())
    },
}];

/// The names of classes.
const CLASSES: &[(&str, Classes)] = &[
    ("all", Classes::ALL),
    ("success", Classes::only(Class::Success)),
    ("denial", Classes::only(Class::Denial)),
    ("error", Classes::only(Class::Error)),
];

/// Sets the block's rules up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut rules = Vec::new();
    for directive in setup.directives() {
        add(setup, directive, &mut rules)?;
    }
    let metadata = setup.metadata();
    setup.observe(Log { rules: rules.into(), metadata });
    setup.provide(Labels);
    Ok(())
}

/// Adds the rules of one directive: one for each name, sharing format and classes.
fn add(
    setup: &mut Setup<'_>,
    directive: &Directive,
    rules: &mut Vec<Rule>,
) -> Result<(), Diagnostic> {
    let mut classes = Classes::default();
    directive.read_block(PROPS, &mut classes)?;
    let classes = classes.or_all();
    let (names, format) = match &*directive.args {
        [names @ .., last] if !names.is_empty() && last.text.contains('{') => (names, &*last.text),
        names => (names, COMMON),
    };
    let format = Format::read(format);
    if names.is_empty() {
        rules.push(Rule { zone: Name::ROOT, format: format.clone(), classes });
    }
    for word in names {
        if let Some(zone) = name(setup, word) {
            rules.push(Rule { zone, format: format.clone(), classes });
        }
    }
    Ok(())
}

/// A rule's name; none, with a warning, for a word that no query can match.
fn name(setup: &mut Setup<'_>, word: &Word) -> Option<Name> {
    let name = Name::parse(&word.text);
    if name.is_none() {
        setup.warn(word.wrong("is no domain name: nothing is logged for it"));
    } else if word.text.contains('{') {
        let odd = word.wrong("is read as a name, which nobody asks for: nothing is logged for it");
        setup.warn(odd.help(format!("write: log . \"{}\"", word.text)));
    }
    name
}
