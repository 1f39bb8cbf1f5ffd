//! The facts `local.*`.

use engine::testing::Bench;

#[test]
fn local_names_are_answered_here() {
    let bench = Bench::new(crate::CHAIN, ". {\n local\n chaos\n}\n");
    let soa = "604800 SOA localhost. root.localhost. 1 0 0 0 604800";
    for (line, want) in [
        ("localhost", "NOERROR rd | localhost. 604800 A 127.0.0.1".to_owned()),
        ("localhost AAAA", "NOERROR rd | localhost. 604800 AAAA ::1".to_owned()),
        ("localhost NS", "NOERROR rd | localhost. 604800 NS localhost.".to_owned()),
        ("localhost SOA", format!("NOERROR rd | localhost. {soa}")),
        ("localhost MX", format!("NOERROR rd |  | localhost. {soa}")),
        ("a.localhost", "NOERROR rd | a.localhost. 604800 A 127.0.0.1".to_owned()),
        ("a.b.localhost AAAA", "NOERROR rd | a.b.localhost. 604800 AAAA ::1".to_owned()),
        ("a.localhost SOA", format!("NOERROR rd |  | a.localhost. {soa}")),
        (
            "LocalHost.example.org",
            "NOERROR rd | localhost.example.org. 604800 A 127.0.0.1".to_owned(),
        ),
        ("localhost.example.org TXT", format!("NOERROR rd |  | localhost.example.org. {soa}")),
        ("xlocalhost.example.org", "SERVFAIL rd".to_owned()),
        ("localhosts.example.org", "SERVFAIL rd".to_owned()),
        ("a.xlocalhost", "SERVFAIL rd".to_owned()),
        ("localhost CH A", "SERVFAIL rd".to_owned()),
        (
            "1.0.0.127.in-addr.arpa PTR",
            "NOERROR rd | 1.0.0.127.in-addr.arpa. 604800 PTR localhost.".to_owned(),
        ),
        ("1.0.0.127.in-addr.arpa", format!("NOERROR rd |  | 127.in-addr.arpa. {soa}")),
        ("2.0.0.127.in-addr.arpa PTR", format!("NXDOMAIN rd |  | 127.in-addr.arpa. {soa}")),
        ("0.0.127.in-addr.arpa PTR", format!("NOERROR rd |  | 127.in-addr.arpa. {soa}")),
        ("1.1.0.0.127.in-addr.arpa PTR", format!("NXDOMAIN rd |  | 127.in-addr.arpa. {soa}")),
        ("127.in-addr.arpa NS", "NOERROR rd | 127.in-addr.arpa. 604800 NS localhost.".to_owned()),
        ("0.in-addr.arpa AAAA", format!("NOERROR rd |  | 0.in-addr.arpa. {soa}")),
        ("255.in-addr.arpa SOA", format!("NOERROR rd | 255.in-addr.arpa. {soa}")),
        ("1.255.in-addr.arpa SOA", format!("NXDOMAIN rd |  | 255.in-addr.arpa. {soa}")),
        ("in-addr.arpa NS", "SERVFAIL rd".to_owned()),
        ("1.128.in-addr.arpa PTR", "SERVFAIL rd".to_owned()),
        ("1.0.0.0.ip6.arpa PTR", "SERVFAIL rd".to_owned()),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

#[test]
fn the_prefix_can_be_turned_off_and_hits_are_counted() {
    let off = ". {\n local {\n  localhost_prefix off\n }\n}\n";
    let bench = Bench::new(crate::CHAIN, off);
    assert_eq!(bench.now("localhost.example.org"), "SERVFAIL rd");
    let count = || {
        let text = engine::metrics::render();
        let line = text.lines().find_map(|line| {
            line.strip_prefix("coredns_local_localhost_requests_total ").map(str::to_owned)
        });
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    // Other tests of this process count as well, so only a lower bound is sure.
    let before = count();
    assert!(bench.now("a.localhost").starts_with("NOERROR"));
    assert!(count() > before);
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("local x", "Wrong argument count"),
        ("local {\n localhost_prefix\n }", "Wrong argument count"),
        ("local {\n localhost_prefix maybe\n }", "'maybe' is not known here"),
        ("local {\n prefix on\n }", "'prefix' is not a property"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
