//! DNS over gRPC: the service `coredns.dns.DnsService` of another server, called by HTTP/2.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http::{Method, Request, StatusCode, Uri};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use super::conn::{Broken, is_reply, random_id};
use super::error::Cause;
use super::https::{Http2, bad, begin, lost, read, send};
use super::session::{Channel, Link, Made, Maker};
use super::tcp::{DialTime, Life, Road};
use super::tls::{Identity, Tls, bounded};
use crate::grpc::{PACKET, PATH, PREFIX, field, wrap};

/// How long a connection without a call is kept.
const IDLE: Duration = Duration::from_secs(60);

/// `NOT_FOUND`, by gRPC's numbers.
const NOT_FOUND: u32 = 5;

/// Where a server of gRPC is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    /// At an address.
    Addr(SocketAddr),
    /// At a socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Spot {
    /// Writes `198.51.100.1:443` or `unix:///run/dns.sock`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// A message.
    Reply(Vec<u8>),
    /// The server says that there is no such name.
    NotFound,
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Its reply is to another question.
    Mismatch,
    /// Anything else, in words.
    Failed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch => f.write_str("the reply is to another question"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CallError {}

/// A server that is called.
#[derive(Debug)]
pub struct Grpc {
    spot: Spot,
    target: Uri,
    encrypted: bool,
    channel: Channel,
    dial: Arc<DialTime>,
}

impl Grpc {
    /// The server at `spot`, by TLS if it has an identity.
    pub fn new(spot: Spot, identity: Option<&Identity>) -> Arc<Self> {
        let host = match (&spot, identity.and_then(Identity::domain)) {
            (_, Some(name)) => name.to_owned(),
            (Spot::Addr(addr), None) => addr.to_string(),
            // What gRPC's libraries say.
            (Spot::Unix(_), None) => "localhost".to_owned(),
        };
        let scheme = if identity.is_some() { "https" } else { "http" };
        // A name of a certificate, or an address with its port, can stand there.
        let target = format!("{scheme}://{host}{PATH}").parse().unwrap_or_default();
        let dial = Arc::new(DialTime::new());
        let life = Life { idle: IDLE, most: None, write: IDLE };
        let tls = identity.map(|identity| identity.speaking(&[b"h2"]));
        let channel = match &spot {
            Spot::Addr(addr) => {
                let road = Road { addr: *addr, source: None, tls };
                Channel::new(Http2(road), Arc::clone(&dial), life, 0)
            }
            Spot::Unix(path) => {
                Channel::new(Local { path: path.clone(), tls }, Arc::clone(&dial), life, 0)
            }
        };
        Arc::new(Self { spot, target, encrypted: identity.is_some(), channel, dial })
    }

    /// Where it is.
    pub fn spot(&self) -> &Spot {
        &self.spot
    }

    /// Whether it is called by TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Calls it, and waits for the reply until `deadline`; `write` appends the message with the id it is given. To be called in
    /// a runtime, by whose thread the connection is kept.
    ///
    /// # Errors
    /// [`CallError`]; a kept connection that turns out to be closed is none, unless a new one is closed as well.
    pub async fn call(
        &self,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
        deadline: Instant,
    ) -> Result<Called, CallError> {
        let begun = Instant::now();
        let mut query = Vec::with_capacity(512);
        write(random_id(), &mut query);
        let called = match self.once(&query, None, deadline).await {
            Err((_, true)) => self.once(&query, Some(begun), deadline).await,
            other => other,
        };
        let called = called.map_err(|(broken, _)| CallError::Failed(self.words(&broken)))?;
        if let Called::Reply(message) = &called {
            let Some(id) = message.get(..12).and_then(|head| head.get(..2)) else {
                return Err(CallError::Failed("the reply is no message".to_owned()));
            };
            if query.get(..2) != Some(id) || !is_reply(&query, message) {
                return Err(CallError::Mismatch);
            }
        }
        Ok(called)
    }

    /// Calls once; an error comes with whether a kept connection may have been the reason.
    async fn once(
        &self,
        query: &[u8],
        since: Option<Instant>,
        deadline: Instant,
    ) -> Result<Called, (Broken, bool)> {
        let Some((seat, fresh)) = self.channel.seat(since) else {
            return Err((bad("too many calls are under way"), false));
        };
        let stood = seat.is_open();
        let stale = |broken: &Broken| match broken {
            Broken::Closed | Broken::Io(_) => !fresh,
            Broken::Tls(_) => !fresh && stood,
            Broken::DialTimeout | Broken::Bad(_) | Broken::Strays => false,
        };
        let patience = deadline.min(Instant::now() + self.dial.limit());
        let (link, _) = match timeout_at(patience, seat.opened()).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(broken)) => return Err((broken.clone(), stale(&broken))),
            Err(_) => return Err((Broken::DialTimeout, false)),
        };
        let Link::Http2(link) = link else { return Err((Broken::Closed, false)) };
        match timeout_at(deadline, self.ask(link, query, deadline)).await {
            Ok(Ok(called)) => {
                seat.hear();
                Ok(called)
            }
            Ok(Err(broken)) => {
                if !matches!(broken, Broken::Bad(_)) {
                    seat.session.retire();
                }
                Err((broken.clone(), stale(&broken)))
            }
            Err(_) => {
                // The other side may be gone without a word: nobody else is to wait for it.
                if seat.heard_nothing() {
                    seat.session.retire();
                }
                Err((bad("i/o timeout"), false))
            }
        }
    }

    /// Makes a call on a connection. Dropping the future resets the stream.
    async fn ask(
        &self,
        link: h2::client::SendRequest<Bytes>,
        query: &[u8],
        deadline: Instant,
    ) -> Result<Called, Broken> {
        let response = send(link, self.request(deadline), Some(wrap(query))).await?;
        if response.status() != StatusCode::OK {
            return Err(bad(format!("HTTP status {}", response.status())));
        }
        let headers = response.headers();
        let medium = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if !medium.starts_with(b"application/grpc") {
            let told = bounded(&String::from_utf8_lossy(medium));
            return Err(bad(format!("the reply is no application/grpc but {told:?}")));
        }
        // A call that fails may have no more than a head.
        if let Some(failed) = status(headers)? {
            return Ok(failed);
        }
        let mut body = response.into_body();
        let octets = read(&mut body, PREFIX + PACKET).await?;
        let trailers = body.trailers().await.map_err(lost)?.unwrap_or_default();
        if !trailers.contains_key(&STATUS) {
            return Err(bad("the reply has no grpc-status"));
        }
        if let Some(failed) = status(&trailers)? {
            return Ok(failed);
        }
        unwrap(&octets).map(Called::Reply)
    }

    /// The head of a call.
    fn request(&self, deadline: Instant) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        if let Ok(left) = HeaderValue::try_from(format!("{left}m")) {
            headers.insert(HeaderName::from_static("grpc-timeout"), left);
        }
        request
    }

    /// What is wrong, in words.
    fn words(&self, broken: &Broken) -> String {
        let spot = &self.spot;
        match broken {
            Broken::DialTimeout => format!("dial grpc {spot}: i/o timeout"),
            Broken::Tls(why) => format!("dial grpc {spot}: tls: {why}"),
            Broken::Io(cause) => format!("grpc {spot}: {cause}"),
            Broken::Bad(why) => format!("grpc {spot}: {why}"),
            Broken::Closed | Broken::Strays => format!("grpc {spot}: the connection was closed"),
        }
    }
}

