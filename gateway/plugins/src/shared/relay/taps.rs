//! What upstreams are asked, shown to those who look on.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use engine::{Exchange, Hop, Role, Roles, Transport};
use transports::upstream::{self, Protocol, Reply, Upstream};

use super::message::Outgoing;

/// The block's taps.
#[derive(Debug)]
pub(crate) struct Taps(Roles);

impl Taps {
    /// Those among the block's roles.
    pub(crate) fn new(roles: Roles) -> Self {
        Self(roles)
    }

    /// Whether there are any.
    fn any(&self) -> bool {
        self.0.iter().any(|(_, role)| matches!(role, Role::Tap(_)))
    }

    /// Sends a query, and shows how that went; the reply comes with the room that it had.
    pub(crate) async fn send(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        protocol: Protocol,
    ) -> Result<(Reply, usize), upstream::Error> {
        let begun = now();
        x.begin_passage("connect", Some(upstream.addr()));
        let sent_as = AtomicU16::new(0);
        let (sent, room) = {
            let outgoing = Outgoing::of(x, protocol);
            let write = |id: u16, out: &mut Vec<u8>| {
                sent_as.store(id, Ordering::Relaxed);
                outgoing.write(id, out);
            };
            (upstream.exchange(protocol, &write).await, outgoing.room())
        };
        x.end_passage();
        if self.any() {
            let personal = x.is_personal();
            let id = sent_as.load(Ordering::Relaxed);
            self.show(x, (protocol, upstream.addr()), (begun, id), &sent);
            // As with all that is written down of a query: it does not change who may have its answer.
            x.set_personal(personal);
        }
        Ok((sent?, room))
    }

    /// Shows a try.
    fn show(
        &self,
        x: &Exchange,
        (protocol, addr): (Protocol, SocketAddr),
        (begun, id): (Instant, u16),
        sent: &Result<Reply, upstream::Error>,
    ) {
        let hop = Hop {
            transport: transport(protocol),
            local: match sent {
                Ok(reply) => reply.local(),
                Err(error) => error.local(),
            },
            upstream: addr,
            begun,
            ended: now(),
            query: &|out| Outgoing::of(x, protocol).write(id, out),
            reply: sent.as_deref().ok(),
        };
        for (_, role) in self.0.iter() {
            if let Role::Tap(tap) = role {
                tap.tried(x, &hop);
            }
        }
    }
}

/// The exchange's clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The transport that a protocol is.
fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Udp => Transport::Udp,
        Protocol::Tcp => Transport::Tcp,
        Protocol::Tls => Transport::Tls,
        Protocol::Https => Transport::Https,
        Protocol::Https3 => Transport::Https3,
        Protocol::Quic => Transport::Quic,
    }
}
