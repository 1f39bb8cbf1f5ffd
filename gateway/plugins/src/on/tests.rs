//! The facts `on.*`: commands that leave something behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use engine::testing::Bench;
use engine::{Descriptor, Stage};

use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&ANSWERS, &super::PLUGIN];

/// A file that is not there yet.
fn fresh() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("causeway-on-{}-{number}", std::process::id()));
    drop(std::fs::remove_file(&path));
    path
}

/// What is in a file once it has so many lines.
async fn lines(path: &std::path::Path, count: usize) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{lines:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A directive that appends a word to a file, after a time in seconds.
fn append(event: &str, after: &str, word: &str, path: &std::path::Path, end: &str) -> String {
    format!("on {event} sh -c 'sleep {after}; echo {word} >>{}' {end}\n", path.display())
}

#[tokio::test]
async fn commands_run_at_the_start_in_their_order() {
    // on.event, on.run, on.first, on.args: the one in the background is overtaken.
    let path = fresh();
    let mut block = append("startup", "0.4", "late", &path, "&");
    block.push_str(&append("startup", "0.1", "first", &path, ""));
    block.push_str(&append("startup", "0", "second", &path, ""));
    logged();
    let bench = Bench::new(CHAIN, &format!("test {{\n{block}answers\n}}\n"));
    assert_eq!(lines(&path, 3).await, ["first", "second", "late"]);
    let said = logged();
    let kinds: Vec<_> = said.iter().filter_map(|line| line.split(" Command ").next()).collect();
    assert_eq!(kinds, ["[INFO] Nonblocking", "[INFO] Blocking", "[INFO] Blocking"], "{said:?}");
    let ids: Vec<_> = said.iter().filter_map(|line| line.rsplit_once(" with ID ")).collect();
    assert!(ids.len() == 3 && ids[0].1 != ids[1].1 && ids[1].1 != ids[2].1, "{said:?}");
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 30 A 198.51.100.1");
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_shutdown_waits_for_its_commands() {
    // on.run: the process is held until they have ended, and no longer.
    let path = fresh();
    let block = append("shutdown", "0.3", "bye", &path, "");
    let bench = Bench::new(CHAIN, &format!("test {{\n{block}answers\n}}\n"));
    let process = Arc::clone(bench.process());
    let early = tokio::time::timeout(Duration::from_millis(100), process.released()).await;
    assert!(early.is_err() && !path.exists(), "it runs at the shutdown");
    process.stopper().reach(Stage::LameDuck);
    process.released().await;
    assert_eq!(lines(&path, 1).await, ["bye"]);
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_new_configuration_has_its_own_commands() {
    // on.reload: those of the old one are gone.
    let path = fresh();
    let old = append("shutdown", "0", "old", &path, "");
    let new =
        append("startup", "0", "reloaded", &path, "") + &append("shutdown", "0", "new", &path, "");
    let mut bench = Bench::new(CHAIN, &format!("test {{\n{old}answers\n}}\n"));
    bench.reload(&format!("test {{\n{new}answers\n}}\n")).unwrap();
    assert_eq!(lines(&path, 1).await, ["reloaded"]);
    let process = Arc::clone(bench.process());
    process.stopper().reach(Stage::LameDuck);
    process.released().await;
    assert_eq!(lines(&path, 2).await, ["reloaded", "new"]);
    bench.reload("test {\nanswers\n}\n").unwrap();
    process.released().await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn failures_are_logged_and_change_nothing() {
    logged();
    let block = "on startup false\non startup no-such-program-here x\non startup true";
    let bench = Bench::new(CHAIN, &format!("test {{\n{block}\nanswers\n}}\n"));
    let begin = Instant::now();
    let mut said = Vec::new();
    while said.len() < 5 && begin.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        said.extend(logged());
    }
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(said[1].starts_with("[ERROR] plugin/on: Command \"false\" with ID "), "{said:?}");
    assert!(said[1].ends_with("failed: exit status: 1"), "{said:?}");
    assert!(said[3].contains("cannot be run: No such file"), "{said:?}");
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 30 A 198.51.100.1");
}

#[test]
fn what_is_refused() {
    // on.event, on.args, on.split.
    for (lines, want) in [
        ("on", "Wrong argument count"),
        ("on startup", "no command is stated"),
        ("on reload true", "'reload' is not known here"),
        ("on startup \"echo 'x\"", "the quote ' is not closed"),
        ("on startup true {\n}", "takes no block"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n{lines}\nanswers\n}}\n"));
        assert!(text.starts_with("plugin/on: ") && text.contains(want), "{lines}: {text}");
    }
    let bench = Bench::new(CHAIN, "test {\non certrenew true\nanswers\n}\n");
    assert!(bench.built.warnings[0].what.contains("never happens"), "{:?}", bench.built.warnings);
}
