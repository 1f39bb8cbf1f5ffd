//! A socket or connection to an upstream, and the queries under way on it.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use engine::metrics::Counter;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::Name;

use super::Cause;

/// How many queries may be under way on one socket or connection.
pub(super) const MAX_PENDING: usize = 128;

/// After how many queries a socket or connection takes no more: ports are to change (RFC 5452 §9.2).
const MAX_USES: u64 = 1024;

/// How many messages that reply to nothing a query bears on its socket: somebody may be guessing (RFC 5452 §9.3).
const MAX_STRAYS: u8 = 8;

/// Why no reply will come on a connection any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It could not be made in time.
    DialTimeout,
    /// Its TLS failed, and why.
    Tls(Arc<str>),
    /// So many messages came that reply to nothing that nothing can be believed.
    Strays,
    /// The other side says what is no reply, and what.
    Bad(Arc<str>),
    /// The other side closed it.
    Closed,
    /// The system says so.
    Io(Cause),
}

/// A socket or connection to one upstream, shared by the queries of one worker.
#[derive(Debug)]
pub(super) struct Conn {
    /// Its UDP socket; a stream of TCP or TLS belongs to the connection's task instead.
    pub(super) socket: Option<UdpSocket>,
    /// When it was made.
    pub(super) made: Instant,
    /// Wakes its task: there is something to write, or it may be over.
    pub(super) wake: Notify,
    inner: Mutex<Inner>,
    /// Queries begun here.
    uses: AtomicU64,
    /// Counts messages that reply to nothing.
    strays: Counter,
}

/// What the queries and the task of a connection share.
#[derive(Debug, Default)]
struct Inner {
    slots: Vec<Slot>,
    pending: usize,
    /// Whether it takes no more queries.
    retired: bool,
    /// Whether queries can be sent; a TCP connection is made first.
    connected: bool,
    broken: Option<Broken>,
    /// Messages that came.
    heard: u64,
    /// The local address.
    local: Option<SocketAddr>,
    /// Framed queries that the task has to write.
    out: Vec<u8>,
}

/// Room for one query; its memory is used again.
#[derive(Debug, Default)]
struct Slot {
    id: u16,
    state: State,
    /// Whether a reply with the right id and a wrong question came.
    strayed: bool,
    /// How many messages came meanwhile that reply to nothing.
    strays: u8,
    waker: Option<Waker>,
    query: Vec<u8>,
    reply: Vec<u8>,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// There is none.
    #[default]
    Free,
    /// Its reply has not come.
    Waiting,
    /// Its reply is there.
    Answered,
}

/// An unpredictable message id (RFC 5452 §9.2): the standard library's keyed hash, whose key is the system's randomness, over
/// a counter.
pub(super) fn random_id() -> u16 {
    static KEY: std::sync::OnceLock<RandomState> = std::sync::OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    (KEY.get_or_init(RandomState::new).hash_one(count) >> 48) as u16
}

impl Conn {
    /// A connection of which nothing is known yet.
    pub(super) fn new(socket: Option<UdpSocket>, strays: Counter) -> Arc<Self> {
        let local = socket.as_ref().and_then(|socket| socket.local_addr().ok());
        let inner = Inner { connected: socket.is_some(), local, ..Inner::default() };
        Arc::new(Self {
            socket,
            made: Instant::now(),
            wake: Notify::new(),
            inner: Mutex::new(inner),
            uses: AtomicU64::new(0),
            strays,
        })
    }

