//! How much one client, and all of them, may take.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::metrics::{Counter, counter};

/// The bounds of the front-ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open TCP connections over all listeners.
    pub connections: usize,
    /// Open TCP connections of one address (one /64 for IPv6).
    pub connections_per_client: usize,
    /// Queries of one connection that are answered at the same time.
    pub pipeline: usize,
    /// Queries of one UDP socket that wait for an answer at the same time.
    pub waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: 10_000, connections_per_client: 1_000, pipeline: 128, waiting: 10_000 }
    }
}

/// Counts connections against [`Bounds`].
#[derive(Debug)]
pub struct Limits {
    /// The bounds.
    pub bounds: Bounds,
    open: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
    refused_total: Counter,
    refused_client: Counter,
    /// Queries dropped because too many wait.
    pub(crate) waiting_full: Counter,
}

impl Limits {
    /// Nothing open yet.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        let refused = |reason| counter("causeway_connections_refused_total", &[("reason", reason)]);
        Arc::new(Self {
            bounds,
            open: AtomicUsize::new(0),
            clients: Mutex::default(),
            refused_total: refused("total"),
            refused_client: refused("client"),
            waiting_full: counter("causeway_udp_queries_dropped_total", &[]),
        })
    }

    /// Room for one more connection of `peer`; none, and counted, if there is not.
    pub(crate) fn connection(self: &Arc<Self>, peer: IpAddr) -> Option<Connection> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.bounds.connections {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.refused_total.increment(1);
            return None;
        }
        let client = client(peer);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        if *count >= self.bounds.connections_per_client {
            drop(clients);
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.refused_client.increment(1);
            return None;
        }
        *count += 1;
        Some(Connection { limits: Arc::clone(self), client })
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// What counts as one client: an IPv4 address, or the /64 of an IPv6 one.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(addr) => addr.into(),
        IpAddr::V6(addr) => std::net::Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
    }
}

/// Room for one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    limits: Arc<Limits>,
    client: IpAddr,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
        let mut clients = self.limits.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
