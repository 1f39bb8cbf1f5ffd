//! DNS over HTTP/3 (RFC 8484 on RFC 9114): what [`crate::http`] makes of requests, on QUIC. Nothing else knows `h3`.

mod bridge;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use engine::{Served, Stage, Stop, Timeouts};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use h3::error::{Code, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::header::{self, HeaderMap};
use quinn::{Connection, VarInt};
use tokio::time::{Instant, sleep_until, timeout};

use crate::endpoint::{Fate, Guest, House, Streams};
use crate::http::{Ask, MESSAGE, Refusal, Reply, Web};
use crate::http2::HEADERS;
use crate::limits::Room;
use crate::pool;
use crate::seats::Leave;
use bridge::{Both, Line, Shared, Stopped};

/// How many requests a client may cancel, or get wrong, beyond those that it lets us answer.
const PATIENCE: u32 = 256;

/// The bounds of how long a connection that is drained waits for requests that were sent before the client knew.
const LINGER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How many requests may still be on their way when a client is told to send no more.
const AHEAD: usize = 1 << 16;

/// The fields that belong to a connection of HTTP/1.1, and that make a request of HTTP/3 malformed.
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// `h3` on a connection.
type Server = h3::server::Connection<Line, Bytes>;

/// A request and what is replied to it.
type Stream = RequestStream<Both, Bytes>;

/// Serves a connection to its end. What it takes to begin is in a box of its own, so that one that is idle is without it.
pub(crate) async fn serve(guest: Guest) {
    let Some((mut talk, mut stop)) = Box::pin(begin(guest)).await else { return };
    talk.run(&mut stop).await;
}

/// Begins to speak HTTP/3 on a connection; none if that cannot be.
async fn begin(guest: Guest) -> Option<(Box<Talk>, Stop)> {
    let Guest { house, terms, connection, session, room, stop, .. } = guest;
    let (peer, local) = (House::peer(&connection), house.asked(&connection));
    let web = Web::new(&house.desk, (peer, local), Some(session));
    let times = terms.plan.timeouts;
    let line = Line::new(connection.clone(), Arc::clone(&house));
    let shared = Arc::clone(line.shared());
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEADERS.into()).send_grease(false);
    // A client that gives no room for the control stream can do nothing with an answer.
    let server = match timeout(times.read, builder.build(line)).await {
        Ok(Ok(server)) => server,
        Ok(Err(error)) => {
            log::debug!("{}: {error}", house.desk.key);
            return None;
        }
        Err(_) => {
            connection.close(number(Code::H3_STREAM_CREATION_ERROR), b"");
            return None;
        }
    };
    let table = Arc::new(Table { house, web, times });
    let talk = Box::new(Talk {
        table,
        server,
        streams: Streams::new(&terms),
        connection,
        shared,
        room,
        waiting: FuturesUnordered::new(),
        patience: PATIENCE,
    });
    Some((talk, stop))
}

/// What the requests of a connection share.
struct Table {
    house: Arc<House>,
    web: Web,
    times: Timeouts,
}

/// One connection's state.
struct Talk {
    table: Arc<Table>,
    server: Server,
    streams: Streams,
    connection: Connection,
    shared: Arc<Shared>,
    room: Room,
    waiting: FuturesUnordered<Later>,
    /// How many requests the client may cancel or get wrong.
    patience: u32,
}

/// A request that waits, to come, for an answer, or for room to write it.
type Later = Pin<Box<dyn Future<Output = Came> + Send>>;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// A reply.
    Answered,
    /// Nothing: the client has cancelled it.
    Cancelled,
    /// Nothing: it was no good request.
    Wrong,
    /// The end of the connection: the client does not read what it asks for.
    Stuck,
}

