//! From words to templates.

use config::{Diagnostic, Directive, Prop, Word, Words};
use engine::Setup;
use wire::text::{class_number, type_number};
use wire::{Name, Section};
use zone::record::Defaults;

use super::data;
use super::handler::{Entry, Templates};
use super::metrics::Counters;
use crate::shared::expr::{Program, Scope};
use crate::shared::fall::Fall;
use crate::shared::gotemplate::Template;
use crate::shared::zones::Zones;
use crate::shared::{mnemonic, regex};

/// Reads the block's templates.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut all = Vec::new();
    for directive in setup.directives() {
        all.push(entry(setup, directive)?);
    }
    let counters = Counters::new(setup.routes());
    let metadata = setup.metadata();
    setup.install(Templates { all: all.into(), metadata, counters, defaults: Defaults::default() });
    Ok(())
}

/// A directive being read.
#[derive(Default)]
struct Draft {
    entry: Entry,
    /// The variables read so far.
    scope: Scope,
    /// The records, read when all variables are.
    records: Vec<(Section, &'static str, Word)>,
    /// The zones behind `fallthrough`.
    fall: Option<Vec<Word>>,
}

/// Reads one directive.
fn entry(setup: &Setup<'_>, directive: &Directive) -> Result<Entry, Diagnostic> {
    let mut words = directive.words();
    let form = |wrong: Diagnostic| {
        if wrong.help.is_some() {
            wrong
        } else {
            wrong.help("write: template CLASS TYPE [ZONES…] { … }")
        }
    };
    let class = words.one().map_err(form)?;
    let rtype = words.one().map_err(form)?;
    let zones = setup.zones_of(words.rest());
    let entry = Entry {
        class: class_number(&class.text)
            .ok_or_else(|| class.wrong("is no class").help("take one of IN, CH, HS and ANY"))?,
        rtype: type_number(&rtype.text).ok_or_else(|| {
            rtype.wrong("is no record type").help("take a mnemonic such as AAAA, or ANY for all")
        })?,
        texts: zones.iter().map(Name::to_string).collect(),
        zones: Zones::new(zones),
        ..Entry::default()
    };
    let scope = Scope::with_groups().knowing_clients(setup.has("identity"));
    let mut draft = Draft { entry, scope, ..Draft::default() };
    directive.read_block(PROPERTIES, &mut draft)?;
    let mut entry = draft.entry;
    for (section, property, word) in &draft.records {
        entry.records.push((*section, template(property, word, &entry.names)?));
    }
    if let Some(zones) = draft.fall {
        let root = [Name::ROOT];
        let zones = if zones.is_empty() { root.to_vec() } else { setup.zones_of(&zones) };
        entry.fall = Fall::new(Zones::new(zones));
    }
    if entry.patterns.is_empty() {
        let all = regex::compile(".*").map_err(|wrong| directive.name.wrong(wrong))?;
        entry.patterns.push((all, ".*".to_owned()));
    }
    Ok(entry)
}

/// The properties of a template.
const PROPERTIES: &[Prop<Draft>] = &[
    Prop {
        name: "match",
        words: "REGEX…",
        set: |draft, words| {
            words.clone().one()?;
            for word in words.rest() {
                draft.entry.patterns.push((regex::read(word)?, word.text.clone()));
            }
            Ok(())
        },
    },
    Prop {
        name: "answer",
        words: "RECORD…",
        set: |draft, words| records(draft, words, Section::Answer, "answer"),
    },
    Prop {
        name: "additional",
        words: "RECORD…",
        set: |draft, words| records(draft, words, Section::Additional, "additional"),
    },
    Prop {
        name: "authority",
        words: "RECORD…",
        set: |draft, words| records(draft, words, Section::Authority, "authority"),
    },
    Prop {
        name: "rcode",
        words: "CODE",
        set: |draft, words| {
            let word = words.one()?;
            let code = mnemonic::rcode(&word.text);
            draft.entry.rcode = code.ok_or_else(|| {
                word.wrong("is no response code").help("take a mnemonic such as NXDOMAIN")
            })?;
            Ok(())
        },
    },
    Prop {
        name: "ederror",
        words: "CODE [TEXT]",
        set: |draft, words| {
            let code = words.read(|text| text.parse::<u16>())?;
            let text = words.maybe().map(|word| word.text.clone()).unwrap_or_default();
            draft.entry.ede = Some((code, text));
            Ok(())
        },
    },
    Prop { name: "var", words: "NAME EXPRESSION", set: variable },
    Prop {
        name: "expr",
        words: "EXPRESSION",
        set: |draft, words| {
            words.clone().one()?;
            let words = words.rest();
            draft.entry.conditions.push(Program::read(words, &draft.scope)?.must_be_bool(words)?);
            Ok(())
        },
    },
    Prop {
        name: "fallthrough",
        words: "[ZONES…]",
        set: |draft, words| {
            draft.fall = Some(words.rest().to_vec());
            Ok(())
        },
    },
    Prop {
        name: "upstream",
        words: "",
        set: |_, words| {
            // Targets of aliases are always looked up through the whole server.
            words.rest();
            Ok(())
        },
    },
];

/// Takes templates of records.
fn records(
    draft: &mut Draft,
    words: &mut Words<'_>,
    section: Section,
    property: &'static str,
) -> Result<(), Diagnostic> {
    words.clone().one()?;
    draft.records.extend(words.rest().iter().map(|word| (section, property, word.clone())));
    Ok(())
}

/// Reads the template of a record; `names` are the variables.
fn template(property: &str, word: &Word, names: &[String]) -> Result<Template, Diagnostic> {
    Template::parse(&word.text, &|path| data::known(path, names)).map_err(|wrong| {
        let (line, column) = place(&word.text, wrong.at);
        let line = if line > 1 { format!("line {line}, ") } else { String::new() };
        let what = format!("the template of the {property} is wrong at {line}character {column}: {wrong}");
        word.fault(what).help("templates are those of https://pkg.go.dev/text/template, in double quotes, with \\\" for a quote within")
    })
}

/// The line and the character of a place in a text, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Reads a variable.
fn variable(draft: &mut Draft, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let name = words.one()?;
    let is_name = name.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.text.starts_with(|c: char| c.is_ascii_digit());
    if !is_name || draft.scope.is_reserved(&name.text) {
        return Err(name
            .wrong("cannot be the name of a variable")
            .help("take letters, digits and underscores, and no function's name"));
    }
    words.clone().one()?;
    let program = Program::read(words.rest(), &draft.scope)?;
    draft.scope.add(&name.text, program.kind().clone());
    draft.entry.names.push(name.text.clone());
    draft.entry.vars.push((name.text.clone(), program));
    Ok(())
}
