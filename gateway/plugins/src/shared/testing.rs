//! What the tests of several plugins need: a plugin that answers, and the lines that were logged.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Fault, Plugin, Step};
use log::{Level, LevelFilter, Log, Metadata, Record};
use wire::{Section, rcode, rtype};

/// The lines logged, each with the thread that did.
static LINES: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// Keeps lines.
struct Keeper;

impl Log for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = if record.level() == Level::Warn { "WARNING" } else { record.level().as_str() };
        let line = match record.target() {
            plugin if plugin.starts_with("plugin/") => {
                format!("[{level}] {plugin}: {}", record.args())
            }
            _ => format!("[{level}] {}", record.args()),
        };
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push((thread::current().id(), line));
    }

    fn flush(&self) {}
}

/// The lines that this thread has logged since the last look, written as the process does.
pub(crate) fn logged() -> Vec<String> {
    let own = thread::current().id();
    taken(|id, _| id == own)
}

/// The lines with a text that any thread has logged since the last look.
pub(crate) fn logged_by_any(text: &str) -> Vec<String> {
    taken(|_, line| line.contains(text))
}

/// Takes lines out.
fn taken(counts: impl Fn(ThreadId, &str) -> bool) -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_boxed_logger(Box::new(Keeper)).unwrap();
        log::set_max_level(LevelFilter::Debug);
    });
    let mut all = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    all.extract_if(.., |(id, line)| counts(*id, line)).map(|(_, line)| line).collect()
}

/// Answers by the first label: `nx`, `nodata`, `refused` (written), `fail` (not written), `quiet` (a fault without words),
/// `drop`, `pass` (goes on), `panic`; all else has an address.
#[derive(Debug)]
struct Answers;

impl Plugin for Answers {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        let soa = |x: &mut Exchange| {
            x.answer_mut().push(Section::Authority, &[0], rtype::SOA, 30, &[0; 22]);
        };
        match name.each_label().next().unwrap_or_default() {
            b"nx" => {
                x.answer_mut().rcode = rcode::NXDOMAIN;
                soa(x);
            }
            b"nodata" => soa(x),
            b"refused" => x.answer_mut().rcode = rcode::REFUSED,
            b"fail" => {
                return x.fail(Fault::servfail("it failed"), "connection refused by 127.0.0.1:9");
            }
            b"quiet" => return Step::Fail(Fault::servfail("")),
            b"drop" => return Step::Drop,
            b"pass" => return Step::Next,
            b"panic" => panic!("on purpose"),
            _ => {
                x.answer_mut().set_authoritative(true);
                x.answer_mut().a(&name, 30, [198, 51, 100, 1].into());
            }
        }
        Step::Done
    }
}

/// The plugin `answers`.
pub(crate) static ANSWERS: Descriptor = Descriptor {
    name: "answers",
    readme: "",
    setup: |setup| {
        setup.install(Answers);
        Ok(())
    },
};

/// A folder of its own for a test, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// With the file `db`.
    pub(crate) fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("causeway-zones-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder.write("db", text);
        folder
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A Corefile, in which `DB` is the path of `db`, and `DIR` that of the folder.
    pub(crate) fn corefile(&self, text: &str) -> String {
        let db = self.path("db");
        text.replace("DB", &db.to_string_lossy()).replace("DIR", &self.0.to_string_lossy())
    }

    /// A gateway for it.
    pub(crate) fn bench(&self, corefile: &str) -> Bench {
        Bench::new(crate::CHAIN, &self.corefile(corefile))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
