//! Session tickets, whose keys are replaced, by time and when who may come in has changed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};

/// How many sessions of QUIC clients are kept for 0-RTT.
const SESSIONS: usize = 4096;

/// Tickets that carry the session (RFC 5077, RFC 8446 §4.6.1). Their key is of six hours, and is known for six more. A
/// client is checked when it comes without a ticket, so tickets do not outlive the CAs that their clients were checked by.
pub(crate) struct Tickets {
    now: ArcSwapOption<Keys>,
    generation: AtomicU64,
}

/// The keys of one generation.
struct Keys(Arc<dyn ProducesTickets>);

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl Tickets {
    /// Tickets with new keys.
    pub(crate) fn new() -> Arc<Self> {
        let tickets = Self { now: ArcSwapOption::empty(), generation: AtomicU64::new(0) };
        tickets.renew();
        Arc::new(tickets)
    }

    /// Makes all tickets so far worthless. Without random numbers there are none.
    pub(crate) fn renew(&self) {
        self.now.store(Ticketer::new().ok().map(|keys| Arc::new(Keys(keys))));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.now.load().as_ref().map_or(0, |keys| keys.0.lifetime())
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.now.load().as_ref()?.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.now.load().as_ref()?.0.decrypt(cipher)
    }
}

/// Sessions that are kept here and used once, so that 0-RTT cannot be replayed at this listener (RFC 8446 §8.1). They go
/// with the generation of the tickets.
pub(crate) struct Sessions {
    tickets: Arc<Tickets>,
    kept: Arc<ServerSessionMemoryCache>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// None so far.
    pub(crate) fn new(tickets: Arc<Tickets>) -> Arc<Self> {
        Arc::new(Self { tickets, kept: ServerSessionMemoryCache::new(SESSIONS) })
    }

    /// Takes the generation off, if it is that of now.
    fn current(&self, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut value = value?;
        let generation = self.tickets.generation.load(Ordering::Acquire).to_be_bytes();
        let rest = value.strip_prefix(&generation)?.len();
        value.drain(..value.len() - rest);
        Some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut marked = self.tickets.generation.load(Ordering::Acquire).to_be_bytes().to_vec();
        marked.extend(value);
        self.kept.put(key, marked)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.current(self.kept.get(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.current(self.kept.take(key))
    }

    fn can_cache(&self) -> bool {
        true
    }
}
