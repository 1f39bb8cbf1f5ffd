//! What stays here, and what goes on.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use engine::testing::Bench;
use wire::{Answer, Name, Section, rcode, rtype};

use crate::shared::scripted::{Asked, Say, Scripted};

/// The end of a denial: the SOA record of an empty zone, and why.
fn denied(zone: &str) -> String {
    format!(
        "NXDOMAIN aa rd ra {0} | EDE 0 the name is private, and is not looked up outside",
        none(zone)
    )
}

/// The sections of an answer without records.
fn none(zone: &str) -> String {
    format!("|  | {zone} 10800 SOA {zone} nobody.invalid. 1 3600 1200 604800 10800")
}

/// Answers with an address that the name says: `a-10-0-0-1.example.org`, `aaaa-fe80--1.example.org`; all else is public.
fn script(asked: &Asked, answer: &mut Answer) -> Say {
    let (name, label) = (&asked.request.name, asked.label());
    let mut put = |section, owner: &Name, addr: IpAddr| {
        answer.address(section, owner.wire(), 30, addr);
    };
    let in_label = |prefix: &str, dot: &str| {
        label.strip_prefix(prefix).map(|rest| rest.replace('-', dot).parse::<IpAddr>().unwrap())
    };
    if let Some(addr) = in_label("a-", ".").or_else(|| in_label("aaaa-", ":")) {
        put(Section::Answer, name, addr);
    } else if label == "mixed" {
        put(Section::Answer, name, [198, 51, 100, 1].into());
        put(Section::Answer, name, [192, 168, 0, 1].into());
    } else if label == "alias" {
        let target = Name::parse("a.corp.example").unwrap();
        answer.push(Section::Answer, name.wire(), rtype::CNAME, 30, target.wire());
        answer.a(&target, 30, [10, 0, 0, 1].into());
    } else if label == "glue" {
        answer.push(Section::Answer, name.wire(), rtype::MX, 30, b"\0\x0a\x01x\0");
        answer.address(Section::Additional, b"\x01x\0", 30, [10, 0, 0, 1].into());
    } else if let Some(text) = label.strip_prefix("hint-") {
        let (key, value) = match text.replace('-', ".").parse::<std::net::Ipv4Addr>() {
            Ok(addr) => (4, addr.octets().to_vec()),
            Err(_) => {
                (6, text.replace('-', ":").parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec())
            }
        };
        let mut data = vec![0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2', 0, key, 0, value.len() as u8];
        data.extend_from_slice(&value);
        answer.push(Section::Answer, name.wire(), asked.request.rtype, 30, &data);
    } else if label == "scoped" {
        answer.options.push(wire::option::SUBNET, &[0, 1, 24, 24, 198, 51, 100]);
        answer.a(name, 30, [198, 51, 100, 1].into());
    } else if label == "nx" {
        answer.rcode = rcode::NXDOMAIN;
        answer.soa(Section::Authority, &[0], 30, &[0], &[0], [1, 2, 3, 4, 5]);
    } else {
        put(Section::Answer, name, [198, 51, 100, 1].into());
    }
    Say::Answer
}

/// An upstream, and a gateway whose `forward .` goes there; `{}` in the Corefile is its address.
async fn bench(corefile: &str) -> (Scripted, Bench) {
    let upstream = Scripted::start(script).await;
    let bench = Bench::new(crate::CHAIN, &corefile.replace("{}", &upstream.addr.to_string()));
    (upstream, bench)
}

/// The reverse name of an address.
fn reverse(text: &str) -> String {
    match text.parse().unwrap() {
        IpAddr::V4(addr) => {
            let [a, b, c, d] = addr.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(addr) => {
            let digits = format!("{:032x}", u128::from(addr));
            digits.chars().rev().map(|digit| format!("{digit}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

/// The plain form: everything on.
const PLAIN: &str = ". {\n guard\n forward . {}\n}";

#[tokio::test]
async fn private_names_stay_here() {
    let (upstream, bench) = bench(PLAIN).await;
    for (line, want) in [
        ("printer.local", denied("local.")),
        ("a.b.INTERNAL AAAA", denied("internal.")),
        ("web.shop.svc.cluster.local", denied("cluster.local.")),
        ("web.shop.svc.clusterset.local", denied("clusterset.local.")),
        ("nas.home.arpa", denied("home.arpa.")),
        ("a.invalid", denied("invalid.")),
        ("a.test TXT", denied("test.")),
        ("a.onion", denied("onion.")),
        ("a.alt", denied("alt.")),
        ("local", format!("NOERROR aa rd ra {}", none("local."))),
        (
            "local SOA",
            "NOERROR aa rd ra | local. 10800 SOA local. nobody.invalid. 1 3600 1200 604800 10800"
                .into(),
        ),
        ("home.arpa NS", "NOERROR aa rd ra | home.arpa. 10800 NS home.arpa.".into()),
        ("localhost", "NOERROR rd ra | localhost. 10800 A 127.0.0.1".into()),
        ("a.localhost AAAA", "NOERROR rd ra | a.localhost. 10800 AAAA ::1".into()),
        ("a.localhost MX", format!("NOERROR aa rd ra {}", none("localhost."))),
        ("_dns.resolver.arpa SVCB", format!("NOERROR aa rd ra {}", none("resolver.arpa."))),
        ("resolver.arpa", format!("NOERROR aa rd ra {}", none("resolver.arpa."))),
        ("a.local A CH", "REFUSED rd".into()),
    ] {
        assert_eq!(bench.ask(&format!("{line} +edns")).await, want, "{line}");
    }
    assert_eq!(upstream.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn reverse_names_of_private_networks_stay_here() {
    let (upstream, bench) = bench(PLAIN).await;
    for (addr, zone) in [
        ("10.1.2.3", "10.in-addr.arpa."),
        ("172.16.0.1", "16.172.in-addr.arpa."),
        ("172.31.0.1", "31.172.in-addr.arpa."),
        ("192.168.0.1", "168.192.in-addr.arpa."),
        ("127.0.0.1", "127.in-addr.arpa."),
        ("0.0.0.0", "0.in-addr.arpa."),
        ("169.254.1.1", "254.169.in-addr.arpa."),
        ("100.64.0.1", "64.100.in-addr.arpa."),
        ("100.127.0.1", "127.100.in-addr.arpa."),
        ("198.51.100.1", "100.51.198.in-addr.arpa."),
        ("203.0.113.1", "113.0.203.in-addr.arpa."),
        ("fc00::1", "c.f.ip6.arpa."),
        ("fd12::1", "d.f.ip6.arpa."),
        ("fe80::1", "8.e.f.ip6.arpa."),
        ("feb0::1", "b.e.f.ip6.arpa."),
        ("2001:db8::1", "8.b.d.0.1.0.0.2.ip6.arpa."),
        ("::ffff:10.0.0.1", "f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."),
    ] {
        let line = format!("{} PTR +edns", reverse(addr));
        assert_eq!(bench.ask(&line).await, denied(zone), "{addr}");
    }
    assert_eq!(upstream.seen(), Vec::<String>::new());
    for addr in [
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "11.0.0.1",
        "192.169.0.1",
        "2001:db9::1",
        "ff02::1",
    ] {
        let line = format!("{} PTR", reverse(addr));
        bench.ask(&line).await;
        assert_eq!(upstream.count(), 1, "{addr}");
    }
}

#[tokio::test]
async fn what_stands_above_a_private_zone_goes_on() {
    let (upstream, bench) = bench(PLAIN).await;
    for line in [
        "example.org",
        "xlocal",
        "local.example.org",
        "arpa",
        "172.in-addr.arpa",
        // What the parent says of a zone (RFC 8375 §4).
        "home.arpa DS",
        "10.in-addr.arpa DS",
        "ipv4only.arpa",
    ] {
        bench.ask(line).await;
        assert_eq!(upstream.count(), 1, "{line}");
    }
    for line in ["local DS", "resolver.arpa DS", "a.home.arpa DS"] {
        bench.ask(line).await;
        assert_eq!(upstream.count(), 0, "{line}");
    }
}

#[tokio::test]
async fn private_addresses_of_public_names_are_refused() {
    let (upstream, bench) = bench(". {\n cache\n guard\n forward . {}\n}").await;
    for label in [
        "a-0-0-0-0",
        "a-10-0-0-1",
        "a-100-64-0-1",
        "a-127-0-0-1",
        "a-169-254-169-254",
        "a-172-16-0-1",
        "a-172-31-255-255",
        "a-192-168-0-1",
        "aaaa---",
        "aaaa---1",
        "aaaa-fc00--1",
        "aaaa-fd00--1",
        "aaaa-fe80--1",
        "aaaa-fec0--1",
        "aaaa---ffff-a00-1",
        "aaaa---ffff-c633-6401",
        "aaaa---a00-1",
        "aaaa-64-ff9b--a00-1",
        "mixed",
        "alias",
        "hint-10-0-0-1 HTTPS",
        "hint-fe80--1 SVCB",
    ] {
        let line = match label.split_once(' ') {
            Some((label, kind)) => format!("{label}.example.org {kind} +edns"),
            None if label.starts_with("aaaa") => format!("{label}.example.org AAAA +edns"),
            None => format!("{label}.example.org +edns"),
        };
        for _ in 0..2 {
            let got = bench.ask(&line).await;
            assert_eq!(
                got,
                "REFUSED rd | EDE 15 a public name has a private address, which is refused against DNS rebinding",
                "{line}"
            );
            // Not from the cache: nothing of it is kept.
            assert_eq!(upstream.count(), 1, "{line}");
        }
    }
    for label in [
        "a-9-255-255-255",
        "a-11-0-0-1",
        "a-100-63-0-1",
        "a-100-128-0-1",
        "a-172-15-0-1",
        "a-172-32-0-1",
        "a-192-167-0-1",
        "a-192-169-0-1",
        "a-198-51-100-1",
        "aaaa-2001-db8--1 AAAA",
        "aaaa-64-ff9b--c633-6401 AAAA",
        "hint-198-51-100-1 HTTPS",
        "hint-2001-db8--1 HTTPS",
        "plain",
        "nx",
    ] {
        let (label, kind) = label.split_once(' ').unwrap_or((label, "A"));
        let got = bench.ask(&format!("{label}.example.org {kind}")).await;
        assert!(
            got.starts_with("NOERROR rd ra | ") || got.starts_with("NXDOMAIN"),
            "{label}: {got}"
        );
    }
    let got = bench.ask("glue.example.org MX").await;
    assert_eq!(
        got, "NOERROR rd ra | glue.example.org. 30 MX 10 x.",
        "the address beside it is dropped"
    );
}

#[tokio::test]
async fn stub_zones_and_exemptions_go_on() {
    let corefile = "local 10.in-addr.arpa {\n guard\n forward . {}\n}\n\
                    . {\n guard {\n  allow plex.example 192.168.0.0/16 internal\n  private corp.invalid.example a.internal\n }\n \
                    forward corp.test {}\n forward . {} {\n  except out.test\n }\n whoami\n}";
    let (upstream, bench) = bench(corefile).await;
    for (line, count, want) in [
        // Blocks and upstreams for one zone.
        ("a.local", 1, "NOERROR rd ra | a.local. 30 A 198.51.100.1"),
        ("a-10-0-0-1.local", 1, "NOERROR rd ra | a-10-0-0-1.local. 30 A 10.0.0.1"),
        ("1.0.0.10.in-addr.arpa", 1, "NOERROR rd ra | 1.0.0.10.in-addr.arpa. 30 A 198.51.100.1"),
        ("a-10-0-0-1.corp.test", 1, "NOERROR rd ra | a-10-0-0-1.corp.test. 30 A 10.0.0.1"),
        // Zones that may.
        ("a-10-0-0-1.plex.example", 1, "NOERROR rd ra | a-10-0-0-1.plex.example. 30 A 10.0.0.1"),
        ("a.internal.", 0, "NOERROR aa rd ra"),
        ("b.internal", 1, "NOERROR rd ra | b.internal. 30 A 198.51.100.1"),
        (
            "1.0.168.192.in-addr.arpa",
            1,
            "NOERROR rd ra | 1.0.168.192.in-addr.arpa. 30 A 198.51.100.1",
        ),
        // Zones that may not.
        ("x.corp.invalid.example", 0, "NXDOMAIN aa rd ra"),
        ("x.a.internal", 0, "NXDOMAIN aa rd ra"),
        ("a.test", 0, "NXDOMAIN aa rd ra"),
        // What the upstream is not asked for is none of guard's business: whoami answers.
        ("a.out.test", 0, "NOERROR aa rd |  |  | a.out.test. 0 A 127.0.0.1"),
    ] {
        let got = bench.ask(line).await;
        assert!(got.starts_with(want), "{line}: {got}");
        assert_eq!(upstream.count(), count, "{line}");
    }
}

#[tokio::test]
async fn a_stub_zone_that_passes_on_is_guarded_behind_it() {
    let corefile = ". {\n guard\n forward test {0} {\n  next NXDOMAIN\n }\n forward . {1}\n}";
    let (stub, world) = (Scripted::start(script).await, Scripted::start(script).await);
    let corefile = corefile.replace("{0}", &stub.addr.to_string());
    let bench = Bench::new(crate::CHAIN, &corefile.replace("{1}", &world.addr.to_string()));
    assert!(bench.ask("nx.a.test").await.starts_with("NXDOMAIN aa rd ra"));
    assert_eq!((stub.count(), world.count()), (1, 0));
    assert!(bench.ask("b.test").await.starts_with("NOERROR rd ra | b.test."));
    assert_eq!((stub.count(), world.count()), (1, 0));
    bench.ask("a.example.org").await;
    assert_eq!((stub.count(), world.count()), (0, 1));
}

#[tokio::test]
async fn zones_of_the_gateway_stay_here_whatever_leads_to_them() {
    let corefile = "own.example {\n hosts {\n  198.51.100.7 www.own.example\n }\n}\n\
        shared.example {\n hosts {\n  198.51.100.7 www.shared.example\n  fallthrough\n }\n}\n\
        . {\n guard\n rewrite name exact old.example.org x.own.example\n rewrite name exact lan.example.org x.local\n \
        rewrite name exact public.example.org www.example.net\n rewrite name exact fallen.example.org x.shared.example\n \
        forward . {}\n}";
    let (upstream, bench) = bench(corefile).await;
    for (line, count, want) in [
        ("www.own.example", 0, "NOERROR aa rd | www.own.example. 3600 A 198.51.100.7"),
        ("old.example.org", 0, "NXDOMAIN aa rd ra"),
        ("lan.example.org", 0, "NXDOMAIN aa rd ra"),
        ("public.example.org", 1, "NOERROR rd ra"),
        ("fallen.example.org", 1, "NOERROR rd ra"),
    ] {
        let got = bench.ask(line).await;
        assert!(got.starts_with(want), "{line}: {got}");
        assert_eq!(upstream.count(), count, "{line}");
    }
}

#[tokio::test]
async fn nested_questions_are_guarded() {
    // The target of an alias is asked for in the block for all names.
    let corefile = "own.example {\n template IN A own.example {\n  match \"^(.*)[.]at[.]own[.]example[.]$\"\n  \
        answer \"{{ .Name }} 5 CNAME {{ index .Match 1 }}.\"\n  upstream\n }\n}\n. {\n guard\n forward . {}\n}";
    let (upstream, bench) = bench(corefile).await;
    for (line, count) in [("www.example.org.at.own.example", 1), ("x.local.at.own.example", 0)] {
        let got = bench.ask(line).await;
        assert!(got.contains("CNAME"), "{line}: {got}");
        assert_eq!(upstream.count(), count, "{line}: {got}");
    }
    let got = bench.ask("a-10-0-0-1.example.org.at.own.example").await;
    assert!(!got.contains(" A 10.0.0.1"), "{got}");
}

#[tokio::test]
async fn ecs_01_the_clients_subnet_is_taken_off() {
    const SENT: &str = "+opt=8:00011800c63364";
    for (corefile, want) in [
        (PLAIN, "a.example.org. A udp rd size=1232"),
        (
            ". {\n guard {\n  subnet off\n }\n forward . {}\n}",
            "a.example.org. A udp rd size=1232 OPT 8",
        ),
        // A subnet that the configuration puts in place of the client's is meant to go.
        (
            ". {\n guard\n rewrite edns0 subnet set 16 48\n forward . {}\n}",
            "a.example.org. A udp rd size=1232 OPT 8",
        ),
        // A stub zone may have it.
        (". {\n guard\n forward example.org {}\n}", "a.example.org. A udp rd size=1232 OPT 8"),
    ] {
        let (upstream, bench) = bench(corefile).await;
        let got = bench.ask(&format!("a.example.org {SENT}")).await;
        assert!(got.starts_with("NOERROR rd ra | a.example.org. 30 A 198.51.100.1"), "{got}");
        assert!(!got.contains("OPT 8"), "{got}");
        assert_eq!(upstream.seen(), [want], "{corefile}");
    }
    // An answer that says for which subnet it is; and a question that was changed on the way, which is put back.
    let (upstream, scoped) = bench(PLAIN).await;
    let got = scoped.ask(&format!("scoped.example.org {SENT}")).await;
    assert_eq!(got, "NOERROR rd ra | scoped.example.org. 30 A 198.51.100.1");
    assert_eq!(upstream.count(), 1);
    let corefile = ". {\n guard\n rewrite name exact new.example.org old.example.org answer auto\n forward . {}\n}";
    let (_upstream, renamed) = bench(corefile).await;
    let got = renamed.ask(&format!("new.example.org {SENT}")).await;
    assert_eq!(got, "NOERROR rd ra | new.example.org. 30 A 198.51.100.1");
    // The same with an answer that is looked at and refused.
    let (upstream, bench) = bench(PLAIN).await;
    let got = bench.ask(&format!("a-10-0-0-1.example.org {SENT}")).await;
    assert!(got.starts_with("REFUSED rd | EDE 15"), "{got}");
    assert_eq!(upstream.seen(), ["a-10-0-0-1.example.org. A udp rd size=1232"]);
}

#[tokio::test]
async fn each_part_can_be_switched_off() {
    for (part, line) in [
        ("names", "a.local"),
        ("reverse", "1.0.0.10.in-addr.arpa"),
        ("addresses", "a-10-0-0-1.example.org"),
    ] {
        for (word, kept) in [("on", true), ("off", false)] {
            let corefile = format!(". {{\n guard {{\n  {part} {word}\n }}\n forward . {{}}\n}}");
            let (_upstream, bench) = bench(&corefile).await;
            let got = bench.ask(line).await;
            assert_eq!(got.starts_with("NOERROR"), !kept, "{part} {word}: {got}");
        }
    }
}

#[test]
fn bad_words_are_refused() {
    for (block, want) in [
        ("guard x", "Wrong argument count: 'x' is one too many"),
        ("guard {\n names maybe\n}", "'maybe' is not known here"),
        ("guard {\n allow\n}", "Wrong argument count or unexpected line ending after 'allow'"),
        ("guard {\n private a..b\n}", "'a..b' is not a domain name"),
        ("guard\nguard", "this plugin can only be used once per Server Block"),
    ] {
        let wrong = Bench::refused(crate::CHAIN, &format!(". {{\n{block}\n}}"));
        assert!(wrong.contains(want), "{block}: {wrong}");
    }
    let bench = Bench::new(crate::CHAIN, "example.org {\n guard\n forward . 127.0.0.1:1\n}");
    assert!(
        bench.built.warnings[0].what.contains("does nothing here"),
        "{:?}",
        bench.built.warnings
    );
}
