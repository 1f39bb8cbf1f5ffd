//! The facts `loadbalance.*`.

use std::collections::HashMap;
use std::time::Duration;

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::{Name, Section, rcode, rtype};

/// Answers with the records of a script: `OWNER TYPE DATA` by section, the same whatever is asked but for `nx` and `fail`.
#[derive(Debug)]
struct Scripted(Vec<(Section, Name, u16, Vec<u8>)>);

impl Plugin for Scripted {
    fn query(&self, x: &mut Exchange) -> Step {
        if x.request().name.to_string().starts_with("nx.") {
            x.answer_mut().rcode = rcode::NXDOMAIN;
        }
        for (section, owner, kind, data) in &self.0 {
            x.answer_mut().push(*section, owner.wire(), *kind, 60, data);
        }
        Step::Done
    }
}

/// Reads the script: each line of the block is a section's letter, an owner, a type and the data.
fn scripted(setup: &mut Setup<'_>) -> Result<(), config::Diagnostic> {
    let lines = setup.directive().lines().iter().map(|line| {
        let section = match &*line.name.text {
            "an" => Section::Answer,
            "ns" => Section::Authority,
            _ => Section::Additional,
        };
        let [owner, kind, data] = &line.args[..] else { panic!("three words") };
        let name = |text: &str| Name::parse(text).unwrap();
        let (kind, data) = (wire::text::type_number(&kind.text).unwrap(), &*data.text);
        let data = match kind {
            rtype::A => data.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec(),
            rtype::AAAA => data.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec(),
            rtype::MX => [&[0, 10], name(data).wire()].concat(),
            rtype::TXT => [&[data.len() as u8], data.as_bytes()].concat(),
            _ => name(data).wire().to_vec(),
        };
        (section, name(&owner.text), kind, data)
    });
    let all = lines.collect();
    setup.install(Scripted(all));
    Ok(())
}

/// The scripted plugin's entry.
static SCRIPTED: Descriptor = Descriptor { name: "scripted", readme: "", setup: scripted };

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &SCRIPTED];

/// A block of one directive before a script.
fn bench(directive: &str, script: &str) -> Bench {
    let lines: String = script.lines().map(|line| format!("  {line}\n")).collect();
    Bench::new(CHAIN, &format!("test {{\n {directive}\n scripted {{\n{lines} }}\n}}\n"))
}

/// The sections of a reply, each with the data of its records in order.
fn sections(reply: &str) -> Vec<Vec<String>> {
    let data =
        |record: &str| record.rsplit(' ').next().unwrap_or_default().trim_matches('"').to_owned();
    let sections = reply.split(" | ").skip(1);
    sections.map(|all| all.split("; ").map(data).collect()).collect()
}

/// How often each of the texts came in so many replies.
fn tally(
    bench: &Bench,
    line: &str,
    count: usize,
    pick: impl Fn(&str) -> String,
) -> HashMap<String, usize> {
    let mut tally = HashMap::new();
    for _ in 0..count {
        *tally.entry(pick(&bench.now(line))).or_default() += 1;
    }
    tally
}

#[test]
fn every_order_of_addresses_is_as_likely() {
    let three = "an a.test A 203.0.113.1\nan a.test A 203.0.113.2\nan a.test A 203.0.113.3";
    for directive in ["loadbalance", "loadbalance round_robin", "loadbalance {\n }"] {
        let orders =
            tally(&bench(directive, three), "a.test", 1200, |reply| sections(reply)[0].join(" "));
        assert_eq!(orders.len(), 6, "{orders:?}");
        assert!(orders.values().all(|count| (130..280).contains(count)), "{orders:?}");
    }
    for line in ["nx.test", "a.test AXFR", "a.test IXFR"] {
        let orders =
            tally(&bench("loadbalance", three), line, 50, |reply| sections(reply)[0].join(" "));
        assert_eq!(orders.len(), 1, "{line}: {orders:?}");
    }
}

