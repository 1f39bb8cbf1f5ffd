//! The small HTTP listeners of `health`, `ready`, `prometheus` and `pprof`: HTTP/1.1, over TLS where a page says so, bounded in
//! connections, header and time.
//!
//! They run on the control runtime, beside the threads that answer queries. A reload keeps a listener whose address the new
//! configuration has too: only its pages are replaced, also for the connections that are open.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use engine::admin::{Ask, Page, Told};
use engine::{Stage, Stop, Stopper};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::socket;

mod unix;

pub use unix::Local;

/// How many connections one listener has at a time; more wait to be accepted.
const CONNECTIONS: usize = 256;

/// The most octets of a request's head.
const HEAD: usize = 16 << 10;

/// How long a request's head may take to come, which is also how long a connection may be idle.
const READ: Duration = Duration::from_secs(5);

/// How long a connection lives; what is under way then has [`GRACE`] to end.
const LIFE: Duration = Duration::from_secs(60);

/// How long a reply may take once its connection is to end.
const GRACE: Duration = Duration::from_secs(5);

/// An admin listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("plugin/{plugin}: cannot listen on {addr}: {why}{}", remedy(.why))]
pub struct AdminError {
    /// The address.
    pub addr: SocketAddr,
    /// The plugin whose page was to be there.
    pub plugin: &'static str,
    /// Why not.
    pub why: io::Error,
}

/// What helps against a bind error.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (a port below 1024 needs root or CAP_NET_BIND_SERVICE; give the directive another port)"
        }
        io::ErrorKind::AddrInUse => {
            " (another program has the port; see `ss -ltnp`, or give the directive another address)"
        }
        io::ErrorKind::AddrNotAvailable => {
            " (no interface has this address; give the directive another one)"
        }
        _ => "",
    }
}

/// All admin listeners of the process.
#[derive(Debug, Default)]
pub struct Admin {
    running: HashMap<SocketAddr, Running>,
}

/// Sockets opened and not yet served, with the pages of the configuration to come.
#[derive(Debug)]
pub struct Opened {
    pages: HashMap<SocketAddr, Vec<Page>>,
    sockets: Vec<(SocketAddr, TcpListener)>,
}

/// One listener at work.
#[derive(Debug)]
struct Running {
    pages: Arc<Pages>,
    stopper: Stopper,
    local: SocketAddr,
}

/// The pages of one listener.
#[derive(Debug)]
struct Pages(Mutex<Arc<[Page]>>);

impl Admin {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the listeners that `pages` need and that are not running; must be called within the runtime that is to serve
    /// them. Nothing changes before [`Admin::start`].
    ///
    /// # Errors
    /// The first that cannot be opened; those opened so far are closed again.
    pub fn bind(&self, pages: Vec<Page>) -> Result<Opened, AdminError> {
        let mut opened = Opened { pages: HashMap::new(), sockets: Vec::new() };
        for page in pages {
            let addr = page.addr;
            if !self.running.contains_key(&addr) && !opened.pages.contains_key(&addr) {
                let failed = |why| AdminError { addr, plugin: page.plugin, why };
                opened.sockets.push((addr, listen(addr).map_err(failed)?));
            }
            opened.pages.entry(addr).or_default().push(page);
        }
        Ok(opened)
    }

    /// Serves what was opened, replaces the pages of the listeners that stay, and closes the others.
    pub fn start(&mut self, opened: Opened) {
        let Opened { mut pages, sockets } = opened;
        self.running.retain(|addr, running| match pages.remove(addr) {
            Some(pages) => {
                running.pages.replace(pages);
                true
            }
            None => {
                running.stopper.reach(Stage::Draining);
                false
            }
        });
        for (addr, socket) in sockets {
            let pages = Arc::new(Pages::new(pages.remove(&addr).unwrap_or_default()));
            let stopper = Stopper::new(GRACE);
            let local = socket.local_addr().unwrap_or(addr);
            tokio::spawn(accept(socket, CONNECTIONS, Arc::clone(&pages), stopper.stop()));
            self.running.insert(addr, Running { pages, stopper, local });
        }
    }

    /// Serves `pages` from now on: [`Admin::bind`] and [`Admin::start`] in one.
    ///
    /// # Errors
    /// As [`Admin::bind`]; the pages of before go on then.
    pub fn replace(&mut self, pages: Vec<Page>) -> Result<(), AdminError> {
        let opened = self.bind(pages)?;
        self.start(opened);
        Ok(())
    }

