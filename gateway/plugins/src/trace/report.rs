//! What lies between the queries and a collector: a queue that never waits, and who sends what it holds.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::metrics::{Counter, counter, describe};
use engine::{Linger, Stage, Stop};
use http::{Method, Request};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::TARGET;
use super::span::Traced;
use crate::shared::clock;
use crate::shared::fetch::Fetch;

/// The counter of spans that a collector has taken.
const SENT: &str = "causeway_trace_spans_total";

/// The counter of spans that none has.
const DROPPED: &str = "causeway_trace_dropped_spans_total";

/// How long a batch may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long the last ones may take at the end of the process.
const LAST: Duration = Duration::from_secs(1);

/// A queue of traced queries. There is one for all directives of a configuration that are alike, and it stays over reloads.
pub(super) struct Reports {
    sender: Sender<Traced>,
    /// The other end, until somebody takes it.
    receiver: Mutex<Option<Receiver<Traced>>>,
    pub(super) board: Arc<Board>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

/// What both ends know.
pub(super) struct Board {
    /// How many spans wait.
    waiting: AtomicUsize,
    /// How many may.
    most: usize,
    sent: Counter,
    dropped: Counter,
}

impl Reports {
    /// An empty queue for so many spans.
    pub(super) fn new(collector: &str, most: usize) -> Arc<Self> {
        describe(SENT, "Spans that a collector has taken.");
        describe(DROPPED, "Spans that were left out because the collector is away or too slow.");
        let (sender, receiver) = channel(most);
        let labels = [("collector", collector)];
        let board = Board {
            waiting: AtomicUsize::new(0),
            most,
            sent: counter(SENT, &labels),
            dropped: counter(DROPPED, &labels),
        };
        board.sent.increment(0);
        board.dropped.increment(0);
        Arc::new(Self { sender, receiver: Mutex::new(Some(receiver)), board: Arc::new(board) })
    }

    /// Takes the other end; none if somebody has it.
    pub(super) fn take(&self) -> Option<Receiver<Traced>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts a query of so many spans into the queue; if there is no room they are counted and the query is never made. Takes
    /// no lock and does not wait.
    pub(super) fn offer(&self, spans: usize, make: impl FnOnce() -> Traced) {
        let before = self.board.waiting.fetch_add(spans, Ordering::Relaxed);
        match self.sender.try_reserve() {
            // One with more spans than there may be at all has its chance, too.
            Ok(permit) if before == 0 || before + spans <= self.board.most => permit.send(make()),
            _ => {
                self.board.waiting.fetch_sub(spans, Ordering::Relaxed);
                self.board.dropped.increment(spans as u64);
            }
        }
    }
}

/// A batch in a collector's form.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) method: Method,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// Puts traced queries into a collector's form.
pub(super) type Encode = Box<dyn Fn(&[Traced]) -> Batch + Send + Sync>;

/// Sends what a queue holds.
pub(super) struct Reporter {
    pub(super) fetch: Fetch,
    /// Where the collector is.
    pub(super) url: String,
    pub(super) encode: Encode,
    pub(super) traced: Receiver<Traced>,
    pub(super) board: Arc<Board>,
    /// So many spans are sent at once.
    pub(super) batch: usize,
    /// And all that there are so often.
    pub(super) interval: Duration,
    /// When the process ends.
    pub(super) stop: Stop,
    /// Has it wait for the last spans.
    pub(super) _linger: Linger,
}

impl Reporter {
    /// Runs until nobody fills the queue any more, or the process ends.
    pub(super) async fn run(mut self) {
        let (mut batch, mut spans) = (Vec::new(), 0);
        // The first tick of a plain interval comes at once.
        let mut due = interval_at(Instant::now() + self.interval, self.interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                traced = self.traced.recv() => {
                    let Some(traced) = traced else { break };
                    spans += traced.len();
                    batch.push(traced);
                    if spans >= self.batch {
                        self.send(&mut batch, &mut failing).await;
                        spans = 0;
                    }
                }
                _ = due.tick() => {
                    clock::set_right();
                    self.send(&mut batch, &mut failing).await;
                    spans = 0;
                }
                () = self.stop.reached(Stage::Closing) => break,
            }
        }
        self.traced.close();
        while let Ok(traced) = self.traced.try_recv() {
            batch.push(traced);
        }
        if timeout(LAST, self.send(&mut batch, &mut failing)).await.is_err() {
            log::debug!(target: TARGET, "the last spans were not taken in time");
        }
    }

    /// Sends a batch. What is not taken is counted, and the first time after a good one it is said why.
    async fn send(&mut self, batch: &mut Vec<Traced>, failing: &mut bool) {
        if batch.is_empty() {
            return;
        }
        let spans: usize = batch.iter().map(Traced::len).sum();
        let sent = self.post((self.encode)(batch)).await;
        batch.clear();
        self.board.waiting.fetch_sub(spans, Ordering::Relaxed);
        match sent {
            Ok(()) => {
                self.board.sent.increment(spans as u64);
                if std::mem::take(failing) {
                    log::info!(target: TARGET, "Spans are taken again by {}", self.url);
                }
            }
            Err(why) => {
                self.board.dropped.increment(spans as u64);
                if !std::mem::replace(failing, true) {
                    log::warn!(target: TARGET, "Cannot send spans to {}: {why}", self.url);
                }
            }
        }
    }

    /// Sends a request, which has to be taken.
    async fn post(&self, batch: Batch) -> Result<(), String> {
        let mut request = Request::builder().method(batch.method).uri(&self.url);
        for (name, value) in batch.headers {
            request = request.header(name, value);
        }
        let request = request.body(Bytes::from(batch.body)).map_err(|error| error.to_string())?;
        let reply = self.fetch.send(request).await.map_err(|failure| failure.to_string())?;
        match reply.status.is_success() {
            true => Ok(()),
            false => Err(format!("it says {}", reply.status)),
        }
    }
}
