//! Replies that wait for room in a socket's send buffer, where load is shed: the freshest goes first, for the client that has
//! waited longest has asked again or gone, and the oldest gives way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use engine::metrics::{Counter, counter};
use tokio::sync::Notify;

use super::Path;

/// How many replies wait at most.
pub(super) const DEPTH: usize = 1024;

/// A reply that waits.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) path: Path,
    pub(super) bytes: Box<[u8]>,
}

/// The replies of one socket that wait.
#[derive(Debug)]
pub(super) struct Stack {
    replies: Mutex<VecDeque<Reply>>,
    full: AtomicBool,
    pushed: Notify,
    /// The listener, as metrics name it.
    server: String,
    dropped: OnceLock<Counter>,
}

impl Stack {
    /// An empty one, of a socket of the listener `server`.
    pub(super) fn new(server: String) -> Self {
        Self {
            replies: Mutex::default(),
            full: AtomicBool::new(false),
            pushed: Notify::new(),
            server,
            dropped: OnceLock::new(),
        }
    }

    /// Adds a reply, for which the oldest may have to go.
    pub(super) fn push(&self, reply: Reply) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.len() >= DEPTH {
            replies.pop_front();
            self.lost();
        }
        replies.push_back(reply);
        self.full.store(replies.len() >= DEPTH, Ordering::Relaxed);
        drop(replies);
        self.pushed.notify_one();
    }

    /// Takes the freshest reply.
    pub(super) fn pop(&self) -> Option<Reply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = replies.pop_back();
        self.full.store(replies.len() >= DEPTH, Ordering::Relaxed);
        reply
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether as many wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Resolves when something was added.
    pub(super) async fn pushed(&self) {
        self.pushed.notified().await;
    }

    /// Counts a reply that could not be sent.
    pub(super) fn lost(&self) {
        let labels = [("server", &*self.server), ("reason", "response")];
        self.dropped.get_or_init(|| counter("coredns_shed_dropped_total", &labels)).increment(1);
    }

    /// Drops all replies, and counts them.
    pub(super) fn clear(&self) {
        while self.pop().is_some() {
            self.lost();
        }
    }
}
