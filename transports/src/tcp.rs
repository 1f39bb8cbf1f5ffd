//! DNS on a stream, in clear text (RFC 7766) or in TLS (RFC 7858): pipelined queries, answers out of order, one write for all
//! that a read brought.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Exchange, Live, Served, Stage, Stop, Transport};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::accept::Accepted;
use crate::desk::Desk;
use crate::framing::{Inbox, frame};

/// The shortest message (RFC 1035 §4.1.1), in octets.
const HEADER: usize = 12;

/// How much is answered before it is written, in octets.
const WRITE: usize = 64 << 10;

/// What an idle connection's buffer may keep, in octets.
const KEEP: usize = 4096;

/// Serves one connection.
pub(crate) async fn serve<S>(
    desk: &Desk,
    mut accepted: Accepted<S>,
    mut stop: Stop,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let timeouts = accepted.plan.timeouts;
    let max_queries = accepted.plan.spec.max_queries.unwrap_or(0);
    let pipeline = desk.limits.bounds.pipeline;
    let mut talk = Talk {
        desk,
        // Exchanges know TCP from UDP; all else of a listener is told by its number.
        transport: if desk.key.transport == Transport::Udp {
            Transport::Tcp
        } else {
            Transport::Tls
        },
        about: About {
            peer: accepted.peer,
            local: accepted.local,
            session: accepted.session.take(),
        },
        keepalive: timeouts.idle,
        spare: Vec::new(),
        waiting: FuturesUnordered::new(),
        queries: 0,
    };
    let mut stream = accepted.stream;
    let (mut inbox, mut out) = (Inbox::default(), Vec::new());
    // Whether more is read, and whether what was read is still taken.
    let (mut reading, mut taking) = (true, true);
    // The time counts from the last whole message, not from the last octet (RFC 7766 §6.2.3).
    let mut deadline = tokio::time::Instant::now() + timeouts.read;
    loop {
        let full = talk.waiting.len() >= pipeline;
        if !reading && talk.waiting.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            Some((x, message)) = talk.waiting.next() => {
                out.extend_from_slice(&message);
                talk.spare.extend(Some(x).filter(|_| talk.spare.is_empty()));
                // Others may have come to their end at the same time: one write for all.
                while out.len() < WRITE
                    && let Some(Some((_, message))) = futures::FutureExt::now_or_never(talk.waiting.next())
                {
                    out.extend_from_slice(&message);
                }
            }
            () = stop.reached(Stage::Draining), if reading => reading = false,
            got = stream.read_buf(inbox.space()), if reading && !full => match got {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                // A half-close ends the questions, not the answers.
                got => if got? == 0 { reading = false },
            },
            () = tokio::time::sleep_until(deadline), if talk.waiting.is_empty() => break,
        }
        let mut told = !out.is_empty();
        while taking && talk.waiting.len() < pipeline {
            let Some(message) = inbox.message() else { break };
            if message.len() < HEADER {
                // No header, so nothing to reply to: whoever sends this does not speak DNS.
                (reading, taking) = (false, false);
                break;
            }
            told = true;
            let streaming = talk.message(message, &mut out);
            if let Some(mut x) = streaming {
                while frame(&mut out, |out| x.more(65535, out)) {
                    if out.len() >= WRITE {
                        write(&mut stream, timeouts.write, &mut out).await?;
                    }
                }
                talk.spare.push(x);
            }
            if out.len() >= WRITE {
                write(&mut stream, timeouts.write, &mut out).await?;
            }
            if max_queries > 0 && talk.queries >= max_queries {
                (reading, taking) = (false, false);
            }
        }
        if !out.is_empty() {
            write(&mut stream, timeouts.write, &mut out).await?;
        }
        if told {
            deadline = tokio::time::Instant::now() + timeouts.idle;
        }
    }
    // TLS says that nothing follows (RFC 8446 §6.1); a client that is gone need not hear it.
    timeout(timeouts.write, stream.shutdown()).await.unwrap_or(Ok(()))
}

/// Writes `out` and empties it; a client that does not read loses its connection.
async fn write<S>(stream: &mut S, limit: Duration, out: &mut Vec<u8>) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let all = async {
        stream.write_all(out).await?;
        stream.flush().await
    };
    timeout(limit, all).await.map_err(|_| io::ErrorKind::TimedOut)??;
    out.clear();
    if out.capacity() > WRITE {
        out.shrink_to(KEEP);
    }
    Ok(())
}

/// An exchange that waits, to become its framed reply.
type Later = Pin<Box<dyn Future<Output = (Box<Exchange>, Vec<u8>)> + Send>>;

/// What all queries of a connection have in common.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) peer: std::net::SocketAddr,
    pub(crate) local: std::net::SocketAddr,
    pub(crate) session: Option<Arc<engine::Session>>,
}

/// One connection's state.
struct Talk<'a> {
    desk: &'a Desk,
    transport: Transport,
    about: About,
    keepalive: Duration,
    /// Exchanges for the queries to come.
    #[expect(clippy::vec_box, reason = "exchanges are made in boxes, and moved into futures")]
    spare: Vec<Box<Exchange>>,
    waiting: FuturesUnordered<Later>,
    queries: usize,
}

impl Talk<'_> {
    /// Serves one message: appends the framed reply, or lets it wait. An exchange that has more messages to give is
    /// given back.
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Option<Box<Exchange>> {
        self.queries += 1;
        let new = || {
            let mut x = Exchange::new(self.desk.id, self.transport, self.about.local);
            x.query.peer = self.about.peer;
            x.query.keepalive = Some(self.keepalive);
            x.query.session.clone_from(&self.about.session);
            x
        };
        let mut x = self.spare.pop().unwrap_or_else(new);
        x.query.wire.clear();
        x.query.wire.extend_from_slice(message);
        x.query.received = Instant::now();
        match frame(out, |out| self.desk.gateway.serve(&mut x, out)) {
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
