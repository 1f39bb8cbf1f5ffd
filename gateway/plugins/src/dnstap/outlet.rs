//! A sink that is connected to.

use std::future::pending;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{Linger, Stage, Stop};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;

use super::TARGET;
use super::feed::Board;
use super::frames::{self, PATIENCE, Pipe};
use super::message::{Note, Sender};
use crate::shared::clock;

/// How often what is there is written.
const FLUSH: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 1_000 });

/// How often a sink that is away is tried, and how often it is said what was left out.
const RETRY: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });

/// So many octets are written at once.
const CHUNK: usize = 64 << 10;

/// How many messages are taken at once.
const BATCH: usize = 64;

/// Where a sink is.
#[derive(Clone)]
pub(super) enum Place {
    /// At a socket in the file system.
    Unix(PathBuf),
    /// At HOST:PORT.
    Tcp(String),
    /// At HOST:PORT, by TLS.
    Tls(String, Arc<ClientConfig>),
}

/// Writes what a feed holds to a sink.
pub(super) struct Outlet {
    pub(super) place: Place,
    pub(super) sender: Sender,
    /// The size of the socket's buffer, in octets.
    pub(super) buffer: usize,
    pub(super) notes: Receiver<Note>,
    pub(super) board: Arc<Board>,
    /// When the process ends.
    pub(super) stop: Stop,
    /// Has it wait for the last messages.
    pub(super) _linger: Linger,
}

/// Frames that are not yet written.
#[derive(Default)]
struct Pending {
    frames: Vec<u8>,
    count: u64,
}

impl Outlet {
    /// Runs until nobody feeds it any more, or the process ends.
    pub(super) async fn run(mut self) {
        let mut pipe = self.dial().await;
        let mut pending = Pending::default();
        let mut batch = Vec::with_capacity(BATCH);
        let (mut flush, mut retry) = (interval(FLUSH), interval(RETRY));
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick of an interval comes at once.
        retry.tick().await;
        loop {
            let is_open = pipe.is_some();
            tokio::select! {
                count = self.notes.recv_many(&mut batch, BATCH), if is_open => {
                    if count == 0 {
                        break;
                    }
                    self.frame(&mut batch, &mut pending);
                    if pending.frames.len() >= CHUNK {
                        pipe = self.write(pipe, &mut pending).await;
                    }
                }
                () = gone(&mut pipe) => {
                    self.board.leave_out(std::mem::take(&mut pending).count);
                    pipe = self.dial().await;
                }
                _ = flush.tick() => {
                    clock::set_right();
                    pipe = self.write(pipe, &mut pending).await;
                    if pipe.is_none() && self.notes.sender_strong_count() == 0 {
                        break;
                    }
                }
                _ = retry.tick() => {
                    self.board.say();
                    if pipe.is_none() {
                        pipe = self.dial().await;
                    }
                }
                () = self.stop.reached(Stage::Closing) => break,
            }
        }
        self.close(pipe, pending).await;
    }

    /// Writes what is left, and takes leave.
    async fn close(mut self, pipe: Option<Box<dyn Pipe>>, mut pending: Pending) {
        self.notes.close();
        let mut batch = Vec::new();
        while let Ok(note) = self.notes.try_recv() {
            batch.push(note);
        }
        self.frame(&mut batch, &mut pending);
        let count = pending.count;
        let left = match pipe {
            Some(mut pipe) => match frames::write(&mut *pipe, &pending.frames).await {
                Ok(()) => {
                    if let Err(error) = frames::end(&mut *pipe).await {
                        log::debug!(target: TARGET, "the sink does not take leave: {error}");
                    }
                    0
                }
                Err(_) => count,
            },
            None => count,
        };
        self.board.leave_out(left);
        self.board.sinks(0);
        self.board.say();
    }

    /// Puts notes into frames.
    fn frame(&self, batch: &mut Vec<Note>, pending: &mut Pending) {
        for note in batch.drain(..) {
            self.board.taken(&note);
            self.sender.frame(note, &mut pending.frames);
            pending.count += 1;
        }
    }

    /// Writes what is pending. What a broken connection has taken along is counted as left out, and a new one is made.
    async fn write(
        &self,
        pipe: Option<Box<dyn Pipe>>,
        pending: &mut Pending,
    ) -> Option<Box<dyn Pipe>> {
        let mut pipe = pipe?;
        if pending.count == 0 {
            return Some(pipe);
        }
        let written = frames::write(&mut *pipe, &pending.frames).await;
        let count = std::mem::take(&mut pending.count);
        pending.frames.clear();
        match written {
            Ok(()) => Some(pipe),
            Err(error) => {
                log::warn!(target: TARGET, "Lost the dnstap endpoint: {error}");
                self.board.leave_out(count);
                self.dial().await
            }
        }
    }

    /// Connects; says why not.
    async fn dial(&self) -> Option<Box<dyn Pipe>> {
        let made = timeout(PATIENCE, self.connect());
        let made = made.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        let begun = match made {
            Ok(mut pipe) => frames::begin(&mut *pipe).await.map(|()| pipe),
            Err(error) => Err(error),
        };
        match begun {
            Ok(pipe) => {
                self.board.sinks(1);
                Some(pipe)
            }
            Err(error) => {
                self.board.sinks(0);
                log::error!(target: TARGET, "No connection to dnstap endpoint: {error}");
                None
            }
        }
    }

    /// Makes a connection.
    async fn connect(&self) -> Result<Box<dyn Pipe>> {
        match &self.place {
            Place::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Place::Tcp(host) => Ok(Box::new(self.stream(host).await?)),
            Place::Tls(host, config) => {
                let stream = self.stream(host).await?;
                let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name);
                let name = name.trim_start_matches('[').trim_end_matches([']', '.']).to_owned();
                let name = ServerName::try_from(name)
                    .map_err(|_| Error::new(ErrorKind::InvalidInput, "the host is no name"))?;
                let connector = TlsConnector::from(Arc::clone(config));
                Ok(Box::new(connector.connect(name, stream).await?))
            }
        }
    }

    /// Makes a connection of TCP.
    async fn stream(&self, host: &str) -> Result<TcpStream> {
        let stream = TcpStream::connect(host).await?;
        // The system has its own idea of the largest.
        if let Err(error) = rustix::net::sockopt::set_socket_send_buffer_size(&stream, self.buffer)
        {
            log::debug!(target: TARGET, "the socket's buffer stays as it is: {error}");
        }
        Ok(stream)
    }
}

/// Resolves when the other side has closed: it has nothing to say before the end.
async fn gone(pipe: &mut Option<Box<dyn Pipe>>) {
    match pipe {
        Some(open) => {
            let mut octets = [0; 64];
            while matches!(open.read(&mut octets).await, Ok(1..)) {}
        }
        None => pending().await,
    }
}