/// Where gRPC says how a call ended.
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// How a call ended, if that is told: nothing is wrong, there is no such name, or something else.
fn status(headers: &HeaderMap) -> Result<Option<Called>, Broken> {
    let Some(status) = headers.get(&STATUS) else { return Ok(None) };
    match status.to_str().ok().and_then(|status| status.parse().ok()) {
        Some(0) => Ok(None),
        Some(NOT_FOUND) => Ok(Some(Called::NotFound)),
        Some(number) => {
            let said = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
            let said = bounded(&String::from_utf8_lossy(said));
            Err(bad(format!("grpc-status {number}: {said}")))
        }
        None => Err(bad("grpc-status is no number")),
    }
}

/// The DNS message in a reply's body, which is one gRPC message with a `DnsPacket`.
fn unwrap(body: &[u8]) -> Result<Vec<u8>, Broken> {
    let Some(([compressed, len @ ..], packet)) = body.split_first_chunk::<PREFIX>() else {
        return Err(bad("the reply has no message"));
    };
    if *compressed != 0 {
        return Err(bad("the reply is compressed"));
    }
    if u32::from_be_bytes(*len) as usize != packet.len() {
        return Err(bad("the reply is not one message"));
    }
    let found = field(packet).and_then(|found| packet.get(found));
    found.map(<[u8]>::to_vec).ok_or_else(|| bad("the reply is no DnsPacket"))
}

/// Makes connections to a socket in the file system.
struct Local {
    path: PathBuf,
    tls: Option<Tls>,
}

impl Maker for Local {
    fn make(&self) -> BoxFuture<'_, Result<Made, Broken>> {
        async {
            let stream = UnixStream::connect(&self.path).await;
            let stream = stream.map_err(|error| Broken::Io(Cause::from(&error)))?;
            begin(stream, self.tls.as_ref(), None).await
        }
        .boxed()
    }
}
