//! What a server block says of its listeners.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The clock: tokio's, so that tests can pause it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long a connection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the first message is read.
    pub read: Duration,
    /// Until a message is written.
    pub write: Duration,
    /// Between two messages.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            read: Duration::from_secs(3),
            write: Duration::from_secs(5),
            idle: Duration::from_secs(10),
        }
    }
}

/// An address to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindAddr {
    /// The address.
    pub ip: IpAddr,
    /// The interface's number, which a link-local IPv6 address needs (RFC 4007 §6); 0 for all others.
    pub scope: u32,
}

impl From<IpAddr> for BindAddr {
    fn from(ip: IpAddr) -> Self {
        Self { ip, scope: 0 }
    }
}

impl BindAddr {
    /// The socket address with `port`.
    pub fn at(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.scope).into(),
        }
    }
}

/// TLS of a listener, as the crate that serves it knows it: the engine only hands it on. Two are equal if they are the same one,
/// so whoever makes one shares it over reloads.
#[derive(Clone)]
pub struct Tls(Arc<dyn Any + Send + Sync>);

impl Tls {
    /// Wraps it.
    pub fn new<T: Any + Send + Sync>(tls: Arc<T>) -> Self {
        Self(tls)
    }

    /// Unwraps it, if it is a `T`.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What a server block says of DoH, over TCP or over QUIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSpec {
    /// The most connections at a time; 0 for no limit. 200 if not stated.
    pub max_connections: Option<usize>,
    /// The most streams of a connection at a time (`https3` alone has the word). 256 if not stated.
    pub max_streams: Option<usize>,
    /// The paths that are answered, such as `/dns-query`, which it is if none is stated.
    pub paths: Vec<String>,
    /// Whether `application/dns-json` is answered too.
    pub json: bool,
    /// The proxies whose `Forwarded` and `X-Forwarded-For` headers are believed.
    pub trusted: Vec<ipnet::IpNet>,
}

impl HttpSpec {
    /// Takes over what `other` states and this does not; of limits the first block's count.
    fn merge(&mut self, other: &Self) {
        self.max_connections = self.max_connections.or(other.max_connections);
        self.max_streams = self.max_streams.or(other.max_streams);
        for path in &other.paths {
            if !self.paths.contains(path) {
                self.paths.push(path.clone());
            }
        }
        self.json |= other.json;
        for net in &other.trusted {
            if !self.trusted.contains(net) {
                self.trusted.push(*net);
            }
        }
    }

    /// The paths, with the default.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let default = self.paths.is_empty().then_some("/dns-query");
        default.into_iter().chain(self.paths.iter().map(String::as_str))
    }
}

/// What a server block says of DoQ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicSpec {
    /// The most streams of a connection at a time. 256 if not stated.
    pub max_streams: Option<usize>,
    /// The most streams of the listener at a time. 1024 if not stated.
    pub worker_pool_size: Option<usize>,
    /// The most connections at a time; 0 for no limit. 200 if not stated.
    pub max_connections: Option<usize>,
    /// When clients have to prove their address before a handshake. Under load if not stated.
    pub retry: Option<Retry>,
    /// Whether queries are answered before the handshake is done (0-RTT).
    pub early_data: bool,
}

impl QuicSpec {
    /// Takes over what `other` states and this does not.
    fn merge(&mut self, other: &Self) {
        self.max_streams = self.max_streams.or(other.max_streams);
        self.worker_pool_size = self.worker_pool_size.or(other.worker_pool_size);
        self.max_connections = self.max_connections.or(other.max_connections);
        self.retry = self.retry.or(other.retry);
        self.early_data |= other.early_data;
    }
}

/// When a QUIC client has to prove its address before a handshake (RFC 9000 §8.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    Never,
    /// When many handshakes are under way.
    #[default]
    Load,
    /// Always, unless it has a token of an earlier connection.
    Always,
}

/// What a server block says of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcSpec {
    /// The most streams of a connection at a time; 0 for no limit. 256 if not stated.
    pub max_streams: Option<usize>,
    /// The most connections at a time; 0 for no limit. 200 if not stated.
    pub max_connections: Option<usize>,
}

/// What is done with PROXY headers of those that `allow` does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyPolicy {
    /// The header is believed.
    #[default]
    Use,
    /// The header is taken off and not believed.
    Ignore,
    /// A connection or datagram with a header is dropped.
    Reject,
    /// Nobody looks for a header.
    Skip,
}

