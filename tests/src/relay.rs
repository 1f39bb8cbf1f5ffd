//! A forwarder of TCP connections, to take a server away from its clients and bring it back at a known moment.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};

use crate::process::free_port;

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
    /// The own address.
    address: SocketAddr,
    /// Both ends of the connections that were made.
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// How many connections were made.
    count: Arc<AtomicUsize>,
    /// The listener's thread and its end, while it listens.
    listener: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Relay {
    /// Starts to forward to a server.
    pub fn start(backend: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (streams, count) = (Arc::default(), Arc::default());
        let mut relay = Self { backend, address, streams, count, listener: None };
        relay.open();
        relay
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Listens, if it does not.
    pub fn open(&mut self) {
        if self.listener.is_some() {
            return;
        }
        let listener = TcpListener::bind(self.address).expect("the port is the relay's own");
        let over = Arc::new(AtomicBool::new(false));
        let (ended, backend) = (Arc::clone(&over), self.backend);
        let (streams, count) = (Arc::clone(&self.streams), Arc::clone(&self.count));
        let thread = spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                // A client of a server that is away is hung up on.
                let Ok(server) = TcpStream::connect(backend) else { continue };
                let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    drop(from.set_nodelay(true));
                    let (from, to) = (copy(from), copy(to));
                    streams.push(copy(&from));
                    spawn(move || forward(from, to));
                }
            }
        });
        self.listener = Some((thread, over));
    }

    /// Ends all connections, as a balancer does that is restarted.
    pub fn cut(&self) {
        for stream in self.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may have ended on its own.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Ends all connections and refuses new ones, until [`Relay::open`].
    pub fn close(&mut self) {
        if let Some((thread, over)) = self.listener.take() {
            over.store(true, Ordering::SeqCst);
            // It looks up only when somebody comes.
            drop(TcpStream::connect(self.address));
            thread.join().expect("the listener ends");
        }
        self.cut();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

/// Another handle of the same connection.
fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket can be shared")
}

/// Carries one direction to its end.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    // However it ends, both sides are told.
    drop(std::io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
