//! The facts `header.*`.

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::Flags;

use crate::shared::testing::ANSWERS;

/// Answers with the flags of the query as it meets them, in a TXT record.
#[derive(Debug)]
struct Mirror;

impl Plugin for Mirror {
    fn query(&self, x: &mut Exchange) -> Step {
        let flags = x.request().flags;
        let names = [(Flags::AA, "aa"), (Flags::RA, "ra"), (Flags::RD, "rd")];
        let seen = names.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| *name);
        let seen: Vec<_> = seen.collect();
        let (request, answer) = x.parts_mut();
        answer.txt(&request.name, 1, 1, seen.join(",").as_bytes());
        Step::Done
    }
}

/// The plugin `mirror`.
static MIRROR: Descriptor = Descriptor {
    name: "mirror",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.install(Mirror);
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] =
    &[&crate::log::PLUGIN, &crate::cache::PLUGIN, &super::PLUGIN, &MIRROR, &ANSWERS];

/// A gateway whose block has these lines, and answers.
fn bench(lines: &str) -> Bench {
    Bench::new(CHAIN, &format!("test {{\n{lines}\nanswers\n}}\n"))
}

#[test]
fn replies_get_and_lose_bits() {
    // header.rule, header.response, header.effect.ra.
    for (lines, want) in [
        ("response set ra", "NOERROR aa rd ra"),
        ("RESPONSE Set RA Aa", "NOERROR aa rd ra"),
        ("response clear rd", "NOERROR aa"),
        ("response clear aa rd", "NOERROR"),
        ("response set aa\nresponse clear aa\nresponse set ra", "NOERROR rd ra"),
        ("response clear aa\nresponse set aa", "NOERROR aa rd"),
    ] {
        let shown = bench(&format!("header {{\n{lines}\n}}")).now("a.test");
        assert_eq!(shown.split(" | ").next(), Some(want), "{lines}");
    }
}

#[test]
fn failures_are_the_servers() {
    let bench = bench("header {\nresponse set ra aa\n}");
    assert_eq!(bench.now("fail.test"), "SERVFAIL rd");
    assert_eq!(bench.now("drop.test"), "(none)");
    assert_eq!(bench.now("nx.test").split(" | ").next(), Some("NXDOMAIN aa rd ra"));
}

#[test]
fn the_plugins_behind_see_another_query() {
    // header.query
    for (lines, query, want) in [
        ("query set aa ra", "a.test TXT", "NOERROR rd | a.test. 1 TXT \"aa,ra,rd\""),
        ("query clear rd", "a.test TXT", "NOERROR | a.test. 1 TXT \"\""),
        ("query set rd", "a.test TXT +norec", "NOERROR rd | a.test. 1 TXT \"rd\""),
        ("response set ra", "a.test TXT +norec", "NOERROR ra | a.test. 1 TXT \"\""),
    ] {
        let bench = Bench::new(CHAIN, &format!("test {{\nheader {{\n{lines}\n}}\nmirror\n}}\n"));
        let mut x = bench.exchange(query);
        let before = x.query.wire.clone();
        let reply = bench.serve(&mut x);
        assert_eq!(engine::testing::show(&reply), want, "{lines}");
        // Those before it find the query as it came.
        let sent = u16::from_be_bytes([before[2], before[3]]);
        assert_eq!(x.client_request().flags, Flags(sent), "{lines}");
    }
}

#[test]
fn what_the_cache_has_does_not_pass_again() {
    // header.response: what was changed on the way into the cache comes out of it.
    let bench = bench("cache\nheader {\nresponse set ra\nresponse clear aa\n}");
    // AA is what the cache sets.
    for (line, want) in [
        ("a.test", "NOERROR rd ra"),
        ("a.test", "NOERROR aa rd ra"),
        ("a.test +norec", "NOERROR aa ra"),
    ] {
        assert_eq!(bench.now(line), format!("{want} | a.test. 30 A 198.51.100.1"));
    }
}

#[test]
fn the_first_directive_with_rules_counts() {
    // header.lines
    let bench =
        bench("header\nheader {\n}\nheader {\nresponse set ra\n}\nheader {\nresponse clear aa\n}");
    assert_eq!(bench.now("a.test"), "NOERROR aa rd ra | a.test. 30 A 198.51.100.1");
    let warnings: Vec<_> = bench.built.warnings.iter().map(|one| one.what.clone()).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("is passed over"), "{warnings:?}");
}

#[test]
fn wrong_lines_are_refused() {
    // header.err, header.norules.
    for (lines, want) in [
        ("header", "has no rules"),
        ("header {\n}", "has no rules"),
        ("header x {\nquery set rd\n}", "'x' is one too many"),
        ("header {\nreply set aa\n}", "'reply' is no selector"),
        ("header {\nquery toggle aa\n}", "'toggle' is no action"),
        ("header {\nquery\n}", "Wrong argument count"),
        ("header {\nresponse set\n}", "Wrong argument count"),
        ("header {\nresponse set aa tc\n}", "'tc' is no flag"),
        ("header {\nresponse set aa\n}\nheader {\nfoo\n}", "'foo' is no selector"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n{lines}\nanswers\n}}\n"));
        assert!(text.starts_with("plugin/header: ") && text.contains(want), "{lines}: {text}");
    }
}
