//! Requests to HTTP APIs: connections that are kept, a bound on time and on size, errors without secrets.

use std::fmt;
use std::time::Duration;

use ::http::header::RETRY_AFTER;
use ::http::{HeaderMap, Request, StatusCode, Uri};
use bytes::Bytes;
use certs::ClientTls;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::timeout;

use crate::shared::cause::chain;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a request may take, its connection included.
const REQUEST: Duration = Duration::from_secs(15);

/// How long a connection that nobody uses is kept: longer than most intervals between two refreshes.
const IDLE: Duration = Duration::from_secs(90);

/// The largest reply, in octets.
const LARGEST: usize = 32 << 20;

/// How much of a server's words is shown.
const SHOWN: usize = 200;

/// Why a request has no useful reply. Its words hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What can be done about it.
    pub(crate) kind: Kind,
    /// What happened.
    pub(crate) what: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing but to change the configuration or what it names.
    Refused,
    /// The credentials are not taken: others may be there by now.
    Unknown,
    /// To ask less, and again after this time if it is stated.
    Busy(Option<Duration>),
    /// To try again: nobody is there, or what is there makes no sense.
    Away,
}

impl Failure {
    /// One of this kind.
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }

    /// The configuration, or what it names, is wrong.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::new(Kind::Refused, what)
    }

    /// It may be better next time.
    pub(crate) fn away(what: impl Into<String>) -> Self {
        Self::new(Kind::Away, what)
    }

    /// The same, with what was tried before it.
    pub(crate) fn while_doing(mut self, doing: impl fmt::Display) -> Self {
        self.what = format!("{doing}: {}", self.what);
        self
    }

    /// Whether trying again as things are makes no sense.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.kind, Kind::Refused | Kind::Unknown)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A reply, whatever its status.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: StatusCode,
    /// The header.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body as text.
    pub(crate) fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(&self.body).map_err(|_| Failure::away("the reply is no text"))
    }

    /// The failure that a status other than 2xx is, with what the server says of it: `code`, a word for programs, and `message`, a
    /// text for people, in which `secrets` are struck out.
    pub(crate) fn failure(&self, code: &str, message: &str, secrets: &[&str]) -> Failure {
        let status = self.status;
        let kind = match status.as_u16() {
            401 => Kind::Unknown,
            429 => Kind::Busy(self.retry_after()),
            503 if self.retry_after().is_some() => Kind::Busy(self.retry_after()),
            408 | 500.. => Kind::Away,
            _ => Kind::Refused,
        };
        let said = [code, message].map(|text| bounded(&struck(text, secrets)));
        let said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
        match &*said {
            [] => Failure::new(kind, format!("the API says {status}")),
            said => Failure::new(kind, format!("the API says {status}: {}", said.join(": "))),
        }
    }

    /// How long the server wants to be left alone (RFC 9110 §10.2.3), if it says so in seconds.
    fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

/// A text without these parts of it.
fn struck(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
}

/// The beginning of the first line of a text, without control characters.
fn bounded(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(SHOWN).filter(|c| !c.is_control()).collect();
    if line.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// A client of HTTP/1.1, with TLS for `https`.
#[derive(Clone)]
pub(crate) struct Fetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Duration,
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Fetch {
    /// One that checks servers by `tls`.
    pub(crate) fn new(tls: &ClientTls) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(2)
            .build(HttpsConnector::from((tcp, tls.config(&[b"http/1.1"]))));
        Self { client, patience: REQUEST }
    }

    /// The same, less patient: for servers that answer at once or not at all.
    pub(crate) fn within(&self, patience: Duration) -> Self {
        Self { client: self.client.clone(), patience }
    }

    /// Sends a request and reads the reply, whatever its status.
    ///
    /// # Errors
    /// If there is none: [`Kind::Away`].
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Reply, Failure> {
        let server = server(request.uri());
        let failed = |what: String| Failure::away(format!("{server} cannot be asked: {what}"));
        let exchange = async {
            let reply = self.client.request(request.map(Full::new)).await;
            let (parts, body) = reply.map_err(|error| failed(chain(&error)))?.into_parts();
            let body = Limited::new(body, LARGEST).collect().await;
            let body = body.map_err(|error| failed(chain(&*error)))?.to_bytes();
            Ok(Reply { status: parts.status, headers: parts.headers, body })
        };
        match timeout(self.patience, exchange).await {
            Ok(reply) => reply,
            Err(_) => Err(failed(format!("no reply within {:?}", self.patience))),
        }
    }
}

