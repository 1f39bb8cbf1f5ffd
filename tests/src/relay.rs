//! A forwarder of TCP connections, to take a server away from its clients and bring it back at a known moment.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::spawn;

use crate::gate::{Gate, Streams};

/// A forwarder from a port of its own to a server.
///
/// ```no_run
/// use tests::{Cluster, Relay};
/// let cluster = Cluster::start();
/// let mut relay = Relay::start(cluster.address());
/// let kubeconfig = cluster.kubeconfig_at("reader", relay.address());
/// relay.cut(); // connections end; new ones are accepted
/// relay.close(); // connections end; new ones are refused
/// relay.open();
/// ```
#[derive(Debug)]
pub struct Relay {
    /// The server.
    backend: SocketAddr,
    /// The listener.
    gate: Gate,
    /// Both ends of the connections that were made.
    streams: Streams,
    /// How many connections were made.
    count: Arc<AtomicUsize>,
}

impl Relay {
    /// Starts to forward to a server.
    pub fn start(backend: SocketAddr) -> Self {
        let (streams, count) = (Streams::default(), Arc::default());
        let mut relay = Self { backend, gate: Gate::new(), streams, count };
        relay.open();
        relay
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.gate.address()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Listens, if it does not.
    pub fn open(&mut self) {
        let backend = self.backend;
        let (streams, count) = (self.streams.clone(), Arc::clone(&self.count));
        self.gate.open(move |client| {
            count.fetch_add(1, Ordering::SeqCst);
            // A client of a server that is away is hung up on.
            let Ok(server) = TcpStream::connect(backend) else { return };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to) = (streams.keep(from), to.try_clone());
                let to = to.expect("a socket can be shared");
                spawn(move || forward(from, to));
            }
        });
    }

    /// Ends all connections, as a balancer does that is restarted.
    pub fn cut(&self) {
        self.streams.cut();
    }

    /// Ends all connections and refuses new ones, until [`Relay::open`].
    pub fn close(&mut self) {
        self.gate.close();
        self.cut();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

/// Carries one direction to its end.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    // However it ends, both sides are told.
    drop(std::io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
