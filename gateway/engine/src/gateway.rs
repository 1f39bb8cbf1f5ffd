//! The gateway as its listeners see it: the live configuration, replaceable under load.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use metrics::Counter;

use crate::exchange::{Begin, End, Exchange};
use crate::live::{Live, Progress};

/// Limits that hold for all configurations of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most octets of a reply over UDP, whatever the client states (RFC 9715).
    pub datagram: usize,
    /// How many background runs (prefetch, verification of stale answers) there may be at once.
    pub forks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { datagram: 1232, forks: 1024 }
    }
}

/// What outlives every configuration.
pub struct Common {
    limits: Limits,
    /// Background runs under way.
    forks: AtomicUsize,
    /// Background runs left out.
    forks_left_out: Counter,
    /// Panics caught.
    pub(crate) panics: Counter,
    /// Where the last panic was, as the process's hook noted it.
    last_panic: Mutex<String>,
}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Common").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Common {
    /// What a new process begins with.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            forks: AtomicUsize::new(0),
            forks_left_out: crate::metrics::counter("causeway_background_skipped_total", &[]),
            panics: crate::metrics::counter("coredns_panics_total", &[]),
            last_panic: Mutex::default(),
        })
    }

    /// The most octets of a datagram.
    pub(crate) fn ceiling(&self) -> usize {
        self.limits.datagram
    }

    /// Room for one more background run.
    pub(crate) fn fork(self: &Arc<Self>) -> Option<Permit> {
        if self.forks.fetch_add(1, Ordering::Relaxed) >= self.limits.forks {
            self.forks.fetch_sub(1, Ordering::Relaxed);
            self.forks_left_out.increment(1);
            return None;
        }
        Some(Permit(Arc::clone(self)))
    }

    /// Notes where a panic was; called by the process's panic hook.
    pub fn note_panic(&self, place: String) {
        *self.last_panic.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Where the last panic was, on lines of its own.
    pub(crate) fn last_panic(&self) -> String {
        let place = self.last_panic.lock().unwrap_or_else(PoisonError::into_inner);
        format!("\n{place}")
    }
}

/// Room for one background run, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Common>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.forks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The gateway as its listeners see it.
#[derive(Debug)]
pub struct Gateway {
    live: ArcSwap<Live>,
    common: Arc<Common>,
}

/// Whether the reply is there.
#[derive(Debug)]
pub enum Served {
    /// It is appended (nothing is, if nothing is to be sent). [`Exchange::is_streaming`] says whether more follow.
    Now,
    /// [`Live::complete`] will make it, under this configuration; the exchange has to stay as it is until then.
    Later(Arc<Live>),
}

impl Gateway {
    /// A gateway serving `live`.
    pub fn new(live: Live) -> Self {
        let common = Arc::clone(&live.common);
        Self { live: ArcSwap::from_pointee(live), common }
    }

    /// Serves `live` from now on. Exchanges under way end under the one they began with.
    pub fn reload(&self, live: Live) -> Arc<Live> {
        self.live.swap(Arc::new(live))
    }

    /// The configuration at work.
    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// The same, for a moment.
    pub fn peek(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// What outlives every configuration.
    pub fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Reads `x.query.wire` and answers at once, appending one message to `out`, if no plugin has to wait; else pins
    /// the configuration to `x`.
    pub fn serve(&self, x: &mut Exchange, out: &mut Vec<u8>) -> Served {
        match x.begin() {
            Begin::Run => {}
            Begin::Drop => return Served::Now,
            Begin::Reply(code) => {
                let limit = x.limit(self.common.ceiling());
                x.reject(code, limit, out);
                return Served::Now;
            }
        }
        let live = self.live.load();
        match live.start_guarded(x) {
            Progress::Finished(end) => {
                self.settle(&live, x, end, out);
                if !x.forks.is_empty() {
                    Guard::into_inner(live).fork(x);
                }
                Served::Now
            }
            Progress::Waiting => Served::Later(Guard::into_inner(live)),
        }
    }

    /// Writes the reply.
    fn settle(&self, live: &Live, x: &mut Exchange, end: End, out: &mut Vec<u8>) {
        let limit = x.limit(self.common.ceiling());
        live.settle(x, end, limit, out);
    }
}
