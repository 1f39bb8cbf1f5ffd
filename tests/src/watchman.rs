//! Clients that ask all the time while a test does something to the gateway, and note what was wrong.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::{Gateway, Query};

/// How long a client rests after each query, so that it leaves the machine to the others.
const PAUSE: Duration = Duration::from_micros(500);

/// How many wrong answers a client remembers.
const MOST: usize = 20;

/// A client: asks once at each call and says what was wrong.
pub type Asker = Box<dyn FnMut() -> Result<(), String> + Send>;

/// Clients at work.
///
/// ```no_run
/// use tests::{Gateway, Watchman, watchman};
/// let gateway = Gateway::new(".:@PORT@ {\n whoami\n}").start();
/// let names = ["example.org A".to_owned(), "example.org TXT".to_owned()];
/// let watchman = Watchman::start(vec![watchman::steady(gateway.address(), &names)]);
/// gateway.reload();
/// let count = watchman.end(&gateway);
/// ```
#[derive(Debug)]
pub struct Watchman {
    /// Whether they shall end.
    over: Arc<AtomicBool>,
    /// How often they asked.
    count: Arc<AtomicUsize>,
    /// Give what was wrong.
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Watchman {
    /// Makes each client ask again and again, in a thread of its own.
    pub fn start(askers: Vec<Asker>) -> Self {
        let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let begin = Instant::now();
        let work = |mut ask: Asker| {
            let (over, count) = (Arc::clone(&over), Arc::clone(&count));
            spawn(move || {
                let mut wrong = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    let result = ask();
                    count.fetch_add(1, Ordering::SeqCst);
                    if let Err(problem) = result
                        && wrong.len() < MOST
                    {
                        wrong.push(format!("after {:?}: {problem}", begin.elapsed()));
                    }
                    sleep(PAUSE);
                }
                wrong
            })
        };
        let threads = askers.into_iter().map(work).collect();
        Self { over, count, threads }
    }

    /// How many queries there were so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Ends, and panics if anything was wrong or next to nothing was asked; gives the number of queries.
    pub fn end(mut self, gateway: &Gateway) -> usize {
        self.over.store(true, Ordering::SeqCst);
        let wrong: Vec<String> =
            self.threads.drain(..).flat_map(|t| t.join().expect("it asks to the end")).collect();
        assert!(wrong.is_empty(), "wrong answers: {wrong:#?}\n{}", gateway.output());
        let count = self.count();
        assert!(count >= 100, "only {count} queries");
        count
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// A client that asks for `NAME [TYPE]` one after another and wants the replies that it gets at first: response code, answers,
/// and number of records in the authority section, where serials may differ.
pub fn steady(server: SocketAddr, names: &[String]) -> Asker {
    let ask = move |name: &str| {
        let reply = Query::from(name).ask(server)?;
        Some((reply.rcode(), reply.answers(), reply.authorities().len()))
    };
    let right: Vec<_> = names
        .iter()
        .map(|n| (n.clone(), ask(n).unwrap_or_else(|| panic!("no reply to {n}"))))
        .collect();
    assert!(!right.is_empty(), "there is nothing to ask");
    let mut number = 0;
    Box::new(move || {
        let (name, right) = &right[number % right.len()];
        number += 1;
        match ask(name) {
            Some(reply) if reply == *right => Ok(()),
            reply => Err(format!("{name}: {reply:?}")),
        }
    })
}
