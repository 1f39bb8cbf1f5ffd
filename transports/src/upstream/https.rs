//! DNS over HTTPS (RFC 8484) by HTTP/2, and what HTTP/3 has in common with it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri, header};
use tokio::io::{AsyncRead, AsyncWrite};

use super::conn::Broken;
use super::session::{Link, Made, Maker};
use super::tcp::{self, Road};
use super::tls::{self, Tls, bounded};

/// The path that is asked, as RFC 8484 has it in its examples and everybody at home.
const PATH: &str = "/dns-query";

/// What bodies are.
const MEDIA: &str = "application/dns-message";

/// The most octets of a message.
pub(super) const MAX_MESSAGE: usize = 65_535;

/// The most octets of a reply's header fields.
pub(super) const MAX_HEADERS: u32 = 16 << 10;

/// How much of all replies together may wait to be read.
const WINDOW: u32 = 1 << 20;

/// How a query is put into a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// In its body.
    #[default]
    Post,
    /// In its path, which caches on the way can use.
    Get,
}

/// Requests to one upstream.
#[derive(Clone, Debug)]
pub(super) struct Form {
    verb: Verb,
    /// Address or name, and port unless it is that of HTTPS.
    authority: String,
    /// The whole of a POST's target.
    target: Uri,
}

impl Form {
    /// Those for the server at `addr`, under its name if it has one.
    pub(super) fn new(verb: Verb, addr: SocketAddr, domain: Option<&str>) -> Self {
        let host = match (domain, addr.ip()) {
            (Some(name), _) => name.to_owned(),
            (None, IpAddr::V4(ip)) => ip.to_string(),
            (None, IpAddr::V6(ip)) => format!("[{ip}]"),
        };
        let authority = match addr.port() {
            443 => host,
            port => format!("{host}:{port}"),
        };
        // A name of a certificate, an address and a number can stand there.
        let target = format!("https://{authority}{PATH}").parse().unwrap_or_default();
        Self { verb, authority, target }
    }

    /// The request for a query, and its body if it has one.
    pub(super) fn request(&self, query: &[u8]) -> (Request<()>, Option<Bytes>) {
        let mut request = Request::new(());
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, header::HeaderValue::from_static(MEDIA));
        match self.verb {
            Verb::Post => {
                headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(MEDIA));
                headers.insert(header::CONTENT_LENGTH, query.len().into());
                *request.method_mut() = Method::POST;
                *request.uri_mut() = self.target.clone();
                (request, Some(Bytes::copy_from_slice(query)))
            }
            Verb::Get => {
                // RFC 8484 §4.1: base64url without padding.
                let text = URL_SAFE_NO_PAD.encode(query);
                let target = format!("https://{}{PATH}?dns={text}", self.authority);
                *request.uri_mut() = target.parse().unwrap_or_default();
                (request, None)
            }
        }
    }
}

/// Refuses a response that holds no reply: any status but 200 (RFC 8484 §4.2.1), any other medium, too many octets.
pub(super) fn judge<T>(response: &Response<T>) -> Result<(), Broken> {
    if response.status() != StatusCode::OK {
        return Err(bad(format!("HTTP status {}", response.status())));
    }
    let headers = response.headers();
    let medium = headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes);
    let medium = medium.unwrap_or_default();
    let end = medium.iter().position(|b| *b == b';').unwrap_or(medium.len());
    if !medium[..end].trim_ascii().eq_ignore_ascii_case(MEDIA.as_bytes()) {
        let told = bounded(&String::from_utf8_lossy(medium));
        return Err(bad(format!("the reply is no {MEDIA} but {told:?}")));
    }
    let len = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok());
    if len.and_then(|len| len.parse::<u64>().ok()).is_some_and(|len| len > MAX_MESSAGE as u64) {
        return Err(too_long());
    }
    Ok(())
}

/// A reply that cannot be used, and why.
pub(super) fn bad(why: impl AsRef<str>) -> Broken {
    Broken::Bad(why.as_ref().into())
}

/// A reply longer than messages are.
pub(super) fn too_long() -> Broken {
    bad("the reply is longer than 65535 octets")
}

