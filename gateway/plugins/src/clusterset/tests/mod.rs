//! Names of a cluster set, by table: Corefile and manifests of each cluster in, replies in words out.

mod away;
mod conflicts;
mod explain;
mod exports;
mod imports;
mod races;
mod reload;
mod settings;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::testing::Bench;
use engine::{Descriptor, Setup};
use k8s::{Keep, Quiet, Standing, Store, Writer};

use super::Set;
use super::setup::set_up_with;
use crate::kubernetes::tests::{ask, table};
use crate::shared::cluster::source::Want;

/// A cluster of a test.
#[derive(Debug)]
struct Made {
    /// Its manifests; none of one that is not known yet.
    yaml: Option<&'static str>,
    /// Writers of its stores.
    writers: Vec<(Writer, Keep)>,
    /// What the plugin wanted to see of it.
    wants: Vec<Want>,
    /// How it stands, unless by itself.
    standing: Option<Standing>,
}

thread_local! {
    /// The last set.
    static SET: RefCell<Option<Arc<Set>>> = const { RefCell::new(None) };
    /// How often each cluster's state was looked at.
    static JUDGED: RefCell<BTreeMap<String, usize>> = RefCell::default();
    /// The clusters of this thread's test.
    static MADE: RefCell<BTreeMap<String, Made>> = RefCell::default();
}

/// The plugin with stores of the test's own.
static CLUSTERSET: Descriptor = Descriptor { name: "clusterset", readme: "", setup: set_up };

/// A chain with all that the tests need.
static CHAIN: &[&Descriptor] = &[&CLUSTERSET, &crate::shared::testing::ANSWERS];

/// Sets the plugin up with what the test has prepared.
fn set_up(setup: &mut Setup<'_>) -> Result<(), ::config::Diagnostic> {
    set_up_with(
        setup,
        |_, word, want| {
            MADE.with_borrow_mut(|made| {
                let made = made.get_mut(&word.text).ok_or_else(|| word.wrong("is not known"))?;
                let (writer, store) = match made.yaml {
                    Some(text) => k8s::store_from_yaml(text, want.keep.clone()).unwrap(),
                    None => Writer::new(want.keep.clone(), Arc::new(Quiet)),
                };
                made.writers.push((writer, want.keep.clone()));
                made.wants.push(want);
                Ok((store, None))
            })
        },
        stands,
    )
    .map(|set| SET.set(Some(set)))
}

/// How a cluster stands.
fn stands(name: &str, store: &Store) -> Standing {
    JUDGED.with_borrow_mut(|judged| *judged.entry(name.to_owned()).or_default() += 1);
    let set = MADE.with_borrow(|made| made.get(name).and_then(|made| made.standing));
    set.unwrap_or_else(|| store.standing())
}

/// A gateway over clusters with these manifests; one without is not known yet.
fn bench(clusters: &[(&str, Option<&'static str>)], corefile: &str) -> Bench {
    prepare(clusters);
    Bench::new(CHAIN, corefile)
}

/// The set behind such a gateway.
fn made(clusters: &[(&str, Option<&'static str>)], corefile: &str) -> Arc<Set> {
    bench(clusters, corefile);
    SET.take().unwrap()
}

/// What the last plugin wanted to see of the clusters.
fn wants() -> Vec<Want> {
    MADE.with_borrow(|made| made.values().flat_map(|made| made.wants.clone()).collect())
}

/// Prepares clusters.
fn prepare(clusters: &[(&str, Option<&'static str>)]) {
    let made = |yaml| Made { yaml, writers: Vec::new(), wants: Vec::new(), standing: None };
    MADE.set(clusters.iter().map(|(name, yaml)| ((*name).to_owned(), made(*yaml))).collect());
}

/// Has a cluster stand so.
fn stand(name: &str, standing: Standing) {
    MADE.with_borrow_mut(|made| made.get_mut(name).unwrap().standing = Some(standing));
}

/// Changes a cluster's objects.
fn change(name: &str, yaml: &'static str) {
    MADE.with_borrow_mut(|made| {
        for (writer, keep) in &mut made.get_mut(name).unwrap().writers {
            // Imports are made of exports unless these are kept; events are then as for a store of that kind.
            assert!(keep.exports, "only such stores are changed");
            let text = k8s::from_yaml(yaml).unwrap();
            let made = text.iter().filter(|event| !is_made(event));
            made.for_each(|event| writer.apply(event));
        }
    });
}

/// Has the services of a cluster's namespace be kept from us.
fn refuse(name: &str, namespace: &'static str) {
    MADE.with_borrow_mut(|made| {
        for (writer, _) in &mut made.get_mut(name).unwrap().writers {
            writer.apply(&k8s::Event::Refused(k8s::Kind::Services, namespace.into()));
        }
    });
}

/// Whether an event is of an import.
fn is_made(event: &k8s::Event<'_>) -> bool {
    matches!(event, k8s::Event::Apply(k8s::Object::Import(_) | k8s::Object::ImportSlice(_)))
}

/// The reply to a name that has nothing of the type.
const NODATA: &str = "NOERROR aa rd |  | SOA(clusterset.local. 5)";
/// The reply to a name that is not there.
const NXDOMAIN: &str = "NXDOMAIN aa rd |  | SOA(clusterset.local. 5)";
/// Two clusters, without a controller.
const TWO: &str = "clusterset.local {\n clusterset {\n  cluster east west\n }\n}\n";
