//! Sinks that connect here.

use std::io::Result;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{Linger, Stage, Stop};
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::TARGET;
use super::feed::Board;
use super::frames::{self, PATIENCE, Pipe};
use super::message::{Note, Sender};
use crate::shared::clock;

/// How many sinks there may be.
const SINKS: usize = 64;

/// How many chunks may wait for a sink; one that has not taken them is too slow.
const CHUNKS: usize = 256;

/// How many messages are taken at once, for one chunk.
const BATCH: usize = 64;

/// How often it is said what was left out.
const SAY: Duration = Duration::from_secs(10);

/// For how long an address that is taken is tried often: it may be that of the configuration before.
const HASTE: Duration = Duration::from_secs(5);

/// Where sinks connect to.
#[derive(Clone)]
pub(super) enum Place {
    /// A socket in the file system.
    Unix(PathBuf),
    /// HOST:PORT.
    Tcp(String),
    /// HOST:PORT, by TLS.
    Tls(String, Arc<ServerConfig>),
}

/// Gives what a feed holds to all who connect.
pub(super) struct Inlet {
    pub(super) place: Place,
    pub(super) sender: Sender,
    pub(super) notes: Receiver<Note>,
    pub(super) board: Arc<Board>,
    /// When the process ends.
    pub(super) stop: Stop,
    /// Has it wait for the last messages.
    pub(super) _linger: Linger,
}

/// Frames, for all sinks the same.
type Chunk = Arc<[u8]>;

/// A listening socket.
enum Socket {
    /// In the file system; its file goes with it.
    Unix { listener: UnixListener, _file: Own },
    /// Of TCP.
    Tcp(TcpListener, Option<TlsAcceptor>),
}

/// A socket's file, which goes with it.
struct Own(PathBuf);

impl Drop for Own {
    fn drop(&mut self) {
        // It may be gone already, which is just as well.
        drop(std::fs::remove_file(&self.0));
    }
}

impl Inlet {
    /// Runs until nobody feeds it any more, or the process ends.
    pub(super) async fn run(mut self) {
        let Some(socket) = self.bind().await else { return };
        // Sinks that have shaken hands come by this.
        let (ready, mut come) = mpsc::channel::<mpsc::Sender<Chunk>>(SINKS);
        let mut tasks = JoinSet::new();
        let mut sinks: Vec<mpsc::Sender<Chunk>> = Vec::new();
        let mut batch = Vec::with_capacity(BATCH);
        let mut say = interval(SAY);
        say.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                count = self.notes.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        break;
                    }
                    self.hand_out(&mut batch, &mut sinks);
                }
                Some(sink) = come.recv() => {
                    sinks.push(sink);
                    self.count(&sinks);
                }
                accepted = accept(&socket) => match accepted {
                    Ok(_) if tasks.len() >= SINKS => {
                        log::warn!(target: TARGET, "There are {SINKS} sinks: another one is sent away");
                    }
                    Ok((pipe, tls)) => {
                        tasks.spawn(serve(pipe, tls, ready.clone()));
                    }
                    Err(error) => {
                        log::warn!(target: TARGET, "Error accepting dnstap connection: {error}");
                        sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = tasks.join_next() => {
                    sinks.retain(|sink| !sink.is_closed());
                    self.count(&sinks);
                }
                _ = say.tick() => {
                    clock::set_right();
                    self.board.say();
                }
                () = self.stop.reached(Stage::Closing) => break,
            }
        }
        self.notes.close();
        while let Ok(note) = self.notes.try_recv() {
            batch.push(note);
        }
        self.hand_out(&mut batch, &mut sinks);
        // Each sink's task ends when it has all.
        drop(sinks);
        drop(come);
        let all = async { while tasks.join_next().await.is_some() {} };
        if timeout(Duration::from_secs(1), all).await.is_err() {
            log::debug!(target: TARGET, "not all sinks have taken leave");
        }
        self.board.sinks(0);
        self.board.say();
    }

    /// Gives notes to all sinks; those that are too slow lose their connection.
    fn hand_out(&self, batch: &mut Vec<Note>, sinks: &mut Vec<mpsc::Sender<Chunk>>) {
        let (mut frames, count) = (Vec::new(), batch.len() as u64);
        for note in batch.drain(..) {
            self.board.taken(&note);
            if !sinks.is_empty() {
                self.sender.frame(note, &mut frames);
            }
        }
        if frames.is_empty() {
            return;
        }
        let chunk: Chunk = frames.into();
        let before = sinks.len();
        sinks.retain(|sink| match sink.try_send(Arc::clone(&chunk)) {
            Ok(()) => true,
            Err(_) => {
                self.board.leave_out(count);
                false
            }
        });
        if sinks.len() < before {
            log::warn!(target: TARGET, "A dnstap sink is too slow or gone: its connection is closed");
            self.count(sinks);
        }
    }

    /// Notes how many sinks there are: without one, nothing is noted of queries.
    fn count(&self, sinks: &[mpsc::Sender<Chunk>]) {
        self.board.hear(!sinks.is_empty());
        self.board.sinks(sinks.len());
    }

    /// Opens the socket, again and again if need be; none if nobody wants it any more.
    async fn bind(&mut self) -> Option<Socket> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let error = match open(&self.place).await {
                Ok(socket) => return Some(socket),
                Err(error) => error,
            };
            let hasty = begun.elapsed() < HASTE;
            if !hasty && !told {
                told = true;
                log::error!(target: TARGET, "Cannot listen for dnstap sinks: {error}");
            }
            let pause = Duration::from_millis(if hasty { 100 } else { 2_000 });
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stop.reached(Stage::Closing) => return None,
            }
            if self.notes.sender_strong_count() == 0 {
                return None;
            }
        }
    }
}

