//! Lines, and what is refused before anybody is asked. The whole way is tested with servers of their own: `tests/tests/recursive.rs`.
#![allow(clippy::unwrap_used)]

use engine::Descriptor;
use engine::testing::Bench;

use crate::shared::testing::ANSWERS;

/// The registry of these tests.
static PLUGINS: &[&Descriptor] =
    &[&crate::root::PLUGIN, &crate::guard::PLUGIN, &super::PLUGIN, &ANSWERS];

/// A file in a folder of its own.
fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("recursive-{name}-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn what_a_block_may_say() {
    let (empty, odd) = (file("empty", "; nothing\n"), file("odd", ". 1 IN A x\n"));
    for (line, want) in [
        ("recursive a b", "Wrong argument count"),
        ("recursive {\nfoo\n}", "'foo' is not a property"),
        ("recursive {\nexcept\n}", "Wrong argument count"),
        ("recursive {\ndnssec maybe\n}", "is not known here"),
        ("recursive {\nhints /no/such\n}", "cannot read /no/such"),
        (&*format!("recursive {{\nhints {empty}\n}}"), "it has no A or AAAA record"),
        (&*format!("recursive {{\nhints {odd}\n}}"), "line 1 has no address"),
        ("recursive {\nanchors /no/such\n}", "cannot read /no/such"),
        (&*format!("recursive {{\nanchors {empty}\n}}"), "has no trust anchors"),
        (&*format!("recursive {{\ndnssec off\nanchors {empty}\n}}"), "is for nothing"),
        ("recursive {\nallow_servers x\n}", "is no network"),
        ("recursive {\ncache_size 0\n}", "is no number from 1"),
        ("recursive {\nmax_concurrent -1\n}", "is no number from 0"),
        ("recursive {\ntimeout 0\n}", "must be more than 0"),
        ("recursive\nrecursive", "can only be used once"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!(". {{\n{line}\n}}"));
        assert!(wrong.starts_with("plugin/recursive: ") && wrong.contains(want), "{line}: {wrong}");
    }
    Bench::new(
        PLUGINS,
        ". {\nrecursive . {\nexcept corp.test\ndnssec off\nallow_servers 10.0.0.0/8 127.0.0.1\nrandom_case on\ncache_size 100\nmax_concurrent 0\ntimeout 1s\n}\nanswers\n}",
    );
}

#[tokio::test]
async fn what_nobody_is_asked_for() {
    let bench = Bench::new(PLUGINS, ". {\nguard\nrecursive {\nexcept corp.example\n}\nanswers\n}");
    for (query, want) in [
        ("a.example.org +norec", "REFUSED"),
        ("a.example.org TXT CH", "REFUSED"),
        ("a.example.org AXFR", "NOTIMP rd"),
        ("printer.local", "NXDOMAIN"),
        ("www.corp.example", "NOERROR aa rd"),
    ] {
        let said = bench.ask(query).await;
        assert!(said.starts_with(want), "{query}: {said}");
    }
}

#[tokio::test]
async fn servers_that_are_not_there_are_an_extended_error() {
    let hints = file("hints", ". 1 NS a.\na. 1 A 127.0.0.9\n");
    let text = format!(
        ". {{\nrecursive {{\nhints {hints}\nallow_servers 127.0.0.0/8\ntimeout 300ms\n}}\n}}"
    );
    let bench = Bench::new(PLUGINS, &text);
    let said = bench.ask("a.example.org +do").await;
    assert!(said.starts_with("SERVFAIL") && said.contains("EDE 22"), "{said}");
    let metric = "causeway_recursive_queries_total{outcome=\"failed\"}";
    assert!(engine::metrics::render().contains(metric));
}
