//! What keys are answered as.

use super::stub::Stub;
use super::{NODATA, NXDOMAIN, ask, bench, table};

#[tokio::test]
async fn keys_below_a_name_are_its_addresses() {
    let stub = Stub::new(&[
        ("/org/example/www/a", r#"{"host": "198.51.100.1", "ttl": 60}"#),
        ("/org/example/www/b", r#"{"Host": "198.51.100.2", "other": [1]}"#),
        ("/org/example/www/c", r#"{"host": "2001:db8::1", "ttl": 60, "text": null}"#),
        // Equal ones count once.
        ("/org/example/www/d", r#"{"host": "198.51.100.1", "ttl": 60}"#),
        ("/org/example/one", r#"{"host": "198.51.100.9"}"#),
        ("/org/example/wwwx", r#"{"host": "198.51.100.66"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    table(
        &bench,
        &[
            (
                "www.example.org",
                "NOERROR aa rd | www.example.org. 60 A 198.51.100.1; www.example.org. 300 A 198.51.100.2",
            ),
            ("WWW.example.org AAAA", "NOERROR aa rd | www.example.org. 60 AAAA 2001:db8::1"),
            ("a.www.example.org", "NOERROR aa rd | a.www.example.org. 60 A 198.51.100.1"),
            ("one.example.org", "NOERROR aa rd | one.example.org. 300 A 198.51.100.9"),
            ("one.example.org AAAA", NODATA),
            ("one.example.org HINFO", NODATA),
            ("one.example.org CNAME", NODATA),
            ("one.example.org SOA", NODATA),
            ("www.example.org CNAME", NODATA),
            ("nope.example.org", NXDOMAIN),
            ("nope.example.org CNAME", NXDOMAIN),
            ("nope.example.org PTR", NXDOMAIN),
            ("x.one.example.org", NXDOMAIN),
            // A slash in a label does not lead to the keys of another name.
            ("a/www.example.org", NXDOMAIN),
            ("example.org AXFR +tcp", "REFUSED rd"),
            ("example.org IXFR +tcp", "REFUSED rd"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_query_is_one_or_two_reads() {
    let stub = Stub::new(&[
        ("/org/example/www/a", r#"{"host": "198.51.100.1"}"#),
        ("/org/example/one", r#"{"host": "198.51.100.9"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    assert_eq!(stub.count(0), 0, "nobody is connected to before it is needed");
    for (line, reads) in [
        ("www.example.org", 1),
        ("one.example.org", 2),
        ("one.example.org CNAME", 1),
        ("example.org SOA", 0),
        // The apex falls back to the whole zone.
        ("example.org", 3),
    ] {
        let before = stub.count(0);
        bench.ask(line).await;
        assert_eq!(stub.count(0) - before, reads, "{line}");
    }
}

#[tokio::test]
async fn names_that_are_not_there_and_no_others_fall_through() {
    let stub = Stub::new(&[("/org/example/one", r#"{"host": "198.51.100.9"}"#)]).await;
    let corefile = format!(
        "example.org {{\n etcd {{\n endpoint {}\n fallthrough\n }}\n whoami\n}}\n",
        stub.endpoint()
    );
    let bench = engine::testing::Bench::new(crate::CHAIN, &corefile);
    table(&bench, &[("one.example.org AAAA", NODATA)]).await;
    let passed = bench.ask("nope.example.org").await;
    assert!(passed.contains("nope.example.org. 0 A 127.0.0.1"), "{passed}");
}

#[tokio::test]
async fn wildcards_stand_for_one_level() {
    let stub = Stub::new(&[
        ("/org/example/east/web/a", r#"{"host": "198.51.100.1"}"#),
        ("/org/example/east/db/a", r#"{"host": "198.51.100.2"}"#),
        ("/org/example/west/web/a", r#"{"host": "198.51.100.3"}"#),
        ("/org/example/west/any", r#"{"host": "198.51.100.4"}"#),
        ("/org/example/flat", r#"{"host": "198.51.100.5"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    let web = |name: &str| {
        format!("NOERROR aa rd | {name}. 300 A 198.51.100.1; {name}. 300 A 198.51.100.3")
    };
    table(
        &bench,
        &[
            ("web.*.example.org", &web("web.*.example.org")),
            ("web.any.example.org", &web("web.any.example.org")),
            ("a.web.*.example.org", &web("a.web.*.example.org")),
            (
                "*.east.example.org",
                "NOERROR aa rd | *.east.example.org. 300 A 198.51.100.2; *.east.example.org. 300 A 198.51.100.1",
            ),
            // A host of that name cannot be asked for alone.
            (
                "any.west.example.org",
                "NOERROR aa rd | any.west.example.org. 300 A 198.51.100.4; any.west.example.org. 300 A 198.51.100.3",
            ),
            ("nope.*.example.org", NODATA),
            ("*.nope.example.org", NXDOMAIN),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_group_nearest_the_top_counts() {
    let grouped =
        |one: &str, group: &str| format!(r#"{{"host": "198.51.100.{one}", "group": "{group}"}}"#);
    let stub = Stub::new(&[
        ("/org/example/dom/a", &grouped("1", "g1")),
        ("/org/example/dom/b", &grouped("2", "g1")),
        ("/org/example/dom/sub/c", &grouped("3", "g2")),
        ("/org/example/dom/sub/d", &grouped("4", "g1")),
        ("/org/example/dom/sub/e", r#"{"host": "198.51.100.5"}"#),
        ("/org/example/odd/a", &grouped("6", "g1")),
        ("/org/example/odd/b", &grouped("7", "g2")),
    ])
    .await;
    let bench = bench(&stub, "");
    for (name, hosts) in [("dom", &[1, 2, 4, 5][..]), ("odd", &[6, 7]), ("sub.dom", &[3, 4, 5])] {
        let mut want: Vec<_> = hosts
            .iter()
            .map(|host| format!("{name}.example.org. 300 A 198.51.100.{host}"))
            .collect();
        let reply = ask(&bench, &format!("{name}.example.org")).await;
        let mut got: Vec<_> =
            reply.split_once(" | ").unwrap().1.split("; ").map(str::to_owned).collect();
        want.sort();
        got.sort();
        assert_eq!(got, want, "{name}");
    }
}

#[tokio::test]
async fn texts_are_cut_into_strings() {
    let long = "x".repeat(300);
    let stub = Stub::new(&[
        ("/org/example/t/a", r#"{"text": "hello"}"#),
        ("/org/example/t/b", r#"{"text": "hello"}"#),
        ("/org/example/t/c", r#"{"host": "198.51.100.1", "text": "with host"}"#),
        ("/org/example/long", &format!(r#"{{"text": "{long}"}}"#)),
    ])
    .await;
    let bench = bench(&stub, "");
    table(
        &bench,
        &[
            (
                "t.example.org TXT",
                "NOERROR aa rd | t.example.org. 300 TXT \"hello\"; t.example.org. 300 TXT \"with host\"",
            ),
            ("t.example.org", "NOERROR aa rd | t.example.org. 300 A 198.51.100.1"),
            (
                "long.example.org TXT",
                &format!("NOERROR aa rd | long.example.org. 300 TXT \"{}\" \"{}\"", &long[..255], &long[..45]),
            ),
            ("long.example.org", NODATA),
        ],
    )
    .await;
}

#[tokio::test]
async fn services_share_the_weight_of_their_priority() {
    let stub = Stub::new(&[
        ("/org/example/_tcp/_http/a", r#"{"host": "198.51.100.1", "port": 80}"#),
        ("/org/example/_tcp/_http/b", r#"{"host": "2001:db8::2", "port": 81, "weight": 300}"#),
        (
            "/org/example/_tcp/_http/c",
            r#"{"host": "far.up.test", "port": 82, "priority": 20, "weight": 7}"#,
        ),
        (
            "/org/example/_tcp/_http/d",
            r#"{"host": "near.example.org", "port": 83, "priority": 30}"#,
        ),
        ("/org/example/_tcp/_http/e", r#"{"text": "no host"}"#),
        ("/org/example/near", r#"{"host": "198.51.100.4"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    let owner = "_http._tcp.example.org.";
    table(
        &bench,
        &[(
            "_http._tcp.example.org SRV +tcp",
            &format!(
                "NOERROR aa rd | {owner} 300 SRV 10 25 80 a.{owner}; {owner} 300 SRV 10 75 81 b.{owner}; \
                 {owner} 300 SRV 20 100 82 far.up.test.; {owner} 300 SRV 30 100 83 near.example.org. |  | \
                 a.{owner} 300 A 198.51.100.1; b.{owner} 300 AAAA 2001:db8::2; far.up.test. 30 A 203.0.113.200; \
                 near.example.org. 300 A 198.51.100.4"
            ),
        )],
    )
    .await;
}

#[tokio::test]
async fn addresses_are_called_after_their_keys() {
    let stub = Stub::new(&[
        ("/org/example/mail/x1", r#"{"host": "198.51.100.1", "mail": true, "targetstrip": 1}"#),
        ("/org/example/mail/x2", r#"{"host": "198.51.100.2", "mail": true, "priority": 20}"#),
        (
            "/org/example/mail/x3",
            r#"{"host": "mx.up.test", "mail": true, "priority": 30, "targetstrip": 9}"#,
        ),
        ("/org/example/mail/x4", r#"{"host": "198.51.100.4"}"#),
        ("/org/example/nomail", r#"{"host": "198.51.100.4"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    table(
        &bench,
        &[
            (
                "mail.example.org MX",
                "NOERROR aa rd | mail.example.org. 300 MX 10 mail.example.org.; mail.example.org. 300 MX 20 x2.mail.example.org.; \
                 mail.example.org. 300 MX 30 mx.up.test. |  | mail.example.org. 300 A 198.51.100.1; \
                 x2.mail.example.org. 300 A 198.51.100.2; mx.up.test. 30 A 203.0.113.200",
            ),
            ("nomail.example.org MX", NODATA),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_host_name_is_an_alias() {
    let stub = Stub::new(&[
        ("/org/example/out", r#"{"host": "far.up.test"}"#),
        ("/org/example/in", r#"{"host": "out.example.org", "ttl": 60}"#),
        ("/org/example/gone", r#"{"host": "nope.example.org"}"#),
        ("/org/example/self", r#"{"host": "self.example.org"}"#),
        ("/org/example/ring/a", r#"{"host": "b.ring.example.org"}"#),
        ("/org/example/ring/b", r#"{"host": "a.ring.example.org"}"#),
        ("/org/example/mix/a", r#"{"host": "far.up.test"}"#),
        ("/org/example/mix/b", r#"{"host": "198.51.100.1"}"#),
        ("/org/example/alien", r#"{"host": "www.nowhere.test"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    let far = "far.up.test. 30 A 203.0.113.200";
    table(
        &bench,
        &[
            ("out.example.org", &format!("NOERROR aa rd | out.example.org. 300 CNAME far.up.test.; {far}")),
            ("out.example.org CNAME", "NOERROR aa rd | out.example.org. 300 CNAME far.up.test."),
            (
                "in.example.org",
                &format!(
                    "NOERROR aa rd | in.example.org. 60 CNAME out.example.org.; out.example.org. 300 CNAME far.up.test.; {far}"
                ),
            ),
            ("gone.example.org", "NXDOMAIN aa rd | gone.example.org. 300 CNAME nope.example.org."),
            ("self.example.org", NODATA),
            // Names below lead to themselves as well.
            ("ring.example.org", NODATA),
            ("mix.example.org", "NOERROR aa rd | mix.example.org. 300 A 198.51.100.1"),
            ("alien.example.org", "NOERROR aa rd | alien.example.org. 300 CNAME www.nowhere.test."),
        ],
    )
    .await;
    assert!(ask(&bench, "a.ring.example.org").await.starts_with("SERVFAIL"));
}

#[tokio::test]
async fn reverse_names_lead_to_host_names() {
    let stub = Stub::new(&[
        ("/arpa/in-addr/10/0/0/1", r#"{"host": "www.example.org"}"#),
        ("/arpa/in-addr/10/0/0/2", r#"{"host": "198.51.100.1"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    table(
        &bench,
        &[
            (
                "1.0.0.10.in-addr.arpa PTR",
                "NOERROR aa rd | 1.0.0.10.in-addr.arpa. 300 PTR www.example.org.",
            ),
            ("2.0.0.10.in-addr.arpa PTR", NODATA),
            ("0.0.10.in-addr.arpa PTR", NODATA),
            ("3.0.0.10.in-addr.arpa PTR", NXDOMAIN),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_zone_has_records_of_its_own() {
    let stub = Stub::new(&[
        ("/org/example/dns/ns/ns1", r#"{"host": "198.51.100.53"}"#),
        ("/org/example/dns/ns/ns2", r#"{"host": "2001:db8::53", "ttl": 60}"#),
        ("/org/example/dns/apex/a", r#"{"host": "198.51.100.80"}"#),
        ("/org/example/www", r#"{"host": "198.51.100.1", "text": "www"}"#),
    ])
    .await;
    let bench = bench(&stub, "");
    table(
        &bench,
        &[
            ("example.org SOA", "NOERROR aa rd | SOA"),
            (
                "example.org NS",
                "NOERROR aa rd | example.org. 300 NS ns1.ns.dns.example.org.; example.org. 60 NS ns2.ns.dns.example.org. |  | \
                 ns1.ns.dns.example.org. 300 A 198.51.100.53; ns2.ns.dns.example.org. 60 AAAA 2001:db8::53",
            ),
            ("example.org", "NOERROR aa rd | example.org. 300 A 198.51.100.80"),
            ("example.org AAAA", NODATA),
            ("example.org TXT", "NOERROR aa rd | example.org. 300 TXT \"www\""),
            ("www.example.org NS", NODATA),
            // What has nothing in etcd is a zone all the same.
            ("10.in-addr.arpa SOA", "NOERROR aa rd | SOA"),
            ("10.in-addr.arpa NS", NODATA),
            ("10.in-addr.arpa", NODATA),
        ],
    )
    .await;
    let other = Stub::new(&[
        ("/org/example/dns/ns/ns1", r#"{"host": "ns.up.test"}"#),
        ("/org/example/a", r#"{"host": "198.51.100.1"}"#),
        ("/org/example/b", r#"{"host": "198.51.100.2"}"#),
    ])
    .await;
    let other = super::bench(&other, "");
    let whole = "NOERROR aa rd | example.org. 300 A 198.51.100.1; example.org. 300 A 198.51.100.2";
    assert!(ask(&other, "example.org NS").await.starts_with("SERVFAIL"));
    table(&other, &[("example.org", whole)]).await;
}

#[tokio::test]
async fn leases_bound_the_time_to_live() {
    let stub = Stub::new(&[]).await;
    for (name, ttl, lease) in [
        ("none", 0, 0),
        ("own", 60, 0),
        ("leased", 0, 7),
        ("both", 500, 7),
        ("less", 50, 7),
        ("short", 0, 8),
        ("over", 0, 9),
        ("long", 0, 10),
    ] {
        stub.put(
            &format!("/org/example/{name}"),
            &format!(r#"{{"host": "198.51.100.1", "ttl": {ttl}}}"#),
            lease,
        );
    }
    for (lease, seconds) in [(7, 100), (8, 3), (10, 200_000)] {
        stub.lease(lease, seconds);
    }
    for (lines, rows) in [
        (
            "",
            [
                ("none", 300),
                ("own", 60),
                ("leased", 100),
                ("both", 100),
                ("less", 50),
                ("short", 30),
                ("over", 300),
                ("long", 86_400),
            ],
        ),
        (
            "min-lease-ttl 1s\n max-lease-ttl 90",
            [
                ("none", 300),
                ("own", 60),
                ("leased", 90),
                ("both", 90),
                ("less", 50),
                ("short", 3),
                ("over", 300),
                ("long", 90),
            ],
        ),
        (
            "min-lease-ttl 0\n max-lease-ttl 0",
            [
                ("none", 300),
                ("own", 60),
                ("leased", 100),
                ("both", 100),
                ("less", 50),
                ("short", 30),
                ("over", 300),
                ("long", 86_400),
            ],
        ),
    ] {
        let bench = bench(&stub, lines);
        for (name, ttl) in rows {
            let want = format!("NOERROR aa rd | {name}.example.org. {ttl} A 198.51.100.1");
            assert_eq!(ask(&bench, &format!("{name}.example.org")).await, want, "{lines}");
        }
    }
    // Records of one lease ask for it once.
    let before = stub.count(1);
    ask(&bench(&stub, ""), "example.org SRV").await;
    assert_eq!(stub.count(1) - before, 4);
}
