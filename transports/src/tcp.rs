//! DNS on a stream, in clear text (RFC 7766) or in TLS (RFC 7858): pipelined queries, answers out of order, one write for all
//! that a read brought.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Exchange, Live, Served, Session, Stage, Stop, Transport};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Sleep, sleep, sleep_until, timeout};

use crate::accept::Accepted;
use crate::desk::{Desk, Plan};
use crate::framing::{Inbox, frame};
use crate::outlet::Outlet;
use crate::pool;
use crate::seats::{Leave, Seat};

/// The shortest message (RFC 1035 §4.1.1), in octets.
const HEADER: usize = 12;

/// How much is answered before it is written: a TLS record (RFC 8446 §5.1), in octets.
const WRITE: usize = 16 << 10;

/// How long a client that still sends is listened to after the end, lest it lose answers that are on their way.
const LINGER: Duration = Duration::from_secs(1);

/// What all queries of a connection have in common.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) session: Option<Arc<Session>>,
}

/// Serves one connection. The future is all that an idle one takes, so that nothing is in it twice.
pub(crate) fn serve<S>(
    desk: &Desk,
    accepted: Accepted<S>,
    stop: Stop,
) -> impl Future<Output = io::Result<()>> + Send
where
    S: Outlet,
{
    let Accepted { stream, peer, local, session, plan, seat, .. } = accepted;
    // Exchanges know TCP from TLS; all else of a listener is told by its number.
    let transport = match desk.key.transport {
        Transport::Udp => Transport::Tcp,
        other => other,
    };
    let talk = Talk {
        desk,
        plan,
        about: About { peer, local, transport, session },
        seat,
        inbox: Inbox::default(),
        out: Vec::new(),
        waiting: FuturesUnordered::new(),
        queries: 0,
        last: None,
        taking: true,
    };
    converse(talk, stream, stop)
}

/// Serves one connection to its end.
async fn converse<S>(mut talk: Talk<'_>, mut stream: S, mut stop: Stop) -> io::Result<()>
where
    S: Outlet,
{
    let end = talk.run(&mut stream, &mut stop).await?;
    let closed = &talk.desk.limits.closed;
    match end {
        End::Gone => return Ok(()),
        End::Done => {}
        End::Idle => closed.idle.increment(1),
        End::Garbage => closed.garbage.increment(1),
        End::Told(why) => closed.count(why),
    }
    // What is under way is for nobody now.
    talk.waiting.clear();
    // TLS says that nothing follows (RFC 8446 §6.1); a client that is gone need not hear it.
    timeout(LINGER, stream.shutdown()).await.unwrap_or(Ok(()))?;
    let is_asking = talk.last.is_some_and(|last| last.elapsed() < LINGER);
    if is_asking && matches!(end, End::Done | End::Told(Leave::Old)) {
        linger(&mut stream).await;
    }
    Ok(())
}

/// Reads what a client still sends until it has seen the end, for a while: what is left unread when a socket is closed makes
/// the kernel reset the connection, and the client lose what it has not read yet.
async fn linger<S>(stream: &mut S)
where
    S: AsyncRead + Unpin,
{
    let mut buffer = pool::buffer();
    let rest = async {
        while let Ok(1..) = stream.read_buf(&mut buffer).await {
            buffer.clear();
        }
    };
    // Whether it has gone or not, it has had its time.
    timeout(LINGER, rest).await.unwrap_or(());
    pool::give_buffer(buffer);
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The client has reset it.
    Gone,
    /// All is answered: the client has sent its last, or the listener stops.
    Done,
    /// No whole query came in time.
    Idle,
    /// What came is no DNS.
    Garbage,
    /// It was told to end.
    Told(Leave),
}

/// An exchange that waits, to become its framed reply.
type Later = Pin<Box<dyn Future<Output = (Box<Exchange>, Vec<u8>)> + Send>>;

/// One connection's state.
struct Talk<'a> {
    desk: &'a Desk,
    plan: Arc<Plan>,
    about: About,
    seat: Arc<Seat>,
    inbox: Inbox,
    out: Vec<u8>,
    waiting: FuturesUnordered<Later>,
    queries: usize,
    /// When the last query came.
    last: Option<Instant>,
    /// Whether what was read is still taken.
    taking: bool,
}

