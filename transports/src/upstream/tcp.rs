//! Connections of TCP to an upstream, with TLS on them or without.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::metrics::Counter;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::client::TlsStream;

use super::conn::{Broken, Conn};
use super::error::Cause;
use super::tls::{self, Tls};
use super::udp::Task;

/// How long making a connection may take: twice the average of those before, within bounds.
#[derive(Debug)]
pub(super) struct DialTime {
    /// The moving average, in microseconds.
    average: AtomicU64,
}

impl DialTime {
    /// The least, in microseconds.
    const LEAST: u64 = 1_000_000;
    /// The most, in microseconds; also where it begins.
    const MOST: u64 = 30_000_000;

    /// Before any connection.
    pub(super) fn new() -> Self {
        Self { average: AtomicU64::new(Self::MOST / 2) }
    }

    /// The limit now.
    pub(super) fn limit(&self) -> Duration {
        let twice = self.average.load(Ordering::Relaxed).saturating_mul(2);
        Duration::from_micros(twice.clamp(Self::LEAST, Self::MOST))
    }

    /// Takes a connection that took `time` into the average, with a quarter's weight.
    pub(super) fn note(&self, time: Duration) {
        let took = u64::try_from(time.as_micros()).unwrap_or(Self::MOST).min(Self::MOST);
        let old = self.average.load(Ordering::Relaxed);
        self.average.store(old - old / 4 + took / 4, Ordering::Relaxed);
    }
}

/// How long a connection lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Without a query.
    pub(super) idle: Duration,
    /// In all, if that is bounded.
    pub(super) most: Option<Duration>,
    /// How long a write may take.
    pub(super) write: Duration,
}

/// The way to an upstream.
#[derive(Clone, Debug)]
pub(super) struct Road {
    /// Where it is.
    pub(super) addr: SocketAddr,
    /// From where.
    pub(super) source: Option<IpAddr>,
    /// Through what, if it is encrypted.
    pub(super) tls: Option<Tls>,
}

/// Makes a connection in a task of its own; queries may begin at once.
pub(super) fn open(road: Road, dial: Arc<DialTime>, life: Life, strays: Counter) -> Arc<Conn> {
    let conn = Conn::new(None, strays);
    tokio::spawn(run(Arc::clone(&conn), road, dial, life));
    conn
}

/// Connects.
pub(super) async fn connect(addr: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the connection and serves it.
async fn run(conn: Arc<Conn>, road: Road, dial: Arc<DialTime>, life: Life) {
    let task = Task(conn);
    let conn = &task.0;
    let begun = Instant::now();
    let made = timeout(dial.limit(), async {
        let stream = connect(road.addr, road.source).await;
        let stream = stream.map_err(|error| Broken::Io(Cause::from(&error)))?;
        let local = stream.local_addr().ok();
        Ok(match &road.tls {
            None => (Stream::Plain(stream), local),
            Some(tls) => (Stream::Tls(Box::new(tls.wrap(stream).await?)), local),
        })
    });
    match made.await {
        Ok(Ok((stream, local))) => {
            dial.note(begun.elapsed());
            conn.connected(local);
            match stream {
                Stream::Plain(stream) => serve(conn, stream, life).await,
                Stream::Tls(stream) => serve(conn, stream, life).await,
            }
        }
        Ok(Err(broken)) => conn.break_off(broken),
        Err(_) => conn.break_off(Broken::DialTimeout),
    }
}

/// A connection as it was made.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Writes what is to be written and gives what comes to the queries, until the connection is over.
async fn serve(conn: &Conn, mut stream: impl AsyncRead + AsyncWrite + Unpin, life: Life) {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let mut last = Instant::now();
    while !conn.is_over() {
        conn.take_out(&mut out);
        if !out.is_empty() {
            let written = async {
                stream.write_all(&out).await?;
                stream.flush().await
            };
            match timeout(life.write, written).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return conn.break_off(tls::broken(&error)),
                Err(_) => return conn.break_off(Broken::Io(io::ErrorKind::TimedOut.into())),
            }
            out.clear();
            last = Instant::now();
        }
        let idle_end = last + life.idle;
        let end = life.most.map_or(idle_end, |most| idle_end.min(conn.made + most));
        tokio::select! {
            read = stream.read_buf(&mut input) => match read {
                Ok(0) => return,
                Ok(_) => {
                    last = Instant::now();
                    frames(conn, &mut input);
                }
                Err(error) => return conn.break_off(tls::broken(&error)),
            },
            () = conn.wake.notified() => {}
            () = sleep_until(end) => {
                let now = Instant::now();
                if conn.is_idle() || life.most.is_some_and(|most| conn.made + most <= now) {
                    conn.retire();
                }
                last = now;
            }
        }
    }
    // TLS says goodbye (RFC 7858 §3.4); whether that still arrives is no matter.
    drop(timeout(life.write, stream.shutdown()).await);
}

/// Takes the whole messages off the front of `input` (RFC 1035 §4.2.2).
fn frames(conn: &Conn, input: &mut Vec<u8>) {
    let mut at = 0;
    while let Some((len, rest)) = input.get(at..).and_then(|rest| rest.split_first_chunk::<2>()) {
        let len = usize::from(u16::from_be_bytes(*len));
        let Some(message) = rest.get(..len) else { break };
        conn.deliver(message);
        at += 2 + len;
    }
    input.drain(..at);
    if input.is_empty() {
        input.shrink_to(4096);
    }
}
