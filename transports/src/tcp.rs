//! Plain DNS over TCP (RFC 7766): pipelined queries, answers out of order, one write for all that a read brought.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Exchange, Gateway, ListenerId, Live, Served, Stage, Stop, Timeouts, Transport};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::framing::{Inbox, frame};
use crate::limits::Limits;

/// The shortest message (RFC 1035 §4.1.1), in octets.
const HEADER: usize = 12;

/// How much is answered before it is written, in octets.
const WRITE: usize = 64 << 10;

/// How long the log is spared after it was told that connections cannot be accepted.
const TOLD: Duration = Duration::from_secs(10);

/// What an idle connection's buffer may keep, in octets.
const KEEP: usize = 4096;

/// What all connections of a listener have in common.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) listener: ListenerId,
    pub(crate) limits: Arc<Limits>,
    pub(crate) timeouts: Timeouts,
    /// How many queries a connection may bring; 0 is no limit.
    pub(crate) max_queries: usize,
}

impl Tcp {
    /// Accepts until `stop` says to drain, then waits for the connections for as long as it allows.
    pub(crate) async fn run(self, listener: TcpListener, mut stop: Stop) {
        let mut connections = tokio::task::JoinSet::new();
        // When the log was last told that accepting fails.
        let mut told: Option<Instant> = None;
        loop {
            let accepted = tokio::select! {
                () = stop.reached(Stage::Draining) => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // Beyond the limits a connection is closed at once; the client may try again elsewhere.
                    let Some(room) = self.limits.connection(peer.ip()) else { continue };
                    let (own, stop) = (self.clone(), stop.clone());
                    connections.spawn(async move {
                        if let Err(error) = own.connection(stream, peer, stop).await {
                            log::debug!("connection of {peer}: {error}");
                        }
                        drop(room);
                    });
                }
                Err(error) => {
                    // Mostly out of file descriptors; a pause lets connections end.
                    if told.is_none_or(|told| told.elapsed() >= TOLD) {
                        told = Some(Instant::now());
                        log::warn!("accepting a connection: {error}");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(stop.grace, all).await.is_err() {
            log::debug!("connections were still open after the grace period");
        }
    }

    /// Serves one connection.
    async fn connection(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
        mut stop: Stop,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let canonical = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let mut session = Session {
            own: self,
            peer: canonical(peer),
            local: canonical(local),
            spare: Vec::new(),
            waiting: FuturesUnordered::new(),
            queries: 0,
        };
        let (mut reader, mut writer) = stream.split();
        let (mut inbox, mut out) = (Inbox::default(), Vec::new());
        // Whether more is read, and whether what was read is still taken.
        let (mut reading, mut taking) = (true, true);
        // The time counts from the last whole message, not from the last octet (RFC 7766 §6.2.3).
        let mut deadline = tokio::time::Instant::now() + self.timeouts.read;
        loop {
            let full = session.waiting.len() >= self.limits.bounds.pipeline;
            let ended = !reading && session.waiting.is_empty();
            if ended {
                return Ok(());
            }
            tokio::select! {
                biased;
                Some((x, message)) = session.waiting.next() => {
                    out.extend_from_slice(&message);
                    session.spare.extend(Some(x).filter(|_| session.spare.is_empty()));
                    // Others may have come to their end at the same time: one write for all.
                    while out.len() < WRITE
                        && let Some(Some((_, message))) = futures::FutureExt::now_or_never(session.waiting.next())
                    {
                        out.extend_from_slice(&message);
                    }
                }
                () = stop.reached(Stage::Draining), if reading => reading = false,
                got = reader.read_buf(inbox.space()), if reading && !full => match got {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                    // A half-close ends the questions, not the answers.
                    got => if got? == 0 { reading = false },
                },
                () = tokio::time::sleep_until(deadline), if session.waiting.is_empty() => return Ok(()),
            }
            let mut told = !out.is_empty();
            while taking && session.waiting.len() < self.limits.bounds.pipeline {
                let Some(message) = inbox.message() else { break };
                if message.len() < HEADER {
                    // No header, so nothing to reply to: whoever sends this does not speak DNS.
                    (reading, taking) = (false, false);
                    break;
                }
                told = true;
                let streaming = session.message(message, &mut out);
                if let Some(mut x) = streaming {
                    while frame(&mut out, |out| x.more(65535, out)) {
                        if out.len() >= WRITE {
                            self.write(&mut writer, &mut out).await?;
                        }
                    }
                    session.spare.push(x);
                }
                if out.len() >= WRITE {
                    self.write(&mut writer, &mut out).await?;
                }
                if self.max_queries > 0 && session.queries >= self.max_queries {
                    (reading, taking) = (false, false);
                }
            }
            if !out.is_empty() {
                self.write(&mut writer, &mut out).await?;
            }
            if told {
                deadline = tokio::time::Instant::now() + self.timeouts.idle;
            }
        }
    }

    /// Writes `out` and empties it; a client that does not read loses its connection.
    async fn write(
        &self,
        writer: &mut (impl AsyncWriteExt + Unpin),
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        timeout(self.timeouts.write, writer.write_all(out))
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        out.clear();
        if out.capacity() > WRITE {
            out.shrink_to(KEEP);
        }
        Ok(())
    }
}

/// An exchange that waits, to become its framed reply.
type Later = Pin<Box<dyn Future<Output = (Box<Exchange>, Vec<u8>)> + Send>>;

/// One connection's state.
struct Session<'a> {
    own: &'a Tcp,
    peer: SocketAddr,
    local: SocketAddr,
    /// Exchanges for the queries to come.
    #[expect(clippy::vec_box, reason = "exchanges are made in boxes, and moved into futures")]
    spare: Vec<Box<Exchange>>,
    waiting: FuturesUnordered<Later>,
    queries: usize,
}

impl Session<'_> {
    /// Serves one message: appends the framed reply, or lets it wait. An exchange that has more messages to give is
    /// given back.
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Option<Box<Exchange>> {
        self.queries += 1;
        let new = || Exchange::new(self.own.listener, Transport::Tcp, self.local);
        let mut x = self.spare.pop().unwrap_or_else(new);
        x.query.wire.clear();
        x.query.wire.extend_from_slice(message);
        x.query.peer = self.peer;
        x.query.received = Instant::now();
        x.query.keepalive = Some(self.own.timeouts.idle);
        match frame(out, |out| self.own.gateway.serve(&mut x, out)) {
            Served::Now if x.is_streaming() => return Some(x),
            Served::Now => self.spare.push(x),
            Served::Later(live) => self.waiting.push(Box::pin(finish(x, live))),
        }
        None
    }
}

/// Sees an exchange through to its framed reply.
async fn finish(mut x: Box<Exchange>, live: Arc<Live>) -> (Box<Exchange>, Vec<u8>) {
    let mut message = Vec::new();
    live.complete(&mut x, &mut message).await;
    let mut out = Vec::with_capacity(message.len() + 2);
    frame(&mut out, |out| out.extend_from_slice(&message));
    while x.is_streaming() {
        frame(&mut out, |out| x.more(65535, out));
    }
    (x, out)
}
