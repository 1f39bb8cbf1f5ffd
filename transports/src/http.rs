//! DNS over HTTP (RFC 8484), the same for HTTP/1.1, HTTP/2 and HTTP/3: which requests are queries, and what is replied.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use engine::metrics::{Counter, Table, counter, describe};
use engine::{Exchange, HttpSpec, Live, Session, Transport};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use wire::{Answer, Section, option, rcode, rtype};

use crate::desk::Desk;
use crate::pool;
use crate::tcp::About;

mod forwarded;
mod json;

#[cfg(test)]
mod tests;

/// The largest message, in octets.
pub(crate) const MESSAGE: usize = 65535;

/// The longest path with its parameters, in octets (RFC 9112 §3 recommends 8,000 at least).
const TARGET: usize = 8192;

/// The shortest message (RFC 1035 §4.1.1), in octets.
const MESSAGE_HEADER: usize = 12;

/// The media type of messages (RFC 8484 §6).
const DNS_MESSAGE: &str = "application/dns-message";

/// The media type of answers in JSON.
const DNS_JSON: &str = "application/dns-json";

/// The methods that are answered.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// The further headers that plugins read.
const FURTHER: [&str; 8] = [
    "user-agent",
    "traceparent",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
];

/// Takes the further headers that plugins read: requests have few headers, and of these fewer.
pub(crate) fn further(headers: &HeaderMap, into: &mut Vec<(&'static str, String)>) {
    for (name, value) in headers {
        let known = FURTHER.iter().find(|known| **known == name.as_str());
        if let (Some(known), Ok(value)) = (known, value.to_str()) {
            into.push((known, value.to_owned()));
        }
    }
}

/// What the requests of a connection have in common.
#[derive(Debug)]
pub(crate) struct Web {
    about: About,
    /// Where the same is to be had over HTTP/3 (RFC 9114 §3.1.1).
    alt_svc: Option<HeaderValue>,
    counts: Counts,
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// An answer to the query, which is in the exchange.
    Query(Form),
    /// An answer to the query that is the body: to be appended to `x.query.wire`, [`MESSAGE`] octets at most.
    Body(Form),
    /// Nothing that the chain has to see.
    Nothing(Reply),
}

/// The form that an answer is asked for in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Without its body (RFC 9110 §9.3.2).
    head: bool,
    /// As JSON.
    json: bool,
}

/// What is replied. The response says how long the body is, also where there is none to send.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status and the headers.
    pub(crate) response: Response<()>,
    /// The body; empty if none is to be sent.
    pub(crate) body: Bytes,
}

/// Why a request gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    why: &'static str,
}

impl Refusal {
    /// There is nothing here, or nothing for this client: the two must not differ in anything.
    const NOT_FOUND: Self = Self { status: StatusCode::NOT_FOUND, why: "" };
    /// The method is none of those that are answered.
    const METHOD: Self = Self { status: StatusCode::METHOD_NOT_ALLOWED, why: "use GET or POST" };
    /// The body is no message by its own account.
    const MEDIA: Self = Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        why: "the body has to be application/dns-message, without content coding",
    };
    /// The body is too large.
    pub(crate) const TOO_LARGE: Self =
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, why: "a message has at most 65535 octets" };
    /// The path and its parameters are too long.
    const TOO_LONG: Self =
        Self { status: StatusCode::URI_TOO_LONG, why: "use POST for long messages" };
    /// The body did not come in time.
    pub(crate) const TIMEOUT: Self =
        Self { status: StatusCode::REQUEST_TIMEOUT, why: "the body did not come in time" };
    /// The client asks faster than it may.
    const TOO_FAST: Self =
        Self { status: StatusCode::TOO_MANY_REQUESTS, why: "too many queries, try again" };
    /// The chain wants nothing to be sent.
    const SILENT: Self =
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, why: "there is no answer" };

    /// The request cannot be read.
    pub(crate) const fn bad(why: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, why }
    }
}

