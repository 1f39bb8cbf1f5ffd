//! From the lines of the Corefile to rules.

use config::value::Network;
use config::{Diagnostic, Directive, Word};
use engine::Setup;
use wire::text::type_number;

use super::handler::{Acl, Action, Policy, Rule, Who};
use super::nets::Nets;

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
        let policies: Box<[_]> = directive.lines().iter().map(policy).collect::<Result<_, _>>()?;
        let asks_who = |own: &Policy| own.who.is_some() || own.groups.is_some();
        if policies.iter().any(asks_who) && !setup.has("identity") {
            return Err(directive
                .name
                .fault("identity and group need the plugin identity, which the block does not have")
                .help("write identity { ... } in the block"));
        }
        rules.push(Rule { zones: setup.zones_of(&directive.args).into(), policies });
    }
    let routes = setup.routes();
    setup.selective();
    setup.install(Acl::new(rules.into(), routes));
    Ok(())
}

/// The sections of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Types,
    Nets,
    Names,
    Groups,
}

/// The sections by the words that begin them.
const SECTIONS: [(&str, Section); 4] = [
    ("type", Section::Types),
    ("net", Section::Nets),
    ("identity", Section::Names),
    ("group", Section::Groups),
];

/// Reads one policy: `ACTION [type TYPE…] [net SOURCE…] [identity NAME…] [group NAME…]…`.
fn policy(line: &Directive) -> Result<Policy, Diagnostic> {
    line.no_block()?;
    let name = line.name.text.to_ascii_lowercase();
    let action = ACTIONS.iter().find(|(own, _)| *own == name).map(|(_, action)| *action);
    let action = action.ok_or_else(|| {
        let names = ACTIONS.map(|(name, _)| name);
        line.name.wrong("is no action").help(config::value::known(&name, &names))
    })?;
    let section_of = |word: &Word| {
        SECTIONS.iter().find(|(own, _)| *own == word.text).map(|(_, section)| *section)
    };
    let (mut types, mut nets) = (List::default(), List::default());
    let (mut names, mut groups) = (List::default(), List::default());
    let mut words = line.words();
    while let Some(first) = words.maybe() {
        let section = section_of(first).ok_or_else(|| {
            first
                .wrong("begins no section")
                .help("write: type TYPE…, net SOURCE…, identity NAME… or group NAME…")
        })?;
        let mut count = 0;
        while let Some(word) = words.peek().filter(|word| section_of(word).is_none()) {
            words.one()?;
            count += 1;
            match (section, &*word.text) {
                (Section::Types, "*") => types.all = true,
                (Section::Nets, "*") => nets.all = true,
                (Section::Names, "*") => names.all = true,
                (Section::Groups, "*") => {
                    return Err(word
                        .wrong("is no group")
                        .help("write identity * for everybody who is known"));
                }
                (Section::Types, text) => types
                    .some
                    .push(type_number(text).ok_or_else(|| word.wrong("is no record type"))?),
                (Section::Nets, text) => {
                    nets.some.push(Network::or_address(text).map_err(|_| {
                        word.wrong("is no network and no address")
                            .help("write an address, a network such as 10.0.0.0/8, or *")
                    })?)
                }
                (Section::Names, text) => names.some.push(text.to_owned()),
                (Section::Groups, text) => groups.some.push(text.to_owned()),
            }
        }
        if count == 0 {
            let wrong = first.wrong("has nothing behind it");
            return Err(match section {
                Section::Groups => wrong.help("write the names of groups"),
                _ => wrong.help("write * for everything"),
            });
        }
    }
    types.some.sort_unstable();
    types.some.dedup();
    let nets = nets.bounded().map(|nets: Vec<Network>| Nets::new(&nets));
    let who = match names.all {
        true => Some(Who::Known),
        false => names.bounded().map(|names: Vec<String>| Who::Named(names.into())),
    };
    let groups = groups.bounded().map(Vec::into);
    Ok(Policy { action, types: types.bounded().map(Vec::into), nets, who, groups })
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
