//! Exchanges of a worker, for whichever of its connections has a query: idle connections keep none.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{Exchange, ListenerId, Session, Transport};

/// How many are kept.
const MOST: usize = 64;

thread_local! {
    /// Those that nobody uses.
    #[expect(clippy::vec_box, reason = "exchanges are made in boxes, and moved into futures")]
    static SPARE: RefCell<Vec<Box<Exchange>>> = const { RefCell::new(Vec::new()) };
}

/// What all queries of a connection have in common.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) listener: ListenerId,
    pub(crate) transport: Transport,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) session: Arc<Session>,
}

/// An exchange for a query; its message is empty.
pub(crate) fn lend(about: &About) -> Box<Exchange> {
    let spare = SPARE.with_borrow_mut(Vec::pop);
    let mut x =
        spare.unwrap_or_else(|| Exchange::new(about.listener, about.transport, about.local));
    let query = &mut x.query;
    query.wire.clear();
    query.listener = about.listener;
    query.transport = about.transport;
    query.peer = about.peer;
    query.local = about.local;
    query.session = Some(Arc::clone(&about.session));
    x
}

/// Takes an exchange back when its query is answered.
pub(crate) fn give_back(mut x: Box<Exchange>) {
    x.query.session = None;
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST {
            spare.push(x);
        }
    });
}
