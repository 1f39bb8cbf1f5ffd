//! DNS over gRPC: the service `coredns.dns.DnsService`, whose one method `Query` takes and gives a message in
//! `DnsPacket { bytes msg = 1; }`.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use engine::metrics::{Counter, Table, counter, describe};
use engine::{Exchange, Http, Stop, Transport};
use h2::RecvStream;
use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::accept::Accepted;
use crate::desk::Desk;
use crate::http2::{self, Ask, Failure, Reply, Service, Terms};
use crate::pool;
use crate::tcp::About;

#[cfg(test)]
mod tests;

/// Where the method is.
pub(crate) const PATH: &str = "/coredns.dns.DnsService/Query";

/// The largest message of gRPC: that of DNS, with a tag and a length of three octets before it.
pub(crate) const PACKET: usize = 65535 + 4;

/// The length of what stands before each message: whether it is compressed, and its length.
pub(crate) const PREFIX: usize = 5;

/// How long a connection may be idle. Clients keep theirs open, and open others without a query lost when told to.
const IDLE: Duration = Duration::from_secs(600);

/// The tag of field 1 as octets.
const FIELD: u64 = 1 << 3 | 2;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// How a call ended, by gRPC's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// With an answer.
    Ok = 0,
    /// The message is no DNS query.
    InvalidArgument = 3,
    /// It did not end in time.
    DeadlineExceeded = 4,
    /// The message is too large.
    ResourceExhausted = 8,
    /// There is no such method, or not for this client.
    Unimplemented = 12,
    /// The call is not made as gRPC says.
    Internal = 13,
    /// There is no answer.
    Unavailable = 14,
}

impl Code {
    /// How many numbers there are.
    const COUNT: usize = 17;

    /// Its number, as it is written.
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "0",
            Self::InvalidArgument => "3",
            Self::DeadlineExceeded => "4",
            Self::ResourceExhausted => "8",
            Self::Unimplemented => "12",
            Self::Internal => "13",
            Self::Unavailable => "14",
        }
    }
}

/// Serves one connection.
pub(crate) async fn serve<S>(desk: &Desk, accepted: Accepted<S>, stop: Stop) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Accepted { stream, peer, local, session, plan, seat, .. } = accepted;
    let streams = match plan.spec.grpc.max_streams.unwrap_or(256) {
        0 => None,
        streams => Some(u32::try_from(streams).unwrap_or(u32::MAX)),
    };
    let terms = Terms { streams, read: plan.timeouts.read, write: plan.timeouts.write, idle: IDLE };
    let about = About { peer, local, transport: Transport::Grpc, session };
    let calls = Calls { desk, about, counts: Counts::new(desk.key.to_string()) };
    Box::pin(http2::serve((desk, &seat), stream, Vec::new(), &calls, terms, stop)).await
}

/// What answers the calls of a connection.
struct Calls<'a> {
    desk: &'a Desk,
    about: About,
    counts: Counts,
}

impl Service for Calls<'_> {
    /// When the client gives up, if it says so.
    type Form = Option<Instant>;

    fn exchange(&self) -> Box<Exchange> {
        pool::exchange(self.desk, &self.about)
    }

    fn ask(&self, request: &Request<RecvStream>, x: &mut Exchange) -> Ask<Self::Form> {
        x.query.received = Instant::now();
        x.query.wire.clear();
        match head(request) {
            Ok(_) if !self.desk.rate(self.about.peer.ip()) => {
                let reply = self.failure(Code::ResourceExhausted, "too many queries, try again");
                Ask::Nothing(Box::new(reply))
            }
            Ok(limit) => {
                x.query.http = trace(request.headers());
                let deadline = limit.and_then(|limit| x.query.received.checked_add(limit));
                Ask::Body(deadline, PREFIX + PACKET)
            }
            Err(Unread::Http(status)) => {
                let mut response = Response::new(());
                *response.status_mut() = status;
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
                }
                Ask::Nothing(Box::new(Reply { response, body: Bytes::new(), trailers: None }))
            }
            Err(Unread::Grpc(code, why)) => Ask::Nothing(Box::new(self.failure(code, why))),
        }
    }

    fn body(&self, _: Self::Form, x: &mut Exchange) -> Result<(), Failure> {
        let body = &mut x.query.wire;
        let message = unwrap(body)?;
        body.truncate(message.end);
        body.drain(..message.start);
        Ok(())
    }

    fn patience(&self, deadline: Self::Form) -> Option<Duration> {
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn tell(&self, x: &Exchange, _: Self::Form, message: &[u8]) -> Reply {
        if x.is_turned_away() {
            return self.failure(Code::Unimplemented, NO_METHOD);
        }
        if message.is_empty() {
            let is_query = x.query.wire.get(2).is_some_and(|flags| flags & 0x80 == 0);
            return match is_query && x.query.wire.len() >= 12 {
                true => self.failure(Code::Unavailable, "there is no answer"),
                false => self.failure(Code::InvalidArgument, "msg is no DNS query"),
            };
        }
        self.counts.count(Code::Ok);
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert(STATUS, HeaderValue::from_static(Code::Ok.text()));
        Reply { response, body: wrap(message), trailers: Some(trailers) }
    }

    fn fail(&self, _: Self::Form, failure: Failure) -> Reply {
        let (code, why) = match failure {
            Failure::Unreadable(why) => (Code::Internal, why),
            Failure::TooLarge => (Code::ResourceExhausted, TOO_LARGE),
            Failure::Slow => (Code::DeadlineExceeded, "the message did not come in time"),
            Failure::Deadline => (Code::DeadlineExceeded, "there is no answer yet"),
        };
        self.failure(code, why)
    }
}

