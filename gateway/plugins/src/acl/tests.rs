//! The facts `acl.*`.

use config::value::Network;
use engine::testing::Bench;

use super::nets::Nets;

/// What is not answered at all.
const DROPPED: &str = "(none)";

/// A block with these rules, before `any` client's own answer.
fn bench(rules: &str) -> Bench {
    Bench::new(crate::CHAIN, &format!("test example.org {{\n {rules}\n whoami\n}}\n"))
}

#[test]
fn the_first_line_about_type_and_source_decides() {
    let mut bench = bench(
        "acl {\n allow net 127.0.0.1\n BLOCK type A net 127.1.0.0/16\n filter type AAAA net 127.1.0.0/16\n \
         drop type TXT net 127.1.0.0/16\n allow type MX net 127.2.0.0/24\n block net 127.2.0.0/16\n \
         drop net 127.3.3.3\n filter type A net *\n block type * net 127.4.0.0/16 2001:db8::/32\n }",
    );
    for (source, line, want) in [
        ("127.0.0.1", "a.test", "NOERROR aa"),
        ("127.1.2.3", "a.test", "REFUSED"),
        ("127.1.2.3", "a.test AAAA", "NOERROR"),
        ("127.1.2.3", "a.test TXT", DROPPED),
        ("127.1.2.3", "a.test TXT +tcp", DROPPED),
        ("127.1.2.3", "a.test MX", "NOERROR aa"),
        ("127.2.0.9", "a.test MX", "NOERROR aa"),
        ("127.2.0.9", "a.test A", "REFUSED"),
        ("127.2.1.9", "a.test MX", "REFUSED"),
        ("127.3.3.3", "a.test MX", DROPPED),
        ("127.3.3.4", "a.test MX", "NOERROR aa"),
        ("127.3.3.4", "a.test A", "NOERROR"),
        ("127.4.0.1", "a.test MX", "REFUSED"),
        ("2001:db8::9", "a.test MX", "REFUSED"),
        ("2001:db9::9", "a.test MX", "NOERROR aa"),
        // `acl.v4mapped`
        ("::ffff:127.1.2.3", "a.test", "REFUSED"),
        ("::ffff:127.0.0.1", "a.test", "NOERROR aa"),
    ] {
        bench.from(source.parse().unwrap());
        let reply = bench.now(&format!("{line} +norec"));
        let head = reply.split(" | ").next().unwrap();
        assert_eq!(head, want, "{source} {line}");
    }
}

#[test]
fn rules_are_tried_in_order_where_their_zones_hold_the_name() {
    for (rules, line, want) in [
        ("acl sub.test {\n block\n }", "a.test", "NOERROR aa"),
        ("acl sub.test {\n block\n }", "SUB.test", "REFUSED"),
        ("acl sub.test {\n block\n }", "x.sub.test", "REFUSED"),
        ("acl {\n allow net 127.0.0.0/8\n block\n }\n acl {\n filter\n }", "a.test", "NOERROR aa"),
        ("acl {\n block type MX\n }\n acl {\n filter\n }", "a.test", "NOERROR"),
        ("acl {\n block type ANY\n }", "a.test ANY", "REFUSED"),
        ("acl {\n block type ANY\n }", "a.test A", "NOERROR aa"),
        ("acl {\n block type TXT type MX A\n }", "a.test", "REFUSED"),
        ("acl {\n block net 10.0.0.0/8 net 127.0.0.1\n }", "a.test", "REFUSED"),
        ("acl {\n block net 10.0.0.0/8 net *\n }", "a.test", "REFUSED"),
        ("acl {\n block type axfr ixfr\n }", "test AXFR", "REFUSED"),
        ("acl {\n }", "a.test", "NOERROR aa"),
        ("acl", "a.test", "NOERROR aa"),
    ] {
        let reply = bench(rules).now(&format!("{line} +norec"));
        assert_eq!(reply.split(" | ").next().unwrap(), want, "{rules}, {line}");
    }
}

