//! DNS over QUIC (RFC 9250): a query a stream, answered in any order.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use engine::{Exchange, Live, Served, Session, Stage, Stop, Transport};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use quinn::{Connection, RecvStream, SendStream, VarInt, WriteError};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::{Options, option};

use crate::endpoint::{Fate, Guest, Handshake, House, Streams, Terms};
use crate::framing::frame;
use crate::limits::Room;
use crate::pool;
use crate::seats::Leave;
use crate::tcp::About;

/// The shortest message (RFC 1035 §4.1.1), in octets.
const HEADER: usize = 12;

/// Up to how many octets a query is read whenever it comes; for more it needs a place among [`House::large`].
const SMALL: usize = 2048;

/// How many streams are taken before others of the thread get their turn.
const TURN: usize = 64;

/// How many streams a client may cancel beyond those that it lets us answer.
const PATIENCE: u32 = 256;

/// The bounds of how long a connection that is drained waits for queries that were sent before the client knew.
const LINGER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Error codes (RFC 9250 §8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// DOQ_NO_ERROR: all is well, the connection is no longer needed.
    None = 0,
    /// DOQ_INTERNAL_ERROR: a query cannot be answered.
    Internal = 1,
    /// DOQ_PROTOCOL_ERROR: the client does not keep to the protocol.
    Protocol = 2,
    /// DOQ_REQUEST_CANCELLED: the client wants no answer any more.
    Cancelled = 3,
    /// DOQ_EXCESSIVE_LOAD: the client takes too much.
    Excessive = 4,
    /// DOQ_UNSPECIFIED_ERROR: nothing is here for this client.
    Unspecified = 5,
}