/// The headers of a call that say what trace it is part of, as those of HTTP are kept; none if there are none.
fn trace(headers: &HeaderMap) -> Option<Box<Http>> {
    const SAY_SO: [&str; 4] = ["b3", "traceparent", "x-b3-traceid", "x-b3-sampled"];
    SAY_SO.iter().any(|name| headers.contains_key(*name)).then(|| {
        let mut http = Box::<Http>::default();
        crate::http::further(headers, &mut http.headers);
        http
    })
}

/// What is said of methods that are not there.
const NO_METHOD: &str = "the only method is coredns.dns.DnsService/Query";

/// What is said of messages that are too large.
const TOO_LARGE: &str = "a message has at most 65539 octets";

impl Calls<'_> {
    /// A reply without a message.
    fn failure(&self, code: Code, why: &'static str) -> Reply {
        self.counts.count(code);
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, GRPC);
        headers.insert(STATUS, HeaderValue::from_static(code.text()));
        headers.insert(MESSAGE, HeaderValue::from_static(why));
        if code == Code::Unimplemented {
            headers.insert(ACCEPTED, HeaderValue::from_static("identity"));
        }
        Reply { response, body: Bytes::new(), trailers: None }
    }
}

/// Why a call's head cannot be worked with.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// It is no gRPC.
    Http(StatusCode),
    /// It is gRPC.
    Grpc(Code, &'static str),
}

/// Reads a call's head: how long the client waits, if it says so.
fn head<B>(request: &Request<B>) -> Result<Option<Duration>, Unread> {
    let headers = request.headers();
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if request.method() != Method::POST {
        return Err(Unread::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    let kind = text(&CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind != "application/grpc" && kind != "application/grpc+proto" {
        return Err(Unread::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if request.uri().path() != PATH {
        return Err(Unread::Grpc(Code::Unimplemented, NO_METHOD));
    }
    if text(&ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Unread::Grpc(Code::Unimplemented, "messages must not be compressed"));
    }
    match text(&TIMEOUT) {
        None => Ok(None),
        Some(limit) => match time(limit) {
            Some(limit) => Ok(Some(limit)),
            None => Err(Unread::Grpc(Code::Internal, "grpc-timeout is no time")),
        },
    }
}

/// A time as gRPC writes it: eight digits at most, and a unit.
fn time(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Where the DNS message lies in a call's body, which is one gRPC message with a `DnsPacket`.
fn unwrap(body: &[u8]) -> Result<std::ops::Range<usize>, Failure> {
    let Some(([compressed, len @ ..], packet)) = body.split_first_chunk::<PREFIX>() else {
        return Err(Failure::Unreadable("the message is missing"));
    };
    if *compressed != 0 {
        return Err(Failure::Unreadable("messages must not be compressed"));
    }
    let len = u32::from_be_bytes(*len) as usize;
    if len > PACKET {
        return Err(Failure::TooLarge);
    }
    if len != packet.len() {
        return Err(Failure::Unreadable("the body is not one message"));
    }
    let message = field(packet).ok_or(Failure::Unreadable("the message is no DnsPacket"))?;
    Ok(message.start + PREFIX..message.end + PREFIX)
}

/// Where the last field 1 of a `DnsPacket` lies (an empty one if there is none); other fields are passed over. None if it cannot
/// be read.
pub(crate) fn field(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let (mut at, mut found) = (0, 0..0);
    while at < packet.len() {
        let tag = varint(packet, &mut at)?;
        let len = match tag & 7 {
            0 => {
                varint(packet, &mut at)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(packet, &mut at)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let end = at.checked_add(len).filter(|end| *end <= packet.len())?;
        if tag == FIELD {
            found = at..end;
        }
        at = end;
    }
    Some(found)
}

/// Reads a number of variable length.
fn varint(octets: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let octet = *octets.get(*at)?;
        *at += 1;
        value |= u64::from(octet & 0x7f) << shift;
        if octet < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A reply's body: one message with a `DnsPacket` with `message`.
pub(crate) fn wrap(message: &[u8]) -> Bytes {
    let mut len = message.len();
    let mut out = BytesMut::with_capacity(PREFIX + 4 + len);
    out.put_slice(&[0; PREFIX]);
    out.put_u8(10);
    while len >= 0x80 {
        // Seven bits each, which cannot be cut.
        out.put_u8((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    out.put_u8(len as u8);
    out.put_slice(message);
    let packet = u32::try_from(out.len() - PREFIX).unwrap_or_default();
    out[1..PREFIX].copy_from_slice(&packet.to_be_bytes());
    out.freeze()
}

/// Counts the calls of a connection's listener by how they ended.
#[derive(Debug)]
struct Counts {
    server: String,
    by_code: Table<Counter>,
}

/// Its name.
const RESPONSES: &str = "causeway_grpc_responses_total";

impl Counts {
    /// Those of a listener.
    fn new(server: String) -> Self {
        describe(RESPONSES, "gRPC calls by listener and status code.");
        Self { server, by_code: Table::new(Code::COUNT) }
    }

    /// Counts one more.
    fn count(&self, code: Code) {
        let made = || counter(RESPONSES, &[("server", &self.server), ("code", code.text())]);
        if let Some(counter) = self.by_code.get(code as usize, made) {
            counter.increment(1);
        }
    }
}
