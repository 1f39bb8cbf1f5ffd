//! The other direction: servers that this one asks, by UDP, TCP and TLS.
//!
//! An [`Upstream`] keeps sockets and connections for each worker, several queries on each, told apart by random ids. UDP
//! sockets are connected, have random ports, and change often; a reply counts only with the id, the opcode and the question
//! of its query (RFC 5452 §9.1), and what does not fit is passed over. TCP connections are kept as long as the other side
//! lets them, and a query that a kept connection loses is sent once more by a new one (RFC 7766 §6.2.4).

mod conn;
mod error;
mod figures;
mod health;
mod pool;
mod tcp;
mod tls;
mod udp;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use conn::{Broken, Ticket};
use figures::Figures;
use pool::Pool;
use tcp::{DialTime, Life, Road};
use tls::Tls;

pub use error::{Cause, Error, Place};
pub use health::{Check, ask};
pub use tls::Identity;

/// How many threads have pools of their own; more than that share.
const POOLS: usize = 16;

/// How a query is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// By UDP.
    Udp,
    /// By TCP.
    Tcp,
    /// By TLS (RFC 7858).
    Tls,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Tls];

    /// Whether nobody on the way can read what is asked.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }

    /// `udp`, `tcp` or `tcp-tls`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
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

impl Settings {
    /// How long connections live.
    fn life(&self) -> Life {
        Life { idle: self.expire, most: self.max_age, write: self.read_timeout }
    }
}

/// How an upstream is spoken to.
#[derive(Clone, Debug)]
pub enum Speech {
    /// By UDP and TCP, as the query says.
    Plain,
    /// By TLS.
    Tls(Identity),
}

/// The same, ready.
#[derive(Debug)]
enum Ready {
    Plain,
    Tls(Tls),
}

/// A server that is asked.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    ready: Ready,
    settings: Settings,
    pools: Box<[Mutex<Pool>]>,
    dial: Arc<DialTime>,
    /// Checks failed in a row.
    fails: AtomicU32,
    /// Whether a check is under way.
    checking: AtomicBool,
    figures: Figures,
}

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
    pub fn new(addr: SocketAddr, speech: &Speech, settings: Settings) -> Arc<Self> {
        let figures = Figures::new(settings.proxy, addr);
        let ready = match speech {
            Speech::Plain => Ready::Plain,
            Speech::Tls(identity) => Ready::Tls(identity.speaking(&[b"dot"])),
        };
        Arc::new(Self {
            addr,
            ready,
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

    /// The protocol by which it is asked whatever a query says, if it is an encrypted one.
    pub fn secure(&self) -> Option<Protocol> {
        match &self.ready {
            Ready::Plain => None,
            Ready::Tls(_) => Some(Protocol::Tls),
        }
    }

    /// The way to it for a stream.
    fn road(&self) -> Road {
        let tls = match &self.ready {
            Ready::Plain => None,
            Ready::Tls(tls) => Some(tls.clone()),
        };
        Road { addr: self.addr, source: self.settings.source, tls }
    }

    /// Counts a reply that was understood.
    pub fn replied(&self, rcode: u16, time: Duration) {
        self.figures.replied(rcode, time);
    }

    /// Asks, and waits for the reply; `write` appends the message with the id it is given. An encrypted upstream is asked by
    /// its own protocol. To be called in a runtime, by whose thread the socket is kept.
    ///
    /// # Errors
    /// [`Error`]; a kept connection that turns out to be closed is none, unless a new one is closed as well.
    pub async fn exchange(
        &self,
        protocol: Protocol,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Result<Reply, Error> {
        let protocol = self.secure().unwrap_or(protocol);
        let begun = Instant::now();
        match self.once(protocol, Turn::First, write).await {
            Err(Failed { stale: true, .. }) => {
                self.once(protocol, Turn::Again(begun), write).await.map_err(|failed| failed.error)
            }
            other => other.map_err(|failed| failed.error),
        }
    }

    /// Asks once.
    async fn once(
        &self,
        protocol: Protocol,
        turn: Turn,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Result<Reply, Failed> {
        let begun = {
            let pool = &self.pools[pool::worker() % POOLS];
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            pool.begin(self, protocol, turn.since(), write)
        };
        let (mut ticket, fresh) = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => return Err(Error::Busy(self.addr).into()),
            Err(error) => {
                return Err(Error::Dial(protocol, self.addr, Cause::from(&error)).into());
            }
        };
        if !matches!(turn, Turn::Check(_)) {
            self.figures.connected(protocol, fresh);
        }
        if let Err(error) = ticket.send().await {
            ticket.conn.retire();
            let error = Error::Io(self.place(protocol, &ticket), Cause::from(&error));
            return Err(Failed { error, stale: !fresh });
        }
        let dial = if ticket.connected { Duration::ZERO } else { self.dial.limit() };
        match timeout(dial + self.settings.read_timeout, ticket.wait()).await {
            Ok(Ok(())) => Ok(Reply(ticket)),
            Ok(Err(broken)) => {
                let error = self.broken(broken, protocol, &ticket);
                let stale = !fresh && error.is_stale(ticket.connected);
                Err(Failed { error, stale })
            }
            Err(_) if ticket.strayed() => {
                Err(Error::Mismatch(self.place(protocol, &ticket)).into())
            }
            Err(_) => {
                // The other side may be gone without a word: nobody else is to wait for it.
                if protocol != Protocol::Udp && ticket.heard_nothing() {
                    ticket.conn.retire();
                }
                Err(Error::Timeout(self.place(protocol, &ticket)).into())
            }
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
            Broken::Tls(why) => Error::Tls(protocol, self.addr, why),
            Broken::Io(cause) if place.local.is_none() => Error::Dial(protocol, self.addr, cause),
            Broken::Io(cause) => Error::Io(place, cause),
            Broken::Closed => Error::Closed(place),
        }
    }
}

/// Why a query is sent.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// It is new.
    First,
    /// A kept connection has lost it; it was new then.
    Again(Instant),
    /// It is a check, begun then.
    Check(Instant),
}

impl Turn {
    /// After when its connection has to be made.
    fn since(self) -> Option<Instant> {
        match self {
            Self::First => None,
            Self::Again(since) | Self::Check(since) => Some(since),
        }
    }
}

/// A query that failed.
struct Failed {
    error: Error,
    /// Whether a kept connection may have been the reason.
    stale: bool,
}

impl From<Error> for Failed {
    /// One for which no connection is to blame.
    fn from(error: Error) -> Self {
        Self { error, stale: false }
    }
}
