//! Calls of etcd's API: gRPC, one message each way.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use certs::ClientTls;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::proto::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, KeyValue, RANGE, RangeRequest,
    RangeResponse, TIME_TO_LIVE, TimeToLiveRequest, TimeToLiveResponse,
};
use crate::shared::cause::chain;

/// The most keys that are read for a name: more make no message.
const MAX_KEYS: i64 = 4096;
/// The largest reply, in octets.
const LARGEST: usize = 16 << 20;
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a server is waited for while there is another one to ask.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a connection in use is asked whether it is still there, and how long that may take.
const ALIVE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(3)];
/// How long credentials that are not taken are not tried again: each try costs the servers a slow hash.
const PAUSE: Duration = Duration::from_secs(5);
/// The octets before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// How much of a server's words is shown.
const SHOWN: usize = 200;

/// Numbers of gRPC's states.
mod status {
    /// All is well.
    pub(super) const OK: u32 = 0;
    /// The request makes no sense, which is also said of passwords and old tokens.
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    /// Nobody knows who asks.
    pub(super) const UNAUTHENTICATED: u32 = 16;
    /// Those of which another try, at another server, may come to more.
    pub(super) const AGAIN: [u32; 6] = [1, 2, 4, 8, 13, 14];
}

/// Why a call gave nothing. Its words hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// What can be done about it.
    kind: Kind,
    /// What happened.
    what: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Another server may know better.
    Again,
    /// A new token may help.
    Token,
    /// Nothing.
    Final,
}