impl From<Code> for VarInt {
    fn from(code: Code) -> Self {
        Self::from_u32(code as u32)
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(guest: Guest) {
    let Guest { house, terms, connection, session, room, handshake, stop } = guest;
    let about = About {
        transport: Transport::Quic,
        peer: House::peer(&connection),
        local: house.asked(&connection),
        session: Some(session),
    };
    let streams = Streams::new(&terms);
    let mut talk = Talk {
        house,
        connection,
        terms,
        about,
        room,
        early: handshake.is_some(),
        held: Vec::new(),
        waiting: FuturesUnordered::new(),
        spare: None,
        patience: PATIENCE,
        streams,
        draining: false,
    };
    if let Some(code) = talk.run(handshake, stop).await {
        let closed = &talk.house.desk.limits.closed;
        match code {
            Code::Protocol => {
                talk.house.count(Fate::Wrong);
                closed.garbage.increment(1);
            }
            Code::Excessive => talk.house.count(Fate::Load),
            _ => {}
        }
        talk.connection.close(code.into(), b"");
    }
}

/// One connection's state.
struct Talk {
    house: Arc<House>,
    connection: Connection,
    terms: Arc<Terms>,
    about: About,
    room: Room,
    /// Whether the handshake is not done yet, so that a query may be a replay.
    early: bool,
    /// Queries that wait for the handshake.
    held: Vec<(SendStream, Asked)>,
    waiting: FuturesUnordered<Later>,
    /// The exchange of the query before, while a turn lasts.
    spare: Option<Box<Exchange>>,
    /// How many streams the client may cancel.
    patience: u32,
    streams: Streams,
    draining: bool,
}

/// A query, with its place if it is a large one.
type Asked = (Vec<u8>, Option<OwnedSemaphorePermit>);

/// A stream that waits, for its query, for an answer, or for room to write it.
type Later = Pin<Box<dyn Future<Output = Came> + Send>>;

/// What came of a stream.
enum Came {
    /// Its query.
    Query(SendStream, Asked),
    /// The end of its answer.
    Answered,
    /// Nothing: it was reset, as the client wished.
    Cancelled,
    /// Nothing: it was reset, for there is no answer.
    Unanswered,
    /// The end of the connection.
    Close(Code),
}

/// What is wrong with a stream.
enum Trouble {
    /// It is no query of RFC 9250.
    Protocol,
    /// The client has reset it, or the connection is gone.
    Gone,
}

impl Talk {
    /// Serves until the connection is to be closed, and says by what code; none if it is gone.
    async fn run(&mut self, mut handshake: Option<Handshake>, mut stop: Stop) -> Option<Code> {
        let (house, connection) = (Arc::clone(&self.house), self.connection.clone());
        let seat = Arc::clone(self.room.seat());
        let closed = &house.desk.limits.closed;
        let (mut stopping, mut told) = (pin!(stop.reached(Stage::Draining)), pin!(seat.told()));
        let mut deadline = Instant::now() + self.terms.plan.timeouts.idle;
        // It is set again when it is over, not with each query.
        let mut timer = pin!(sleep_until(deadline));
        if !self.early {
            seat.idle(std::time::Instant::now());
        }
        loop {
            let mut full = false;
            let result = tokio::select! {
                biased;
                Some(came) = self.waiting.next() => self.came(came),
                pair = connection.accept_bi() => match pair {
                    Ok(pair) => self.turn(pair).map(|taken| full = taken == TURN),
                    Err(_) => return None,
                },
                session = Handshake::proven(&mut handshake, &house, &self.room, &connection), if self.early => {
                    match session {
                        Some(session) => self.proven(session),
                        None => Err(Code::Unspecified),
                    }
                }
                why = &mut told, if !self.draining => {
                    closed.count(why);
                    if why == Leave::Revoked {
                        Err(Code::Unspecified)
                    } else {
                        self.drain();
                        Ok(())
                    }
                }
                () = &mut stopping, if !self.draining => {
                    self.drain();
                    Ok(())
                }
                () = &mut timer, if self.waiting.is_empty() => {
                    if Instant::now() < deadline {
                        timer.as_mut().reset(deadline);
                        continue;
                    }
                    if !self.draining {
                        closed.idle.increment(1);
                    }
                    return Some(Code::None);
                }
            };
            if let Err(code) = result {
                return Some(code);
            }
            if let Some(x) = self.spare.take() {
                pool::give_exchange(x);
            }
            let now = Instant::now();
            deadline = now
                + if self.draining {
                    (3 * connection.rtt()).clamp(LINGER.0, LINGER.1)
                } else {
                    self.terms.plan.timeouts.idle
                };
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            if self.waiting.is_empty() {
                seat.idle(now.into_std());
            } else {
                seat.serve();
            }
            if full {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Begins to end: the client gets no room for more queries; what it has sent so far is answered.
    fn drain(&mut self) {
        self.draining = true;
        self.streams.close(&self.connection);
    }

    /// Takes a stream, and those that came with it; gives how many.
    fn turn(&mut self, first: (SendStream, RecvStream)) -> Result<usize, Code> {
        self.about.peer = House::peer(&self.connection);
        let now = std::time::Instant::now();
        let (mut out, mut next, mut taken) = (Vec::with_capacity(1024), Some(first), 0);
        while let Some((send, recv)) = next {
            self.take(send, recv, now, &mut out)?;
            taken += 1;
            // An error comes again with the next turn; the last of a turn is taken whatever follows.
            let more = taken < TURN;
            next = more.then(|| self.connection.accept_bi().now_or_never()?.ok()).flatten();
        }
        self.streams.take(&self.connection, now, taken, self.waiting.len());
        Ok(taken)
    }

    /// An exchange for a query.
    fn exchange(&mut self) -> Box<Exchange> {
        self.spare.take().unwrap_or_else(|| pool::exchange(&self.house.desk, &self.about))
    }

    /// Takes a stream: answers it if its query is there, else lets it wait.
    fn take(
        &mut self,
        send: SendStream,
        mut recv: RecvStream,
        now: std::time::Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Code> {
        let mut x = self.exchange();
        x.query.wire.clear();
        match query(&mut recv, &mut x.query.wire, SMALL).now_or_never() {
            Some(Ok(true)) => self.answer(x, None, send, now, out),
            Some(Err(Trouble::Protocol)) => Err(Code::Protocol),
            Some(Err(Trouble::Gone)) => {
                self.spare = Some(x);
                self.abandon(send)
            }
            Some(Ok(false)) | None => {
                // The exchange keeps its room.
                let wire = x.query.wire.clone();
                self.spare = Some(x);
                let (large, time) = (Arc::clone(&self.house.large), self.terms.plan.timeouts.read);
                self.waiting.push(Box::pin(arrive(send, recv, wire, large, time)));
                Ok(())
            }
        }
    }

    /// Goes on with a stream that has waited.
    fn came(&mut self, came: Came) -> Result<(), Code> {
        match came {
            Came::Query(send, asked) => self.again(send, asked),
            Came::Answered => {
                self.answered();
                Ok(())
            }
            Came::Cancelled => self.cancelled(),
            Came::Unanswered => {
                self.house.count(Fate::Unanswered);
                Ok(())
            }
            Came::Close(code) => {
                // The client did not take an answer in time.
                if code == Code::Excessive {
                    self.house.desk.limits.closed.write.increment(1);
                }
                Err(code)
            }
        }
    }

    /// Goes on when the handshake is done, with the queries that had to wait for it.
    fn proven(&mut self, session: Arc<Session>) -> Result<(), Code> {
        self.early = false;
        self.about.session = Some(session);
        for (send, asked) in std::mem::take(&mut self.held) {
            self.again(send, asked)?;
        }
        Ok(())
    }

    /// Answers a query that has waited.
    fn again(&mut self, send: SendStream, (wire, place): Asked) -> Result<(), Code> {
        let mut x = self.exchange();
        x.query.wire = wire;
        self.answer(x, place, send, std::time::Instant::now(), &mut Vec::new())
    }

    /// Answers a query, at once if no plugin has to wait.
    fn answer(
        &mut self,
        mut x: Box<Exchange>,
        place: Option<OwnedSemaphorePermit>,
        mut send: SendStream,
        now: std::time::Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Code> {
        if self.early && !may_be_replayed(&x.query.wire) {
            let wire = std::mem::take(&mut x.query.wire);
            self.spare = Some(x);
            self.held.push((send, (wire, place)));
            return Ok(());
        }
        if let Err(wait) = self.house.desk.peek().pace(self.about.peer.ip(), now) {
            self.house.desk.limits.limited.delayed.increment(1);
            let wire = std::mem::take(&mut x.query.wire);
            self.spare = Some(x);
            self.waiting.push(Box::pin(async move {
                sleep(wait).await;
                Came::Query(send, (wire, place))
            }));
            return Ok(());
        }
        x.query.received = now;
        out.clear();
        let served = frame(out, |out| self.house.desk.gateway.serve(&mut x, out));
        // The option is TCP's; over QUIC it is a fatal error (RFC 9250 §5.5.2).
        if Options::each(x.client_options()).any(|(code, _)| code == option::KEEPALIVE) {
            return Err(Code::Protocol);
        }
        let times = (self.terms.plan.timeouts.write, self.draining);
        match served {
            Served::Later(live) => {
                let work = Arc::clone(&self.terms.pool);
                self.waiting.push(Box::pin(finish(x, place, live, send, work, times)));
            }
            Served::Now if x.is_streaming() => {
                let out = std::mem::take(out);
                self.waiting.push(Box::pin(tell(x, send, out, times)));
            }
            Served::Now if out.is_empty() => {
                // A message that says that it is a response is none that a client may send.
                let is_response = x.query.wire.get(2).is_some_and(|flags| flags & 0x80 != 0);
                self.spare = Some(x);
                if is_response {
                    return Err(Code::Protocol);
                }
                self.house.count(Fate::Unanswered);
                reset(&mut send, Code::Internal);
            }
            Served::Now => {
                let sent = if self.draining { None } else { send.write(out).now_or_never() };
                match sent {
                    // Dropping the stream ends it.
                    Some(Ok(len)) if len == out.len() => {
                        self.spare = Some(x);
                        self.answered();
                    }
                    Some(Err(WriteError::Stopped(_))) => {
                        self.spare = Some(x);
                        reset(&mut send, Code::Cancelled);
                        return self.cancelled();
                    }
                    Some(Err(_)) => self.spare = Some(x),
                    other => {
                        let done = other.and_then(Result::ok).unwrap_or(0);
                        let rest = out.split_off(done);
                        self.waiting.push(Box::pin(tell(x, send, rest, times)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts an answer, which gives the client credit.
    fn answered(&mut self) {
        self.house.count(Fate::Answered);
        self.patience = PATIENCE.min(self.patience + 1);
    }

    /// Counts a stream that the client has cancelled: work that it made and did not want. Who does little else has to go
    /// (RFC 9250 §4.3.1).
    fn cancelled(&mut self) -> Result<(), Code> {
        self.house.count(Fate::Cancelled);
        self.patience = self.patience.checked_sub(1).ok_or(Code::Excessive)?;
        Ok(())
    }

    /// Gives a stream up whose query the client has reset.
    fn abandon(&mut self, mut send: SendStream) -> Result<(), Code> {
        reset(&mut send, Code::Cancelled);
        self.cancelled()
    }
}

/// Resets a stream; if it is gone already, so much the better.
fn reset(send: &mut SendStream, code: Code) {
    drop(send.reset(code.into()));
}

/// Reads a stream to its end into `wire`, or until there are more than `most` octets; tells whether that is its end. In the end
/// `wire` is the query alone, without the two octets of length before it. May be dropped and called again.
async fn query(recv: &mut RecvStream, wire: &mut Vec<u8>, most: usize) -> Result<bool, Trouble> {
    while wire.len() <= most {
        let read = recv.read_buf(wire).await.map_err(|_| Trouble::Gone)?;
        let length = wire.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
        match length {
            // More than the query (RFC 9250 §4.3.3).
            Some(length) if wire.len() > length + 2 => return Err(Trouble::Protocol),
            Some(length) if read == 0 && wire.len() == length + 2 && length >= HEADER => {
                wire.drain(..2);
                // The ID has to be zero (RFC 9250 §4.2.1).
                return if wire.starts_with(&[0, 0]) { Ok(true) } else { Err(Trouble::Protocol) };
            }
            // An end without a query or within it.
            _ if read == 0 => return Err(Trouble::Protocol),
            _ => {}
        }
    }
    Ok(false)
}

/// Waits for a stream's query. A stream without an end for so long a time ends its connection (RFC 9250 §4.2).
async fn arrive(
    mut send: SendStream,
    mut recv: RecvStream,
    mut wire: Vec<u8>,
    large: Arc<Semaphore>,
    time: Duration,
) -> Came {
    let mut place = None;
    let mut came = timeout(time, query(&mut recv, &mut wire, SMALL)).await;
    if let Ok(Ok(false)) = came {
        // Whoever has a place has it for a bounded time; the error that there is no semaphore cannot be.
        place = large.acquire_owned().await.ok();
        came = timeout(time, query(&mut recv, &mut wire, usize::MAX)).await;
    }
    match came {
        Ok(Ok(_)) => Came::Query(send, (wire, place)),
        Ok(Err(Trouble::Protocol)) | Err(_) => Came::Close(Code::Protocol),
        Ok(Err(Trouble::Gone)) => {
            reset(&mut send, Code::Cancelled);
            Came::Cancelled
        }
    }
}

/// Sees an exchange through to the end of its answer, unless the client does not want it any more.
async fn finish(
    mut x: Box<Exchange>,
    place: Option<OwnedSemaphorePermit>,
    live: Arc<Live>,
    mut send: SendStream,
    places: Arc<Semaphore>,
    times: (Duration, bool),
) -> Came {
    let mut message = Vec::new();
    let work = async {
        // It is never closed.
        let _place = places.acquire().await;
        live.complete(&mut x, &mut message).await;
    };
    tokio::select! {
        () = work => {}
        _ = send.stopped() => {
            reset(&mut send, Code::Cancelled);
            return Came::Cancelled;
        }
    }
    drop(place);
    let mut out = Vec::with_capacity(message.len() + 2);
    frame(&mut out, |out| out.extend_from_slice(&message));
    if out.is_empty() {
        reset(&mut send, Code::Internal);
        return Came::Unanswered;
    }
    tell(x, send, out, times).await
}

/// Writes what is left of an answer, and all that follow it; may `wait` until the client has it all.
async fn tell(
    mut x: Box<Exchange>,
    mut send: SendStream,
    mut out: Vec<u8>,
    (write, wait): (Duration, bool),
) -> Came {
    loop {
        match timeout(write, send.write_all(&out)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                reset(&mut send, Code::Cancelled);
                return Came::Cancelled;
            }
            // Who asks and does not read ties memory down.
            Err(_) => return Came::Close(Code::Excessive),
        }
        out.clear();
        if !frame(&mut out, |out| x.more(65535, out)) {
            break;
        }
    }
    pool::give_exchange(x);
    drop(send.finish());
    if wait {
        // Whether it has come or not, the connection may be closed then.
        drop(timeout(write, send.stopped()).await);
    }
    Came::Answered
}

/// Whether it does no harm that somebody sends a message once more: a query or a notification (RFC 9250 §4.5).
fn may_be_replayed(wire: &[u8]) -> bool {
    let opcode = wire.get(2).map(|flags| flags >> 3 & 15);
    matches!(opcode, Some(0 | 4))
}
