//! From the lines of the Corefile to rules.

use config::value::Network;
use config::{Diagnostic, Directive};
use engine::Setup;
use wire::text::type_number;

use super::handler::{Acl, Action, Policy, Rule};
use super::nets::{Nets, network};

/// The actions by their names.
const ACTIONS: [(&str, Action); 4] = [
    ("allow", Action::Allow),
    ("block", Action::Block),
    ("filter", Action::Filter),
    ("drop", Action::Drop),
];

/// Reads all rules of the block, in order.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut rules = Vec::new();
    for directive in setup.directives() {
        let policies = directive.lines().iter().map(policy).collect::<Result<_, _>>()?;
        rules.push(Rule { zones: setup.zones_of(&directive.args).into(), policies });
    }
    let routes = setup.routes();
    setup.selective();
    setup.install(Acl::new(rules.into(), routes));
    Ok(())
}

/// Reads one policy: `ACTION [type TYPE…] [net SOURCE…]…`.
fn policy(line: &Directive) -> Result<Policy, Diagnostic> {
    line.no_block()?;
    let name = line.name.text.to_ascii_lowercase();
    let action = ACTIONS.iter().find(|(own, _)| *own == name).map(|(_, action)| *action);
    let action = action.ok_or_else(|| {
        let names = ACTIONS.map(|(name, _)| name);
        line.name.wrong("is no action").help(config::value::known(&name, &names))
    })?;
    let (mut types, mut nets) = (List::default(), List::default());
    let mut words = line.words();
    while let Some(section) = words.maybe() {
        let is_types = match &*section.text {
            "type" => true,
            "net" => false,
            _ => {
                return Err(section
                    .wrong("begins no section")
                    .help("write: type TYPE… or net SOURCE…"));
            }
        };
        let mut count = 0;
        while let Some(word) = words.peek().filter(|word| !matches!(&*word.text, "type" | "net")) {
            words.one()?;
            count += 1;
            match &*word.text {
                "*" if is_types => types.all = true,
                "*" => nets.all = true,
                text if is_types => types
                    .some
                    .push(type_number(text).ok_or_else(|| word.wrong("is no record type"))?),
                text => nets.some.push(network(text).ok_or_else(|| {
                    word.wrong("is no network and no address")
                        .help("write an address, a network such as 10.0.0.0/8, or *")
                })?),
            }
        }
        if count == 0 {
            return Err(section.wrong("has nothing behind it").help("write * for everything"));
        }
    }
    types.some.sort_unstable();
    types.some.dedup();
    let nets = nets.bounded().map(|nets: Vec<Network>| Nets::new(&nets));
    Ok(Policy { action, types: types.bounded().map(Vec::into), nets })
}

/// What the sections of one kind name.
struct List<T> {
    /// Whether there was a `*`.
    all: bool,
    /// What else there was.
    some: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { all: false, some: Vec::new() }
    }
}

impl<T> List<T> {
    /// The items, if they bound anything: not without a section of this kind, nor with a `*`.
    fn bounded(self) -> Option<Vec<T>> {
        (!self.all && !self.some.is_empty()).then_some(self.some)
    }
}
