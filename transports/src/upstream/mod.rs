//! The other direction: servers that this one asks, by UDP and TCP.
//!
//! An [`Upstream`] keeps sockets and connections for each worker, several queries on each, told apart by random ids. UDP
//! sockets are connected, have random ports, and change often; a reply counts only with the id, the opcode and the question
//! of its query (RFC 5452 §9.1), and what does not fit is passed over. TCP connections are kept as long as the other side
//! lets them, and a query that a kept connection loses is sent once more by a new one (RFC 7766 §6.2.4).

mod conn;
mod figures;
mod health;
mod pool;
mod tcp;
mod udp;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use conn::{Broken, Ticket};
use figures::Figures;
use pool::Pool;
use tcp::DialTime;

pub use health::{Check, ask};

/// How many threads have pools of their own; more than that share.
const POOLS: usize = 16;

/// How a query is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// By UDP.
    Udp,
    /// By TCP.
    Tcp,
}

impl Protocol {
    /// `udp` or `tcp`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// How an upstream is dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whose upstream it is, for metrics: `forward`.
    pub proxy: &'static str,
    /// How long a reply is waited for.
    pub read_timeout: Duration,
    /// How long a connection without queries is kept, and a socket in all.
    pub expire: Duration,
    /// How long a connection is kept in all, if that is bounded.
    pub max_age: Option<Duration>,
    /// How many connections may be idle; 0 is no limit.
    pub max_idle: usize,
    /// The local address to ask from.
    pub source: Option<IpAddr>,
    /// After how many failed checks the upstream is down; 0 is never, and no checks.
    pub max_fails: u32,
    /// How it is checked.
    pub check: Check,
}

/// A server that is asked.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    settings: Settings,
    pools: Box<[Mutex<Pool>]>,
    dial: Arc<DialTime>,
    /// Checks failed in a row.
    fails: AtomicU32,
    /// Whether a check is under way.
    checking: AtomicBool,
    figures: Figures,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The connection could not be made.
    Dial(Protocol, SocketAddr, Cause),
    /// The query could not be sent, or no reply will come.
    Io(Place, Cause),
    /// The other side closed the connection.
    Closed(Place),
    /// No reply came in time.
    Timeout(Place),
    /// Only replies with another question came.
    Mismatch(Place),
    /// Too many queries are under way.
    Busy(SocketAddr),
}

/// By what, from where and to where a query went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// By what.
    pub protocol: Protocol,
    /// From where, if that is known.
    pub local: Option<SocketAddr>,
    /// To where.
    pub to: SocketAddr,
}

impl fmt::Display for Place {
    /// Writes `udp 203.0.113.7:40000->198.51.100.1:53`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.protocol.name())?;
        if let Some(local) = self.local {
            write!(f, "{local}")?;
        }
        write!(f, "->{}", self.to)
    }
}

/// Why a socket failed: the kind, and the system's number where the kind has no words (too many open files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    kind: io::ErrorKind,
    number: Option<i32>,
}

impl From<io::ErrorKind> for Cause {
    fn from(kind: io::ErrorKind) -> Self {
        Self { kind, number: None }
    }
}

impl From<&io::Error> for Cause {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), number: error.raw_os_error() }
    }
}

impl fmt::Display for Cause {
    /// Writes the words that people search their logs for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.kind.to_string();
        match (self.kind, self.number) {
            (io::ErrorKind::TimedOut, _) => f.write_str("i/o timeout"),
            (_, Some(number)) if words == "uncategorized error" => {
                io::Error::from_raw_os_error(number).fmt(f)
            }
            _ => f.write_str(&words),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(protocol, to, cause) => {
                write!(f, "dial {} {to}: {cause}", protocol.name())
            }
            Self::Io(place, cause) => write!(f, "read {place}: {cause}"),
            Self::Closed(place) => write!(f, "read {place}: the connection was closed"),
            Self::Timeout(place) => write!(f, "read {place}: i/o timeout"),
            Self::Mismatch(place) => write!(f, "read {place}: the reply is to another question"),
            Self::Busy(to) => write!(f, "too many queries to {to} are under way"),
        }
    }
}