impl Talk {
    /// Serves until the connection is closed.
    async fn run(&mut self, stop: &mut Stop) {
        let desk = Arc::clone(&self.table.house.desk);
        let seat = Arc::clone(self.room.seat());
        let (mut stopping, mut told) = (pin!(stop.reached(Stage::Draining)), pin!(seat.told()));
        let mut deadline = Instant::now() + self.table.times.idle;
        // It is set again when it is over, not with each request.
        let mut timer = pin!(sleep_until(deadline));
        let mut draining = false;
        seat.idle(std::time::Instant::now());
        let code = loop {
            // Whether the connection is to end from here on.
            let mut end = false;
            let result = tokio::select! {
                biased;
                Some(came) = self.waiting.next() => self.came(came),
                request = self.server.accept() => match request {
                    Ok(Some(request)) => {
                        let now = std::time::Instant::now();
                        self.streams.take(&self.connection, now, 1, self.waiting.len());
                        self.take(request)
                    }
                    // The client wants no more, and has its answers.
                    Ok(None) => break Code::H3_NO_ERROR,
                    // `h3` has closed the connection with the code that there is for the error.
                    Err(error) => {
                        if !error.is_h3_no_error() {
                            log::debug!("{}: {error}", desk.key);
                        }
                        return;
                    }
                },
                why = &mut told, if !draining => {
                    desk.limits.closed.count(why);
                    if why == Leave::Revoked { break Code::H3_NO_ERROR }
                    end = true;
                    Ok(())
                }
                () = &mut stopping, if !draining => {
                    end = true;
                    Ok(())
                }
                () = &mut timer, if self.waiting.is_empty() => {
                    if Instant::now() < deadline {
                        timer.as_mut().reset(deadline);
                        continue;
                    }
                    if !draining {
                        desk.limits.closed.idle.increment(1);
                    }
                    break Code::H3_NO_ERROR;
                }
            };
            if let Err(code) = result {
                break code;
            }
            if end {
                draining = true;
                // The client is to send no more; what it has sent before it hears that is answered (RFC 9114 §5.2).
                // Who gives no room for it is not waited for.
                drop(timeout(LINGER.1, self.server.shutdown(AHEAD)).await);
            }
            let now = Instant::now();
            deadline = now + if draining { self.linger() } else { self.table.times.idle };
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            if self.waiting.is_empty() {
                seat.idle(now.into_std());
            } else {
                seat.serve();
            }
        };
        if code == Code::H3_NO_ERROR {
            // The last request that was served, for clients that want to know (RFC 9114 §5.2).
            drop(timeout(LINGER.1, self.server.shutdown(1)).await);
            tokio::time::sleep(self.linger()).await;
        } else {
            self.table.house.count(Fate::Load);
        }
        self.connection.close(number(code), b"");
    }

    /// How long what was sent may be on its way.
    fn linger(&self) -> Duration {
        (3 * self.connection.rtt()).clamp(LINGER.0, LINGER.1)
    }

    /// Takes a request: answers it if it is there and no plugin has to wait, else lets it wait.
    fn take(&mut self, request: RequestResolver<Line, Bytes>) -> Result<(), Code> {
        let stopped = self.shared.stopped();
        let mut later: Later = Box::pin(answer(Arc::clone(&self.table), request, stopped));
        match (&mut later).now_or_never() {
            Some(came) => self.came(came),
            None => {
                self.waiting.push(later);
                Ok(())
            }
        }
    }

    /// Counts what came of a request. Who cancels much of what was begun, or sends much that is none, has to go
    /// (RFC 9114 §10.5).
    fn came(&mut self, came: Came) -> Result<(), Code> {
        match came {
            Came::Answered => {
                self.table.house.count(Fate::Answered);
                self.patience = PATIENCE.min(self.patience + 1);
                return Ok(());
            }
            Came::Cancelled => self.table.house.count(Fate::Cancelled),
            Came::Wrong => self.table.house.count(Fate::Wrong),
            Came::Stuck => {
                self.table.house.desk.limits.closed.write.increment(1);
                return Err(Code::H3_EXCESSIVE_LOAD);
            }
        }
        self.patience = self.patience.checked_sub(1).ok_or(Code::H3_EXCESSIVE_LOAD)?;
        Ok(())
    }
}

