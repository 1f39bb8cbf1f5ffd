//! What is noticed, and what is done about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::testing::Bench;
use engine::{Descriptor, Origin, Process, Stage, Stopper};

use super::handler::{Turns, Watch};
use super::print::Look;
use super::setup::Pace;
use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &ANSWERS];

/// A folder of a test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    /// A fresh folder.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reload-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A process that nothing runs in.
fn process() -> Arc<Process> {
    Arc::new(Process::new(std::env::temp_dir(), "test".to_owned(), 1, Duration::ZERO))
}

/// Starts a watch over `path` as it is now.
fn watch(path: &Path, process: &Arc<Process>, turns: &Arc<Turns>) -> Stopper {
    watch_every(2, path, process, turns)
}

/// The same with an interval in seconds.
fn watch_every(seconds: u64, path: &Path, process: &Arc<Process>, turns: &Arc<Turns>) -> Stopper {
    let Look::Good { files, .. } = Look::at(path) else { panic!("{} is wrong", path.display()) };
    let pace = Pace { interval: Duration::from_secs(seconds), jitter: Duration::from_secs(1) };
    let origin = Arc::new(Origin { files });
    let watch =
        Watch::new(pace, path.to_path_buf(), origin, Arc::clone(process), Arc::clone(turns));
    let stopper = Stopper::new(Duration::ZERO);
    tokio::spawn(watch.run(stopper.stop()));
    stopper
}

/// Whether a reload is asked for within a few intervals.
async fn asked(process: &Process) -> bool {
    tokio::time::timeout(Duration::from_secs(9), process.reload_asked()).await.is_ok()
}

