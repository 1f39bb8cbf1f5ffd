//! The other direction: servers that this one asks, by UDP, TCP, TLS, HTTPS and QUIC.
//!
//! An [`Upstream`] keeps sockets and connections for each worker, several queries on each, told apart by random ids. UDP
//! sockets are connected, have random ports, and change often; a reply counts only with the id, the opcode and the question
//! of its query (RFC 5452 §9.1), and what does not fit is passed over. TCP connections are kept as long as the other side
//! lets them, and a query that a kept connection loses is sent once more by a new one (RFC 7766 §6.2.4).

mod bounded;
mod conn;
mod error;
mod figures;
mod grpc;
mod health;
mod https;
mod https3;
mod line;
mod pool;
mod quic;
mod session;
mod streams;
mod tcp;
mod tls;
mod udp;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use conn::{Broken, Ticket};
use figures::Figures;
use https::{Form, Http2};
use https3::Http3;
use pool::Pool;
use quic::Quic;
use session::Channel;
use streams::Lane;
use tcp::{DialTime, Life, Road};
use tls::Tls;

pub use error::{Cause, Error, Place};
pub use grpc::{CallError, Called, Grpc, Spot};
pub use health::{Check, ask};
pub use https::Verb;
pub use line::{Line, Way};
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
    /// By HTTP/2 (RFC 8484).
    Https,
    /// By HTTP/3.
    Https3,
    /// By QUIC (RFC 9250).
    Quic,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Https3, Self::Quic];

    /// Whether nobody on the way can read what is asked.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }

    /// `udp`, `tcp`, `tcp-tls`, `https`, `https3` or `quic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
            Self::Https => "https",
            Self::Https3 => "https3",
            Self::Quic => "quic",
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
    /// By HTTP/2.
    Https(Identity, Verb),
    /// By HTTP/3.
    Https3(Identity, Verb),
    /// By QUIC.
    Quic(Identity),
}

/// The same, ready.
#[derive(Debug)]
enum Ready {
    /// By UDP and TCP.
    Plain,
    /// By TLS.
    Tls(Tls),
    /// By streams.
    Streams(Lane),
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
pub struct Reply(Body);

/// Where it is.
#[derive(Debug)]
enum Body {
    /// In memory that its connection uses again.
    Kept(Ticket),
    /// In memory of its own, with the local address of its connection.
    Own(Vec<u8>, Option<SocketAddr>),
}

impl Reply {
    /// A message that came to a local address.
    fn of(message: Vec<u8>, local: Option<SocketAddr>) -> Self {
        Self(Body::Own(message, local))
    }

    /// The local address that it came to, if that is known.
    pub fn local(&self) -> Option<SocketAddr> {
        match &self.0 {
            Body::Kept(ticket) => ticket.conn.local(),
            Body::Own(_, local) => *local,
        }
    }
}

impl Deref for Reply {
    type Target = [u8];

    /// The message.
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Body::Kept(ticket) => &ticket.reply,
            Body::Own(message, _) => message,
        }
    }
}

impl Upstream {
    /// The server at `addr`.
    pub fn new(addr: SocketAddr, speech: &Speech, settings: Settings) -> Arc<Self> {
        let figures = Figures::new(settings.proxy, addr);
        let dial = Arc::new(DialTime::new());
        let ready = Ready::new(addr, speech, &settings, &dial);
        Arc::new(Self {
            addr,
            ready,
            settings,
            pools: (0..POOLS).map(|_| Mutex::default()).collect(),
            dial,
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
            Ready::Streams(lane) => Some(lane.protocol),
        }
    }

    /// The way to it for a stream.
    fn road(&self) -> Road {
        let tls = match &self.ready {
            Ready::Tls(tls) => Some(tls.clone()),
            Ready::Plain | Ready::Streams(_) => None,
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
        if let Ready::Streams(lane) = &self.ready {
            // A box keeps what is waited for small for the others.
            return Box::pin(self.once_by_stream(lane, turn, write)).await;
        }
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
        if !ticket.connected && timeout(self.dial_patience(turn), ticket.opened()).await.is_err() {
            // The next check is to begin anew.
            if matches!(turn, Turn::Check(_)) {
                ticket.conn.retire();
            }
            return Err(self.error(Broken::DialTimeout, self.place(protocol, &ticket)).into());
        }
        match timeout(self.patience(turn), ticket.wait()).await {
            Ok(Ok(())) => {
                if let Some(others) = self.settings.max_idle.checked_sub(1) {
                    // The one that has replied is idle as soon as the reply has been read.
                    let pool = &self.pools[pool::worker() % POOLS];
                    pool.lock().unwrap_or_else(PoisonError::into_inner).trim(protocol, others);
                }
                Ok(Reply(Body::Kept(ticket)))
            }
            Ok(Err(broken)) => {
                let error = self.error(broken, self.place(protocol, &ticket));
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

    /// How long a query waits for its reply.
    fn patience(&self, turn: Turn) -> Duration {
        match turn {
            Turn::Check(_) => health::PATIENCE,
            Turn::First | Turn::Again(_) => self.settings.read_timeout,
        }
    }

    /// How long a query waits for a connection: no longer than for a reply, for there may be another upstream. The connection
    /// may take longer, and is good for the next.
    fn dial_patience(&self, turn: Turn) -> Duration {
        self.dial.limit().min(self.patience(turn))
    }
}

impl Ready {
    /// Makes it.
    fn new(addr: SocketAddr, speech: &Speech, settings: &Settings, dial: &Arc<DialTime>) -> Self {
        let source = settings.source;
        let lane = |protocol, channel, form| Self::Streams(Lane { protocol, channel, form });
        let form = |identity: &Identity, verb| Some(Form::new(verb, addr, identity.domain()));
        let (life, max_idle) = (settings.life(), settings.max_idle);
        match speech {
            Speech::Plain => Self::Plain,
            Speech::Tls(identity) => Self::Tls(identity.speaking(&[b"dot"])),
            Speech::Https(identity, verb) => {
                let road = Road { addr, source, tls: Some(identity.speaking(&[b"h2"])) };
                let channel = Channel::new(Http2(road), Arc::clone(dial), life, max_idle);
                lane(Protocol::Https, channel, form(identity, *verb))
            }
            Speech::Https3(identity, verb) => {
                // RFC 9114 §6.2: three streams that the server needs, and some that it may open.
                let road = quic::Road::new(addr, source, &identity.speaking(&[b"h3"]), 8);
                let channel = Channel::new(Http3(road), Arc::clone(dial), life, max_idle);
                lane(Protocol::Https3, channel, form(identity, *verb))
            }
            Speech::Quic(identity) => {
                let road = quic::Road::new(addr, source, &identity.speaking(&[b"doq"]), 0);
                let channel = Channel::new(Quic(road), Arc::clone(dial), life, max_idle);
                lane(Protocol::Quic, channel, None)
            }
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
    /// It is one of the checks that began then.
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