/// Opens a listening socket.
async fn open(place: &Place) -> Result<Socket> {
    match place {
        Place::Unix(path) => {
            clear(path).await;
            let listener = UnixListener::bind(path)?;
            Ok(Socket::Unix { listener, _file: Own(path.clone()) })
        }
        Place::Tcp(host) => Ok(Socket::Tcp(TcpListener::bind(any(host)).await?, None)),
        Place::Tls(host, config) => {
            let acceptor = TlsAcceptor::from(Arc::clone(config));
            Ok(Socket::Tcp(TcpListener::bind(any(host)).await?, Some(acceptor)))
        }
    }
}

/// The address that HOST:PORT means to a listener: without a host all of the machine.
fn any(host: &str) -> String {
    match host.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => host.to_owned(),
    }
}

/// Takes away a socket that nobody listens at any more.
async fn clear(path: &Path) {
    let is_socket = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        // If it cannot be removed, binding says why.
        drop(std::fs::remove_file(path));
    }
}

/// Takes the next connection.
async fn accept(socket: &Socket) -> Result<(Box<dyn Pipe>, Option<TlsAcceptor>)> {
    match socket {
        Socket::Unix { listener, .. } => {
            let (stream, _) = listener.accept().await?;
            Ok((Box::new(stream), None))
        }
        Socket::Tcp(listener, tls) => {
            let (stream, peer): (_, SocketAddr) = listener.accept().await?;
            log::debug!(target: TARGET, "a sink connects from {peer}");
            Ok((Box::new(stream), tls.clone()))
        }
    }
}

/// Shakes hands with a sink, and writes to it until there is nothing more.
async fn serve(
    pipe: Box<dyn Pipe>,
    tls: Option<TlsAcceptor>,
    ready: mpsc::Sender<mpsc::Sender<Chunk>>,
) {
    let made = async {
        let mut pipe: Box<dyn Pipe> = match tls {
            Some(tls) => Box::new(timeout(PATIENCE, tls.accept(pipe)).await??),
            None => pipe,
        };
        frames::begin(&mut *pipe).await?;
        Ok::<_, std::io::Error>(pipe)
    };
    let mut pipe = match made.await {
        Ok(pipe) => pipe,
        Err(error) => {
            log::warn!(target: TARGET, "A dnstap sink cannot be served: {error}");
            return;
        }
    };
    let (sender, mut chunks) = mpsc::channel::<Chunk>(CHUNKS);
    if ready.send(sender).await.is_err() {
        return;
    }
    drop(ready);
    while let Some(chunk) = chunks.recv().await {
        if let Err(error) = frames::write(&mut *pipe, &chunk).await {
            log::debug!(target: TARGET, "a sink is gone: {error}");
            return;
        }
    }
    if let Err(error) = frames::end(&mut *pipe).await {
        log::debug!(target: TARGET, "a sink does not take leave: {error}");
    }
}
