//! What a server block says of its listeners.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
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

/// What a server block says of the listeners of its keys. Where blocks share a listener, its values are those of the last
/// block that states them.
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
    }
}
