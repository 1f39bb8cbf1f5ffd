//! Why an upstream gives no reply, in words that operators search their logs for.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Protocol;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The connection could not be made.
    Dial(Protocol, SocketAddr, Cause),
    /// Its TLS failed: the certificate, or what the other side says; the words say which.
    Tls(Protocol, SocketAddr, Arc<str>),
    /// What came is no reply, and why.
    Bad(Place, Arc<str>),
    /// The query could not be sent, or no reply will come.
    Io(Place, Cause),
    /// The other side closed the connection.
    Closed(Place),
    /// No reply came in time.
    Timeout(Place),
    /// Only replies with another question came.
    Mismatch(Place),
    /// Many messages came that reply to nothing: somebody may be guessing ids.
    Strays(Place),
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
            Self::Tls(protocol, to, why) => write!(f, "dial {} {to}: tls: {why}", protocol.name()),
            Self::Bad(place, why) => write!(f, "read {place}: {why}"),
            Self::Io(place, cause) => write!(f, "read {place}: {cause}"),
            Self::Closed(place) => write!(f, "read {place}: the connection was closed"),
            Self::Timeout(place) => write!(f, "read {place}: i/o timeout"),
            Self::Mismatch(place) => write!(f, "read {place}: the reply is to another question"),
            Self::Strays(place) => write!(f, "read {place}: too many replies to other questions"),
            Self::Busy(to) => write!(f, "too many queries to {to} are under way"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The local address that the query was sent from, if that is known.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Bad(place, _)
            | Self::Io(place, _)
            | Self::Closed(place)
            | Self::Timeout(place)
            | Self::Mismatch(place)
            | Self::Strays(place) => place.local,
            Self::Dial(..) | Self::Tls(..) | Self::Busy(_) => None,
        }
    }

    /// Whether a kept connection may have been the reason, one that stood when the query began if it is `connected`.
    pub(super) fn is_stale(&self, connected: bool) -> bool {
        matches!(self, Self::Closed(_) | Self::Io(..)) || connected && matches!(self, Self::Tls(..))
    }
}
