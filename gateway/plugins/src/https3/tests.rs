//! The facts `https3.*`.

use engine::HttpSpec;
use engine::testing::Bench;

/// What a Corefile says of its listeners, which all say the same.
fn spec(corefile: &str) -> HttpSpec {
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    let mut all = live.groups().map(|group| group.spec.https3.clone());
    let first = all.next().unwrap();
    // Fact core.block.propagate: for every key of the block, which in CoreDNS is for the first alone.
    assert!(all.all(|other| other == first));
    first
}

#[test]
fn what_is_stated_counts_for_every_key() {
    let all = "a.test b.test:5353 {\n https3 {\n  max_streams 0\n  max_connections 10\n  path /dns-query /team/dns{?dns}\n  json\n  \
        trusted_proxies 10.1.2.3/8\n }\n}\n";
    let got = spec(all);
    assert_eq!((got.max_streams, got.max_connections), (Some(0), Some(10)));
    assert_eq!(got.paths, ["/dns-query", "/team/dns"]);
    assert!(got.json);
    assert_eq!(got.trusted.len(), 1);
    // Fact https3.elsewhere: a block that serves no HTTP/3 takes it as well; and nothing need be stated.
    assert_eq!(spec("a.test {\n https3\n}\n"), HttpSpec::default());
    // It says nothing of HTTPS on TCP.
    let live = Bench::new(crate::CHAIN, all).gateway.live();
    assert!(live.groups().all(|group| group.spec.https == HttpSpec::default()));
}

#[test]
fn wrong_lines_are_refused() {
    for (lines, want) in [
        ("https3 on", "Wrong argument count"),
        ("https3 {\n  max_streams\n }", "Wrong argument count"),
        ("https3 {\n  max_streams 1 2\n }", "Wrong argument count"),
        ("https3 {\n  max_streams -1\n }", "is no number"),
        ("https3 {\n  max_streams many\n }", "is no number"),
        ("https3 {\n  max_streams 1\n  max_streams 1\n }", "is stated twice"),
        ("https3 {\n  max_connections -1\n }", "is no number"),
        ("https3 {\n  max_connections 1\n  max_connections 1\n }", "is stated twice"),
        ("https3 {\n  path dns-query\n }", "is no path"),
        ("https3 {\n  json\n  json\n }", "is stated twice"),
        ("https3 {\n  trusted_proxies here\n }", "is no network and no address"),
        ("https3 {\n  worker_pool_size 1\n }", "'worker_pool_size' is not a property"),
        ("https3\n https3", "once"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {lines}\n}}\n"));
        assert!(text.contains(want), "{lines}: {text}");
    }
}
