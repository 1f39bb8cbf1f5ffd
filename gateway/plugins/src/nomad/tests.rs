//! What the directive says. What Nomad says has its turn in the crate `tests`, with a server that misbehaves.
#![allow(clippy::unwrap_used)]

use engine::testing::Bench;

use super::agent::Place;
use crate::CHAIN;

#[test]
fn addresses_are_urls_and_sockets() {
    let url = |text: &str| Some(Place::Url(text.to_owned()));
    for (text, want) in [
        ("http://127.0.0.1:4646", url("http://127.0.0.1:4646")),
        ("http://127.0.0.1:4646/", url("http://127.0.0.1:4646")),
        ("https://nomad.example.org", url("https://nomad.example.org")),
        ("https://example.org/nomad/", url("https://example.org/nomad")),
        ("127.0.0.1:4646", url("http://127.0.0.1:4646")),
        ("unix:///run/nomad.sock", Some(Place::Unix("/run/nomad.sock".into()))),
        ("unix://", None),
        ("ftp://127.0.0.1", None),
        ("http://", None),
        ("http://user@127.0.0.1", None),
        ("http://127.0.0.1/?a=b", None),
        ("", None),
    ] {
        assert_eq!(Place::read(text), want, "{text}");
    }
}

#[test]
fn wrong_words_are_refused() {
    for (words, want) in [
        ("{\n address\n }", "address"),
        ("{\n address ftp://127.0.0.1\n }", "is no address of Nomad"),
        ("{\n filter\n }", "filter"),
        ("{\n filter a b\n }", "b"),
        ("{\n token\n }", "token"),
        ("{\n token a s3cret\n }", "s3cret"),
        ("{\n ttl\n }", "ttl"),
        ("{\n ttl -1\n }", "range [0, 3600]"),
        ("{\n ttl 3601\n }", "range [0, 3600]"),
        ("{\n ttl 5s\n }", "range [0, 3600]"),
        ("{\n ttl 5 6\n }", "6"),
        ("{\n nosuch\n }", "is not a property"),
        ("a.test b.test", "is one zone too many"),
    ] {
        let told = Bench::refused(CHAIN, &format!(". {{\n nomad {words}\n}}\n"));
        assert!(told.contains(want), "{words}: {told}");
    }
    let told = Bench::refused(CHAIN, ". {\n nomad {\n token \"a\tb\"\n }\n}\n");
    assert!(told.contains("has signs that none can have") && !told.contains("a\tb"), "{told}");
}

#[test]
fn names_that_it_does_not_answer_go_on() {
    for (words, zone) in [("", "service.nomad"), ("dc1.example.org", "dc1.example.org")] {
        let bench = Bench::new(CHAIN, &format!(". {{\n nomad {words}\n}}\n"));
        for name in [zone, &format!("web.{zone}"), "www.example.net"] {
            let reply = bench.now(name);
            assert_eq!(
                reply, "SERVFAIL rd",
                "{name}: nobody is asked, and there is nobody behind it"
            );
        }
        assert_eq!(bench.now(&format!("web.default.{zone} AXFR +tcp")), "REFUSED rd");
    }
}

#[test]
fn it_is_the_last_of_the_chain() {
    assert_eq!(CHAIN.last().unwrap().name, "nomad");
    let bench = Bench::new(CHAIN, ". {\n nomad\n whoami\n}\n");
    assert!(bench.now("web.default.service.nomad").contains("127.0.0.1"));
}

#[test]
fn a_block_may_have_several() {
    let bench =
        Bench::new(CHAIN, ". {\n nomad a.test\n nomad b.test {\n address unix:///nosuch\n }\n}\n");
    assert_eq!(bench.now("web.a.test"), "SERVFAIL rd");
}
