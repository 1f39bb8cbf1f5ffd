#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop};
use engine::{Descriptor, Exchange, Metadata, Provider, Setup, View};

use crate::shared::expr::{Context, Program, Scope};

#[cfg(test)]
mod tests;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "view", readme: include_str!("README.md"), setup };

/// Reads the conditions of the block.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let name = words.one().map_err(|wrong| wrong.help("write: view NAME { expr EXPRESSION }"))?;
    words.end()?;
    let scope = Scope::default().knowing_clients(setup.has("identity"));
    let mut draft = Draft { scope, conditions: Vec::new() };
    directive.read_block(PROPERTIES, &mut draft)?;
    let conditions = draft.conditions;
    setup.provide(Name(name.text.clone()));
    let metadata = setup.metadata();
    setup.admit(Conditions { name: name.text.clone(), conditions, metadata });
    Ok(())
}

/// The conditions on their way.
struct Draft {
    scope: Scope,
    conditions: Vec<Program>,
}

/// The properties of the block.
const PROPERTIES: &[Prop<Draft>] = &[Prop {
    name: "expr",
    words: "EXPRESSION",
    set: |draft, words| {
        words.clone().one()?;
        let words = words.rest();
        draft.conditions.push(Program::read(words, &draft.scope)?.must_be_bool(words)?);
        Ok(())
    },
}];

/// The conditions of a server block, all of which must hold.
#[derive(Debug)]
struct Conditions {
    name: String,
    conditions: Vec<Program>,
    metadata: Metadata,
}

impl View for Conditions {
    fn name(&self) -> &str {
        &self.name
    }

    fn admits(&self, x: &Exchange) -> bool {
        let context = Context { x, metadata: &self.metadata, groups: None, vars: &[] };
        self.conditions.iter().all(|condition| condition.holds(&context))
    }
}

/// Gives the metadata `view/name`.
#[derive(Debug)]
struct Name(String);

impl Provider for Name {
    fn metadata(&self, _: &Exchange, label: &str, out: &mut String) -> Option<()> {
        (label == "name").then(|| out.push_str(&self.0))
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("name");
    }
}