#[test]
fn extended_errors_go_to_those_who_know_them() {
    for (rules, line, want) in [
        ("acl {\n block\n }", "a.test +edns", "REFUSED rd | EDE 15 "),
        ("acl {\n filter\n }", "a.test +do", "NOERROR rd | EDE 17 "),
        ("acl {\n block\n }", "a.test", "REFUSED rd"),
        ("acl {\n filter\n }", "a.test", "NOERROR rd"),
    ] {
        assert_eq!(bench(rules).now(line), want, "{rules}");
    }
}

#[test]
fn decisions_are_counted_with_the_zone_of_the_rule() {
    let corefile = "acl.test {\n acl x.acl.test y.acl.test {\n block type A\n filter type TXT\n drop type MX\n }\n whoami\n}\n";
    let bench = Bench::new(crate::CHAIN, corefile);
    for line in ["a.x.acl.test", "x.acl.test", "y.acl.test", "x.acl.test TXT", "y.acl.test MX"] {
        bench.now(line);
    }
    bench.now("acl.test");
    bench.now("x.acl.test AAAA");
    let text = engine::metrics::render();
    // The server's label is that of all tests here, the zone's is this one's alone.
    for (name, zone, count) in [
        ("blocked", "x.acl.test.", 2),
        ("blocked", "y.acl.test.", 1),
        ("filtered", "x.acl.test.", 1),
        ("dropped", "y.acl.test.", 1),
    ] {
        let line = format!(
            "coredns_acl_{name}_requests_total{{server=\"dns://:53\",view=\"\",zone=\"{zone}\"}} {count}"
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert!(
        text.contains("coredns_acl_allowed_requests_total{server=\"dns://:53\",view=\"\"} "),
        "{text}"
    );
}

#[test]
fn wrong_lines_are_refused() {
    for (rule, want) in [
        ("permit net *", "'permit' is no action"),
        ("blok", "did you mean 'block'?"),
        ("block type BOGUS", "'BOGUS' is no record type"),
        ("block type", "'type' has nothing behind it"),
        ("block net type A", "'net' has nothing behind it"),
        ("block net 10.0.0.0/33", "is no network and no address"),
        ("block net example.org", "is no network and no address"),
        ("block A", "'A' begins no section"),
        ("block {\n }", "takes no block"),
    ] {
        let corefile = format!("test {{\n acl {{\n {rule}\n }}\n}}\n");
        let text = Bench::refused(crate::CHAIN, &corefile);
        assert!(text.contains(want), "{rule}: {text}");
    }
}

#[test]
fn a_list_of_networks_holds_what_any_of_them_holds() {
    let parse = |texts: &[&str]| {
        Nets::new(&texts.iter().map(|text| Network::or_address(text).unwrap()).collect::<Vec<_>>())
    };
    let nets = parse(&["10.0.0.0/8", "10.1.2.3", "10.255.0.0/16", "0.0.0.0/32", "255.255.255.255"]);
    for (addr, want) in [
        ("10.0.0.0", true),
        ("10.255.255.255", true),
        ("11.0.0.0", false),
        ("9.255.255.255", false),
        ("0.0.0.0", true),
        ("0.0.0.1", false),
        ("255.255.255.255", true),
        ("::", false),
    ] {
        assert_eq!(nets.has(addr.parse().unwrap()), want, "{addr}");
    }
    assert!(parse(&["0.0.0.0/0"]).has("203.0.113.1".parse().unwrap()));
    assert!(!parse(&["0.0.0.0/0"]).has("2001:db8::1".parse().unwrap()));
    assert!(parse(&["::/0"]).has("ffff::1".parse().unwrap()));
    assert!(parse(&["::ffff:10.0.0.0/104"]).has("10.9.9.9".parse().unwrap()));
    assert!(!parse(&["::ffff:10.0.0.0/104"]).has("11.9.9.9".parse().unwrap()));
    // Every second network of 65,536: held against a plain search.
    let many: Vec<_> = (0..32768u32)
        .map(|n| format!("{}.{}.{}.0/25", 20 + n / 8192, n / 32 % 256, n % 32 * 8))
        .collect();
    let many = parse(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(many.has("20.0.8.127".parse().unwrap()));
    assert!(!many.has("20.0.8.128".parse().unwrap()));
    assert!(!many.has("20.0.9.1".parse().unwrap()));
    assert!(many.has("23.255.248.1".parse().unwrap()));
}
