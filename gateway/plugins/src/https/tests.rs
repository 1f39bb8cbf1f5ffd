//! The facts `https.*`.

use engine::HttpSpec;
use engine::testing::Bench;

/// What a Corefile says of its listeners, which all say the same.
fn spec(corefile: &str) -> HttpSpec {
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    let mut all = live.groups().map(|group| group.spec.https.clone());
    let first = all.next().unwrap();
    // Fact core.block.propagate: for every key of the block, which in CoreDNS is for the first alone.
    assert!(all.all(|other| other == first));
    first
}

#[test]
fn what_is_stated_counts_for_every_key() {
    let all = "https://a.test https://b.test:8443 {\n https {\n  max_connections 10\n  path /dns-query /team/dns{?dns}\n  json\n  \
        trusted_proxies 10.1.2.3/8 2001:db8::/32\n  trusted_proxies 198.51.100.7\n }\n}\n";
    let got = spec(all);
    assert_eq!(got.max_connections, Some(10));
    assert_eq!(got.paths, ["/dns-query", "/team/dns"]);
    assert!(got.json);
    let trusted: Vec<_> = got.trusted.iter().map(ToString::to_string).collect();
    assert_eq!(trusted, ["10.0.0.0/8", "2001:db8::/32", "198.51.100.7/32"]);
    // Fact https.max_connections: 0 is no limit; nothing need be stated, and a block that serves no HTTPS takes it as well.
    assert_eq!(
        spec("https://a.test {\n https {\n  max_connections 0\n }\n}\n").max_connections,
        Some(0)
    );
    let none = spec("a.test {\n https\n}\n");
    assert_eq!(none, HttpSpec::default());
    assert_eq!(none.paths().collect::<Vec<_>>(), ["/dns-query"]);
}

#[test]
fn wrong_lines_are_refused() {
    for (lines, want) in [
        ("https on", "Wrong argument count"),
        ("https {\n  max_connections\n }", "Wrong argument count"),
        ("https {\n  max_connections 1 2\n }", "Wrong argument count"),
        ("https {\n  max_connections -1\n }", "write 0 for no limit, or 1 or more"),
        ("https {\n  max_connections many\n }", "is no number"),
        ("https {\n  max_connections 1\n  max_connections 1\n }", "is stated twice"),
        ("https {\n  path\n }", "Wrong argument count"),
        ("https {\n  path dns-query\n }", "is no path"),
        ("https {\n  path /dns?query\n }", "is no path"),
        ("https {\n  path /dns%2Fquery\n }", "is no path"),
        ("https {\n  path /a /a\n }", "is stated twice"),
        ("https {\n  json yes\n }", "Wrong argument count"),
        ("https {\n  json\n  json\n }", "is stated twice"),
        ("https {\n  trusted_proxies\n }", "Wrong argument count"),
        ("https {\n  trusted_proxies proxy.example.org\n }", "is no network and no address"),
        ("https {\n  max_streams 1\n }", "'max_streams' is not a property"),
        ("https\n https", "once"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("https://test {{\n {lines}\n}}\n"));
        assert!(text.contains(want), "{lines}: {text}");
    }
}
