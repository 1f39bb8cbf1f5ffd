//! A listener on a loopback address that is closed and opened again at a known moment, and the connections that came by it.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

use crate::process::{free_port, lock};

/// Connections that can be ended all at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<TcpStream>>>);

impl Streams {
    /// Keeps a connection, to end it when that is asked for; gives another handle of it.
    pub(crate) fn keep(&self, stream: &TcpStream) -> TcpStream {
        drop(stream.set_nodelay(true));
        let copy = || stream.try_clone().expect("a socket can be shared");
        lock(&self.0).push(copy());
        copy()
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for stream in lock(&self.0).drain(..) {
            // It may have ended on its own.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// The listener, at a port of its own.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Where it listens.
    address: SocketAddr,
    /// Its thread and that one's end, while it listens.
    listener: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Gate {
    /// Takes a port; it is closed.
    pub(crate) fn new() -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        Self { address, listener: None }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, if it does not, and gives what comes to a function.
    pub(crate) fn open(&mut self, mut serve: impl FnMut(TcpStream) + Send + 'static) {
        if self.listener.is_some() {
            return;
        }
        let listener = TcpListener::bind(self.address).expect("the port is its own");
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                serve(client);
            }
        });
        self.listener = Some((thread, over));
    }

    /// Listens no longer: new connections are refused.
    pub(crate) fn close(&mut self) {
        if let Some((thread, over)) = self.listener.take() {
            over.store(true, Ordering::SeqCst);
            // It looks up only when somebody comes.
            drop(TcpStream::connect(self.address));
            thread.join().expect("the listener ends");
        }
    }
}