impl Web {
    /// What holds for a connection of `peer` to `local`.
    pub(crate) fn new(
        desk: &Desk,
        (peer, local): (SocketAddr, SocketAddr),
        session: Option<Arc<Session>>,
    ) -> Self {
        let transport = desk.key.transport;
        let alt_svc = session.as_ref().and_then(|_| alt_svc(&desk.gateway.live(), desk));
        let counts = Counts::new(transport, desk.key.to_string());
        let about = About { peer, local, transport, session };
        Self { about, alt_svc, counts }
    }

    /// An exchange for a query of the connection, to be given back to the [`pool`].
    pub(crate) fn exchange(&self, desk: &Desk) -> Box<Exchange> {
        pool::exchange(desk, &self.about)
    }

    /// Reads a request's head into the exchange.
    pub(crate) fn ask<B>(&self, desk: &Desk, request: &Request<B>, x: &mut Exchange) -> Ask {
        let head = request.method() == Method::HEAD;
        let refused = |why| Ask::Nothing(self.refuse(why, Form { head, json: false }));
        x.query.received = Instant::now();
        x.query.wire.clear();
        let plan = desk.peek();
        let spec = match self.about.transport {
            Transport::Https3 => &plan.spec.https3,
            _ => &plan.spec.https,
        };
        if !self.enter(desk, spec, request, x) {
            return refused(Refusal::NOT_FOUND);
        }
        x.query.peer =
            match forwarded::client(request.headers(), self.about.peer.ip(), &spec.trusted) {
                Ok(client) => SocketAddr::new(client, self.about.peer.port()),
                Err(why) => return refused(Refusal::bad(why)),
            };
        if !desk.rate(x.query.peer.ip()) {
            return refused(Refusal::TOO_FAST);
        }
        match read(request, spec, &mut x.query.wire) {
            Ok(Some(ask)) => ask,
            Ok(None) => Ask::Nothing(self.options()),
            Err(why) => refused(why),
        }
    }

    /// Notes the request in the exchange, and tells whether there is something at its path for this client.
    fn enter<B>(
        &self,
        desk: &Desk,
        spec: &HttpSpec,
        request: &Request<B>,
        x: &mut Exchange,
    ) -> bool {
        let door = desk.door();
        let http = x.query.http.get_or_insert_default();
        http.clear();
        let path = request.uri().path();
        // A path that is stated is no other one with a secret.
        let exact = spec.paths().find(|base| *base == path).map(|base| (base, ""));
        let secret = |base| {
            let secret = path.strip_prefix(base)?.strip_prefix('/')?;
            (!secret.is_empty() && door.is_some()).then_some((base, secret))
        };
        let Some((base, secret)) = exact.or_else(|| spec.paths().find_map(secret)) else {
            return false;
        };
        http.method = method(request.method());
        http.path.push_str(base);
        http.secret.push_str(secret);
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        match request.uri().authority() {
            Some(authority) => http.authority.push_str(authority.as_str()),
            None => http.authority.push_str(text(header::HOST).unwrap_or_default()),
        }
        // One that is no text is there, and wrong.
        let shown = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or("?"));
        http.authorization.push_str(shown.unwrap_or_default());
        further(headers, &mut http.headers);
        door.is_none_or(|door| door.request(self.about.session.as_deref(), http))
    }

    /// What is replied to a query that was served: `message` is the answer, empty if there is none.
    pub(crate) fn tell(&self, x: &Exchange, form: Form, message: &[u8]) -> Reply {
        if x.is_turned_away() {
            return self.refuse(Refusal::NOT_FOUND, form);
        }
        if message.is_empty() {
            let wire = &x.query.wire;
            let is_query = wire.get(2).is_some_and(|flags| flags & 0x80 == 0);
            return self.refuse(
                match is_query && wire.len() >= MESSAGE_HEADER {
                    true => Refusal::SILENT,
                    false => Refusal::bad("this is no DNS query"),
                },
                form,
            );
        }
        let (kind, body) = match form.json {
            true => (DNS_JSON, Bytes::from(json::page(message))),
            false => (DNS_MESSAGE, Bytes::copy_from_slice(message)),
        };
        // What is cut is no answer, and a signature is of one query.
        let is_cut = message.get(2).is_some_and(|flags| flags & 2 != 0);
        let is_lasting = !is_cut && x.query.parts.tsig.is_none();
        let fresh = freshness(x.answer()).filter(|_| is_lasting);
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        let private =
            x.is_selective() || x.is_personal() || x.query.peer.ip() != self.about.peer.ip();
        headers.insert(header::CACHE_CONTROL, cache_control(fresh, private));
        headers.insert(header::DATE, date());
        if let Some(alt_svc) = &self.alt_svc {
            headers.insert(header::ALT_SVC, alt_svc.clone());
        }
        self.counts.count(StatusCode::OK);
        let mut response = Response::new(());
        *response.headers_mut() = headers;
        Reply { response, body: if form.head { Bytes::new() } else { body } }
    }

    /// What is replied to a request that gets no answer.
    pub(crate) fn refuse(&self, refusal: Refusal, form: Form) -> Reply {
        let Refusal { status, why } = refusal;
        let mut headers = HeaderMap::with_capacity(8);
        if !why.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        }
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(why.len()));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::DATE, date());
        match status {
            StatusCode::METHOD_NOT_ALLOWED => headers.insert(header::ALLOW, ALLOW),
            StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"))
            }
            _ => None,
        };
        self.counts.count(status);
        let mut response = Response::new(());
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        let body = if form.head { "" } else { why };
        Reply { response, body: Bytes::from_static(body.as_bytes()) }
    }

    /// What is replied to whoever asks for the methods.
    fn options(&self) -> Reply {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(header::ALLOW, ALLOW);
        response.headers_mut().insert(header::DATE, date());
        self.counts.count(StatusCode::NO_CONTENT);
        Reply { response, body: Bytes::new() }
    }
}

