//! The facts `kubernetes.*`, by table: a Corefile and manifests in, replies in words out.

mod declared;
mod differences;
mod endpoints;
mod names;
mod pods;
mod reach;
mod reverse;
mod service;
mod sets;
mod settings;
mod start;
mod unsynced;
mod zones;

use std::cell::RefCell;
use std::sync::Arc;

use engine::testing::Bench;
use engine::{Descriptor, Setup};
use k8s::{Keep, Quiet, Store, Writer};

use super::setup::set_up_with;

/// What the next plugin's store is made of.
#[derive(Clone, Debug)]
enum Made {
    /// These manifests.
    Yaml(&'static str),
    /// Nothing yet: the first list is still under way.
    Unsynced,
}

thread_local! {
    /// What the plugin's store is made of in this thread's tests.
    static MADE: RefCell<Made> = const { RefCell::new(Made::Unsynced) };
    /// The store's writer, and what the plugin wants the store to keep.
    static WRITER: RefCell<Option<(Writer, Keep)>> = const { RefCell::new(None) };
}

/// The plugin with a store of the test's own.
static KUBERNETES: Descriptor = Descriptor { name: "kubernetes", readme: "", setup: set_up };

/// A chain with all that the tests need.
pub(crate) static CHAIN: &[&Descriptor] = &[
    &crate::metadata::PLUGIN,
    &crate::bind::PLUGIN,
    &crate::autopath::PLUGIN,
    &crate::transfer::PLUGIN,
    &crate::k8s_external::PLUGIN,
    &KUBERNETES,
    &crate::shared::testing::ANSWERS,
];

/// Sets the plugin up with what the test has prepared.
fn set_up(setup: &mut Setup<'_>) -> Result<(), ::config::Diagnostic> {
    set_up_with(setup, |_, _, keep| Ok((store(keep), None)))
}

/// Makes the store.
fn store(keep: Keep) -> Store {
    let (writer, store) = match MADE.with_borrow(Clone::clone) {
        Made::Yaml(text) => k8s::store_from_yaml(text, keep.clone()).unwrap(),
        Made::Unsynced => Writer::new(keep.clone(), Arc::new(Quiet)),
    };
    WRITER.set(Some((writer, keep)));
    store
}

/// A gateway over these manifests.
pub(crate) fn bench(yaml: &'static str, corefile: &str) -> Bench {
    MADE.set(Made::Yaml(yaml));
    Bench::new(CHAIN, corefile)
}

/// A gateway over a cluster that is not known yet.
pub(crate) fn unsynced(corefile: &str) -> Bench {
    MADE.set(Made::Unsynced);
    Bench::new(CHAIN, corefile)
}

/// Changes the objects behind the last gateway.
pub(crate) fn change(yaml: &'static str) {
    k8s::from_yaml(yaml).unwrap().iter().for_each(apply);
}

/// Has an event come to the last gateway.
pub(crate) fn apply(event: &k8s::Event<'_>) {
    WRITER.with_borrow_mut(|kept| kept.as_mut().unwrap().0.apply(event));
}

/// Asks, and leaves out what is always so: `SOA(zone ttl)` stands for a zone's own SOA record, the serial is not shown.
pub(crate) fn ask(bench: &Bench, line: &str) -> String {
    shorten(&bench.now(line))
}

/// Puts `SOA(zone ttl)` for SOA records.
pub(crate) fn shorten(reply: &str) -> String {
    let mut out = Vec::new();
    for record in reply.split(" | ") {
        let records =
            record.split("; ").map(|record| match record.split(' ').collect::<Vec<_>>()[..] {
                [zone, ttl, "SOA", server, mailbox, _, "7200", "1800", "86400", _] => {
                    assert_eq!(server.strip_prefix("ns.dns."), Some(zone));
                    assert_eq!(mailbox.strip_prefix("hostmaster."), Some(zone));
                    format!("SOA({zone} {ttl})")
                }
                _ => record.to_owned(),
            });
        out.push(records.collect::<Vec<_>>().join("; "));
    }
    out.join(" | ")
}

/// Asks each line of a table and compares; the order of records in a section is the store's business.
fn table(bench: &Bench, rows: &[(&str, &str)]) {
    for (line, want) in rows {
        assert_eq!(sorted(&ask(bench, line)), sorted(want), "{line}");
    }
}

/// Puts the records of each section in order.
pub(crate) fn sorted(reply: &str) -> String {
    let sections = reply.split(" | ").map(|section| {
        let mut records: Vec<&str> = section.split("; ").collect();
        records.sort_unstable();
        records.join("; ")
    });
    sections.collect::<Vec<_>>().join(" | ")
}

/// The reply to a name that has nothing of the type.
const NODATA: &str = "NOERROR aa rd |  | SOA(cluster.local. 5)";
/// The reply to a name that is not there.
const NXDOMAIN: &str = "NXDOMAIN aa rd |  | SOA(cluster.local. 5)";
