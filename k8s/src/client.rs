//! Connections to API servers: where they are, how both sides prove who they are, and one request at a time.

use std::{
    error::Error,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex as Lock, PoisonError, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout},
};

use crate::{
    config::{Config, Source, kubeconfig},
    exec,
    keeper::{self, Credential, Files},
    limit::Limiter,
    probe::Probe,
    proto::{self, Status},
    store::unix_time,
    url::{self, Login},
};

/// How long a TCP connection with its TLS handshake may take: short, so that a server that comes back is found soon.
const CONNECT: Duration = Duration::from_millis(2500);
/// When an idle connection is first asked whether its other end is still there, and how often then.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);
/// How long a program that failed to renew credentials is left alone, in seconds.
const RENEWAL: u64 = 10;
/// How long credentials that can not be had are not tried for again.
const PAUSE: Duration = Duration::from_secs(2);
/// Bytes of an error's body that are read.
const ERROR_BODY: usize = 64 << 10;
/// What is accepted: protobuf, or JSON from servers that know no other.
const PROTOBUF: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");
/// What is accepted of discovery and custom resources, which have no protobuf that is read here.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The session in use, and why there is none.
#[derive(Debug, Default)]
struct Slot {
    /// The last one that could be made.
    session: Option<Arc<Session>>,
    /// When and why the last try failed.
    refused: Option<(Instant, Refusal)>,
}

/// Why there is no connection, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub(crate) String);

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The configuration or the credentials can not be read.
    #[error(transparent)]
    Credentials(#[from] Refusal),
    /// The server can not be reached or closed the connection.
    #[error("{0}")]
    Network(String),
    /// The server is silent.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
}

/// Connections that are open, by their configuration, so that those who share one share its limits.
static OPEN: Lock<Vec<(String, Weak<Connection>)>> = Lock::new(Vec::new());

/// An API server, and the limits on requests to it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Where it is.
    source: Source,
    /// The limits.
    limiter: Limiter,
    /// The `User-Agent`.
    agent: HeaderValue,
    /// Is told of requests.
    probe: Arc<dyn Probe>,
    /// The session that requests use.
    session: Mutex<Slot>,
    /// The number of the last session made.
    last: AtomicU64,
    /// Sessions up to this number are not to be used for further requests if there can be another.
    stale: AtomicU64,
    /// The credentials of sessions up to this number are not accepted.
    rejected: AtomicU64,
    /// What has been said of a trouble that goes on.
    said: Lock<Vec<String>>,
    /// The last trouble, and when it was.
    trouble: Lock<Option<(u64, String)>>,
    /// What the last session was made of.
    made: Lock<Option<Made>>,
    /// Moves when followers are to begin anew with the session that is there then.
    generation: watch::Sender<u64>,
    /// How often another server took the place of the one before.
    moves: AtomicU64,
}

/// What a session was made of.
#[derive(Debug, Clone)]
struct Made {
    /// The server's authority.
    host: String,
    /// The files, as they were.
    files: Files,
    /// The credentials.
    credentials: Vec<Credential>,
}

/// How a connection to an API server is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connected {
    /// Where the server is, in words without secrets.
    pub source: String,
    /// Its host and port; empty before the first try.
    pub host: String,
    /// What proves who both sides are.
    pub credentials: Vec<Credential>,
    /// The last trouble with the server, and its Unix time in seconds.
    pub trouble: Option<(u64, String)>,
    /// Whether that goes on.
    pub troubled: bool,
}

/// A client with credentials as they were read at one time.
pub(crate) struct Session {
    /// The client.
    client: Client,
    /// What proves who we are, beside a client certificate.
    credentials: Credentials,
    /// The server's authority, for metrics and messages.
    pub(crate) host: String,
    /// Whether responses may be compressed.
    compress: bool,
    /// The Unix times in seconds at which it is to be replaced and at which it ends, if a program issued it.
    until: Option<(AtomicU64, u64)>,
    /// Its number.
    number: u64,
    /// What it was made of.
    made: Made,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {})", self.number, self.host)
    }
}

/// What goes into the `Authorization` header.
enum Credentials {
    /// Nothing.
    None,
    /// A header that does not change.
    Header(HeaderValue),
    /// The token in a file, read for every request, and what was last read.
    File(PathBuf, Lock<Option<HeaderValue>>),
}

