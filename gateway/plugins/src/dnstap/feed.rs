//! What lies between the queries and a sink: a queue that never waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::metrics::{Counter, Gauge, counter, describe, gauge};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::TARGET;
use super::message::Note;

/// The counter of what was left out.
const DROPPED: &str = "causeway_dnstap_dropped_messages_total";

/// How many sinks there are.
const SINKS: &str = "causeway_dnstap_sinks";

/// How many octets of messages may wait for each message that may.
const OCTETS: usize = 1024;

/// A queue of messages, and how it fares. There is one for all directives of a configuration that are alike, and it stays over
/// reloads.
pub(super) struct Feed {
    sender: Sender<Note>,
    /// The other end, until somebody takes it.
    receiver: Mutex<Option<Receiver<Note>>>,
    /// The rest, which the other side has as well.
    pub(super) board: Arc<Board>,
    /// Whether messages go with their octets.
    pub(super) full: bool,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("full", &self.full).finish_non_exhaustive()
    }
}

/// What both ends know.
pub(super) struct Board {
    /// Whether anybody listens.
    heard: AtomicBool,
    /// How many octets wait.
    octets: AtomicUsize,
    /// How many may.
    most: usize,
    /// What was left out since it was last said.
    dropped: AtomicU64,
    counter: Counter,
    sinks: Gauge,
}

impl Feed {
    /// An empty one for so many messages; `heard` if they are kept before there is a sink.
    pub(super) fn new(socket: &str, messages: usize, full: bool, heard: bool) -> Arc<Self> {
        describe(DROPPED, "Messages that were left out because the sink is away or too slow.");
        describe(SINKS, "Sinks that are connected.");
        let (sender, receiver) = channel(messages);
        let labels = [("socket", socket)];
        let board = Board {
            heard: AtomicBool::new(heard),
            octets: AtomicUsize::new(0),
            most: messages.saturating_mul(OCTETS),
            dropped: AtomicU64::new(0),
            counter: counter(DROPPED, &labels),
            sinks: gauge(SINKS, &labels),
        };
        board.counter.increment(0);
        board.sinks.set(0.0);
        let receiver = Mutex::new(Some(receiver));
        Arc::new(Self { sender, receiver, board: Arc::new(board), full })
    }

    /// Takes the other end; none if somebody has it.
    pub(super) fn take(&self) -> Option<Receiver<Note>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a message is wanted at all.
    pub(super) fn is_heard(&self) -> bool {
        self.board.heard.load(Ordering::Relaxed)
    }

    /// Puts a message into the queue; if there is no room it is counted and never made. Takes no lock and does not wait.
    pub(super) fn offer(&self, make: impl FnOnce() -> Note) {
        let has_room = self.board.octets.load(Ordering::Relaxed) <= self.board.most;
        match self.sender.try_reserve() {
            Ok(permit) if has_room => {
                let note = make();
                self.board.octets.fetch_add(note.size(), Ordering::Relaxed);
                permit.send(note);
            }
            _ => self.board.leave_out(1),
        }
    }
}

impl Board {
    /// Says whether anybody listens.
    pub(super) fn hear(&self, heard: bool) {
        self.heard.store(heard, Ordering::Relaxed);
    }

    /// Notes that a message has left the queue.
    pub(super) fn taken(&self, note: &Note) {
        self.octets.fetch_sub(note.size(), Ordering::Relaxed);
    }

    /// Counts messages that nobody gets.
    pub(super) fn leave_out(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Relaxed);
        self.counter.increment(messages);
    }

    /// Notes how many sinks there are.
    pub(super) fn sinks(&self, count: usize) {
        self.sinks.set(count as f64);
    }

    /// Says how many messages were left out since the last time, if any.
    pub(super) fn say(&self) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            log::warn!(target: TARGET, "Dropped dnstap messages: {dropped}");
        }
    }
}
