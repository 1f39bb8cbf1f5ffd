//! How many streams a connection may have: few to begin with, since each costs memory before it is used, and more for those
//! that use them.

use std::time::{Duration, Instant};

use quinn::{Connection, VarInt};

use super::Terms;

/// How many a connection has next, before it has all: for most it is enough, and what is kept of them stays in the
/// processor's cache.
const MANY: u32 = 108;

/// The streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// How many there may be at a time.
    room: u32,
    /// How many there may ever be.
    most: u32,
    /// Since when they are counted.
    since: Instant,
    /// How many came since.
    count: usize,
}

impl Streams {
    /// Those that a connection begins with.
    pub(crate) fn new(terms: &Terms) -> Self {
        Self { room: terms.few, most: terms.streams, since: Instant::now(), count: 0 }
    }

    /// Counts `more` that came at `now`, beside which `waiting` are open; gives the client room for more if it uses most of
    /// what it has.
    pub(crate) fn take(
        &mut self,
        connection: &Connection,
        now: Instant,
        more: usize,
        waiting: usize,
    ) {
        if self.room < self.most && self.grow(now, connection.rtt(), more, waiting) {
            connection.set_max_concurrent_bi_streams(self.room.into());
        }
    }

    /// Gives the client no room for more.
    pub(crate) fn close(&mut self, connection: &Connection) {
        self.most = self.room;
        connection.set_max_concurrent_bi_streams(VarInt::from_u32(0));
    }

    /// The same as [`Streams::take`]; tells whether there is more room. What comes within a round trip was sent before the
    /// client could see an answer to any of it.
    fn grow(&mut self, now: Instant, rtt: Duration, more: usize, waiting: usize) -> bool {
        if now.saturating_duration_since(self.since) > rtt {
            (self.since, self.count) = (now, 0);
        }
        self.count += more;
        if self.count.max(waiting) < self.room as usize / 4 * 3 {
            return false;
        }
        self.room = if self.room < MANY / 2 { self.most.min(MANY) } else { self.most };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_uses_what_it_has_gets_more() {
        let (begin, rtt) = (Instant::now(), Duration::from_millis(10));
        let mut streams = Streams { room: 27, most: 256, since: begin, count: 0 };
        // So many in a second are not many at a time.
        for at in 0..1000 {
            assert!(!streams.grow(begin + at * Duration::from_millis(1), rtt, 1, 1));
        }
        let now = begin + Duration::from_secs(2);
        assert!(!streams.grow(now, rtt, 17, 0));
        assert!(streams.grow(now + rtt, rtt, 1, 0));
        assert_eq!(streams.room, MANY);
        assert!(!streams.grow(now + 3 * rtt, rtt, 1, 80));
        assert!(streams.grow(now + 3 * rtt, rtt, 1, 81));
        assert_eq!(streams.room, 256);
        let mut streams = Streams { room: 20, most: 60, since: begin, count: 0 };
        assert!(streams.grow(begin, rtt, 15, 0));
        assert_eq!(streams.room, 60);
    }
}