/// What a server block says of the PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySpec {
    /// Those whose headers are believed.
    pub allow: Vec<ipnet::IpNet>,
    /// What is done with the headers of all others.
    pub default: ProxyPolicy,
    /// Whether what comes without a header is dropped, wherever one is looked for.
    pub required: bool,
    /// For how long the client of a UDP header holds for what follows without one, and for how many at most.
    pub udp_sessions: Option<(Duration, usize)>,
}

/// How many queries a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// What a server block says of what its clients may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSpec {
    /// The most connections at a time, whatever the transport.
    pub connections: Option<usize>,
    /// The same of one client (an IPv4 address or an IPv6 /64).
    pub connections_per_client: Option<usize>,
    /// How many queries one client may send.
    pub queries_per_client: Option<Rate>,
    /// How long a handshake may take.
    pub handshake: Option<Duration>,
    /// How old a connection may get.
    pub age: Option<Duration>,
}

impl LimitSpec {
    /// Takes over what `other` states and this does not.
    fn merge(&mut self, other: &Self) {
        self.connections = self.connections.or(other.connections);
        self.connections_per_client = self.connections_per_client.or(other.connections_per_client);
        self.queries_per_client = self.queries_per_client.or(other.queries_per_client);
        self.handshake = self.handshake.or(other.handshake);
        self.age = self.age.or(other.age);
    }

    /// How long a handshake may take, with the default.
    pub fn handshake(&self) -> Duration {
        self.handshake.unwrap_or(Duration::from_secs(5))
    }

    /// How old a connection may get, with the default.
    pub fn age(&self) -> Duration {
        self.age.unwrap_or(Duration::from_secs(24 * 3600))
    }
}

/// What a server block says of the listeners of its keys. Where blocks share a listener, timeouts and the PROXY protocol are
/// those of the last block that states them, and all else of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenSpec {
    /// The addresses to bind; empty for all.
    pub bind: Vec<BindAddr>,
    /// Whether `bind` names addresses that are all excluded: the block listens nowhere.
    pub nowhere: bool,
    /// The read timeout, if stated.
    pub read: Option<Duration>,
    /// The write timeout, if stated.
    pub write: Option<Duration>,
    /// The idle timeout, if stated.
    pub idle: Option<Duration>,
    /// The number of sockets for one address (`multisocket`), if stated.
    pub sockets: Option<usize>,
    /// How many queries a TCP connection may bring (`maxtcpqueries`), if stated; 0 is no limit.
    pub max_queries: Option<usize>,
    /// TLS of the blocks, each once, in the order of the Corefile: the first serves clients that send no name.
    pub tls: Vec<Tls>,
    /// DoH.
    pub https: HttpSpec,
    /// DoH over HTTP/3.
    pub https3: HttpSpec,
    /// DoQ.
    pub quic: QuicSpec,
    /// gRPC.
    pub grpc: GrpcSpec,
    /// The PROXY protocol, if it is spoken.
    pub proxy: Option<ProxySpec>,
    /// What clients may take.
    pub limits: LimitSpec,
    /// Whether replies over UDP that find no room are dropped, the oldest first, rather than waited for.
    pub shed: bool,
}

impl ListenSpec {
    /// The timeouts with their defaults.
    pub fn timeouts(&self) -> Timeouts {
        let default = Timeouts::default();
        Timeouts {
            read: self.read.unwrap_or(default.read),
            write: self.write.unwrap_or(default.write),
            idle: self.idle.unwrap_or(default.idle),
        }
    }

    /// Takes over what `later` states.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.read = later.read.or(self.read);
        self.write = later.write.or(self.write);
        self.idle = later.idle.or(self.idle);
        self.sockets = self.sockets.or(later.sockets);
        self.max_queries = later.max_queries.or(self.max_queries);
        for tls in &later.tls {
            if !self.tls.contains(tls) {
                self.tls.push(tls.clone());
            }
        }
        self.https.merge(&later.https);
        self.https3.merge(&later.https3);
        self.quic.merge(&later.quic);
        self.grpc.max_streams = self.grpc.max_streams.or(later.grpc.max_streams);
        self.grpc.max_connections = self.grpc.max_connections.or(later.grpc.max_connections);
        if later.proxy.is_some() {
            self.proxy.clone_from(&later.proxy);
        }
        self.limits.merge(&later.limits);
        self.shed |= later.shed;
    }
}
