//! The facts `minimal.*`.

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Fault, Plugin, Setup, Step};
use wire::{Section, rcode, rtype};

/// Answers by the first label: what to put into which section.
#[derive(Debug)]
struct Scripted;

impl Plugin for Scripted {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        let label = name.each_label().next().unwrap_or_default().to_vec();
        let (zone, answer) = (name.parent(), x.answer_mut());
        let soa = |answer: &mut wire::Answer| {
            let own = zone.wire();
            answer.soa(Section::Authority, own, 99, own, own, [1, 2, 3, 4, 55]);
        };
        let ns = |answer: &mut wire::Answer| {
            answer.push(Section::Authority, zone.wire(), rtype::NS, 30, zone.wire())
        };
        match &*label {
            b"full" => {
                answer.push(Section::Answer, name.wire(), rtype::CNAME, 30, zone.wire());
                answer.a(&zone, 30, [203, 0, 113, 2].into());
                ns(answer);
            }
            b"nodata" => soa(answer),
            b"nx" => {
                answer.rcode = rcode::NXDOMAIN;
                soa(answer);
            }
            b"ref" => ns(answer),
            b"fail" => answer.rcode = rcode::SERVFAIL,
            b"fault" => return Step::Fail(Fault::servfail("on purpose")),
            b"drop" => return Step::Drop,
            _ => {}
        }
        let glue = [203, 0, 113, 3];
        answer.push(Section::Additional, zone.wire(), rtype::A, 30, &glue);
        Step::Done
    }
}

/// The scripted plugin's entry.
static SCRIPTED: Descriptor = Descriptor {
    name: "scripted",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.install(Scripted);
        Ok(())
    },
};

/// The registry of this test.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &SCRIPTED];

#[test]
fn positive_replies_lose_what_was_not_asked_for() {
    let bench = Bench::new(CHAIN, "test {\n minimal\n scripted\n}\n");
    let soa = "test. 99 SOA test. test. 1 2 3 4 55";
    let glue = "test. 30 A 203.0.113.3";
    for (line, want) in [
        ("full.test", "NOERROR rd | full.test. 30 CNAME test.; test. 30 A 203.0.113.2".to_owned()),
        ("empty.test", "NOERROR rd".to_owned()),
        ("nodata.test", format!("NOERROR rd |  | {soa} | {glue}")),
        ("nx.test", format!("NXDOMAIN rd |  | {soa} | {glue}")),
        ("ref.test", format!("NOERROR rd |  | test. 30 NS test. | {glue}")),
        ("fail.test", format!("SERVFAIL rd |  |  | {glue}")),
        ("fault.test", "SERVFAIL rd".to_owned()),
        ("drop.test", "(none)".to_owned()),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    // The OPT record stays.
    let mut x = bench.exchange("full.test +do");
    let message = bench.serve(&mut x);
    assert_eq!(message[11], 1, "one additional record");
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [("minimal x", "Wrong argument count"), ("minimal {\n }", "takes no block")]
    {
        let text = Bench::refused(CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
