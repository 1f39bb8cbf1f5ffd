//! What the connections of a thread lend one another, so that one that is idle holds nothing.

use std::cell::RefCell;

use engine::{Exchange, Transport};

use crate::desk::Desk;
use crate::tcp::About;

/// How many of a kind a thread keeps.
const KEPT: usize = 16;

/// What an exchange keeps room for of its last query, in octets.
const QUERY: usize = 2048;

/// What a buffer has room for: the rest of the longest message, and what is read at once behind it, in octets.
pub(crate) const BUFFER: usize = (64 << 10) + (16 << 10);

thread_local! {
    /// Empty buffers.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    /// Exchanges that nobody is using.
    static EXCHANGES: RefCell<Exchanges> = const { RefCell::new(Vec::new()) };
    /// The same with room for what HTTP says of a query.
    static WEB: RefCell<Exchanges> = const { RefCell::new(Vec::new()) };
}

/// Exchanges to be handed out again.
type Exchanges = Vec<Box<Exchange>>;

/// An empty buffer with room for [`BUFFER`] octets.
pub(crate) fn buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER))
}

/// Gives a buffer back. One that has grown is let go, and so is one that has nothing to give.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    if !(BUFFER..=2 * BUFFER).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    BUFFERS.with_borrow_mut(|all| {
        if all.len() < KEPT {
            all.push(buffer);
        }
    });
}

/// An exchange for a query of a connection.
pub(crate) fn exchange(desk: &Desk, about: &About) -> Box<Exchange> {
    let kept = match about.transport {
        Transport::Https | Transport::Https3 => &WEB,
        _ => &EXCHANGES,
    };
    let mut x = kept
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| Exchange::new(desk.id, about.transport, about.local));
    x.query.listener = desk.id;
    x.query.transport = about.transport;
    x.query.local = about.local;
    x.query.peer = about.peer;
    x.query.session.clone_from(&about.session);
    // TCP and TLS say it with each query.
    x.query.keepalive = None;
    x
}

/// Gives an exchange back, without what it knows of its connection.
pub(crate) fn give_exchange(mut x: Box<Exchange>) {
    x.query.session = None;
    // The room of a long query is not for the next one, which may wait with it.
    x.query.wire.clear();
    x.query.wire.shrink_to(QUERY);
    let kept = match &mut x.query.http {
        Some(http) => {
            http.clear();
            &WEB
        }
        None => &EXCHANGES,
    };
    kept.with_borrow_mut(|all| {
        if all.len() < KEPT {
            all.push(x);
        }
    });
}
