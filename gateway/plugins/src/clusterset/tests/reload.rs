//! What a new configuration leaves behind.

use std::sync::{Mutex, Weak};
use std::time::Duration;

use ::config::Diagnostic;
use engine::testing::Bench;
use engine::{Descriptor, Setup};

use super::super::setup::set_up_with;
use crate::shared::cluster::source::{self, Watched};
use crate::shared::testing::Folder;

/// The watches of each cluster that was opened, with its name.
static OPENED: Mutex<Vec<(String, Weak<Watched>)>> = Mutex::new(Vec::new());

/// The plugin, whose watches are noted.
static NOTED: Descriptor = Descriptor { name: "clusterset", readme: "", setup: set_up };

/// Sets the plugin up as it is, and notes the watches.
fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    set_up_with(
        setup,
        |setup, word, want| {
            let source = source::declared(setup, word, want)?;
            OPENED.lock().unwrap().push((word.text.clone(), source.watched()));
            Ok((source.store().clone(), Some(source)))
        },
        |_, store| store.standing(),
    )
    .map(drop)
}

/// The clusters that are watched.
fn watched() -> Vec<String> {
    let opened = OPENED.lock().unwrap();
    let mut names: Vec<_> = opened
        .iter()
        .filter(|(_, watches)| watches.strong_count() > 0)
        .map(|(name, _)| name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[tokio::test]
async fn a_cluster_that_is_taken_out_is_watched_no_more() {
    let folder = Folder::new("");
    let declared =
        |name: &str| folder.corefile(&format!("cluster://{name} {{\n manifests DIR\n}}\n"));
    let corefile = |names: &str| {
        let set = format!("clusterset.local {{\n clusterset {{\n  cluster {names}\n }}\n}}\n");
        [declared("left"), declared("right"), set].concat()
    };
    let mut bench = Bench::new(Box::leak(Box::new([&NOTED])), &corefile("left right"));
    // The conflict watch is at work.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(watched(), ["left", "right"]);
    bench.reload(&corefile("left")).unwrap();
    for _ in 0..250 {
        if watched() == ["left"] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(watched(), ["left"]);
}
