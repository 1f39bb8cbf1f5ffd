//! Questions whose way is written down.

use super::*;
use crate::control::Outcome;
use crate::testing::Bench;
use crate::{Carry, Descriptor, Plugin, Setup, Work};

/// Asks for `real.test` where `alias.test` is asked for, waits at `slow.test`, fails at `fail.test`, and passes others on.
#[derive(Debug)]
struct Acts;

impl Plugin for Acts {
    fn query(&self, x: &mut Exchange) -> Step {
        match &*x.request().name.to_string() {
            "alias.test." => x.ask(&Name::parse("real.test.").unwrap(), rtype::A, Carry::NONE),
            "slow.test." => Step::WAIT,
            "fail.test." => x.fail(Fault::servfail("on purpose"), "with detail"),
            "real.test." => {
                let name = x.request().name.clone();
                x.answer_mut().a(&name, 30, [198, 51, 100, 1].into());
                Step::Done
            }
            _ => Step::Next,
        }
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        x.graft();
        Step::Done
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(async move {
            x.answer_mut().rcode = rcode::NXDOMAIN;
            x.answer_mut().options.push_ede(0, "nobody knows");
            Step::Done
        })
    }

    fn explain(&self, x: &Exchange, step: Step) -> Option<Value> {
        let real = x.request().name.to_string() == "real.test." && matches!(step, Step::Done);
        real.then(|| Value::fields().with("why", "it is real").with("kind", "test"))
    }
}

/// The same as [`Acts`] in a registry.
static ACTS: Descriptor = Descriptor {
    name: "acts",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.install(Acts);
        Ok(())
    },
};

/// The registry.
static CHAIN: &[&Descriptor] = &[&ACTS];

/// A gateway with two listeners.
fn bench() -> Bench {
    Bench::new(CHAIN, "test:1053 {\n acts\n}\nreal.test:1054 {\n acts\n}\n")
}

/// What is said to a line of words.
async fn say(bench: &Bench, line: &str) -> Result<Report, String> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    explain(&bench.gateway.live(), &Inquiry::read(&args)?).await
}

#[tokio::test]
async fn the_way_of_a_question_is_told() {
    let bench = bench();
    for (line, good, want) in [
        (
            "alias.test",
            true,
            "\
alias.test. A: NOERROR, from acts
block: test. at dns://:1053
way:
  acts asks for real.test. A
    acts answers
      it is real
      kind  test
  acts answers with what came of it
answer:
  real.test. 30 IN A 198.51.100.1
",
        ),
        (
            "slow.test AAAA --tcp",
            true,
            "\
slow.test. AAAA: NXDOMAIN, from acts
block: test. at dns://:1053
way:
  acts answers
extended error: 0 nobody knows
",
        ),
        (
            "fail.test --at dns://:1053",
            false,
            "\
fail.test. A: SERVFAIL
block: test. at dns://:1053
way:
  acts says SERVFAIL: on purpose: with detail
",
        ),
        (
            "example.org",
            false,
            "\
example.org. A: REFUSED
block: none at dns://:1053: no server block for the name
way:
extended error: 20 no server block for the name
",
        ),
    ] {
        let report = say(&bench, line).await.unwrap();
        assert_eq!(
            (report.to_text().as_str(), report.outcome == Outcome::Good),
            (want, good),
            "{line}"
        );
    }
    let report = say(&bench, "real.test --at=dns://:1054").await.unwrap();
    let json = report.value.json();
    let begins = r#"{"name":"real.test.","type":"A","from":"127.0.0.1","block":{"listener":"dns://:1054","zone":"real.test.","view":null,"refused":null},"rcode":"NOERROR","authoritative":false,"answered_by":"acts","way":[{"nested":0,"plugin":"acts","did":"answers","because":{"why":"it is real","kind":"test"}}],"answer":["real.test. 30 IN A 198.51.100.1"],"#;
    assert!(json.starts_with(begins), "{json}");
}

#[tokio::test]
async fn bad_questions_are_told_what_is_wrong() {
    let bench = bench();
    for (line, want) in [
        ("", "write: explain NAME"),
        ("a b c", "write: explain NAME"),
        ("a.test NOTYPE", "'NOTYPE' is no type"),
        ("a..b", "'a..b' is no domain name"),
        ("a --at", "--at needs a value"),
        (
            "a --at tls://:853",
            "there is no listener 'tls://:853'; there is: dns://:1053, dns://:1054",
        ),
        ("a --from here", "'here' is no address"),
        ("a --odd", "explain knows no '--odd'"),
        ("a.test --view v", "no block with the view 'v' has a zone of this name"),
        ("test AXFR", "transfers are not explained"),
    ] {
        let said = say(&bench, line).await.unwrap_err();
        assert!(said.starts_with(want), "{line}: {said}");
    }
    let args = ["198.51.100.7".to_owned(), "--as=alice,admins".to_owned()];
    let inquiry = Inquiry::read(&args).unwrap();
    assert_eq!(inquiry.name.to_string(), "7.100.51.198.in-addr.arpa.");
    let identity = inquiry.identity.unwrap();
    assert_eq!((&*identity.name, &*identity.groups), ("alice", &["admins".to_owned()][..]));
    assert!(
        reverse([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].into())
            .is_some_and(|name| name.to_string()
                == "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.")
    );
}