/// Makes connections of HTTP/2.
#[derive(Debug)]
pub(super) struct Http2(pub(super) Road);

impl Maker for Http2 {
    fn make(&self) -> BoxFuture<'_, Result<Made, Broken>> {
        async {
            let stream = tcp::connect(self.0.addr, self.0.source).await;
            let stream = stream.map_err(|error| Broken::Io((&error).into()))?;
            let local = stream.local_addr().ok();
            begin(stream, self.0.tls.as_ref(), local).await
        }
        .boxed()
    }
}

/// Begins HTTP/2 on a connection, by TLS if there is any.
pub(super) async fn begin<S>(
    stream: S,
    tls: Option<&Tls>,
    local: Option<SocketAddr>,
) -> Result<Made, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = tls else { return shake(stream, local).await };
    let stream = tls.wrap(stream).await?;
    // RFC 9113 §3.3: both have to agree on it in the handshake.
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(Broken::Tls("the server does not speak HTTP/2".into()));
    }
    shake(stream, local).await
}

/// Shakes hands.
async fn shake<S>(stream: S, local: Option<SocketAddr>) -> Result<Made, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(MAX_MESSAGE as u32 + 1)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(MAX_HEADERS)
        .header_table_size(4096)
        .max_concurrent_reset_streams(64)
        .max_send_buffer_size(WINDOW as usize);
    let (link, connection) = builder.handshake(stream).await.map_err(lost)?;
    let driver = async move {
        match connection.await {
            Ok(()) => Broken::Closed,
            Err(error) => lost(error),
        }
    };
    Ok(Made { link: Link::Http2(link), local, driver: driver.boxed() })
}

/// Sends a request and reads its reply. Dropping the future resets the stream.
pub(super) async fn ask(
    link: h2::client::SendRequest<Bytes>,
    form: &Form,
    query: &[u8],
) -> Result<Vec<u8>, Broken> {
    let (request, body) = form.request(query);
    let response = send(link, request, body).await?;
    judge(&response)?;
    read(&mut response.into_body(), MAX_MESSAGE).await
}

/// Reads a body, of so many octets at most.
pub(super) async fn read(body: &mut h2::RecvStream, most: usize) -> Result<Vec<u8>, Broken> {
    let mut octets = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(lost)?;
        if octets.len() + data.len() > most {
            return Err(too_long());
        }
        octets.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).map_err(lost)?;
    }
    Ok(octets)
}

/// Sends a request, and waits for the head of the response.
pub(super) async fn send(
    link: h2::client::SendRequest<Bytes>,
    request: Request<()>,
    body: Option<Bytes>,
) -> Result<Response<h2::RecvStream>, Broken> {
    let mut link = link.ready().await.map_err(lost)?;
    let (response, mut stream) = link.send_request(request, body.is_none()).map_err(lost)?;
    if let Some(body) = body {
        stream.send_data(body, true).map_err(lost)?;
    }
    response.await.map_err(lost)
}

/// What an error of HTTP/2 means for a query. What the server did not process (RFC 9113 §8.7) or gave up, and what was under way
/// when the connection ended, can be sent once more: it is but a question. What it answered wrongly is not.
pub(super) fn lost(error: h2::Error) -> Broken {
    let refused = [h2::Reason::REFUSED_STREAM, h2::Reason::CANCEL].map(Some);
    if refused.contains(&error.reason()) || error.is_go_away() && error.is_remote() {
        return Broken::Closed;
    }
    if error.is_io() {
        return error.into_io().map_or(Broken::Closed, |error| match error.kind() {
            // What TLS says after the handshake comes as words alone.
            ErrorKind::InvalidData => Broken::Tls(bounded(&error.to_string()).into()),
            _ => tls::broken(&error),
        });
    }
    match error.reason() {
        Some(reason) if error.is_reset() && error.is_remote() => {
            bad(format!("the server reset the stream: {reason}"))
        }
        Some(reason) if error.is_library() => {
            bad(format!("the server breaks the rules of HTTP/2: {reason}"))
        }
        _ => Broken::Closed,
    }
}
