//! The facts `shed.*` on the side of queries; that of replies is the listener's.

use engine::testing::{Bench, show};
use engine::{Descriptor, metrics};

use crate::shared::testing::ANSWERS;

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &ANSWERS];

#[test]
fn queries_are_dropped_while_there_is_no_room() {
    // shed.drop, shed.scope, shed.M.
    let bench = Bench::new(CHAIN, "a.test:5397 {\nshed\nanswers\n}\nb.test:5397 {\nanswers\n}\n");
    let mut specs = Vec::new();
    bench.gateway.live().groups().for_each(|group| specs.push(group.spec.shed));
    assert_eq!(specs, [true], "the listener is that of both blocks");
    for (query, congested, answered) in [
        ("x.a.test", false, true),
        ("x.a.test", true, false),
        ("x.a.test", true, false),
        ("x.b.test", true, true),
    ] {
        let mut x = bench.exchange(query);
        x.query.congested = congested;
        let reply = show(&bench.serve(&mut x));
        assert_eq!(reply != "(none)", answered, "{query} {congested}: {reply}");
    }
    let line = "coredns_shed_dropped_total{reason=\"query\",server=\"dns://:5397\"} 2";
    assert!(metrics::render().contains(line), "{}", metrics::render());
}

#[test]
fn what_is_refused() {
    // shed.on
    for (text, want) in [
        ("test {\nshed x\nanswers\n}", "'x' is one too many"),
        ("test {\nshed {\n}\nanswers\n}", "takes no block"),
        ("test {\nshed\nshed\nanswers\n}", "can only be used once"),
        ("tls://test {\nshed\nanswers\n}", "is for plain DNS alone"),
        ("a.test tls://b.test {\nshed\nanswers\n}", "b.test. is served by something else"),
    ] {
        let wrong = Bench::refused(CHAIN, &format!("{text}\n"));
        assert!(wrong.starts_with("plugin/shed: ") && wrong.contains(want), "{text}: {wrong}");
    }
}