#[test]
fn types_have_their_places() {
    let script = "an a.test A 203.0.113.1\nan a.test TXT one\nan c.test CNAME a.test\nan a.test MX m1.test\n\
        an a.test AAAA 2001:db8::1\nan a.test MX m2.test\nan a.test TXT two\n\
        ns test NS n1.test\nns test NS n2.test\n\
        ad n1.test A 203.0.113.11\nad n1.test A 203.0.113.12\nad n2.test A 203.0.113.21\nad n2.test A 203.0.113.22";
    let bench = bench("loadbalance", script);
    let mut seen = [const { Vec::<String>::new() }; 3];
    for _ in 0..200 {
        let all = sections(&bench.now("a.test ANY"));
        assert_eq!(all[0][..3], ["a.test.", "one", "two"], "{all:?}");
        assert_eq!(all[1], ["n1.test.", "n2.test."]);
        // Each set of the additional section stays together.
        let hosts: Vec<_> = all[2].iter().map(|addr| addr.as_bytes()[10]).collect();
        assert!(hosts[0] == hosts[1] && hosts[2] == hosts[3], "{all:?}");
        let now = [all[0][3..5].join(" "), all[0][5..].join(" "), all[2].join(" ")];
        for (seen, now) in seen.iter_mut().zip(now) {
            if !seen.contains(&now) {
                seen.push(now);
            }
        }
    }
    assert_eq!(seen.map(|orders| orders.len()), [2, 2, 8]);
}

#[test]
fn more_records_than_have_room_beside_are_sorted_as_well() {
    let script: String = (0..200).map(|n| format!("an a.test A 203.0.113.{n}\n")).collect();
    let bench = bench("loadbalance", &script);
    let mut first = sections(&bench.now("a.test +tcp")).remove(0);
    let second = sections(&bench.now("a.test +tcp")).remove(0);
    assert_ne!(first, second);
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 200);
}

#[test]
fn preferred_networks_come_first_in_their_order() {
    let script = "an p.test TXT rest\nan p.test A 10.9.20.7\nan p.test A 192.168.1.9\nan p.test A 192.168.1.8\n\
        an p.test A 172.16.0.1\nan p.test MX m.test\nan c.test CNAME p.test\nns test A 172.16.0.2\nns test A 192.168.1.7\n\
        ad g.test AAAA 2001:db8:1::1\nad g.test AAAA 2001:db8:2::1";
    let directive = "loadbalance round_robin {\n prefer 192.168.1.0/24 10.9.20.0/24\n prefer 2001:db8:2::/48\n }";
    let bench = bench(directive, script);
    let orders = tally(&bench, "p.test ANY", 100, |reply| {
        let all = sections(reply);
        assert_eq!(all[0][0], "p.test.");
        assert_eq!(all[0][3..], ["10.9.20.7", "172.16.0.1", "m.test.", "rest"], "{all:?}");
        assert_eq!(all[2], ["2001:db8:2::1", "2001:db8:1::1"]);
        format!("{} {}", all[0][1], all[1][0])
    });
    assert_eq!(orders.len(), 4, "the authority section knows no preference: {orders:?}");
}

