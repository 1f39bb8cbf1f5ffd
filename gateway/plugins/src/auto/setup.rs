//! `auto [ZONES…] { directory DIR [REGEXP TEMPLATE]; reload DURATION }`.

use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop, Word};
use engine::{Role, Setup};
use wire::Name;

use super::folder::Folder;
use super::handler::Auto;
use crate::shared::fall::Fall;
use crate::shared::regex::{self, Regex};
use crate::shared::zones::Zones;

/// The target of log lines.
pub(super) const TARGET: &str = "plugin/auto";

/// How zones are named after their files.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    pattern: Regex,
    template: Box<[Part]>,
}

/// A part of the template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Text.
    Text(String),
    /// What a group of the pattern has matched.
    Group(usize),
}

/// What the properties say.
#[derive(Default)]
struct Options {
    /// The folder, and where it stands.
    directory: Option<Word>,
    origins: Option<(Word, Word)>,
    reload: Option<Duration>,
}

/// The properties.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "directory",
        words: "DIR [REGEXP TEMPLATE]",
        set: |options, words| {
            options.directory = Some(words.one()?.clone());
            options.origins = match words.maybe() {
                Some(pattern) => Some((pattern.clone(), words.one()?.clone())),
                None => None,
            };
            Ok(())
        },
    },
    Prop {
        name: "reload",
        words: "DURATION",
        set: |options, words| words.duration().map(|reload| options.reload = Some(reload)),
    },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directives.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        stanza(setup, directive)?;
    }
    Ok(())
}

/// Reads one directive, and its folder.
fn stanza(setup: &mut Setup<'_>, directive: &Directive) -> Result<(), Diagnostic> {
    let gate = Zones::new(setup.zones_of(&directive.args));
    let mut options = Options::default();
    directive.read_block(PROPS, &mut options)?;
    let Some(directory) = options.directory else {
        let wrong = directive.name.wrong("says no folder");
        return Err(wrong.help("write: auto { directory DIR [REGEXP TEMPLATE] }"));
    };
    let origins = match &options.origins {
        Some((pattern, template)) => Origins::read(pattern, template)?,
        None => Origins::usual()?,
    };
    let place = setup.path(&directory.text);
    let key = format!("{place:?} {} {:?}", origins.pattern, origins.template);
    let folder = setup.share(&key, || Ok(Folder::new(place, origins)))?;
    if let Err(error) = folder.scan() {
        setup.warn(directory.fault(format!("the folder cannot be read: {error}")));
    }
    let reload = options.reload.unwrap_or(Duration::from_secs(60));
    if !reload.is_zero() {
        let watched = Arc::clone(&folder);
        setup.task(move |stop| watched.watch(reload, stop));
    }
    let plugin = Auto { gate, folder, fall: Fall::default() };
    setup.offer(Role::Transfer(Arc::new(plugin.clone())));
    setup.provide_as("zone", plugin.clone());
    setup.install(plugin);
    Ok(())
}

impl Origins {
    /// `db.ZONE` is the file of ZONE.
    fn usual() -> Result<Self, Diagnostic> {
        let pattern =
            regex::compile(r"db\.(.*)").map_err(|wrong| Diagnostic::new(wrong.to_string()))?;
        Ok(Self { pattern, template: Box::new([Part::Group(1)]) })
    }

    /// What a pattern and a template say.
    fn read(pattern: &Word, template: &Word) -> Result<Self, Diagnostic> {
        let compiled = regex::read(pattern)?;
        let groups = compiled.captures_len() - 1;
        if groups == 0 {
            let wrong = pattern.wrong("has no group");
            return Err(wrong.help(r"put parentheses around the zone's name, as in db\.(.*)"));
        }
        let mut parts = Vec::new();
        let mut rest = &*template.text;
        while let Some((before, behind)) = rest.split_once('{') {
            let wrong = || {
                let wrong = template.wrong("has braces without the number of a group");
                wrong.help(format!("write {{1}} for the first group; the pattern has {groups}"))
            };
            let (number, behind) = behind.split_once('}').ok_or_else(wrong)?;
            let number: usize = number.parse().map_err(|_| wrong())?;
            if number > groups {
                return Err(wrong());
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Group(number));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { pattern: compiled, template: parts.into() })
    }

    /// The zone of a file with this name, if it is one.
    pub(super) fn of(&self, file: &str) -> Option<Name> {
        let found = self.pattern.captures(file)?;
        let mut origin = String::new();
        for part in &self.template {
            match part {
                Part::Text(text) => origin.push_str(text),
                Part::Group(number) => {
                    origin.push_str(found.get(*number).map_or("", |group| group.as_str()));
                }
            }
        }
        Name::parse(&origin)
    }
}