impl std::error::Error for Error {}

/// A reply as it came.
#[derive(Debug)]
pub struct Reply(Ticket);

impl Deref for Reply {
    type Target = [u8];

    /// The message.
    fn deref(&self) -> &[u8] {
        &self.0.reply
    }
}

impl Upstream {
    /// The server at `addr`.
    pub fn new(addr: SocketAddr, settings: Settings) -> Arc<Self> {
        let figures = Figures::new(settings.proxy, addr);
        Arc::new(Self {
            addr,
            settings,
            pools: (0..POOLS).map(|_| Mutex::default()).collect(),
            dial: Arc::new(DialTime::new()),
            fails: AtomicU32::new(0),
            checking: AtomicBool::new(false),
            figures,
        })
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Counts a reply that was understood.
    pub fn replied(&self, rcode: u16, time: Duration) {
        self.figures.replied(rcode, time);
    }

    /// Asks, and waits for the reply; `write` appends the message with the id it is given. To be called in a runtime, by
    /// whose thread the socket is kept.
    ///
    /// # Errors
    /// [`Error`]; a kept connection that turns out to be closed is none, unless a new one is closed as well.
    pub async fn exchange(
        &self,
        protocol: Protocol,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Result<Reply, Error> {
        let first = self.once(protocol, false, write).await;
        match first {
            Err((error, false)) if error.is_stale() => {
                self.once(protocol, true, write).await.map_err(|(error, _)| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }

    /// Asks once; an error comes with whether the connection was a new one.
    async fn once(
        &self,
        protocol: Protocol,
        fresh: bool,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Result<Reply, (Error, bool)> {
        let begun = {
            let pool = &self.pools[pool::worker() % POOLS];
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            pool.begin(self, protocol, fresh, write)
        };
        let (mut ticket, fresh) = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => return Err((Error::Busy(self.addr), true)),
            Err(error) => {
                return Err((Error::Dial(protocol, self.addr, Cause::from(&error)), true));
            }
        };
        self.figures.connected(protocol, fresh);
        if let Err(error) = ticket.send().await {
            ticket.conn.retire();
            return Err((Error::Io(self.place(protocol, &ticket), Cause::from(&error)), fresh));
        }
        let dial = if ticket.connected { Duration::ZERO } else { self.dial.limit() };
        match timeout(dial + self.settings.read_timeout, ticket.wait()).await {
            Ok(Ok(())) => Ok(Reply(ticket)),
            Ok(Err(broken)) => Err((self.broken(broken, protocol, &ticket), fresh)),
            Err(_) if ticket.strayed() => {
                Err((Error::Mismatch(self.place(protocol, &ticket)), fresh))
            }
            Err(_) => Err((Error::Timeout(self.place(protocol, &ticket)), fresh)),
        }
    }

    /// Where a query went.
    fn place(&self, protocol: Protocol, ticket: &Ticket) -> Place {
        Place { protocol, local: ticket.conn.local(), to: self.addr }
    }

    /// What a broken connection means.
    fn broken(&self, broken: Broken, protocol: Protocol, ticket: &Ticket) -> Error {
        let place = self.place(protocol, ticket);
        match broken {
            Broken::DialTimeout => Error::Dial(protocol, self.addr, io::ErrorKind::TimedOut.into()),
            Broken::Io(cause) if place.local.is_none() => Error::Dial(protocol, self.addr, cause),
            Broken::Io(cause) => Error::Io(place, cause),
            Broken::Closed => Error::Closed(place),
        }
    }
}

impl Error {
    /// Whether a kept connection may have been the reason.
    fn is_stale(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Io(..))
    }
}
