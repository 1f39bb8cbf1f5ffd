//! `guard { … }`.

use std::sync::{Arc, OnceLock};

use config::{Diagnostic, Prop, Words};
use engine::metrics::{Counter, counter, describe};
use engine::{Plugin, Setup};
use wire::Name;

use super::handler::{Counts, Duty, Guard};
use super::zones::{Reason, Zones};

/// The counter of what was kept in.
const KEPT: &str = "causeway_guard_kept_total";

/// What the block says.
#[derive(Debug)]
struct Config {
    names: bool,
    reverse: bool,
    subnet: bool,
    addresses: bool,
    private: Vec<Name>,
    allow: Vec<Name>,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop { name: "private", words: "ZONES...", set: |c, w| zones(&mut c.private, w) },
    Prop { name: "allow", words: "ZONES...", set: |c, w| zones(&mut c.allow, w) },
    Prop { name: "names", words: "on|off", set: |c, w| switch(&mut c.names, w) },
    Prop { name: "reverse", words: "on|off", set: |c, w| switch(&mut c.reverse, w) },
    Prop { name: "subnet", words: "on|off", set: |c, w| switch(&mut c.subnet, w) },
    Prop { name: "addresses", words: "on|off", set: |c, w| switch(&mut c.addresses, w) },
];

/// Turns a part on or off.
fn switch(part: &mut bool, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    *part = words.choice(&[("on", true), ("off", false)])?;
    Ok(())
}

/// Takes zones, networks among them.
fn zones(all: &mut Vec<Name>, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    words.clone().one()?;
    for word in words.rest() {
        let texts = config::value::zone_argument(&word.text).unwrap_or_default();
        let names: Vec<Name> = texts.iter().filter_map(|text| Name::parse(text)).collect();
        if names.is_empty() {
            return Err(word
                .wrong("is not a domain name")
                .help("such as corp.example.org or 10.0.0.0/8"));
        }
        all.extend(names);
    }
    Ok(())
}

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut config = Config {
        names: true,
        reverse: true,
        subnet: true,
        addresses: true,
        private: Vec::new(),
        allow: Vec::new(),
    };
    directive.read_block(PROPS, &mut config)?;
    describe(KEPT, "What guard has kept in or refused, by reason.");
    let duty = Arc::new(Duty {
        zones: OnceLock::new(),
        subnet: config.subnet,
        addresses: config.addresses,
        counts: counts(),
    });
    let (layout, filled) = (setup.layout(), Arc::clone(&duty));
    setup.later(move |_| {
        // The zones of all blocks are known now.
        filled.zones.get_or_init(|| config.zones(layout.own_zones()));
        Ok(())
    });
    let routes = setup.routes();
    setup.gate(move |reach| {
        // Others ask for the names of a stub zone.
        reach.from.is_root().then(|| {
            let (duty, routes) = (Arc::clone(&duty), routes.clone());
            Box::new(Guard { duty, reach: reach.clone(), routes }) as Box<dyn Plugin>
        })
    });
    if !setup.zones().iter().any(Name::is_root) {
        let odd = directive.name.wrong("does nothing here: the block is for less than all names");
        setup.warn(odd.help("write it in the block with the zone ."));
    }
    Ok(())
}

impl Config {
    /// The zones with a rule, those of the configuration first.
    fn zones(&self, own: &[Name]) -> Zones {
        let mut zones = Zones::new();
        self.allow.iter().for_each(|zone| zones.allow(zone));
        self.private.iter().for_each(|zone| zones.keep(zone, Reason::Name));
        if self.names {
            zones.add_names();
            own.iter().for_each(|zone| zones.add_own(zone));
        }
        if self.reverse {
            zones.add_reverse();
        }
        zones
    }
}

/// The counters.
fn counts() -> Counts {
    let of = |reason: &'static str| -> Counter { counter(KEPT, &[("reason", reason)]) };
    Counts {
        name: of("name"),
        own: of("own"),
        reverse: of("reverse"),
        address: of("address"),
        additional: of("additional"),
        subnet: of("subnet"),
    }
}
