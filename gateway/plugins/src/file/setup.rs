//! From the directives to zones, their handler and their watchers.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop};
use engine::metrics::{describe, gauge};
use engine::{Role, Setup};
use wire::Name;

use super::handler::FilePlugin;
use crate::shared::fall::Fall;
use crate::shared::zone::{Served, Source, Trouble};

/// Whether a file cannot be used.
const BROKEN: &str = "causeway_file_broken";
/// The serial of a zone.
const SERIAL: &str = "causeway_file_serial";

/// What the properties say.
struct Options {
    reload: Duration,
    by_mtime: bool,
}

/// The properties, beside `fallthrough`.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "reload",
        words: "DURATION",
        set: |options, words| words.duration().map(|reload| options.reload = reload),
    },
    Prop {
        name: "reload_by_mtime",
        words: "",
        set: |options, _| {
            options.by_mtime = true;
            Ok(())
        },
    },
    Prop {
        name: "upstream",
        words: "[ANYTHING...]",
        set: |_, words| {
            // Old files have it; names outside of the zones are asked for anyway.
            words.rest();
            Ok(())
        },
    },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directives, and with zone files that are there.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut all: Vec<(Arc<Served>, Fall)> = Vec::new();
    let mut seen = HashSet::new();
    for directive in setup.directives() {
        stanza(setup, directive, &mut all, &mut seen)?;
    }
    let named = all.into_iter().map(|(served, fall)| (served.name().clone(), (served, fall)));
    let plugin = FilePlugin(Arc::new(named.collect()));
    setup.offer(Role::Transfer(Arc::new(plugin.clone())));
    setup.provide_as("zone", plugin.clone());
    setup.install(plugin);
    Ok(())
}

/// Reads one directive, and its file.
fn stanza(
    setup: &mut Setup<'_>,
    directive: &Directive,
    all: &mut Vec<(Arc<Served>, Fall)>,
    seen: &mut HashSet<Name>,
) -> Result<(), Diagnostic> {
    let mut words = directive.words();
    let file = words.one()?;
    let zones = setup.zones_of(words.rest());
    let mut options = Options { reload: Duration::from_secs(60), by_mtime: false };
    let mut fall = None;
    for line in directive.lines() {
        if line.name.text == "fallthrough" {
            line.no_block()?;
            fall = Some(Fall::read(setup, &mut line.words())?);
        } else {
            line.read_line(PROPS, &mut options)?;
        }
    }
    let path = setup.path(&file.text);
    let key = format!("{path:?} {zones:?}");
    let source = setup.share(&key, || Ok(Arc::new(source(path, &zones))))?;
    let Options { reload, by_mtime } = options;
    match source.refresh(by_mtime) {
        Ok(()) => {}
        Err(trouble @ Trouble::Open(_)) if !reload.is_zero() => {
            source.told(&trouble);
            let path = source.path().display();
            setup.warn(file.fault(format!(
                "Failed to open \"{path}\": {trouble}, trying again in {reload:?}"
            )));
        }
        Err(trouble) => return Err(file.fault(shown(&source, &trouble))),
    }
    if !reload.is_zero() {
        let watched = Arc::clone(&source);
        setup.task(move |stop| watched.watch(reload, by_mtime, stop));
    }
    if fall.is_none() {
        setup.own(zones.iter().cloned());
    }
    let fall = fall.unwrap_or_default();
    for served in source.zones() {
        // Of two directives with the same zone the last one counts.
        if !seen.insert(served.name().clone()) {
            all.retain(|(known, _)| known.name() != served.name());
        }
        all.push((Arc::clone(served), fall.clone()));
    }
    Ok(())
}

/// The file at `path` with its zones, of which nothing is read yet.
pub(super) fn source(path: PathBuf, zones: &[Name]) -> Source {
    describe(BROKEN, "Whether the zone file cannot be used; its last zones are served.");
    describe(SERIAL, "The serial of the zone that is served.");
    let file = path.to_string_lossy().into_owned();
    let zone = |name: &Name| {
        let serial = gauge(SERIAL, &[("zone", &name.to_string()), ("file", &file)]);
        (Arc::new(Served::new(name.clone())), serial)
    };
    let zones = zones.iter().map(zone).collect();
    Source::new(path, zones, gauge(BROKEN, &[("file", &file)]))
}

/// What is wrong with a file.
fn shown(source: &Source, trouble: &Trouble) -> String {
    match trouble {
        Trouble::Open(error) => format!("cannot open \"{}\": {error}", source.path().display()),
        Trouble::Parse(wrong) => format!("cannot use the zone file: {wrong}"),
    }
}
