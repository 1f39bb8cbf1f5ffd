//! Who is asked, and what is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::admin::Ask;
use engine::testing::Bench;
use engine::{Descriptor, Ready, Role, Setup, Stage};

use crate::shared::testing::{ANSWERS, logged};

/// Is ready from the question of this number on, and at every second one from then.
#[derive(Debug)]
struct Slow(usize, AtomicUsize);

impl Ready for Slow {
    fn ready(&self) -> bool {
        let asked = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        asked >= self.0 && (asked - self.0).is_multiple_of(2)
    }
}

/// Offers a [`Slow`] for the number behind the directive's name.
fn set_up(setup: &mut Setup<'_>) -> Result<(), config::Diagnostic> {
    let from = setup.directive().words().parsed()?;
    setup.offer(Role::Ready(Arc::new(Slow(from, AtomicUsize::new(0)))));
    Ok(())
}

/// The plugin `slow`.
static SLOW: Descriptor = Descriptor { name: "slow", readme: "", setup: set_up };

/// The plugin `late`.
static LATE: Descriptor = Descriptor { name: "late", readme: "", setup: set_up };

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &SLOW, &LATE, &ANSWERS];

/// What the first page says.
fn ask(bench: &Bench) -> String {
    let ask = Ask { method: "GET", path: "/ready", ..Ask::default() };
    let told = bench.built.pages[0].handler.handle(ask);
    format!("{} {}", told.status, String::from_utf8(told.body).unwrap())
}

#[test]
fn all_plugins_of_all_blocks_with_the_address_have_to_be_ready() {
    // ready.path, ready.monitor, ready.names: one name for two blocks means both of them.
    let corefile =
        "a {\nready\nslow 2\nlate 3\n}\nb {\nready :8181\nslow 4\n}\nc {\nslow 9\nanswers\n}\n";
    let bench = Bench::new(PLUGINS, corefile);
    assert_eq!(bench.built.pages.len(), 1);
    assert_eq!(bench.built.pages[0].addr.to_string(), "[::]:8181");
    logged();
    for want in ["503 late,slow", "503 late,slow", "503 slow", "200 OK", "200 OK"] {
        assert_eq!(ask(&bench), want);
    }
    let line = |names: &str| format!("[INFO] plugin/ready: Plugins not ready: \"{names}\"");
    assert_eq!(logged(), [line("late,slow"), line("late,slow"), line("slow")]);
}

#[test]
fn continuous_asking_hears_a_no_again() {
    let bench = Bench::new(PLUGINS, "a {\nready {\nmonitor continuously\n}\nslow 1\n}\n");
    for want in ["200 OK", "503 slow", "200 OK", "503 slow"] {
        assert_eq!(ask(&bench), want);
    }
    // Process-wide: the last block decides.
    let bench = Bench::new(
        PLUGINS,
        "a {\nready {\nmonitor continuously\n}\nslow 1\n}\nb {\nready {\nmonitor until-ready\n}\nanswers\n}\n",
    );
    for want in ["200 OK", "200 OK"] {
        assert_eq!(ask(&bench), want);
    }
}

#[test]
fn nobody_to_ask_is_ready_until_the_process_stops() {
    // ready.empty, ready.shutdown.
    let bench = Bench::new(PLUGINS, "a {\nready localhost:8182\nanswers\n}\n");
    assert_eq!(bench.built.pages[0].addr.to_string(), "127.0.0.1:8182");
    assert_eq!(ask(&bench), "200 OK");
    bench.process().stopper().reach(Stage::LameDuck);
    assert_eq!(ask(&bench), "503 Shutting down");
}

#[test]
fn what_is_refused() {
    // ready.err
    for (ready, want) in [
        ("ready :1 :2", "':2' is one too many"),
        ("ready 8181", "'8181' has no port"),
        ("ready\nready", "can only be used once"),
        ("ready {\nfoo\n}", "'foo' is not a property"),
        ("ready {\nmonitor\n}", "Wrong argument count"),
        ("ready {\nmonitor often\n}", "'often' is not known here"),
        ("ready {\nmonitor continuously x\n}", "'x' is one too many"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{ready}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/ready: ") && wrong.contains(want), "{wrong}");
    }
}