impl Credentials {
    /// Takes them from a kubeconfig's user.
    fn new(auth: &AuthInfo) -> Result<Self, Refusal> {
        if let Some(file) = &auth.token_file {
            let credentials = Self::File(file.into(), Lock::new(None));
            credentials.header().await_file(file)?;
            return Ok(credentials);
        }
        let value = if let Some(token) = &auth.token {
            format!("Bearer {}", token.expose_secret().trim())
        } else if let (Some(user), Some(password)) = (&auth.username, &auth.password) {
            format!(
                "Basic {}",
                BASE64_STANDARD.encode(format!("{user}:{}", password.expose_secret()))
            )
        } else {
            return Ok(Self::None);
        };
        secret(&value).map(Self::Header)
    }

    /// Gives the header's value.
    fn header(&self) -> Header {
        match self {
            Self::None => Header(None),
            Self::Header(value) => Header(Some(value.clone())),
            Self::File(path, last) => {
                let read = std::fs::read_to_string(path).ok();
                let read = read.and_then(|token| secret(&format!("Bearer {}", token.trim())).ok());
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                // A file that is away for a moment, as while it is replaced, leaves the last token in use.
                if read.is_some() {
                    *last = read;
                }
                Header(last.clone())
            }
        }
    }
}

/// The value of an `Authorization` header, if there is one.
struct Header(Option<HeaderValue>);

impl Header {
    /// Refuses a token file that can not be read at the start.
    fn await_file(&self, file: &str) -> Result<(), Refusal> {
        match self.0 {
            Some(_) => Ok(()),
            None => Err(Refusal(format!("the token file {file} can not be read"))),
        }
    }
}

/// Makes a header's value that is not shown.
fn secret(value: &str) -> Result<HeaderValue, Refusal> {
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        Refusal("the token or password has characters that a header can not have".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The beginning of a response, and its body to come.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Status code.
    pub(crate) status: StatusCode,
    /// `Content-Encoding`.
    pub(crate) encoding: Vec<u8>,
    /// Whether the body is JSON and not protobuf.
    pub(crate) json: bool,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
    /// The body.
    pub(crate) body: Body,
    /// The number of the session that asked.
    pub(crate) session: u64,
}

impl Reply {
    /// Takes apart what came.
    fn new(response: Response<Body>, session: u64) -> Self {
        let (parts, body) = response.into_parts();
        let field = |name| parts.headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = |name| std::str::from_utf8(field(name)).unwrap_or_default();
        Self {
            status: parts.status,
            encoding: field(header::CONTENT_ENCODING).to_ascii_lowercase(),
            json: !text(header::CONTENT_TYPE).starts_with("application/vnd.kubernetes.protobuf"),
            retry_after: text(header::RETRY_AFTER).parse().ok(),
            body,
            session,
        }
    }

    /// Reads the Status of an error; what can not be read is told by the code alone.
    pub(crate) async fn problem(self) -> Status {
        let limited = http_body_util::Limited::new(self.body, ERROR_BODY);
        let bytes = match timeout(Duration::from_secs(5), limited.collect()).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            _ => bytes::Bytes::new(),
        };
        let read = if self.json {
            serde_json::from_slice::<JsonStatus>(&bytes).ok().map(|read| Status {
                code: read.code,
                reason: read.reason,
                message: read.message,
            })
        } else {
            proto::unwrap(&bytes).and_then(proto::status).ok()
        };
        let status = read.unwrap_or_default();
        let message = if status.message.is_empty() {
            self.status.canonical_reason().unwrap_or("an error").to_owned()
        } else {
            status.message
        };
        Status { code: self.status.as_u16(), message, ..status }
    }
}

/// A `meta.v1.Status` in JSON.
#[derive(serde::Deserialize)]
pub(crate) struct JsonStatus {
    /// HTTP status code.
    #[serde(default)]
    pub(crate) code: u16,
    /// One word for the cause.
    #[serde(default)]
    pub(crate) reason: String,
    /// The message for people.
    #[serde(default)]
    pub(crate) message: String,
}