/// Answers a request.
async fn answer(
    table: Arc<Table>,
    request: RequestResolver<Line, Bytes>,
    stopped: Option<Stopped>,
) -> Came {
    let (desk, web, read) = (&table.house.desk, &table.web, table.times.read);
    let (request, mut stream) = match timeout(read, request.resolve_request()).await {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(error)) => return trouble(&error),
        Err(_) => return Came::Wrong,
    };
    if is_malformed(request.headers()) {
        stream.stop_stream(Code::H3_MESSAGE_ERROR);
        return Came::Wrong;
    }
    let mut x = web.exchange(desk);
    let form = match web.ask(desk, &request, &mut x) {
        Ask::Nothing(reply) => {
            pool::give_exchange(x);
            return send(&mut stream, reply, table.times.write).await;
        }
        Ask::Query(form) => {
            // The end of the request comes with its head; whatever else there is is not needed.
            drop(stream.recv_data().now_or_never());
            form
        }
        Ask::Body(form) => {
            let body = timeout(read, body(&mut stream, &request, &mut x.query.wire)).await;
            match body.unwrap_or(Err(Trouble::Refused(Refusal::TIMEOUT))) {
                Ok(()) => form,
                Err(Trouble::Refused(why)) => {
                    let reply = web.refuse(why, form);
                    return send(&mut stream, reply, table.times.write).await;
                }
                Err(Trouble::Malformed) => {
                    stream.stop_stream(Code::H3_MESSAGE_ERROR);
                    return Came::Wrong;
                }
                Err(Trouble::Gone(came)) => return came,
            }
        }
    };
    let mut message = Vec::new();
    if let Served::Later(live) = desk.gateway.serve(&mut x, &mut message) {
        let given_up = async {
            match stopped {
                Some(stopped) => drop(stopped.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = live.complete(&mut x, &mut message) => {}
            () = given_up => {
                stream.stop_stream(Code::H3_REQUEST_CANCELLED);
                return Came::Cancelled;
            }
        }
    }
    let reply = web.tell(&x, form, &message);
    pool::give_exchange(x);
    send(&mut stream, reply, table.times.write).await
}

/// Whether fields are among a request's that belong to a connection of HTTP/1.1 (RFC 9114 §4.2).
fn is_malformed(headers: &HeaderMap) -> bool {
    OF_CONNECTIONS.iter().any(|name| headers.contains_key(*name))
        || headers.get_all(header::TE).iter().any(|te| te != "trailers")
}

/// What is wrong with a request's body.
enum Trouble {
    /// The client is told.
    Refused(Refusal),
    /// It is not as long as it says (RFC 9114 §4.1.2).
    Malformed,
    /// It does not come.
    Gone(Came),
}

/// Appends a request's body to `message`.
async fn body(
    stream: &mut Stream,
    request: &http::Request<()>,
    message: &mut Vec<u8>,
) -> Result<(), Trouble> {
    while let Some(mut data) =
        stream.recv_data().await.map_err(|error| Trouble::Gone(trouble(&error)))?
    {
        while data.has_remaining() {
            let chunk = data.chunk();
            if message.len() + chunk.len() > MESSAGE {
                return Err(Trouble::Refused(Refusal::TOO_LARGE));
            }
            message.extend_from_slice(chunk);
            let len = chunk.len();
            data.advance(len);
        }
    }
    let stated = request.headers().get(header::CONTENT_LENGTH);
    let is_so = |stated: &http::HeaderValue| {
        stated.to_str().ok().and_then(|text| text.parse().ok()) == Some(message.len())
    };
    if stated.is_none_or(is_so) { Ok(()) } else { Err(Trouble::Malformed) }
}

/// Writes a reply.
async fn send(stream: &mut Stream, reply: Reply, write: Duration) -> Came {
    let all = async {
        stream.send_response(reply.response).await?;
        if !reply.body.is_empty() {
            stream.send_data(reply.body).await?;
        }
        stream.finish().await
    };
    match timeout(write, all).await {
        Ok(Ok(())) => Came::Answered,
        Ok(Err(error)) => {
            stream.stop_stream(Code::H3_REQUEST_CANCELLED);
            trouble(&error)
        }
        Err(_) => Came::Stuck,
    }
}

/// Whose fault it is that a request cannot be answered.
fn trouble(error: &StreamError) -> Came {
    match error {
        StreamError::StreamError { .. } | StreamError::HeaderTooBig { .. } => Came::Wrong,
        _ => Came::Cancelled,
    }
}

/// An error code; all that there are fit.
fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX)
}