/// Reads what a request asks for, and the query if it is in the path's parameters; nothing if it asks for the methods.
fn read<B>(
    request: &Request<B>,
    spec: &HttpSpec,
    query: &mut Vec<u8>,
) -> Result<Option<Ask>, Refusal> {
    let (uri, headers) = (request.uri(), request.headers());
    let parameters = uri.query().unwrap_or_default();
    let head = match *request.method() {
        Method::GET => false,
        Method::HEAD => true,
        Method::POST => {
            is_message(headers)?;
            return Ok(Some(Ask::Body(Form::default())));
        }
        Method::OPTIONS => return Ok(None),
        _ => return Err(Refusal::METHOD),
    };
    if uri.path().len() + parameters.len() > TARGET {
        return Err(Refusal::TOO_LONG);
    }
    let mut messages = parameters.split('&').filter_map(|one| one.strip_prefix("dns="));
    let json = spec.json && wants_json(headers);
    match (messages.next(), messages.next()) {
        (None, _) if json => {
            json::query(parameters, query).map_err(Refusal::bad)?;
            Ok(Some(Ask::Query(Form { head, json })))
        }
        (None | Some(""), _) => Err(Refusal::bad("the parameter dns is missing")),
        (Some(_), Some(_)) => Err(Refusal::bad("the parameter dns is there twice")),
        (Some(message), None) => {
            let read = URL_SAFE_NO_PAD.decode_vec(message, query);
            read.map_err(|_| Refusal::bad("the parameter dns is no base64url without padding"))?;
            Ok(Some(Ask::Query(Form { head, json: false })))
        }
    }
}

/// Finds out whether a body is a message by its own account (RFC 8484 §4.1), and not too large.
fn is_message(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    let coded = headers.get(header::CONTENT_ENCODING);
    if !kind.eq_ignore_ascii_case(DNS_MESSAGE)
        || coded.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::MEDIA);
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse::<u64>().ok());
    match length.is_some_and(|length| length > MESSAGE as u64) {
        true => Err(Refusal::TOO_LARGE),
        false => Ok(()),
    }
}

/// Whether a client asks for JSON by name; one that takes anything gets a message.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|one| {
        let kind = one.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case(DNS_JSON)
    })
}