    /// Closes all listeners; replies under way have a few seconds to end.
    pub fn close(&mut self) {
        self.running.drain().for_each(|(_, running)| running.stopper.reach(Stage::Draining));
    }

    /// The addresses of the configuration that are listened on, each with the one that the system gave (another port where it
    /// says 0).
    pub fn addrs(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.running.iter().map(|(addr, running)| (*addr, running.local))
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.close();
    }
}

impl Pages {
    /// These pages.
    fn new(pages: Vec<Page>) -> Self {
        Self(Mutex::new(pages.into()))
    }

    /// Has these pages from now on.
    fn replace(&self, pages: Vec<Page>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pages.into();
    }

    /// The pages now.
    fn now(&self) -> Arc<[Page]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The TLS that connections begin with, if any page says so.
    fn tls(&self) -> Option<TlsAcceptor> {
        let pages = self.now();
        let config = pages.iter().find_map(|page| page.tls.as_ref()?.get::<rustls::ServerConfig>());
        config.map(TlsAcceptor::from)
    }

    /// The reply to one request: that of the first page with its path, or whose path ends in a slash and begins it.
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let begins = |page: &&Page| page.path.ends_with('/') && path.starts_with(&page.path);
        let handler = {
            let pages = self.now();
            let found = pages.iter().find(|page| page.path == path);
            found.or_else(|| pages.iter().find(begins)).map(|page| Arc::clone(&page.handler))
        };
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let ask = Ask {
            method: request.method().as_str(),
            path,
            query: request.uri().query(),
            accept: header(ACCEPT),
            authorization: header(AUTHORIZATION),
        };
        let told = match handler {
            None => Told::text(404, "404 page not found\n"),
            Some(handler) => match handler.later(ask) {
                Some(later) => later.await,
                None => handler.handle(ask),
            },
        };
        let mut response = Response::new(Full::new(Bytes::from(told.body)));
        *response.status_mut() =
            StatusCode::from_u16(told.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(told.content_type));
        if told.status == 401 {
            // "The server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §15.5.2).
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        }
        response
    }
}

/// Opens a listener; the unspecified IPv6 address takes IPv4 as well.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, addr.port()));
    let bind = if addr == any { None } else { Some(addr.ip().into()) };
    TcpListener::from_std(socket::tcp(bind, addr.port())?)
}

/// What connections come from.
trait Listener {
    /// What it is called in the log.
    const NAME: &str;

    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Takes the next one, if there is one.
    ///
    /// # Errors
    /// What the system says.
    fn next(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

impl Listener for TcpListener {
    const NAME: &str = "an admin listener";

    type Stream = TcpStream;

    fn next(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.poll_accept(context).map_ok(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    const NAME: &str = "the control socket";

    type Stream = UnixStream;

    fn next(&self, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.poll_accept(context).map_ok(|(stream, _)| stream)
    }
}

/// Takes connections, `most` at a time, until it is told to stop.
async fn accept<L>(listener: L, most: usize, pages: Arc<Pages>, mut stop: Stop)
where
    L: Listener<Stream: 'static>,
{
    let room = Arc::new(Semaphore::new(most));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.reached(Stage::Draining) => return,
            accepted = poll_fn(|context| listener.next(context)) => accepted,
        };
        match accepted {
            Ok(stream) => {
                let (pages, stop) = (Arc::clone(&pages), stop.clone());
                tokio::spawn(async move {
                    match pages.tls() {
                        None => serve(stream, pages, stop).await,
                        Some(acceptor) => match timeout(READ, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => serve(stream, pages, stop).await,
                            Ok(Err(error)) => {
                                log::debug!("a handshake at an admin listener: {error}")
                            }
                            Err(_) => log::debug!("a handshake at an admin listener took too long"),
                        },
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                log::warn!("{} could not accept a connection: {error}", L::NAME);
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection.
async fn serve<S>(stream: S, pages: Arc<Pages>, mut stop: Stop)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = Arc::clone(&pages);
        async move {
            // Its body is of no use to anybody, and is not kept meanwhile.
            let request = request.map(drop);
            Ok::<_, Infallible>(pages.answer(&request).await)
        }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = stop.reached(Stage::Draining) => Err(()),
        () = sleep(LIFE) => Err(()),
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(()) => {
            connection.as_mut().graceful_shutdown();
            timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        log::debug!("a connection of an admin listener: {error}");
    }
}

#[cfg(test)]
mod tests;