/// The lines logged so far, without the hashes.
fn lines() -> Vec<String> {
    let lines = logged().into_iter().filter(|line| line.contains("plugin/reload"));
    lines.map(|line| line.split(" = ").next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_meaning_asks_for_a_reload_and_a_change_of_looks_does_not() {
    // reload.detect, reload.files.
    let folder = Folder::new("change");
    let corefile = folder.write("Corefile", "test {\nimport part\nanswers\n}\n");
    folder.write("part", "log\n");
    let (process, turns) = (process(), Arc::default());
    logged();
    let first = watch(&corefile, &process, &turns);
    assert!(!asked(&process).await);
    assert_eq!(lines(), ["[INFO] plugin/reload: Running configuration SHA512"]);
    folder.write("Corefile", "# new\ntest {\n  import part\n\n  answers # here\n}\n");
    assert!(!asked(&process).await);
    folder.write("part", "errors\n");
    assert!(asked(&process).await);
    // The new configuration has a watch of its own.
    process.note_reload(true);
    let second = watch(&corefile, &process, &turns);
    first.reach(Stage::Draining);
    assert!(!asked(&process).await);
    assert_eq!(lines(), ["[INFO] plugin/reload: Running configuration SHA512"]);
    let text = engine::metrics::render();
    let shown = text.matches("coredns_reload_version_info{hash=\"sha512\",value=\"").count();
    assert!(shown > 0, "{text}");
    second.reach(Stage::Draining);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_up_is_said_once_and_not_tried_again() {
    // reload.fail
    let folder = Folder::new("fail");
    let good = "test {\nanswers\n}\n";
    let corefile = folder.write("Corefile", good);
    let process = process();
    logged();
    let stopper = watch(&corefile, &process, &Arc::default());
    assert!(!asked(&process).await);
    lines();
    folder.write("Corefile", "test {\nanswers\n");
    assert!(!asked(&process).await);
    let said = lines();
    assert!(said.len() == 1, "{said:#?}");
    assert!(said[0].starts_with("[WARNING] plugin/reload: Corefile parse failed: "), "{said:#?}");
    folder.write("Corefile", "test {\nnonsense\n}\n");
    assert!(asked(&process).await);
    process.note_reload(false);
    assert!(!asked(&process).await);
    let said =
        "[ERROR] plugin/reload: Corefile changed but reload failed: the old configuration goes on";
    assert_eq!(lines(), [said]);
    // What runs needs no reload; what failed before is tried again after it.
    folder.write("Corefile", good);
    assert!(!asked(&process).await);
    folder.write("Corefile", "test {\nnonsense\n}\n");
    assert!(asked(&process).await);
    stopper.reach(Stage::Draining);
}

#[tokio::test(start_paused = true)]
async fn a_change_while_the_configuration_was_built_is_noticed() {
    let folder = Folder::new("race");
    let corefile = folder.write("Corefile", "test {\nimport *.part\nanswers\n}\n");
    folder.write("a.part", "log\n");
    let process = process();
    let stopper = watch(&corefile, &process, &Arc::default());
    // The watch has read nothing yet.
    folder.write("b.part", "errors\n");
    assert!(asked(&process).await);
    stopper.reach(Stage::Draining);
}

#[tokio::test(start_paused = true)]
async fn the_process_has_one_watch() {
    // reload.process
    let folder = Folder::new("one");
    let corefile = folder.write("Corefile", "test {\nanswers\n}\n");
    let (process, turns) = (process(), Arc::default());
    logged();
    let both = [watch(&corefile, &process, &turns), watch(&corefile, &process, &turns)];
    assert!(!asked(&process).await);
    assert_eq!(lines().len(), 1);
    both.iter().for_each(|stopper| stopper.reach(Stage::Draining));
}

#[tokio::test(start_paused = true)]
async fn the_last_block_says_how_often() {
    // reload.once
    let folder = Folder::new("last");
    for (intervals, wanted) in [([2, 1000], false), ([1000, 2], true)] {
        let corefile = folder.write("Corefile", "test {\nanswers\n}\n");
        let (process, turns) = (process(), Arc::default());
        let both = intervals.map(|seconds| watch_every(seconds, &corefile, &process, &turns));
        folder.write("Corefile", "test {\nerrors\nanswers\n}\n");
        assert_eq!(asked(&process).await, wanted, "{intervals:?}");
        both.iter().for_each(|stopper| stopper.reach(Stage::Draining));
    }
}

#[test]
fn what_may_be_written() {
    // reload.args, reload.once.
    for (reload, want) in [
        ("reload 1s", "'1s' is too short an interval"),
        ("reload 2s 500ms", "'500ms' is too small a jitter"),
        ("reload soon", "not a duration"),
        ("reload 10", "a duration needs a unit"),
        ("reload -10s", "cannot be negative"),
        ("reload 2s 1s 3s", "'3s' is one too many"),
        ("reload {\n}", "takes no block"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{reload}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/reload: ") && wrong.contains(want), "{wrong}");
    }
    for reload in ["reload", "reload 2s", "reload 2s 0", "reload 2s 90s", "reload\nreload 1s"] {
        Bench::new(PLUGINS, &format!("test {{\n{reload}\nanswers\n}}\n"));
    }
}

#[test]
fn the_pace_of_looks_keeps_to_its_bounds() {
    let secs = Duration::from_secs;
    for (line, interval, jitter) in [
        ("reload", secs(30), secs(15)),
        ("reload 10s", secs(10), secs(5)),
        ("reload 10s 0", secs(10), secs(0)),
        ("reload 10s 4s", secs(10), secs(4)),
        ("reload 2s 90s", secs(2), secs(1)),
    ] {
        let pace = super::setup::pace(&config::corefile::directive(line).unwrap()).unwrap();
        assert_eq!(pace, Pace { interval, jitter }, "{line}");
        let origin = Arc::new(Origin { files: Vec::new() });
        let watch = Watch::new(pace, PathBuf::new(), origin, process(), Arc::default());
        let all: Vec<_> = (0..500).map(|_| watch.interval()).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!(*least >= interval - jitter / 2 && *most <= interval + jitter / 2, "{line}");
        assert!(*most - *least >= jitter / 2, "{line}: {least:?} to {most:?}");
    }
}
