//! The clients of datagrams that come without a header of their own, behind one with a header.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::accept::Ends;

/// Whom a proxy's addresses last spoke for.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// How long that holds, from when it was last used.
    time: Duration,
    /// How many are kept.
    most: usize,
    known: Mutex<Known>,
}

/// What is known, and in which order it was used.
#[derive(Debug, Default)]
struct Known {
    clients: HashMap<SocketAddr, Session>,
    order: BTreeMap<u64, SocketAddr>,
    next: u64,
}

/// One address of a proxy.
#[derive(Clone, Copy, Debug)]
struct Session {
    ends: Ends,
    until: Instant,
    /// Its key in the order.
    turn: u64,
}

impl Sessions {
    /// Nobody is known.
    pub(crate) fn new((time, most): (Duration, usize)) -> Self {
        Self { time, most: most.max(1), known: Mutex::default() }
    }

    /// Notes whom `proxy` speaks for. If too many are known, the one that was used longest ago is forgotten.
    pub(super) fn note(&self, proxy: SocketAddr, ends: Ends, now: Instant) {
        let known = &mut *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = known.turn();
        let session = Session { ends, until: now + self.time, turn };
        if let Some(old) = known.clients.insert(proxy, session) {
            known.order.remove(&old.turn);
        }
        known.order.insert(turn, proxy);
        while known.order.len() > self.most
            && let Some((_, oldest)) = known.order.pop_first()
        {
            known.clients.remove(&oldest);
        }
    }

    /// Whom `proxy` speaks for, if that still holds; then it does for as long again.
    pub(super) fn find(&self, proxy: SocketAddr, now: Instant) -> Option<Ends> {
        let known = &mut *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = known.turn();
        let session = known.clients.get_mut(&proxy)?;
        known.order.remove(&session.turn);
        if session.until < now {
            known.clients.remove(&proxy);
            return None;
        }
        (session.until, session.turn) = (now + self.time, turn);
        known.order.insert(turn, proxy);
        Some(session.ends)
    }
}

impl Known {
    /// The next key of the order.
    fn turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
