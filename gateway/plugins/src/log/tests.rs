//! Lines, rules and classes.

use std::time::Duration;

use engine::Descriptor;
use engine::testing::Bench;
use wire::Name;

use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&crate::metadata::PLUGIN, &super::PLUGIN, &ANSWERS];

/// A gateway whose block has these directives.
fn bench(directives: &str) -> Bench {
    Bench::new(PLUGINS, &format!("test {{\n{directives}\nanswers\n}}\n"))
}

/// The line of `query`, its time masked; empty without one.
fn line(bench: &Bench, query: &str) -> String {
    logged();
    bench.now(query);
    let lines = logged();
    assert!(lines.len() < 2, "{lines:?}");
    let line = lines.into_iter().next().unwrap_or_default();
    let line = line.strip_prefix("[INFO] ").unwrap_or(&line);
    match line.rsplit_once(' ') {
        Some((rest, time)) if time.ends_with('s') && time.contains('.') => format!("{rest} T"),
        _ => line.to_owned(),
    }
}

#[test]
fn the_common_format() {
    let mut bench = bench("log");
    // log.bare, log.format.common, log.line, log.deferred, log.dropped, log.unknown_type.
    for (query, want) in [
        (
            "a.test",
            "127.0.0.1:40000 - 10794 \"A IN a.test. udp 24 false 512\" NOERROR qr,aa,rd 46 T",
        ),
        (
            "A.TEST MX +tcp +do +norec +cd",
            "127.0.0.1:40000 - 10794 \"MX IN a.test. tcp 35 true 65535\" NOERROR qr,aa,cd 46 T",
        ),
        (
            "nx.test AAAA +bufsize=4096",
            "127.0.0.1:40000 - 10794 \"AAAA IN nx.test. udp 36 false 4096\" NXDOMAIN qr,rd 58 T",
        ),
        (
            "a.test A +bufsize=100",
            "127.0.0.1:40000 - 10794 \"A IN a.test. udp 35 false 512\" NOERROR qr,aa,rd 46 T",
        ),
        (
            "fail.test",
            "127.0.0.1:40000 - 10794 \"A IN fail.test. udp 27 false 512\" SERVFAIL - 0 T",
        ),
        ("drop.test", "127.0.0.1:40000 - 10794 \"A IN drop.test. udp 27 false 512\" - - 0 T"),
        (
            "a.test TYPE65280",
            "127.0.0.1:40000 - 10794 \"TYPE65280 IN a.test. udp 24 false 512\" NOERROR qr,aa,rd 46 T",
        ),
    ] {
        assert_eq!(line(&bench, query), want, "{query}");
    }
    bench.from("2001:db8::1".parse().unwrap());
    assert!(line(&bench, "a.test").starts_with("[2001:db8::1]:40000 - "));
}

#[test]
fn placeholders_and_metadata() {
    // xc.replacer, log.MD, log.placeholders.
    let bench = bench(
        "metadata\nlog . \"{remote} {port} {local} {class} {proto} {size} {>opcode} {>id} {rcode} {/log/type}/{/log/class} {no} {/x} 100%s\"",
    );
    for (query, want) in [
        ("a.test", "NOERROR NOERROR/success"),
        ("nodata.test", "NOERROR NODATA/denial"),
        ("nx.test", "NXDOMAIN NXDOMAIN/denial"),
        ("refused.test", "REFUSED OTHERERROR/error"),
        ("fail.test", "SERVFAIL SERVERERROR/error"),
        ("drop.test", "- OTHERERROR/error"),
        ("a.test AXFR", "NOERROR META/error"),
    ] {
        let size = bench.exchange(query).query.wire.len();
        let want = format!("127.0.0.1 40000 127.0.0.1 IN udp {size} 0 10794 {want} {{no}} - 100%s");
        assert_eq!(line(&bench, query), want, "{query}");
    }
}

#[test]
fn the_first_rule_for_a_name_decides() {
    // log.names, log.multi, log.class, log.name.case.
    let bench = bench(
        "log Sub.Test one.sub.test. \"sub {name}\" {\nclass denial error\nclass denial\n}\n\
         log two.test {combined}\nlog test \"rest {rcode}\" {\nclass success\n}",
    );
    for (query, want) in [
        ("nx.sub.test", "sub nx.sub.test."),
        ("fail.sub.test", "sub fail.sub.test."),
        ("a.sub.test", ""),
        ("a.test", "rest NOERROR"),
        ("nx.test", ""),
        (
            "two.test",
            "127.0.0.1:40000 - 10794 \"A IN two.test. udp 26 false 512\" NOERROR qr,aa,rd 50 T \"0\"",
        ),
    ] {
        let line = line(&bench, query);
        let line = match line.split_once("s \"0\"") {
            Some((rest, "")) => {
                let (rest, _) = rest.rsplit_once(' ').unwrap();
                format!("{rest} T \"0\"")
            }
            _ => line,
        };
        assert_eq!(line, want, "{query}");
    }
}

#[test]
fn names_cannot_break_a_line() {
    let bench = bench("log . \"{name}\"");
    let mut x = bench.exchange("x.test");
    for (label, want) in [
        (&b"a\n\x1b[2J"[..], "a\\010\\027[2j.test."),
        (&b"%s%n \"x\""[..], "%s%n\\ \\\"x\\\".test."),
        (&[0xff; 63][..], &*("\\255".repeat(63) + ".test.")),
    ] {
        x.query.wire.clear();
        let name = Name::parse("test").unwrap().child(label).unwrap();
        let request = wire::Request { name, rtype: 1, ..wire::Request::default() };
        wire::encode_query(&request, 1, &mut x.query.wire);
        logged();
        bench.serve(&mut x);
        assert_eq!(logged(), [format!("[INFO] {want}")]);
    }
}

#[test]
fn the_time_is_that_of_the_query() {
    let bench = bench("log . {duration} {\n}");
    let mut x = bench.exchange("a.test");
    x.query.received -= Duration::from_millis(1500);
    logged();
    bench.serve(&mut x);
    let line = logged().pop().unwrap();
    let time = line.strip_prefix("[INFO] ").and_then(|line| line.strip_suffix('s')).unwrap();
    assert!((1.5..2.5).contains(&time.parse().unwrap()), "{line}");
}

#[test]
fn a_format_alone_is_a_name_and_gets_a_warning() {
    let bench = bench("log {common}");
    assert_eq!(line(&bench, "a.test"), "");
    let warning = &bench.built.warnings[0];
    assert!(warning.what.contains("is read as a name"), "{warning}");
    assert_eq!(warning.help.as_deref(), Some("write: log . \"{common}\""));
}

#[test]
fn what_a_block_may_say() {
    // log.block.err, log.class.
    for (block, want) in [
        ("class nonsense", "'nonsense' is not known here"),
        ("class", "Wrong argument count"),
        ("foo", "'foo' is not a property"),
    ] {
        let text = format!("test {{\nlog . {{\n{block}\n}}\nanswers\n}}");
        let wrong = Bench::refused(PLUGINS, &text);
        assert!(wrong.starts_with("plugin/log: ") && wrong.contains(want), "{wrong}");
    }
}
