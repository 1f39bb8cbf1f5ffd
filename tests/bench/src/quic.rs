//! Asking by DNS over QUIC (RFC 9250), and holding connections of it and of HTTP/3 open.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint};
use rustls::crypto::aws_lc_rs;
use tokio::task::LocalSet;

use crate::link::Anybody;

/// What came of a query.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// It was sent.
    Sent,
    /// Its reply came, with this response code, after this time.
    Reply(u8, Duration),
    /// Something else came.
    Strange,
    /// Nothing came.
    Lost,
}

/// How hard to ask whom.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The server.
    pub server: SocketAddr,
    /// How long to ask.
    pub time: Duration,
    /// How many connections.
    pub connections: usize,
    /// How many queries under way on each.
    pub outstanding: usize,
}

/// Asks the queries that `next` gives, each as a message with any ID, and tells `tell` what came of each.
///
/// # Errors
/// If there is no connection to be had.
pub fn ask(
    plan: Plan,
    next: impl FnMut() -> Vec<u8> + 'static,
    tell: impl FnMut(Came) + 'static,
) -> io::Result<()> {
    let (next, tell) = (Rc::new(RefCell::new(next)), Rc::new(RefCell::new(tell)));
    run(async move {
        let endpoint = endpoint(match plan.server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        })?;
        let mut connections = Vec::new();
        for _ in 0..plan.connections {
            connections.push(connect(&endpoint, plan.server, "doq").await?);
        }
        let end = Instant::now() + plan.time;
        let asking = LocalSet::new();
        for connection in &connections {
            for _ in 0..plan.outstanding {
                let (connection, next, tell) =
                    (connection.clone(), Rc::clone(&next), Rc::clone(&tell));
                asking.spawn_local(async move {
                    while Instant::now() < end {
                        let message = (next.borrow_mut())();
                        (tell.borrow_mut())(Came::Sent);
                        let begin = Instant::now();
                        let came = match exchange(&connection, &message).await {
                            Ok(reply) if crate::answers(&reply, &message, 0) => {
                                Came::Reply(reply[3] & 15, begin.elapsed())
                            }
                            Ok(_) => Came::Strange,
                            Err(_) => Came::Lost,
                        };
                        (tell.borrow_mut())(came);
                    }
                });
            }
        }
        asking.await;
        Ok(())
    })
}

/// Opens connections by DoQ or, `over_http`, by HTTP/3, and asks `message` on each; calls `wait` on another thread, then asks
/// on each once more. Gives the longest time that this took one.
///
/// # Errors
/// If a connection cannot be opened, or gives no answer.
pub fn hold(
    server: SocketAddr,
    over_http: bool,
    count: usize,
    message: &[u8],
    wait: impl FnOnce() + Send + 'static,
) -> io::Result<Duration> {
    run(async move {
        // Each some hundreds have an address of their own, as they would have elsewhere.
        let (mut endpoints, mut all) = (Vec::new(), Vec::with_capacity(count));
        for number in 0..count {
            if number % SHARE == 0 {
                let share = u8::try_from(number / SHARE % 250).unwrap_or_default();
                let source = Ipv4Addr::new(127, 0, 1, share + 1);
                endpoints.push(match server {
                    SocketAddr::V4(_) => endpoint((source, 0).into())?,
                    SocketAddr::V6(_) => endpoint((Ipv6Addr::UNSPECIFIED, 0).into())?,
                });
            }
            let alpn = if over_http { "h3" } else { "doq" };
            let connection = connect(&endpoints[number / SHARE], server, alpn).await?;
            let mut held = match over_http {
                true => Held::Http(browser(connection).await?),
                false => Held::Doq(connection),
            };
            held.ask(message).await?;
            all.push(held);
        }
        tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?;
        let mut slowest = Duration::ZERO;
        for held in &mut all {
            let begin = Instant::now();
            held.ask(message).await?;
            slowest = slowest.max(begin.elapsed());
        }
        Ok(slowest)
    })
}

/// How many connections come from one address.
const SHARE: usize = 500;

/// What sends requests of HTTP/3.
type Browser = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// A connection that is held.
enum Held {
    /// By DoQ.
    Doq(Connection),
    /// By HTTP/3.
    Http(Browser),
}

impl Held {
    /// Asks, and looks whether there is an answer.
    async fn ask(&mut self, message: &[u8]) -> io::Result<()> {
        let reply = match self {
            Self::Doq(connection) => exchange(connection, message).await?,
            Self::Http(browser) => post(browser, message).await.map_err(io::Error::other)?,
        };
        let is_answer = crate::answers(&reply, message, 0);
        is_answer.then_some(()).ok_or_else(|| io::Error::other("no answer"))
    }
}

/// Speaks HTTP/3 on a connection.
async fn browser(connection: Connection) -> io::Result<Browser> {
    let connection = h3_quinn::Connection::new(connection);
    let (mut driver, browser) = h3::client::new(connection).await.map_err(io::Error::other)?;
    tokio::spawn(async move { driver.wait_idle().await });
    Ok(browser)
}

/// Sends a query in a request.
async fn post(browser: &mut Browser, message: &[u8]) -> Result<Vec<u8>, h3::error::StreamError> {
    let request = http::Request::post("https://localhost/dns-query")
        .header("content-type", "application/dns-message")
        .body(())
        .unwrap_or_default();
    let mut stream = browser.send_request(request).await?;
    stream.send_data(Bytes::copy_from_slice(message)).await?;
    stream.finish().await?;
    stream.recv_response().await?;
    let mut reply = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        reply.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok(reply)
}

/// Runs on this thread alone.
fn run<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A socket of its own at an address.
fn endpoint(own: SocketAddr) -> io::Result<Endpoint> {
    let socket = crate::socket(own)?;
    Endpoint::new(quinn::EndpointConfig::default(), None, socket, Arc::new(quinn::TokioRuntime))
}

/// A connection, whatever certificate the server shows.
async fn connect(endpoint: &Endpoint, server: SocketAddr, alpn: &str) -> io::Result<Connection> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let config = ClientConfig::new(Arc::new(crypto));
    let connecting =
        endpoint.connect_with(config, server, "localhost").map_err(io::Error::other)?;
    connecting.await.map_err(io::Error::other)
}

/// Sends a query on a stream, and gives the reply.
async fn exchange(connection: &Connection, message: &[u8]) -> io::Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    framed[2..4].fill(0);
    send.write_all(&framed).await?;
    send.finish().map_err(io::Error::other)?;
    let reply = recv.read_to_end(65_537).await.map_err(io::Error::other)?;
    Ok(reply.get(2..).unwrap_or_default().to_vec())
}