/// The server of an address, which shows nothing of the path and the query.
fn server(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Reads the address of a server: `https://HOST[:PORT][/PATH]`, or `http://`; without its last slash.
///
/// # Errors
/// Why it is none.
pub(crate) fn endpoint(text: &str) -> Result<String, &'static str> {
    let uri: Uri = text.parse().map_err(|_| "is no address")?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if !matches!(scheme, "http" | "https") || uri.host().is_none_or(str::is_empty) {
        return Err("is no address of the form https://HOST[:PORT]");
    }
    if uri.query().is_some() || text.contains(['#', '@']) {
        return Err("has more than a scheme, a host and a path");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// The same for one that is sent secrets as they are: over TLS, or to this host.
///
/// # Errors
/// Why it is none.
pub(crate) fn private_endpoint(text: &str) -> Result<String, &'static str> {
    let endpoint = endpoint(text)?;
    let uri: Uri = endpoint.parse().map_err(|_| "is no address")?;
    if uri.scheme_str() == Some("http") && !is_local(uri.host().unwrap_or_default()) {
        return Err("would be sent credentials without encryption: write https://");
    }
    Ok(endpoint)
}

/// Whether a host is this one.
fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|addr| addr.is_loopback())
}

/// What is escaped in paths, queries and forms: all but what is reserved for nothing (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text with all but letters, digits and `-._~` as `%XX` (RFC 3986 §2.1).
pub(crate) fn percent(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Names and values as a query or the body of a form.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", percent(name), percent(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A request.
///
/// # Errors
/// If address or header hold signs that they cannot.
pub(crate) fn request(
    method: ::http::Method,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Request<Bytes>, Failure> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let agent = concat!("causeway/", env!("CARGO_PKG_VERSION"));
    let request = request.header(::http::header::USER_AGENT, agent).body(body.into());
    request.map_err(|_| Failure::refused("a part of the request holds signs that it cannot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_shown_without_secrets() {
        let reply = |status| Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let failure = reply(403).failure("Denied", "key s3cret of\nline two", &["s3cret", ""]);
        assert_eq!(failure.what, "the API says 403 Forbidden: Denied: key … of");
        assert_eq!(failure.kind, Kind::Refused);
        for (status, kind) in [
            (400, Kind::Refused),
            (401, Kind::Unknown),
            (404, Kind::Refused),
            (408, Kind::Away),
            (429, Kind::Busy(None)),
            (500, Kind::Away),
            (503, Kind::Away),
        ] {
            assert_eq!(reply(status).failure("", "", &[]).kind, kind, "{status}");
        }
        let mut busy = reply(503);
        busy.headers.insert(RETRY_AFTER, "7".parse().unwrap());
        assert_eq!(busy.failure("", "", &[]).kind, Kind::Busy(Some(Duration::from_secs(7))));
        assert_eq!(bounded(&"x".repeat(300)).chars().count(), SHOWN + 1);
    }

    #[test]
    fn credentials_go_over_tls_or_to_this_host() {
        for (text, good) in [
            ("https://dns.example.org/", Some("https://dns.example.org")),
            ("https://dns.example.org:8443/base", Some("https://dns.example.org:8443/base")),
            ("http://127.0.0.1:1", Some("http://127.0.0.1:1")),
            ("http://[::1]:1", Some("http://[::1]:1")),
            ("http://localhost", Some("http://localhost")),
            ("http://dns.example.org", None),
            ("dns.example.org", None),
            ("ftp://dns.example.org", None),
            ("https://user@dns.example.org", None),
            ("https://dns.example.org?a=b", None),
            ("", None),
        ] {
            assert_eq!(private_endpoint(text).ok().as_deref(), good, "{text}");
        }
        assert!(endpoint("http://dns.example.org").is_ok());
    }

    #[test]
    fn forms_are_escaped() {
        assert_eq!(form(&[("a", "b c/d"), ("é", "~")]), "a=b%20c%2Fd&%C3%A9=~");
    }

    /// Serves one reply over TLS with a certificate for this host, signed by itself; its address, and the certificate in a file.
    fn secure(label: &str) -> (String, std::path::PathBuf) {
        use std::io::{Read as _, Write as _};

        use rustls::pki_types::PrivateKeyDer;

        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let name = format!("causeway-fetch-{label}-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider().into();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let connection = rustls::ServerConnection::new(config.into()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut asked = [0; 4096];
            // Whoever does not trust the certificate asks nothing.
            if stream.read(&mut asked).is_ok_and(|length| length > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood").unwrap();
            }
        });
        (url, file)
    }

    #[tokio::test]
    async fn servers_are_checked() {
        let ask = |url: &str| request(::http::Method::GET, url, &[], "").unwrap();
        let (url, file) = secure("good");
        let trusting = Fetch::new(&ClientTls::new(Some(file.clone()), None).unwrap());
        assert_eq!(trusting.send(ask(&url)).await.unwrap().text(), Ok("good"));
        let (url, other) = secure("bad");
        let failure = trusting.send(ask(&url)).await.unwrap_err();
        assert!(failure.what.contains("invalid peer certificate"), "{failure}");
        for file in [file, other] {
            std::fs::remove_file(file).unwrap();
        }
    }
}
