//! Questions to Nomad's agents: services by name, over HTTP.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use certs::ClientTls;
use engine::{Ready, Stage, Stop};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::LOG;
use crate::shared::cause::chain;
use crate::shared::fetch::percent;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(2);
/// How long an agent is waited for while there is another one to ask.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How often an agent is asked whether it is there, until it is.
const LOOK: Duration = Duration::from_secs(1);
/// The largest page, in octets.
const LARGEST: usize = 4 << 20;
/// The most pages of one service.
const MAX_PAGES: usize = 32;
/// The most instances of one service: more make no message.
const MAX_INSTANCES: usize = 4096;
/// How much of an agent's words is shown.
const SHOWN: usize = 200;

/// An instance of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    /// Its address.
    pub(super) ip: IpAddr,
    /// Its port.
    pub(super) port: u16,
}

/// How agents are asked.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Manner {
    /// The token; may be empty.
    pub(super) token: String,
    /// The header of basic authentication; may be empty.
    pub(super) login: String,
    /// What instances must fulfil; may be empty.
    pub(super) filter: String,
    /// The region; may be empty.
    pub(super) region: String,
}

impl fmt::Debug for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manner")
            .field("filter", &self.filter)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// Where an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At a URL without a slash at its end.
    Url(String),
    /// At a socket in the file system.
    Unix(PathBuf),
}

impl Place {
    /// Reads `http://HOST:PORT`, `https://HOST:PORT`, `HOST:PORT` or `unix://PATH`.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix://") {
            return (!path.is_empty()).then(|| Self::Unix(PathBuf::from(path)));
        }
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        let is_plain = uri.query().is_none() && !authority.as_str().contains('@');
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_good = is_http && is_plain && !authority.host().is_empty();
        is_good.then(|| Self::Url(url.trim_end_matches('/').to_owned()))
    }

    /// Whether it is asked by TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Url(url) if url.starts_with("https://"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// Why an agent has no useful answer. Its words hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Whether another agent may know better.
    again: bool,
    /// Whether an agent has spoken at all.
    spoke: bool,
    /// What happened.
    what: String,
}

impl Failure {
    /// Nobody was there.
    fn away(what: impl Into<String>) -> Self {
        Self { again: true, spoke: false, what: what.into() }
    }

