//! Lines, and their consolidation.

use std::time::Duration;

use engine::testing::Bench;
use engine::{Descriptor, Stage};
use tokio::time::sleep;

use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &crate::log::PLUGIN, &ANSWERS];

/// A gateway whose `errors` has these words and this block.
fn bench(errors: &str) -> Bench {
    Bench::new(PLUGINS, &format!("test {{\n{errors}\nanswers\n}}\n"))
}

#[test]
fn every_error_is_a_line_and_plain_codes_are_none() {
    // errors.on, errors.line, errors.only, errors.default_level, xc.next.
    for errors in ["errors", "errors stdout", "errors {\nstacktrace\n}"] {
        let bench = bench(errors);
        logged();
        for (query, want) in [
            (
                "Fail.test AAAA",
                "[ERROR] plugin/errors: 2 fail.test. AAAA: connection refused by 127.0.0.1:9",
            ),
            (
                "pass.test",
                "[ERROR] plugin/errors: 2 pass.test. A: plugin/answers: no next plugin found",
            ),
            ("quiet.test", ""),
            ("refused.test", ""),
            ("nx.test", ""),
            ("drop.test", ""),
        ] {
            bench.now(query);
            assert_eq!(logged().join("|"), want, "{query}");
        }
        bench.now("panic.test");
        let lines = logged();
        assert!(lines.len() == 1 && lines[0].contains("Recovered from panic"), "{lines:?}");
    }
}

#[test]
fn the_last_plugin_of_the_block_is_blamed_for_silence() {
    let bench = Bench::new(PLUGINS, "test {\nerrors\nlog other\n}\n");
    logged();
    bench.now("x.test");
    assert_eq!(logged(), ["[ERROR] plugin/errors: 2 x.test. A: plugin/log: no next plugin found"]);
}

#[tokio::test(start_paused = true)]
async fn consolidated_errors_are_one_line_for_a_period() {
    // errors.consolidate: the first pattern that matches takes the error; the period begins with the first.
    let bench = bench(
        "errors {\nconsolidate 1s \".*refused.*\" warning\nconsolidate 5m ^connection\nconsolidate 90s next info\n}",
    );
    logged();
    for query in ["fail.test", "a.fail.test", "fail.test", "pass.test"] {
        bench.ask(query).await;
    }
    assert_eq!(logged(), [""; 0]);
    sleep(Duration::from_millis(1100)).await;
    let first = "[WARNING] plugin/errors: 2 errors like '.*refused.*' occurred in last 1s";
    assert_eq!(logged(), [first]);
    bench.ask("fail.test").await;
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(logged(), [first.replace("2 errors", "1 errors")]);
    sleep(Duration::from_secs(90)).await;
    assert_eq!(logged(), ["[INFO] plugin/errors: 1 errors like 'next' occurred in last 1m30s"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_may_be_shown() {
    // errors.show_first
    let bench = bench(
        "errors {\nconsolidate 1s refused info show_first\nconsolidate 1s next show_first\n}",
    );
    logged();
    bench.ask("fail.test").await;
    let first = "[INFO] plugin/errors: 2 fail.test. A: connection refused by 127.0.0.1:9";
    assert_eq!(logged(), [first]);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(logged(), [""; 0]);
    for _ in 0..3 {
        bench.ask("fail.test").await;
    }
    assert_eq!(logged(), [first]);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(logged(), ["[INFO] plugin/errors: 3 errors like 'refused' occurred in last 1s"]);
    bench.ask("pass.test").await;
    assert!(logged()[0].starts_with("[ERROR] plugin/errors: 2 pass.test. A: "));
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_is_said_when_the_configuration_or_the_process_ends() {
    // errors.shutdown
    let corefile = "errors {\nconsolidate 1h refused\n}";
    let line = "[ERROR] plugin/errors: 1 errors like 'refused' occurred in last 1h0m0s";
    let mut one = bench(corefile);
    logged();
    sleep(Duration::from_millis(1)).await;
    one.ask("fail.test").await;
    one.reload("test {\nanswers\n}\n").unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(logged(), [line]);
    let other = bench(corefile);
    sleep(Duration::from_millis(1)).await;
    other.ask("fail.test").await;
    other.process().stopper().reach(Stage::Draining);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(logged(), [line]);
}

#[test]
fn what_is_refused() {
    // errors.err
    for (errors, want) in [
        ("errors file.log", "'file.log' is an invalid log file"),
        ("errors stdout x", "'x' is one too many"),
        ("errors\nerrors", "can only be used once"),
        ("errors {\nfoo\n}", "'foo' is not a property"),
        ("errors {\nstacktrace x\n}", "'x' is one too many"),
        ("errors {\nconsolidate 1s\n}", "Wrong argument count"),
        ("errors {\nconsolidate 1 x\n}", "a duration needs a unit"),
        ("errors {\nconsolidate -1s x\n}", "cannot be negative"),
        ("errors {\nconsolidate 1s (\n}", "is no regular expression"),
        ("errors {\nconsolidate 1s x fatal\n}", "'fatal' is not known here"),
        ("errors {\nconsolidate 1s x info error\n}", "'error' is not known here"),
        ("errors {\nconsolidate 1s x show_first info\n}", "'info' is one too many"),
        ("errors {\nconsolidate 1s x info show_first x\n}", "'x' is one too many"),
        (&format!("errors {{\nconsolidate 1s {}\n}}", "x".repeat(10_001)), "10001 octets"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{errors}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/errors: ") && wrong.contains(want), "{wrong}");
    }
}
