#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::metrics::{Counter, Table, counter, describe};
use engine::{Descriptor, Exchange, Plugin, Routes, Setup, Step, Transport};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "shed", readme: include_str!("README.md"), setup };

/// What was dropped; replies are counted where they are sent.
const DROPPED: &str = "coredns_shed_dropped_total";

/// Drops queries for whose replies there is no room.
#[derive(Debug)]
struct Shed {
    routes: Routes,
    dropped: Table<Counter>,
}

/// Has the block's listeners drop replies, too.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_block()?;
    directive.no_words()?;
    if let Some(key) = setup.keys().iter().find(|key| key.transport != Transport::Udp) {
        let zone = &key.zone;
        let wrong = directive.name.wrong(format_args!(
            "is for plain DNS alone, and {zone} is served by something else here"
        ));
        return Err(wrong.help("give the dns:// zones a server block of their own"));
    }
    describe(DROPPED, "Counter of queries and replies dropped to shed load.");
    setup.listener().shed = true;
    setup.install(Shed { routes: setup.routes(), dropped: Table::new(256) });
    Ok(())
}

impl Plugin for Shed {
    fn query(&self, x: &mut Exchange) -> Step {
        if !x.query.congested || x.is_nested() {
            return Step::Next;
        }
        let make = || {
            let server = self.routes.of(x).map(|route| &*route.server).unwrap_or_default();
            counter(DROPPED, &[("server", server), ("reason", "query")])
        };
        if let Some(dropped) = self.dropped.get(x.route(), make) {
            dropped.increment(1);
        }
        Step::Drop
    }
}

#[cfg(test)]
mod tests;