    /// Takes the lock; nothing panics while it is held, and what it guards is sound at any time.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a query: `write` appends the message with the id it is given. None if the connection takes no more.
    pub(super) fn begin(
        self: &Arc<Self>,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> Option<Ticket> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        if inner.retired || inner.broken.is_some() || inner.pending >= MAX_PENDING {
            return None;
        }
        let id = loop {
            let id = random_id();
            if !inner.slots.iter().any(|slot| slot.id == id && slot.state != State::Free) {
                break id;
            }
        };
        let index = match inner.slots.iter().position(|slot| slot.state == State::Free) {
            Some(index) => index,
            None => {
                inner.slots.push(Slot::default());
                inner.slots.len() - 1
            }
        };
        let slot = &mut inner.slots[index];
        slot.id = id;
        slot.state = State::Waiting;
        slot.strayed = false;
        slot.strays = 0;
        slot.waker = None;
        slot.query.clear();
        write(id, &mut slot.query);
        inner.pending += 1;
        if self.socket.is_none() {
            // RFC 1035 §4.2.2: two octets of length; our queries are far shorter than 65,535 octets.
            let len = u16::try_from(slot.query.len()).unwrap_or(u16::MAX);
            inner.out.extend_from_slice(&len.to_be_bytes());
            inner.out.extend_from_slice(&slot.query[..usize::from(len)]);
        }
        if self.uses.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_USES {
            inner.retired = true;
        }
        let (connected, heard) = (inner.connected, inner.heard);
        drop(guard);
        if self.socket.is_none() {
            self.wake.notify_one();
        }
        Some(Ticket { conn: Arc::clone(self), index, connected, heard, reply: Vec::new() })
    }

    /// The queries under way, if it takes more.
    pub(super) fn load(&self) -> Option<usize> {
        let inner = self.lock();
        let open = !inner.retired && inner.broken.is_none() && inner.pending < MAX_PENDING;
        open.then_some(inner.pending)
    }

    /// Whether it is of no use to new queries for ever.
    pub(super) fn is_spent(&self) -> bool {
        let inner = self.lock();
        inner.retired || inner.broken.is_some()
    }

    /// Takes no more queries.
    pub(super) fn retire(&self) {
        self.lock().retired = true;
        self.wake.notify_one();
    }