impl Talk<'_> {
    /// Answers until there is a reason to end.
    async fn run<S>(&mut self, stream: &mut S, stop: &mut Stop) -> io::Result<End>
    where
        S: Outlet,
    {
        let pipeline = self.desk.limits.bounds.pipeline;
        let seat = Arc::clone(&self.seat);
        let (mut draining, mut told) = (pin!(stop.reached(Stage::Draining)), pin!(seat.told()));
        // The time counts from the last whole message, not from the last octet (RFC 7766 §6.2.3).
        let mut deadline = tokio::time::Instant::now() + self.plan.timeouts.read;
        let mut timer = pin!(sleep_until(deadline));
        // Set while the client has to wait, for it asks too fast.
        let mut pause: Option<Pin<Box<Sleep>>> = None;
        let (mut end, mut reading) = (End::Done, true);
        loop {
            if !reading && self.waiting.is_empty() && pause.is_none() {
                return Ok(end);
            }
            let full = self.waiting.len() >= pipeline;
            tokio::select! {
                biased;
                Some(done) = self.waiting.next() => {
                    self.finished(done, stream).await?;
                    // Others may have come to their end at the same time: one write for all.
                    while self.out.len() < WRITE
                        && let Some(Some(done)) = self.waiting.next().now_or_never()
                    {
                        self.finished(done, stream).await?;
                    }
                }
                why = &mut told, if !seat.is_leaving() => {
                    end = End::Told(why);
                    if why == Leave::Revoked {
                        return Ok(end);
                    }
                    reading = false;
                    self.leave(stream, &mut pause);
                }
                () = &mut draining, if !seat.is_leaving() => {
                    reading = false;
                    self.leave(stream, &mut pause);
                }
                got = self.inbox.fill(stream), if reading && !full && pause.is_none() => match got {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        return Ok(End::Gone);
                    }
                    // Not TLS, or not what was agreed on.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        self.desk.limits.closed.garbage.increment(1);
                        return Err(error);
                    }
                    // Many do not say in TLS that they have sent their last.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => reading = false,
                    // A half-close ends the questions, not the answers.
                    got => if got? == 0 { reading = false },
                },
                () = async { if let Some(pause) = &mut pause { pause.await } }, if pause.is_some() => {
                    pause = None;
                }
                () = &mut timer => {
                    let now = tokio::time::Instant::now();
                    if now >= deadline && self.waiting.is_empty() && pause.is_none() {
                        return Ok(End::Idle);
                    }
                    // What is under way is waited for, however long it takes.
                    let late = now >= deadline;
                    timer.as_mut().reset(if late { now + self.plan.timeouts.idle } else { deadline });
                }
            }
            let now = Instant::now();
            let mut told = !self.out.is_empty();
            if pause.is_none() && self.taking && self.inbox.has_message() {
                let (took, wait) = self.take(stream, now).await?;
                told |= took;
                pause = wait.map(|wait| Box::pin(sleep(wait)));
                if !self.taking {
                    reading = false;
                    // So many queries and no more are the client's, and not garbage.
                    end = if self.has_all() { End::Done } else { End::Garbage };
                }
            }
            if !self.out.is_empty() {
                self.write(stream).await?;
            }
            self.inbox.rest();
            if told {
                deadline = tokio::time::Instant::now() + self.plan.timeouts.idle;
                if deadline < timer.deadline() {
                    timer.as_mut().reset(deadline);
                }
            }
            if self.waiting.is_empty() && pause.is_none() {
                seat.idle(now);
            } else {
                seat.serve();
            }
        }
    }

    /// Has answers tell the client to go (RFC 7828 §3.4), those of what has come already too; what waits for its rate no longer
    /// comes to its turn.
    fn leave<S>(&mut self, stream: &mut S, pause: &mut Option<Pin<Box<Sleep>>>)
    where
        S: Outlet,
    {
        self.seat.leave();
        self.taking &= pause.take().is_none();
        drop(self.inbox.fill(stream).now_or_never());
    }

    /// Serves the whole messages that are there. Tells whether there was any, and how long the client has to wait before the
    /// next is read, if it asks too fast.
    async fn take<S>(
        &mut self,
        stream: &mut S,
        now: Instant,
    ) -> io::Result<(bool, Option<Duration>)>
    where
        S: Outlet,
    {
        let (mut took, mut wait) = (false, None);
        let keepalive =
            if self.seat.is_leaving() { Duration::ZERO } else { self.plan.timeouts.idle };
        let mut spare = None;
        while self.waiting.len() < self.desk.limits.bounds.pipeline && self.inbox.has_message() {
            if let Err(time) = self.desk.peek().pace(self.about.peer.ip(), now) {
                self.desk.limits.limited.delayed.increment(1);
                wait = Some(time);
                break;
            }
            let Some(message) = self.inbox.message() else { break };
            if message.len() < HEADER {
                // No header, so nothing to reply to: whoever sends this does not speak DNS.
                self.taking = false;
                break;
            }
            took = true;
            self.last = Some(now);
            self.queries += 1;
            let mut x = spare.take().unwrap_or_else(|| pool::exchange(self.desk, &self.about));
            x.query.wire.clear();
            x.query.wire.extend_from_slice(message);
            x.query.received = now;
            x.query.keepalive = Some(keepalive);
            if self.out.capacity() == 0 {
                self.out = pool::buffer();
            }
            match frame(&mut self.out, |out| self.desk.gateway.serve(&mut x, out)) {
                Served::Now => {
                    self.stream(&mut x, stream).await?;
                    spare = Some(x);
                }
                Served::Later(live) => {
                    self.waiting.push(Box::pin(finish(x, live, Arc::clone(&self.seat))));
                }
            }
            if self.out.len() >= WRITE {
                self.write(stream).await?;
            }
            if self.has_all() {
                self.taking = false;
                break;
            }
        }
        spare.into_iter().for_each(pool::give_exchange);
        Ok((took, wait))
    }

    /// Whether it has brought all the queries that it may.
    fn has_all(&self) -> bool {
        self.plan.spec.max_queries.is_some_and(|most| most > 0 && self.queries >= most)
    }

    /// Takes the reply of an exchange that has waited.
    async fn finished<S>(
        &mut self,
        (mut x, message): (Box<Exchange>, Vec<u8>),
        stream: &mut S,
    ) -> io::Result<()>
    where
        S: Outlet,
    {
        if self.out.capacity() == 0 {
            self.out = pool::buffer();
        }
        self.out.extend_from_slice(&message);
        self.stream(&mut x, stream).await?;
        pool::give_exchange(x);
        Ok(())
    }

    /// Adds the further messages of a reply that has several, and writes in between.
    async fn stream<S>(&mut self, x: &mut Exchange, stream: &mut S) -> io::Result<()>
    where
        S: Outlet,
    {
        while x.is_streaming() {
            frame(&mut self.out, |out| x.more(65535, out));
            if self.out.len() >= WRITE {
                self.write(stream).await?;
            }
        }
        Ok(())
    }

    /// Writes what is to be said; a client that does not read loses its connection.
    async fn write<S>(&mut self, stream: &mut S) -> io::Result<()>
    where
        S: Outlet,
    {
        let out = std::mem::take(&mut self.out);
        {
            let mut all = pin!(stream.send(&out));
            match futures::poll!(&mut all) {
                std::task::Poll::Ready(written) => written?,
                std::task::Poll::Pending => {
                    // This may take long, and others can use what is left over.
                    self.inbox.rest();
                    timeout(self.plan.timeouts.write, all).await.unwrap_or_else(|_| {
                        self.desk.limits.closed.write.increment(1);
                        Err(io::ErrorKind::TimedOut.into())
                    })?;
                }
            }
        }
        pool::give_buffer(out);
        Ok(())
    }
}

/// Sees an exchange through to its framed reply.
async fn finish(
    mut x: Box<Exchange>,
    live: Arc<Live>,
    seat: Arc<Seat>,
) -> (Box<Exchange>, Vec<u8>) {
    let end = live.finish(&mut x).await;
    if seat.is_leaving() {
        x.query.keepalive = Some(Duration::ZERO);
    }
    let mut out = Vec::new();
    frame(&mut out, |out| live.settle(&mut x, end, 65535, out));
    live.fork(&mut x);
    (x, out)
}

#[cfg(test)]
mod tests;