impl Connection {
    /// Gives the connection of a configuration: the one that is open, or a new one.
    pub(crate) fn open(config: &Config, probe: &Arc<dyn Probe>) -> Arc<Self> {
        let key = config.connection_key();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, connection)| connection.strong_count() > 0);
        if let Some(connection) =
            open.iter().find(|other| other.0 == key).and_then(|other| other.1.upgrade())
        {
            return connection;
        }
        let connection = Arc::new(Self {
            source: config.source.clone(),
            limiter: Limiter::new(config.room()),
            agent: HeaderValue::try_from(&config.agent)
                .unwrap_or(HeaderValue::from_static("Causeway")),
            probe: Arc::clone(probe),
            session: Mutex::default(),
            last: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            said: Lock::new(Vec::new()),
            trouble: Lock::new(None),
            made: Lock::new(None),
            generation: watch::Sender::new(0),
            moves: AtomicU64::new(0),
        });
        // It ends with the connection; without a runtime there are no requests either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(keeper::keep(Arc::downgrade(&connection)));
        }
        open.push((key, Arc::downgrade(&connection)));
        connection
    }

    /// Asks for a path with its query, in JSON alone or in protobuf if the server has it; waits at most so long for the
    /// beginning of the response.
    pub(crate) async fn get(
        &self,
        path: &str,
        json: bool,
        wait: Duration,
    ) -> Result<Reply, Failure> {
        let (waited, permit) = self.limiter.admit().await;
        let session = self.session().await?;
        self.probe.limited("GET", &session.host, waited.as_secs_f64());
        let mut request = Request::get(path)
            .header(header::USER_AGENT, self.agent.clone())
            .header(header::ACCEPT, if json { JSON } else { PROTOBUF });
        // Within the cluster the network is cheaper than the processor time of both sides.
        if session.compress {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        if let Header(Some(value)) = session.credentials.header() {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request
            .body(Body::empty())
            .map_err(|error| Failure::Network(format!("the request can not be made: {error}")))?;
        let start = Instant::now();
        let result = timeout(wait, session.client.send(request)).await;
        drop(permit);
        let reply = match result {
            Ok(Ok(response)) => Ok(Reply::new(response, session.number)),
            // What kube wraps an error of the network in says nothing to operators.
            Ok(Err(kube::Error::Service(error))) => Err(Failure::Network(causes(&*error))),
            Ok(Err(error)) => Err(Failure::Network(causes(&error))),
            Err(_) => Err(Failure::Silent(wait)),
        };
        match &reply {
            Ok(reply) => {
                self.probe.latency("GET", &session.host, start.elapsed().as_secs_f64());
                self.probe.request(reply.status.as_str(), "GET", &session.host);
            }
            Err(_) => {
                self.probe.request("<error>", "GET", &session.host);
                // Certificates and addresses may have changed on disk. A program is not run for a server that is away.
                if session.until.is_none() {
                    self.distrust(session.number);
                }
            }
        }
        reply
    }

    /// Makes further requests use other credentials than those of this session: they are read or asked for again.
    pub(crate) fn distrust(&self, session: u64) {
        self.stale.fetch_max(session, SeqCst);
    }

    /// The same for credentials that the server does not accept: they are no longer used, whatever is on disk.
    pub(crate) fn reject(&self, session: u64) {
        self.rejected.fetch_max(session, SeqCst);
        self.distrust(session);
    }

    /// Gives the session to use, made anew if there is none or it has ended. One is made at a time.
    async fn session(&self) -> Result<Arc<Session>, Failure> {
        let mut slot = self.session.lock().await;
        let now = unix_time().0;
        let stale = self.stale.load(Relaxed);
        if let Some(session) = slot.session.as_ref().filter(|session| session.number > stale)
            && session.until.as_ref().is_none_or(|(renew, _)| now < renew.load(Relaxed))
        {
            return Ok(Arc::clone(session));
        }
        // While what is on disk cannot be used the last one goes on, unless the server refuses it or it has ended.
        let last = slot.session.clone().filter(|session| {
            session.number > self.rejected.load(Relaxed)
                && session.until.as_ref().is_none_or(|until| now < until.1)
        });
        // All kinds share a try that failed, so that a program is not run for each of them.
        if last.is_none()
            && let Some((at, refusal)) = &slot.refused
            && at.elapsed() < PAUSE
        {
            return Err(refusal.clone().into());
        }
        let number = self.last.fetch_add(1, Relaxed) + 1;
        match Session::new(&self.source, number).await {
            Ok(session) => {
                let session = Arc::new(session);
                self.note_made(&session);
                *slot = Slot { session: Some(Arc::clone(&session)), refused: None };
                Ok(session)
            }
            Err(refusal) => match last {
                Some(session) => {
                    self.complain(&refusal.to_string());
                    // That is told again only when requests fail again.
                    self.stale.fetch_min(session.number.saturating_sub(1), SeqCst);
                    // The server may have refused it meanwhile.
                    if self.rejected.load(SeqCst) >= session.number {
                        self.distrust(session.number);
                    }
                    if let Some((renew, _)) = &session.until {
                        renew.store(now + RENEWAL, Relaxed);
                    }
                    Ok(session)
                }
                None => {
                    slot.refused = Some((Instant::now(), refusal.clone()));
                    Err(refusal.into())
                }
            },
        }
    }

    /// Makes a session of what is on disk now, and has all followers begin anew with it; the one in use stays if there can be
    /// none.
    pub(crate) async fn replace(&self) -> Result<(), Refusal> {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        // A program may take its time: requests go on with the session in use meanwhile.
        let session = Arc::new(Session::new(&self.source, number).await?);
        let mut slot = self.session.lock().await;
        // One that was begun later knows of the files what this one does.
        if slot.session.as_ref().is_none_or(|other| other.number < number) {
            self.note_made(&session);
            *slot = Slot { session: Some(session), refused: None };
        }
        drop(slot);
        self.generation.send_replace(number);
        Ok(())
    }

    /// Has a program that issued credentials be run before they end, also where no request asks for that; followers begin anew
    /// with what it issues.
    pub(crate) async fn renew_early(&self) {
        let slot = self.session.lock().await;
        let Some(session) = slot.session.clone() else { return };
        drop(slot);
        let due = |until: &(AtomicU64, u64)| unix_time().0 >= until.0.load(Relaxed);
        if !session.until.as_ref().is_some_and(due) || session.number <= self.stale.load(Relaxed) {
            return;
        }
        // A trouble is told of where it is found.
        if let Ok(new) = self.session().await
            && new.number > session.number
        {
            self.generation.send_replace(new.number);
        }
    }

    /// How often sessions were with another server than those before.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(SeqCst)
    }

    /// Moves when followers are to begin anew.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Notes what a session was made of. Followers begin anew if it is with another server.
    fn note_made(&self, session: &Session) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let before = made.replace(session.made.clone());
        drop(made);
        for one in &session.made.credentials {
            self.probe.expiry(one.kind, one.life.map(|(_, end)| end));
        }
        for gone in before.iter().flat_map(|before| &before.credentials) {
            if !session.made.credentials.iter().any(|one| one.kind == gone.kind) {
                self.probe.expiry(gone.kind, None);
            }
        }
        if before.is_some_and(|before| before.host != session.host) {
            self.moves.fetch_add(1, SeqCst);
            self.generation.send_replace(session.number);
        }
    }

    /// What the last session was made of; none before the first one.
    pub(crate) fn made_of(&self) -> Option<(Files, Vec<Credential>)> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.as_ref().map(|made| (made.files.clone(), made.credentials.clone()))
    }

    /// Where the credentials came from that were not accepted, in words.
    pub(crate) fn origin(&self) -> String {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let credentials = made.iter().flat_map(|made| &made.credentials);
        let shown = credentials
            .filter(|one| one.kind != "ca")
            .map(|one| format!("{} of {}", one.kind.replace('_', " "), one.from));
        match shown.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "none are stated".to_owned(),
            shown => shown,
        }
    }

    /// How it is doing.
    pub(crate) fn connected(&self) -> Connected {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (host, credentials) =
            made.map(|made| (made.host, made.credentials)).unwrap_or_default();
        Connected { source: self.name(), host, credentials, trouble, troubled: !said.is_empty() }
    }

    /// Notes a trouble, whoever tells of it.
    pub(crate) fn note_trouble(&self, cause: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some((unix_time().0, cause));
    }

    /// Tells operators of a trouble with the server, once a cause until it is over.
    pub(crate) fn complain(&self, cause: &str) {
        self.note_trouble(cause.to_owned());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.iter().any(|other| other == cause) || said.len() > 8 {
            return;
        }
        said.push(cause.to_owned());
        log::error!(
            target: crate::LOG,
            "Kubernetes API {}: {cause}; what is known of the cluster is served on, and the API is tried again",
            self.name()
        );
    }

    /// Tells operators that a trouble is over.
    pub(crate) fn recover(&self) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.is_empty() {
            said.clear();
            log::info!(target: crate::LOG, "Kubernetes API {}: answers again", self.name());
        }
    }

    /// Names the server for messages.
    pub(crate) fn name(&self) -> String {
        match &self.source {
            Source::InCluster => "of this cluster".to_owned(),
            Source::Endpoint { url, .. } => {
                // An address with credentials in it is not repeated.
                url.parse::<Uri>()
                    .ok()
                    .and_then(|url| Some(url.host()?.to_owned()))
                    .unwrap_or_default()
            }
            Source::Kubeconfig { file, context: Some(context) } => {
                format!("{context} of {}", file.display())
            }
            Source::Kubeconfig { file, context: None } => format!("of {}", file.display()),
            Source::Manifests(folder) => folder.display().to_string(),
        }
    }
}

