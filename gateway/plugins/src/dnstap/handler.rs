//! Notes messages: those of clients, and those of upstreams.

use std::sync::Arc;

use engine::{End, Exchange, Hop, Metadata, Observer};

use super::feed::Feed;
use super::message::{Kind, Note};
use crate::shared::clock;
use crate::shared::replacer::{Filled, Format};

/// One directive of a block.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    pub(super) feed: Arc<Feed>,
    /// What is added to each message.
    pub(super) extra: Option<Format>,
    pub(super) metadata: Metadata,
}

impl Tap {
    /// Notes a message of the client's.
    fn client(&self, x: &Exchange, kind: Kind, octets: &[u8], end: Option<End>) {
        self.feed.offer(|| Note {
            kind,
            transport: x.query.transport,
            asker: Some(x.query.peer),
            asked: None,
            query_time: clock::world(x.now()),
            response_time: end.map(|_| clock::world(x.now() + x.elapsed())),
            octets: self.feed.full.then(|| octets.into()),
            extra: self.extra(|format| match end {
                Some(end) => format.of(x, end, &self.metadata),
                None => format.before(x, &self.metadata),
            }),
        });
    }

    /// What is added to a message.
    fn extra<'a>(&'a self, fill: impl FnOnce(&'a Format) -> Filled<'a>) -> Option<Box<str>> {
        self.extra.as_ref().map(|format| fill(format).to_string().into())
    }
}

impl Observer for Tap {
    fn received(&self, x: &Exchange) {
        if self.feed.is_heard() {
            self.client(x, Kind::ClientQuery, &x.query.wire, None);
        }
    }

    fn sent(&self, x: &Exchange, end: End, wire: &[u8]) {
        // What got no reply has a query only.
        if !wire.is_empty() && self.feed.is_heard() {
            self.client(x, Kind::ClientResponse, wire, Some(end));
        }
    }
}

impl engine::Tap for Tap {
    fn tried(&self, x: &Exchange, hop: &Hop<'_>) {
        if !self.feed.is_heard() {
            return;
        }
        let note = |kind, octets, response_time| Note {
            kind,
            transport: hop.transport,
            asker: hop.local,
            asked: Some(hop.upstream),
            query_time: clock::world(hop.begun),
            response_time,
            octets,
            extra: self.extra(|format| format.before(x, &self.metadata)),
        };
        let full = self.feed.full;
        self.feed.offer(|| {
            let query = full.then(|| {
                let mut query = Vec::with_capacity(512);
                (hop.query)(&mut query);
                query.into()
            });
            note(Kind::ForwarderQuery, query, None)
        });
        if let Some(reply) = hop.reply {
            self.feed.offer(|| {
                let time = Some(clock::world(hop.ended));
                note(Kind::ForwarderResponse, full.then(|| reply.into()), time)
            });
        }
    }
}
