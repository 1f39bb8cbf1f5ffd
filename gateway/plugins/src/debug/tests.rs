//! What `debug` takes.

use engine::Descriptor;
use engine::testing::Bench;

use crate::shared::testing::ANSWERS;

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &ANSWERS];

#[test]
fn no_words_and_no_block() {
    for (text, want) in [
        ("test {\ndebug x\nanswers\n}", "'x' is one too many"),
        ("test {\ndebug {\n}\nanswers\n}", "takes no block"),
    ] {
        let wrong = Bench::refused(PLUGINS, text);
        assert!(wrong.starts_with("plugin/debug: ") && wrong.contains(want), "{wrong}");
    }
}

#[test]
fn a_panic_costs_one_reply_even_with_debug() {
    let bench = Bench::new(PLUGINS, "test {\ndebug\nanswers\n}");
    assert_eq!(bench.now("panic.test"), "SERVFAIL rd");
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 30 A 198.51.100.1");
}