impl Session {
    /// Reads configuration and credentials, and makes a client of them.
    async fn new(source: &Source, number: u64) -> Result<Self, Refusal> {
        let (mut config, files) = configuration(source).await?;
        let (url, login) = url::apart(std::mem::take(&mut config.cluster_url))?;
        config.cluster_url = url;
        let (mut until, mut issued) = (None, None);
        if let Some(exec) = config.auth_info.exec.take() {
            let expires = exec::run(&exec, &mut config.auth_info).await?;
            issued = Some((exec.command.clone().unwrap_or_default(), expires));
            let now = unix_time().0;
            // Renewed when a fifth of the time is left, at most a minute; a program without an end says so by 401.
            let end = expires.unwrap_or(u64::MAX);
            let margin = (end.saturating_sub(now) / 5).min(60);
            until = Some((AtomicU64::new(end.saturating_sub(margin)), end));
        }
        // What the address has wins, as with kubectl.
        if let Some(Login { user, password }) = login {
            let auth = &mut config.auth_info;
            (auth.token, auth.token_file) = (None, None);
            (auth.username, auth.password) = (Some(user), Some(password.into()));
        }
        if let Some(proxy) = &config.proxy_url {
            let host = proxy.host().unwrap_or_default();
            return Err(Refusal(format!(
                "the way to the API server leads through the proxy {host}, which is not supported: unset proxy-url and HTTPS_PROXY, or name the server in NO_PROXY"
            )));
        }
        let issued = issued.as_ref().map(|(program, end)| (&**program, *end));
        let credentials =
            keeper::credentials(source, &config.auth_info, issued, config.root_cert.as_deref());
        let refuse = |error: kube::Error| Refusal(causes(&error));
        // Who else linked rustls may have left the choice of a provider open; the first to install one decides.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_keepalive(Some(KEEPALIVE.0));
        tcp.set_keepalive_interval(Some(KEEPALIVE.1));
        tcp.set_keepalive_retries(Some(KEEPALIVE.2));
        let tls = config.rustls_https_connector_with_connector(tcp).map_err(refuse)?;
        let mut connector = TimeoutConnector::new(tls);
        connector.set_connect_timeout(Some(CONNECT));
        let hyper: Hyper<_, Body> = Hyper::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        let client = ClientBuilder::new(hyper, "default")
            .with_layer(&config.extra_headers_layer().map_err(refuse)?)
            .with_layer(&config.base_uri_layer())
            .build();
        let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        Ok(Self {
            client,
            credentials: Credentials::new(&config.auth_info)?,
            made: Made { host: host.clone(), files, credentials },
            host,
            compress: !config.disable_compression && *source != Source::InCluster,
            until,
            number,
        })
    }
}

