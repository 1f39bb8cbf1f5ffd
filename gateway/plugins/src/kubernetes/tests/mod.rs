//! The facts `kubernetes.*`, by table: a Corefile and manifests in, replies in words out.

mod declared;
mod differences;
mod endpoints;
mod long;
mod names;
mod pods;
mod reach;
mod reverse;
mod revoked;
mod rights;
mod service;
mod sets;
mod settings;
mod snapshot;
mod start;
mod union;
mod unsynced;
mod why;
mod zones;

use std::cell::RefCell;
use std::sync::Arc;

use engine::testing::Bench;
use engine::{Descriptor, Setup};
use k8s::{Keep, Quiet, Store, Writer};

use super::setup::set_up_with;
use crate::shared::cluster::member::Member;

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
    /// What the stores of declared clusters are made of, and their writers.
    static CLUSTERS: RefCell<Vec<(&'static str, Made)>> = const { RefCell::new(Vec::new()) };
    static WRITERS: RefCell<Vec<Writer>> = const { RefCell::new(Vec::new()) };
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
    set_up_with(setup, |_, config, keep| {
        let domain = wire::Name::parse("cluster.local");
        let named = |word: &::config::Word| {
            let made = CLUSTERS.with_borrow(|all| {
                all.iter().find(|(name, _)| *name == word.text).unwrap().1.clone()
            });
            let (writer, store) = make(&made, &keep);
            WRITERS.with_borrow_mut(|writers| writers.push(writer));
            Member::bare(&word.text, domain.clone(), store)
        };
        Ok(match &config.clusters[..] {
            [] => vec![Member::bare("", None, store(keep))],
            names => names.iter().map(named).collect(),
        })
    })
}

/// Makes the store.
fn store(keep: Keep) -> Store {
    let (writer, store) = make(&MADE.with_borrow(Clone::clone), &keep);
    WRITER.set(Some((writer, keep)));
    store
}

/// Makes a store of this.
fn make(made: &Made, keep: &Keep) -> (Writer, Store) {
    match made {
        Made::Yaml(text) => k8s::store_from_yaml(text, keep.clone()).unwrap(),
        Made::Unsynced => Writer::new(keep.clone(), Arc::new(Quiet)),
    }
}

/// A gateway over declared clusters of these manifests; those without any are not known yet.
pub(crate) fn union(clusters: &[(&'static str, Option<&'static str>)], corefile: &str) -> Bench {
    let made = |text: &Option<&'static str>| text.map_or(Made::Unsynced, Made::Yaml);
    CLUSTERS.set(clusters.iter().map(|(name, text)| (*name, made(text))).collect());
    Bench::new(CHAIN, corefile)
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

/// Has an event come to a cluster of the last union, by its place.
pub(crate) fn apply_in(place: usize, event: &k8s::Event<'_>) {
    let clusters = CLUSTERS.with_borrow(Vec::len);
    WRITERS.with_borrow_mut(|all| {
        let first = all.len() - clusters;
        all[first + place].apply(event);
    });
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
pub(crate) fn table(bench: &Bench, rows: &[(&str, &str)]) {
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