    /// What was said makes no sense.
    fn senseless(what: impl Into<String>) -> Self {
        Self { again: true, spoke: true, what: what.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A page of an agent's answer.
struct Page {
    /// The body.
    body: Bytes,
    /// What the next page is asked for by, if there is one.
    next: Option<String>,
}

/// The agents of a cluster.
pub(super) struct Agents {
    places: Box<[Place]>,
    manner: Manner,
    clear: Http<HttpConnector, Full<Bytes>>,
    encrypted: Option<Http<HttpsConnector<HttpConnector>, Full<Bytes>>>,
    /// Looks after the files as long as somebody holds it.
    _files: Option<Arc<ClientTls>>,
    /// The agent that answered last.
    good: AtomicUsize,
    /// Whether one has ever spoken.
    reached: AtomicBool,
    /// What is wrong now, as the log knows it.
    told: Mutex<Option<String>>,
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Agents {
    /// Those at these places; those of `https` are checked by `tls`. Nobody is connected to yet.
    pub(super) fn new(places: Vec<Place>, manner: Manner, tls: Option<Arc<ClientTls>>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut builder = Http::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        let encrypted = tls.as_ref().map(|tls| {
            builder.build(HttpsConnector::from((tcp.clone(), tls.config(&[b"http/1.1"]))))
        });
        Self {
            places: places.into(),
            manner,
            clear: builder.build(tcp),
            encrypted,
            _files: tls,
            good: AtomicUsize::new(0),
            reached: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// The instances of a service in a namespace.
    ///
    /// # Errors
    /// If no agent answers by `until`, or one refuses.
    pub(super) async fn service(
        &self,
        name: &str,
        namespace: &str,
        until: Instant,
    ) -> Result<Vec<Instance>, Failure> {
        let mut path = format!("/v1/service/{}?namespace={}", percent(name), percent(namespace));
        for (key, value) in [("filter", &self.manner.filter), ("region", &self.manner.region)] {
            if !value.is_empty() {
                path.push_str(&format!("&{key}={}", percent(value)));
            }
        }
        let (first, count) = (self.good.load(Ordering::Relaxed), self.places.len());
        let mut last = Failure::away("no answer in time");
        for round in 0..count {
            let at = (first + round) % count.max(1);
            let (Some(place), now) = (self.places.get(at), Instant::now()) else { break };
            if now >= until {
                break;
            }
            let patience = if round + 1 == count { until } else { until.min(now + PATIENCE) };
            let failure = match timeout_at(patience, self.pages(place, &path)).await {
                Ok(Ok(found)) => {
                    self.good.store(at, Ordering::Relaxed);
                    self.note(None);
                    return Ok(found);
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::away("no answer in time"),
            };
            last = Failure { what: format!("{place}: {}", failure.what), ..failure };
            if !last.again {
                break;
            }
        }
        self.note(Some(&last));
        Err(last)
    }

    /// The instances of all pages of an answer.
    async fn pages(&self, place: &Place, path: &str) -> Result<Vec<Instance>, Failure> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let page = match &next {
                None => self.page(place, path).await?,
                Some(token) => {
                    self.page(place, &format!("{path}&next_token={}", percent(token))).await?
                }
            };
            all.extend(instances(&page.body)?);
            all.truncate(MAX_INSTANCES);
            match page.next {
                // The same page again would never end.
                Some(token) if next.as_ref() != Some(&token) => next = Some(token),
                _ => return Ok(all),
            }
        }
        Ok(all)
    }

    /// One page.
    async fn page(&self, place: &Place, path: &str) -> Result<Page, Failure> {
        let (status, headers, body) = self.get(place, path).await?;
        self.reached.store(true, Ordering::Relaxed);
        if status != StatusCode::OK {
            let said = shown(&body, &[&self.manner.token, &self.manner.login]);
            let what = format!("HTTP status {status}: {said}");
            let again = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(Failure { again, spoke: true, what });
        }
        let next = headers.get("x-nomad-nexttoken").and_then(|token| token.to_str().ok());
        Ok(Page { body, next: next.filter(|token| !token.is_empty()).map(str::to_owned) })
    }

    /// Fetches a path.
    async fn get(
        &self,
        place: &Place,
        path: &str,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        let broken = |error: &(dyn Error + 'static)| Failure::away(chain(error));
        let mut request = Request::new(Full::new(Bytes::new()));
        let headers = request.headers_mut();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("causeway/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in
            [("x-nomad-token", &self.manner.token), (AUTHORIZATION.as_str(), &self.manner.login)]
        {
            if let (false, Ok(mut value)) = (value.is_empty(), HeaderValue::try_from(value)) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let response = match place {
            Place::Url(url) => {
                let target = format!("{url}{path}").parse::<Uri>();
                *request.uri_mut() = target.map_err(|error| broken(&error))?;
                let response = match &self.encrypted {
                    Some(http) if place.is_encrypted() => http.request(request).await,
                    _ => self.clear.request(request).await,
                };
                response.map_err(|error| broken(&error))?
            }
            Place::Unix(socket) => {
                request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
                *request.uri_mut() = path.parse::<Uri>().map_err(|error| broken(&error))?;
                by_socket(socket, request).await?
            }
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|error| Failure::senseless(chain(&*error)))?.to_bytes();
        Ok((head.status, head.headers, body))
    }

    /// Tells the log what is wrong, once, and when it is over.
    fn note(&self, failure: Option<&Failure>) {
        let what = failure.map(|failure| failure.what.clone());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match (&what, &*told) {
            (Some(what), old) if old.as_ref() != Some(what) => log::warn!(target: LOG, "{what}"),
            (None, Some(_)) => log::info!(target: LOG, "services are answered again"),
            _ => return,
        }
        *told = what;
    }

    /// Asks the agents whether they are there until one is.
    pub(super) async fn look(self: Arc<Self>, mut stop: Stop) {
        while !self.reached.load(Ordering::Relaxed) {
            for place in &self.places {
                let asked = timeout(PATIENCE, self.get(place, "/v1/agent/self")).await;
                // Who refuses is there as well.
                if matches!(asked, Ok(Ok((status, ..))) if !status.is_server_error()) {
                    self.reached.store(true, Ordering::Relaxed);
                    return;
                }
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                () = stop.reached(Stage::Draining) => return,
            }
        }
    }
}

impl Ready for Agents {
    fn ready(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }
}

/// Sends a request by a socket in the file system, on a connection of its own.
async fn by_socket(
    socket: &Path,
    request: Request<Full<Bytes>>,
) -> Result<http::Response<hyper::body::Incoming>, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(|error| Failure::away(chain(&error)))?;
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = made.map_err(|error| Failure::away(chain(&error)))?;
    // Ends with the response, or when it is dropped; what is wrong with it the response says.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await.map_err(|error| Failure::away(chain(&error)))
}

/// The instances in a body; those that have no address that records could hold are left out.
fn instances(body: &[u8]) -> Result<Vec<Instance>, Failure> {
    let bad = |what: &str| Failure::senseless(format!("the answer makes no sense: {what}"));
    let value: Value = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
    let all = match value {
        Value::Array(all) => all,
        Value::Null => Vec::new(),
        _ => return Err(bad("it is no list")),
    };
    let instance = |one: &Value| {
        let ip = one.get("Address")?.as_str()?.parse::<IpAddr>().ok()?.to_canonical();
        let port = one.get("Port").and_then(Value::as_u64).unwrap_or(0);
        Some(Instance { ip, port: u16::try_from(port).ok()? })
    };
    Ok(all.iter().filter_map(instance).collect())
}

/// The beginning of an agent's words, without control characters and without `secrets`.
fn shown(body: &[u8], secrets: &[&str]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let text = secrets.fold(text, |text, secret| text.replace(*secret, "…"));
    text.trim().chars().filter(|sign| !sign.is_control()).take(SHOWN).collect()
}
