//! Requests to the CA: HTTP/1.1 over TLS, a connection each, bounded in time and size.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HOST, HeaderValue, RETRY_AFTER};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::ClientTls;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a request may take, its connection included.
const REQUEST: Duration = Duration::from_secs(45);

/// The largest reply, in octets.
const LARGEST: usize = 1 << 20;

/// Finds the addresses of a host name.
pub type Resolve = Arc<dyn Fn(String) -> Resolving + Send + Sync>;

/// The search for them under way.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// What the CA's server is reached by.
#[derive(Clone)]
pub(super) struct Client {
    tls: Arc<ClientConfig>,
    resolve: Option<Resolve>,
    /// When the server wants to be asked again after it has refused something.
    after: Arc<Mutex<Option<Duration>>>,
    /// Looks at the file of the server's CAs.
    _trust: Arc<ClientTls>,
}

impl Client {
    /// One for a server that is checked by `trust`.
    pub(super) fn new(trust: Arc<ClientTls>, resolve: Option<Resolve>) -> Self {
        let tls = trust.config(&[b"http/1.1"]);
        Self { tls, resolve, after: Arc::default(), _trust: trust }
    }

    /// When the server wants to be asked again, told since the last call.
    pub(super) fn after(&self) -> Option<Duration> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends a request and reads the reply.
    async fn exchange(
        self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> io::Result<Response<Full<Bytes>>> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (mut parts, body) = request.into_parts();
        let uri = std::mem::take(&mut parts.uri);
        if uri.scheme_str() != Some("https") {
            return Err(wrong("the CA names an address that is not https"));
        }
        let host = uri.host().ok_or_else(|| wrong("the CA names an address without a host"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let name = ServerName::try_from(bare.clone())
            .map_err(|_| wrong("the CA names a host that is no host name"))?;
        let stream = self.connect(&bare, port).await?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // It ends with the sender or with an error, which the sender then has too.
        let driver = tokio::spawn(async move { drop(connection.await) });
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        parts.headers.insert(HOST, HeaderValue::from_str(&authority).map_err(io::Error::other)?);
        parts.uri = match uri.path_and_query() {
            Some(path) => Uri::from(path.clone()),
            None => Uri::from_static("/"),
        };
        let reply = sender.send_request(Request::from_parts(parts, body)).await;
        let reply = reply.map_err(io::Error::other)?;
        let (parts, body) = reply.into_parts();
        let body =
            Limited::new(body, LARGEST).collect().await.map_err(io::Error::other)?.to_bytes();
        driver.abort();
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let wish = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let wish = wish.and_then(retry_after);
            if wish.is_some() {
                *self.after.lock().unwrap_or_else(PoisonError::into_inner) = wish;
            }
        }
        Ok(Response::from_parts(parts, Full::new(body)))
    }

    /// Connects to the first address of a host that can be reached.
    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses: Vec<SocketAddr> = match (&self.resolve, host.parse::<IpAddr>()) {
            (_, Ok(address)) => vec![(address, port).into()],
            (Some(resolve), _) => {
                let found = resolve(host.to_owned()).await?;
                found.into_iter().map(|address| (address, port).into()).collect()
            }
            (None, _) => tokio::net::lookup_host((host, port)).await?.collect(),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
        for address in addresses {
            match timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => {
                    last = io::Error::new(error.kind(), format!("{address}: {error}"))
                }
                Err(_) => {
                    let what = format!("{address}: no connection within {CONNECT:?}");
                    last = io::Error::new(io::ErrorKind::TimedOut, what);
                }
            }
        }
        Err(last)
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let (client, host) = (self.clone(), request.uri().host().unwrap_or_default().to_owned());
        Box::pin(async move {
            let reply = match timeout(REQUEST, client.exchange(request)).await {
                Ok(reply) => reply,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no reply in time")),
            };
            match reply {
                Ok(reply) => Ok(BytesResponse::from(reply)),
                Err(error) => {
                    let what = format!("the CA's server {host} cannot be asked: {error}");
                    Err(instant_acme::Error::Other(what.into()))
                }
            }
        })
    }
}

/// How long a `Retry-After` header has us wait (RFC 9110 §10.2.3): a number of seconds, or a date.
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date: SystemTime = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