/// A method's name, for metadata.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// For how many seconds an answer may be kept (RFC 8484 §5.1): the smallest TTL of its answer section, and what the SOA record
/// of a negative one says (RFC 2308 §5). None for errors, answers that are stale already, and those that say no time.
fn freshness(answer: &Answer) -> Option<u32> {
    if !matches!(answer.rcode, rcode::NOERROR | rcode::NXDOMAIN) {
        return None;
    }
    // Stale Answer and Stale NXDOMAIN Answer (RFC 8914 §4.4, §4.20).
    let is_stale = |(code, data): (u16, &[u8])| {
        code == option::EDE && matches!(data.first_chunk(), Some([0, 3 | 19]))
    };
    if answer.options.iter().any(is_stale) {
        return None;
    }
    // A TTL with its top bit set is none (RFC 2181 §8).
    let sane = |ttl: u32| if i32::try_from(ttl).is_ok() { ttl } else { 0 };
    let answers = answer.section(Section::Answer).map(|rr| sane(rr.ttl)).min();
    let mut authority = answer.section(Section::Authority);
    let negative = authority.find(|rr| rr.rtype == rtype::SOA).map(|rr| {
        let minimum = answer.data(rr).last_chunk().map_or(0, |last| u32::from_be_bytes(*last));
        sane(rr.ttl).min(sane(minimum))
    });
    answers.into_iter().chain(negative).min()
}

/// The last values of headers that change once a second, or not even that.
struct Memo {
    second: u64,
    date: HeaderValue,
    fresh: (Option<u32>, bool),
    cache_control: HeaderValue,
}

thread_local! {
    /// This thread's.
    static MEMO: RefCell<Memo> = const {
        RefCell::new(Memo {
            second: 0,
            date: HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"),
            fresh: (None, false),
            cache_control: HeaderValue::from_static("no-store"),
        })
    };
}

/// `Cache-Control`: for how many seconds an answer may be kept, if at all, and whether by the client alone.
fn cache_control(fresh: Option<u32>, private: bool) -> HeaderValue {
    let Some(seconds) = fresh else { return HeaderValue::from_static("no-store") };
    MEMO.with_borrow_mut(|memo| {
        if memo.fresh != (fresh, private) {
            let who = if private { "private, " } else { "" };
            let text = format!("{who}max-age={seconds}");
            memo.cache_control = HeaderValue::try_from(text)
                .unwrap_or_else(|_| HeaderValue::from_static("no-store"));
            memo.fresh = (fresh, private);
        }
        memo.cache_control.clone()
    })
}

/// `Date`: an origin server with a clock says it (RFC 9110 §6.6.1), and caches count from it.
fn date() -> HeaderValue {
    let now = SystemTime::now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    MEMO.with_borrow_mut(|memo| {
        if memo.second != second {
            memo.second = second;
            if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(now)) {
                memo.date = date;
            }
        }
        memo.date.clone()
    })
}

/// Where the same is to be had over HTTP/3: at the listener's own address and port rather than at another port.
fn alt_svc(live: &Live, desk: &Desk) -> Option<HeaderValue> {
    let own = desk.key;
    let ports = live
        .groups()
        .map(|group| group.key)
        .filter(|key| {
            key.transport == Transport::Https3 && (key.addr.is_none() || key.addr == own.addr)
        })
        .map(|key| key.port);
    // `false` comes before `true`.
    let port = ports.min_by_key(|port| (*port != own.port, *port))?;
    HeaderValue::try_from(format!("h3=\":{port}\"; ma=86400")).ok()
}

/// The statuses of responses.
const STATUSES: [StatusCode; 11] = [
    StatusCode::OK,
    StatusCode::NO_CONTENT,
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
];

/// Counts the responses of a connection's listener by their status.
#[derive(Debug)]
struct Counts {
    name: &'static str,
    server: String,
    by_status: Table<Counter>,
}

impl Counts {
    /// Those of a listener.
    fn new(transport: Transport, server: String) -> Self {
        let name = match transport {
            Transport::Https3 => "coredns_dns_https3_responses_total",
            _ => "coredns_dns_https_responses_total",
        };
        describe(name, "Responses by listener and HTTP status.");
        Self { name, server, by_status: Table::new(STATUSES.len()) }
    }

    /// Counts one more.
    fn count(&self, status: StatusCode) {
        let index = STATUSES.iter().position(|known| *known == status).unwrap_or(usize::MAX);
        let made = || counter(self.name, &[("server", &self.server), ("status", status.as_str())]);
        if let Some(counter) = self.by_status.get(index, made) {
            counter.increment(1);
        }
    }
}
