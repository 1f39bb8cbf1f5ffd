//! Queries that are streams of their own.

use std::fmt;

use tokio::time::timeout;

use super::conn::{Broken, is_reply};
use super::error::{Error, Place};
use super::https::{self, Form, bad};
use super::session::{Channel, Link};
use super::{Failed, Protocol, Reply, Turn, Upstream, https3, quic};

/// The way of such queries to an upstream.
pub(super) struct Lane {
    pub(super) protocol: Protocol,
    pub(super) channel: Channel,
    /// Their requests, if they are HTTP's.
    pub(super) form: Option<Form>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl Lane {
    /// Asks on a connection that stands.
    async fn ask(&self, link: Link, query: &[u8]) -> Result<Vec<u8>, Broken> {
        match (link, &self.form) {
            (Link::Http2(link), Some(form)) => https::ask(link, form, query).await,
            (Link::Http3(link), Some(form)) => https3::ask(link, form, query).await,
            (Link::Quic(connection), _) => quic::ask(&connection, query).await,
            (Link::Http2(_) | Link::Http3(_), None) => Err(Broken::Closed),
        }
    }
}

impl Upstream {
    /// Asks once, by a stream.
    pub(super) async fn once_by_stream(
        &self,
        lane: &Lane,
        turn: Turn,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Result<Reply, Failed> {
        let protocol = lane.protocol;
        let Some((seat, fresh)) = lane.channel.seat(turn.since()) else {
            return Err(Error::Busy(self.addr).into());
        };
        if !matches!(turn, Turn::Check(_)) {
            self.figures.connected(protocol, fresh);
        }
        let mut query = Vec::with_capacity(512);
        // The same questions are to be the same octets (RFC 8484 §4.1), and RFC 9250 §4.2.1 demands it.
        write(0, &mut query);
        let stood = seat.is_open();
        let failed = |broken: Broken, local| {
            let error = self.error(broken, Place { protocol, local, to: self.addr });
            let stale = !fresh && error.is_stale(stood);
            Failed { error, stale }
        };
        let (link, local) = match timeout(self.dial_patience(turn), seat.opened()).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(broken)) => return Err(failed(broken, None)),
            Err(_) => {
                // The next check is to begin anew.
                if matches!(turn, Turn::Check(_)) {
                    seat.session.retire();
                }
                return Err(failed(Broken::DialTimeout, None));
            }
        };
        match timeout(self.patience(turn), lane.ask(link, &query)).await {
            Ok(Ok(message)) => {
                seat.hear();
                let place = Place { protocol, local, to: self.addr };
                let (Some(id), Some(own)) = (message.get(..12), query.get(..2)) else {
                    return Err(failed(bad("the reply is no message"), local));
                };
                if id[..2] != *own || !is_reply(&query, &message) {
                    return Err(Error::Mismatch(place).into());
                }
                Ok(Reply::of(message, local))
            }
            Ok(Err(broken)) => {
                // Whatever else comes by it would be as late.
                if !matches!(broken, Broken::Bad(_)) {
                    seat.session.retire();
                }
                Err(failed(broken, local))
            }
            Err(_) => {
                // The other side may be gone without a word: nobody else is to wait for it.
                if seat.heard_nothing() {
                    seat.session.retire();
                }
                Err(Error::Timeout(Place { protocol, local, to: self.addr }).into())
            }
        }
    }

    /// What a broken connection means for a query that went by `place`.
    pub(super) fn error(&self, broken: Broken, place: Place) -> Error {
        let Place { protocol, local, .. } = place;
        match broken {
            Broken::DialTimeout => {
                Error::Dial(protocol, self.addr, std::io::ErrorKind::TimedOut.into())
            }
            Broken::Tls(why) => Error::Tls(protocol, self.addr, why),
            Broken::Strays => Error::Strays(place),
            Broken::Bad(why) => Error::Bad(place, why),
            Broken::Io(cause) if local.is_none() => Error::Dial(protocol, self.addr, cause),
            Broken::Io(cause) => Error::Io(place, cause),
            Broken::Closed => Error::Closed(place),
        }
    }
}
