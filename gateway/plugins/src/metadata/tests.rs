//! Metadata, seen through `log`.

use engine::Descriptor;
use engine::testing::Bench;

use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &crate::log::PLUGIN, &ANSWERS];

/// The line that a query gives in a block with these directives.
fn line(directives: &str, query: &str) -> String {
    let bench = Bench::new(PLUGINS, &format!("test example.org {{\n{directives}\nanswers\n}}\n"));
    logged();
    bench.now(query);
    logged().join("|")
}

#[test]
fn values_are_there_only_with_metadata_and_in_its_zones() {
    let log = "log . \"{name} {/log/type} {/log/nothing} {/log} {/other/x}\"";
    for (metadata, query, want) in [
        // metadata.zones: the block's own by default; networks and more names are zones too.
        ("metadata", "a.test", "NOERROR"),
        ("metadata", "nx.test", "NXDOMAIN"),
        ("metadata example.org", "a.test", "-"),
        ("metadata Example.org. 10.0.0.0/8", "a.example.org", "NOERROR"),
        // metadata.label: without the directive nothing is known.
        ("", "a.test", "-"),
    ] {
        let name = query.to_owned() + ".";
        let want = format!("[INFO] {name} {want} - - -");
        assert_eq!(line(&format!("{metadata}\n{log}"), query), want, "{metadata}");
    }
}

#[test]
fn once_and_without_a_block() {
    for (text, want) in [
        ("test {\nmetadata\nmetadata\nanswers\n}", "can only be used once per Server Block"),
        ("test {\nmetadata {\n}\nanswers\n}", "takes no block"),
    ] {
        let wrong = Bench::refused(PLUGINS, text);
        assert!(wrong.starts_with("plugin/metadata: ") && wrong.contains(want), "{wrong}");
    }
}