    /// Whether its task has nothing more to do.
    pub(super) fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.broken.is_some() || inner.retired && inner.pending == 0
    }

    /// Whether no query is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().pending == 0
    }

    /// Notes that queries can be sent now.
    pub(super) fn connected(&self, local: Option<SocketAddr>) {
        let mut inner = self.lock();
        inner.connected = true;
        inner.local = local;
        for slot in &mut inner.slots {
            slot.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Its own address.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.lock().local
    }

    /// Swaps what is to be written into the empty `out`.
    pub(super) fn take_out(&self, out: &mut Vec<u8>) {
        std::mem::swap(&mut self.lock().out, out);
    }

    /// Tells all queries under way that no reply will come; takes no more.
    pub(super) fn break_off(&self, why: Broken) {
        let mut inner = self.lock();
        inner.broken.get_or_insert(why);
        inner.retired = true;
        for slot in &mut inner.slots {
            slot.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Gives a message to the query that it replies to; those that reply to none are dropped (RFC 5452 §9.1).
    pub(super) fn deliver(&self, message: &[u8]) {
        let Some((head, _)) = message.split_first_chunk::<12>() else { return };
        let id = u16::from_be_bytes([head[0], head[1]]);
        let mut inner = self.lock();
        inner.heard += 1;
        let mut waiting = inner.slots.iter_mut();
        let found = waiting.find(|slot| slot.id == id && slot.state == State::Waiting);
        let Some(slot) = found.filter(|slot| is_reply(&slot.query, message)) else {
            if inner.stray(id, message) {
                self.strays.increment(1);
            }
            return;
        };
        slot.reply.clear();
        slot.reply.extend_from_slice(message);
        slot.state = State::Answered;
        slot.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    /// Takes note of a message that replies to no query under way, unless it comes late for a query that nobody waits for any
    /// more, which is no sign of anything. Tells which of the two it is.
    fn stray(&mut self, id: u16, message: &[u8]) -> bool {
        let mut free = self.slots.iter().filter(|slot| slot.state != State::Waiting);
        if free.any(|slot| slot.id == id && is_reply(&slot.query, message)) {
            return false;
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Waiting) {
            slot.strayed |= slot.id == id;
            slot.strays = slot.strays.saturating_add(1);
            if slot.strays == MAX_STRAYS {
                slot.waker.take().into_iter().for_each(Waker::wake);
            }
        }
        true
    }
}

/// Whether `message`, whose id fits, replies to `query`: a response of its opcode with its question, letter case aside. An
/// error may come without any question, since not every server can read every query.
pub(super) fn is_reply(query: &[u8], message: &[u8]) -> bool {
    let (Some((asked, question)), Some((head, rest))) =
        (query.split_first_chunk::<12>(), message.split_first_chunk::<12>())
    else {
        return false;
    };
    if head[2] & 0x80 == 0 || (head[2] ^ asked[2]) & 0x78 != 0 {
        return false;
    }
    match u16::from_be_bytes([head[4], head[5]]) {
        0 => head[3] & 0xf != 0,
        1 => {
            let Some(len) = Name::span(question) else { return false };
            let (Some(own), Some(theirs)) = (question.get(..len + 4), rest.get(..len + 4)) else {
                return false;
            };
            own[..len].eq_ignore_ascii_case(&theirs[..len]) && own[len..] == theirs[len..]
        }
        _ => false,
    }
}

/// A query under way. Dropping it forgets the query.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) conn: Arc<Conn>,
    index: usize,
    /// Whether the connection stood when the query began.
    pub(super) connected: bool,
    /// How many messages had come by then.
    heard: u64,
    /// The reply, once it has come.
    pub(super) reply: Vec<u8>,
}

impl Ticket {
    /// Sends the query, if it is one for a socket.
    pub(super) async fn send(&self) -> io::Result<()> {
        let Some(socket) = &self.conn.socket else { return Ok(()) };
        loop {
            let sent = {
                let inner = self.conn.lock();
                socket.try_send(&inner.slots[self.index].query)
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await?;
                }
                other => return other.map(|_| ()),
            }
        }
    }

    /// Waits until the connection stands, or until it is known that it will not.
    pub(super) async fn opened(&self) {
        poll_fn(|cx| {
            let mut inner = self.conn.lock();
            if inner.connected || inner.broken.is_some() {
                return Poll::Ready(());
            }
            inner.slots[self.index].waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits for the reply.
    pub(super) async fn wait(&mut self) -> Result<(), Broken> {
        poll_fn(|cx| {
            let mut guard = self.conn.lock();
            let inner = &mut *guard;
            let slot = &mut inner.slots[self.index];
            if slot.state == State::Answered {
                self.reply = std::mem::take(&mut slot.reply);
                return Poll::Ready(Ok(()));
            }
            // Nobody can guess at a stream; what replies to nothing there is late.
            if slot.strays >= MAX_STRAYS && self.conn.socket.is_some() {
                return Poll::Ready(Err(Broken::Strays));
            }
            if let Some(broken) = &inner.broken {
                return Poll::Ready(Err(broken.clone()));
            }
            if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                slot.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Whether nothing at all came since the query began.
    pub(super) fn heard_nothing(&self) -> bool {
        self.conn.lock().heard == self.heard
    }

    /// Whether a reply came that had the right id and a wrong question.
    pub(super) fn strayed(&self) -> bool {
        self.conn.lock().slots[self.index].strayed
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.conn.lock();
        let slot = &mut inner.slots[self.index];
        slot.state = State::Free;
        slot.waker = None;
        if self.reply.capacity() > 0 {
            slot.reply = std::mem::take(&mut self.reply);
            // A rare large reply must not stay for ever.
            slot.reply.truncate(4096);
            slot.reply.shrink_to(4096);
        }
        inner.pending -= 1;
        let last = inner.pending == 0 && inner.retired;
        drop(inner);
        if last {
            self.conn.wake.notify_one();
        }
    }
}