impl Failure {
    /// One that another try may mend.
    fn again(what: impl Into<String>) -> Self {
        Self { kind: Kind::Again, what: what.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// By whom the servers are asked.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// The user.
    pub(super) user: String,
    /// The password.
    pub(super) password: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What a call says who asks by.
#[derive(Debug, Default)]
struct Token {
    /// The token at hand.
    now: Option<Arc<str>>,
    /// Why there is none, and since when.
    refused: Option<(Instant, Failure)>,
}

/// The servers of a cluster.
pub(super) struct Client {
    servers: Box<[String]>,
    clear: Http<HttpConnector, Full<Bytes>>,
    encrypted: Option<Http<HttpsConnector<HttpConnector>, Full<Bytes>>>,
    /// Looks after the files as long as somebody holds it.
    _files: Option<Arc<ClientTls>>,
    /// The server that answered last.
    good: AtomicUsize,
    account: Option<Account>,
    token: Mutex<Token>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Client {
    /// One for these servers, of the form `http://HOST:PORT`; those of `https` are checked by `tls`. Nobody is connected to yet.
    pub(super) fn new(
        servers: Vec<String>,
        tls: Option<Arc<ClientTls>>,
        account: Option<Account>,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut builder = Http::builder(TokioExecutor::new());
        builder
            .http2_only(true)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(ALIVE[0])
            .http2_keep_alive_timeout(ALIVE[1]);
        let encrypted = tls
            .as_ref()
            .map(|tls| builder.build(HttpsConnector::from((tcp.clone(), tls.config(&[b"h2"])))));
        Self {
            servers: servers.into(),
            clear: builder.build(tcp),
            encrypted,
            _files: tls,
            good: AtomicUsize::new(0),
            account,
            token: Mutex::default(),
        }
    }

    /// Reads a key, or all keys that begin with it and a slash.
    ///
    /// # Errors
    /// If no server answers by `until`, or one says that something is wrong.
    pub(super) async fn range(
        &self,
        key: &[u8],
        below: bool,
        until: Instant,
    ) -> Result<Vec<KeyValue>, Failure> {
        let mut request =
            RangeRequest { key: key.to_owned(), range_end: Vec::new(), limit: MAX_KEYS };
        if below {
            // The sign behind a slash is 0.
            request.range_end = [key, b"0"].concat();
            request.key.push(b'/');
        }
        let found: RangeResponse = self.call(RANGE, &request, until).await?;
        Ok(found.kvs)
    }

    /// How long a lease has; none if it is over.
    ///
    /// # Errors
    /// As above.
    pub(super) async fn left(
        &self,
        lease: i64,
        until: Instant,
    ) -> Result<Option<Duration>, Failure> {
        let request = TimeToLiveRequest { id: lease };
        let lease: TimeToLiveResponse = self.call(TIME_TO_LIVE, &request, until).await?;
        Ok(u64::try_from(lease.ttl).ok().map(Duration::from_secs))
    }

    /// Makes a call, with a new token if the one at hand is not taken any more.
    async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        until: Instant,
    ) -> Result<A, Failure> {
        let message = framed(request);
        let token = self.token(None, until).await?;
        let answer = self.try_all(method, &message, token.as_deref(), until).await;
        let answer = match answer {
            Err(Failure { kind: Kind::Token, .. }) if token.is_some() => {
                let new = self.token(token.as_ref(), until).await?;
                self.try_all(method, &message, new.as_deref(), until).await?
            }
            other => other?,
        };
        read(&answer)
    }

    /// What a call says who asks by; not `old`, if that is given. None if nobody needs to know.
    async fn token(
        &self,
        old: Option<&Arc<str>>,
        until: Instant,
    ) -> Result<Option<Arc<str>>, Failure> {
        let Some(account) = &self.account else { return Ok(None) };
        let late = || Failure::again("no token in time");
        let mut token = timeout_at(until, self.token.lock()).await.map_err(|_| late())?;
        if let Some(known) = token.now.as_ref().filter(|known| old != Some(*known)) {
            return Ok(Some(Arc::clone(known)));
        }
        token.now = None;
        if let Some((since, failure)) = &token.refused
            && since.elapsed() < PAUSE
        {
            return Err(failure.clone());
        }
        let Account { user, password } = account.clone();
        let message = framed(&AuthenticateRequest { name: user, password });
        let answer = self.try_all(AUTHENTICATE, &message, None, until).await;
        match answer.and_then(|answer| read::<AuthenticateResponse>(&answer)) {
            Ok(answer) => {
                let new: Arc<str> = answer.token.into();
                token.refused = None;
                token.now = Some(Arc::clone(&new));
                Ok(Some(new))
            }
            Err(failure) => {
                let what = format!("credentials of {:?}: {failure}", account.user);
                let failure = Failure { what, ..failure };
                if failure.kind != Kind::Again {
                    token.refused = Some((Instant::now(), failure.clone()));
                }
                Err(failure)
            }
        }
    }

    /// Asks each server until one answers, and the first one once more: a kept connection may have been closed.
    async fn try_all(
        &self,
        method: &'static str,
        message: &Bytes,
        token: Option<&str>,
        until: Instant,
    ) -> Result<Bytes, Failure> {
        let (first, count) = (self.good.load(Ordering::Relaxed), self.servers.len());
        let mut last = Failure::again("no reply in time");
        for round in 0..=count {
            let at = (first + round) % count.max(1);
            let (Some(server), now) = (self.servers.get(at), Instant::now()) else { break };
            if now >= until {
                break;
            }
            let patience = if round == count { until } else { until.min(now + PATIENCE) };
            let asked = self.ask(server, method, message, token, patience);
            let failure = match timeout_at(patience, asked).await {
                Ok(Ok(answer)) => {
                    self.good.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::again("no reply in time"),
            };
            last = Failure { what: format!("{server}: {}", failure.what), ..failure };
            if last.kind != Kind::Again {
                break;
            }
        }
        Err(last)
    }

    /// Asks one server.
    async fn ask(
        &self,
        server: &str,
        method: &'static str,
        message: &Bytes,
        token: Option<&str>,
        until: Instant,
    ) -> Result<Bytes, Failure> {
        let broken = |error: &(dyn Error + 'static)| Failure::again(chain(error));
        let target: Uri = format!("{server}{method}").parse().map_err(|error| broken(&error))?;
        let is_encrypted = target.scheme_str() == Some("https");
        let mut request = Request::new(Full::new(message.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        for (name, value) in
            [("grpc-timeout", Some(format!("{left}m"))), ("token", token.map(str::to_owned))]
        {
            if let Some(mut value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                value.set_sensitive(name == "token");
                headers.insert(name, value);
            }
        }
        let response = match &self.encrypted {
            Some(http) if is_encrypted => http.request(request).await,
            _ => self.clear.request(request).await,
        };
        let response = response.map_err(|error| match is_encrypted && !error.is_connect() {
            // What a server thinks of our certificate it says behind the handshake (RFC 8446 §4.4.2), mostly by closing.
            true => Failure::again(format!(
                "{}; perhaps it does not take our certificate",
                chain(&error)
            )),
            false => broken(&error),
        });
        answered(response?).await
    }
}

/// What a response says: the message, or how the call has failed.
async fn answered(response: Response<Incoming>) -> Result<Bytes, Failure> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(Failure::again(format!("HTTP status {}", head.status)));
    }
    let medium = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !medium.starts_with(b"application/grpc") {
        return Err(Failure::again("the reply is no application/grpc"));
    }
    // A call that fails may have no more than a head.
    if let Some(ended) = ended(&head.headers) {
        ended?;
    }
    let body = Limited::new(body, LARGEST).collect().await;
    let body = body.map_err(|error| Failure::again(chain(&*error)))?;
    match body.trailers().and_then(ended) {
        Some(ended) => ended?,
        None => return Err(Failure::again("the reply has no grpc-status")),
    }
    Ok(body.to_bytes())
}

/// How a call ended, if that is told.
fn ended(headers: &HeaderMap) -> Option<Result<(), Failure>> {
    let number = headers.get("grpc-status")?.to_str().ok().and_then(|status| status.parse().ok());
    let Some(number) = number else {
        return Some(Err(Failure::again("grpc-status is no number")));
    };
    if number == status::OK {
        return Some(Ok(()));
    }
    let said = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
    let said = shown(said);
    let kind = match number {
        status::UNAUTHENTICATED => Kind::Token,
        // What etcd says of users and tokens: a token of before a restart, or of before a change of users.
        status::INVALID_ARGUMENT
            if said.contains("auth") || said.contains("user name is empty") =>
        {
            Kind::Token
        }
        number if status::AGAIN.contains(&number) => Kind::Again,
        _ => Kind::Final,
    };
    Some(Err(Failure { kind, what: format!("grpc-status {number}: {said}") }))
}

/// A message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut out = vec![0; PREFIX];
    out.reserve(message.encoded_len());
    // Writing to memory with room cannot fail.
    let _unfailing = message.encode(&mut out);
    // Names and credentials are far from the limit.
    let len = u32::try_from(out.len() - PREFIX).unwrap_or(u32::MAX);
    out[1..PREFIX].copy_from_slice(&len.to_be_bytes());
    out.into()
}

/// Reads a message with its prefix.
fn read<A: Message + Default>(body: &[u8]) -> Result<A, Failure> {
    let bad = |what: &str| Failure { kind: Kind::Final, what: what.to_owned() };
    let Some(([compressed, len @ ..], message)) = body.split_first_chunk::<PREFIX>() else {
        return Err(bad("the reply has no message"));
    };
    if *compressed != 0 {
        return Err(bad("the reply is compressed"));
    }
    if u32::from_be_bytes(*len) as usize != message.len() {
        return Err(bad("the reply is not one message"));
    }
    A::decode(message).map_err(|error| bad(&format!("the reply cannot be read: {error}")))
}

/// A server's own words: the beginning, without control characters; `%XX` stand for octets.
fn shown(said: &[u8]) -> String {
    let mut octets = Vec::with_capacity(said.len().min(SHOWN));
    let mut rest = said;
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let octet = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        octets.push(octet.unwrap_or(*first));
        rest = if octet.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&octets).chars().filter(|sign| !sign.is_control()).take(SHOWN).collect()
}
