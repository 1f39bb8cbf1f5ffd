//! The PROXY protocol (haproxy's specification, versions 1 and 2): whom a proxy speaks for, on streams and in datagrams.

mod header;
mod sessions;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use engine::{ProxyPolicy, ProxySpec};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::accept::Ends;
use header::{Found, Head, MOST};
pub(crate) use sessions::Sessions;

/// How long the header may take.
const TIME: Duration = Duration::from_secs(10);

/// What a stream begins with.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The ends of the connection, as far as the header is believed.
    pub(crate) ends: Ends,
    /// What was read behind the header.
    pub(crate) ahead: Box<[u8]>,
}

/// What a datagram says beside its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwrapped<'a> {
    /// Who asks, and which address; none if it is what the socket says.
    pub(crate) ends: Option<Ends>,
    /// The query; empty if the datagram is a header alone.
    pub(crate) payload: &'a [u8],
}

/// What is done with the headers of `peer`.
fn policy(spec: &ProxySpec, peer: IpAddr) -> ProxyPolicy {
    match spec.allow.iter().any(|net| net.contains(&peer)) {
        true => ProxyPolicy::Use,
        false => spec.default,
    }
}

/// Whether the headers of `peer` are believed.
pub(crate) fn is_believed(spec: &ProxySpec, peer: IpAddr) -> bool {
    policy(spec, peer) == ProxyPolicy::Use
}

impl Ends {
    /// The same, with the proxy's port where the client's is not told: nobody asks from port 0, and what does gets no answer.
    fn from(mut self, proxy: SocketAddr) -> Self {
        if self.peer.port() == 0 {
            self.peer.set_port(proxy.port());
        }
        self
    }
}

/// Reads the header of a stream, if there is one to be.
///
/// # Errors
/// If it is wrong, does not come in time, is missing where it is required, or is there and may not be.
pub(crate) async fn stream(
    spec: &ProxySpec,
    stream: &mut TcpStream,
    ends: Ends,
) -> io::Result<Begun> {
    let policy = policy(spec, ends.peer.ip());
    if policy == ProxyPolicy::Skip {
        return Ok(Begun { ends, ahead: Box::default() });
    }
    let read = async {
        let mut bytes = Vec::with_capacity(MOST);
        loop {
            match header::stream(&bytes) {
                Head::More if stream.read_buf(&mut bytes).await? == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Head::More => {}
                Head::None => return Ok((None, bytes)),
                Head::Found(found) => return Ok((Some(found), bytes)),
                Head::Bad(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        }
    };
    let (found, bytes) = timeout(TIME, read).await??;
    let denied = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match found {
        None if spec.required => denied("there is no PROXY header"),
        None => Ok(Begun { ends, ahead: bytes.into() }),
        Some(_) if policy == ProxyPolicy::Reject => {
            denied("a PROXY header, of one who may send none")
        }
        Some(Found { len, ends: told, .. }) => Ok(Begun {
            ends: told
                .filter(|_| policy == ProxyPolicy::Use)
                .map_or(ends, |told| told.from(ends.peer)),
            ahead: bytes.get(len..).unwrap_or_default().into(),
        }),
    }
}

/// Takes the header off a datagram that came from `peer` at `now`; `sessions` knows the clients of those before.
///
/// # Errors
/// Why the datagram is to be dropped.
pub(crate) fn datagram<'a>(
    spec: &ProxySpec,
    sessions: Option<&Sessions>,
    peer: SocketAddr,
    bytes: &'a [u8],
    now: Instant,
) -> Result<Unwrapped<'a>, &'static str> {
    let policy = policy(spec, peer.ip());
    if policy == ProxyPolicy::Skip {
        return Ok(Unwrapped { ends: None, payload: bytes });
    }
    let sessions = sessions.filter(|_| policy == ProxyPolicy::Use);
    match header::datagram(bytes) {
        Head::None | Head::More => {
            let ends = sessions.and_then(|sessions| sessions.find(peer, now));
            match ends {
                None if spec.required => Err("there is no PROXY header"),
                ends => Ok(Unwrapped { ends, payload: bytes }),
            }
        }
        Head::Bad(why) => Err(why),
        Head::Found(_) if policy == ProxyPolicy::Reject => {
            Err("a PROXY header, of one who may send none")
        }
        Head::Found(found) => {
            let ends = found.ends.filter(|_| policy == ProxyPolicy::Use);
            let ends = ends.map(|ends| ends.from(peer));
            if let (Some(sessions), Some(ends)) = (sessions, ends) {
                sessions.note(peer, ends, now);
            }
            Ok(Unwrapped { ends, payload: bytes.get(found.len..).unwrap_or_default() })
        }
    }
}

#[cfg(test)]
mod tests;