/// Reads the configuration of a source, and tells of which files it is.
async fn configuration(source: &Source) -> Result<(kube::Config, Files), Refusal> {
    // Each is looked at before it is read, so that no change is missed.
    let mut files = Files::default();
    let (file, context) = match source {
        Source::InCluster => {
            keeper::account().iter().for_each(|file| files.add(file));
            let config = kube::Config::incluster();
            return config.map(|config| (config, files)).map_err(|error| {
                Refusal(format!(
                    "this process has no service account of a cluster ({}): state `endpoint` or `kubeconfig`",
                    causes(&error)
                ))
            });
        }
        Source::Manifests(_) => return Err(Refusal("manifests have no API server".to_owned())),
        Source::Endpoint { url, tls } => {
            let user = tls.as_ref().map_or_else(
                || json!({}),
                |tls| json!({ "client-certificate": tls.certificate, "client-key": tls.key }),
            );
            let authorities = tls.as_ref().map(|tls| &tls.authorities);
            let file = serde_json::from_value::<Kubeconfig>(json!({
                "clusters": [{ "name": "c", "cluster": { "server": url, "certificate-authority": authorities } }],
                "users": [{ "name": "u", "user": user }],
                "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
                "current-context": "x",
            }));
            (file.map_err(|error| Refusal(error.to_string()))?, None)
        }
        Source::Kubeconfig { file, context } => {
            let path = file.clone();
            files.add(&path);
            let read = tokio::task::spawn_blocking(move || kubeconfig(&path)).await;
            let read = read.map_err(|error| Refusal(error.to_string()))?;
            (
                read.map_err(|wrong| {
                    Refusal(format!("the kubeconfig {} {wrong}", file.display()))
                })?,
                context.clone(),
            )
        }
    };
    keeper::named(&file, context.as_deref()).iter().for_each(|file| files.add(file));
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    config.map(|config| (config, files)).map_err(|error| Refusal(causes(&error)))
}

/// Joins an error with its causes, each once.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