/// A file of weights for a test.
fn weights(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("weights-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn the_first_address_is_drawn_by_weight() {
    let text = "# weights\nRR.test\n203.0.113.1 200\n203.0.113.2 50\n\n  other.test.\n203.0.113.3 255\nrr.test\n2001:db8::2 9\n";
    let path = weights("draw", text);
    let directive = format!("loadbalance weighted {} {{\n reload 10ms\n }}", path.display());
    let script = "an rr.test A 203.0.113.3\nan rr.test A 203.0.113.2\nan rr.test A 203.0.113.1\nan c.test CNAME rr.test\n\
        an rr.test TXT t\nad g.test A 203.0.113.9\nad g.test A 203.0.113.8\nad rr.test AAAA 2001:db8::1\nad rr.test AAAA 2001:db8::2";
    let bench = bench(&directive, script);
    let first = tally(&bench, "rr.test", 2510, |reply| {
        let all = sections(reply);
        assert_eq!(all[0][..2], ["rr.test.", "t"]);
        all[0][2].clone()
    });
    assert!((1900..2100).contains(&first["203.0.113.1"]), "{first:?}");
    assert!((400..600).contains(&first["203.0.113.2"]), "{first:?}");
    assert!((1..40).contains(&first["203.0.113.3"]), "{first:?}");
    // The others keep their order, and sets stay together.
    let orders = tally(&bench, "rr.test SRV", 500, |reply| sections(reply)[2].join(" "));
    for order in orders.keys() {
        assert!(
            [
                "2001:db8::2 2001:db8::1 203.0.113.9 203.0.113.8",
                "2001:db8::1 2001:db8::2 203.0.113.9 203.0.113.8",
                "203.0.113.9 203.0.113.8 2001:db8::1 2001:db8::2",
                "203.0.113.8 203.0.113.9 2001:db8::1 2001:db8::2",
            ]
            .contains(&&**order),
            "{order}"
        );
    }
    let mx = tally(&bench, "rr.test MX", 50, |reply| sections(reply)[0].join(" "));
    assert_eq!(mx.len(), 1, "other types stay as they are");
    // A changed file counts, a wrong one does not.
    std::fs::write(&path, "rr.test\n203.0.113.3 255\n").unwrap();
    let often = |bench: &Bench| {
        tally(bench, "rr.test", 100, |reply| sections(reply)[0][2].clone())["203.0.113.3"]
    };
    for _ in 0..500 {
        if tally(&bench, "rr.test", 1, |reply| sections(reply)[0][2].clone())
            .contains_key("203.0.113.3")
            && often(&bench) > 80
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(often(&bench) > 80);
    std::fs::write(&path, "rr.test\n203.0.113.3 0\n").unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(often(&bench) > 80);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn wrong_files_are_refused_and_missing_ones_waited_for() {
    for (text, want) in [
        ("203.0.113.1", "line 1: '203.0.113.1' has no weight"),
        ("203.0.113.1 1", "line 1: '203.0.113.1' has no name above it"),
        ("a.test\n203.0.113.1 0", "line 2: '0' is no weight: it must be 1 to 255"),
        ("a.test\n203.0.113.1 256", "line 2: '256' is no weight"),
        ("a.test\n\n# x\n203.0.113 1", "line 4: '203.0.113' is no address"),
        ("a.test 1 2", "line 1: more than a name"),
        ("a..test", "line 1: 'a..test' is no domain name"),
    ] {
        let path = weights("wrong", text);
        let corefile = format!("test {{\n loadbalance weighted {}\n}}\n", path.display());
        let wrong = Bench::refused(CHAIN, &corefile);
        assert!(wrong.contains(want), "{text}: {wrong}");
        std::fs::remove_file(&path).unwrap();
    }
    let bench = Bench::new(CHAIN, "test {\n loadbalance weighted ./nofile\n}\n");
    let warning = &bench.built.warnings[0].what;
    assert!(
        warning.starts_with("plugin/loadbalance: Failed to open weight file ./nofile"),
        "{warning}"
    );
    assert!(warning.ends_with("Will try again in 30s"), "{warning}");
    let corefile = "test {\n loadbalance weighted ./nofile {\n reload 0\n }\n}\n";
    assert!(Bench::refused(CHAIN, corefile).contains("weight file ./nofile: "));
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("loadbalance fast", "'fast' is not known here"),
        ("loadbalance round_robin x", "Wrong argument count"),
        ("loadbalance weighted", "Wrong argument count"),
        ("loadbalance weighted a b", "Wrong argument count"),
        ("loadbalance round_robin {\n reload 5s\n }", "'reload' is not a property"),
        ("loadbalance weighted a {\n prefer 10.0.0.0/8\n }", "'prefer' is not a property"),
        ("loadbalance {\n prefer\n }", "Wrong argument count"),
        ("loadbalance {\n prefer 10.0.0.0\n }", "is no network"),
        ("loadbalance {\n prefer 10.0.0.0/8 x\n }", "is no network"),
        ("loadbalance weighted a {\n reload often\n }", "not a duration"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
