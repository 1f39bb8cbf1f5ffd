//! Connections that carry each query by a stream of its own: of HTTP/2, HTTP/3 and QUIC.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::conn::Broken;
use super::tcp::{DialTime, Life};
use super::{POOLS, https3, pool};

/// How many connections to one upstream a worker has.
const CONNECTIONS: usize = 8;

/// How many queries a connection carries before another one is made: what servers usually allow (RFC 9113 §6.5.2).
const STREAMS: usize = 100;

/// How many queries may be under way on a connection, those that wait for a stream included.
const MAX_PENDING: usize = 256;

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What opens streams on a connection.
#[derive(Clone)]
pub(super) enum Link {
    /// HTTP/2.
    Http2(h2::client::SendRequest<Bytes>),
    /// HTTP/3.
    Http3(https3::Sender),
    /// QUIC itself.
    Quic(quinn::Connection),
}

/// A connection just made.
pub(super) struct Made {
    /// What opens streams on it.
    pub(super) link: Link,
    /// Its own address.
    pub(super) local: Option<SocketAddr>,
    /// What runs it, until it is over and with why it is.
    pub(super) driver: BoxFuture<'static, Broken>,
}

/// Makes connections to one upstream.
pub(super) trait Maker: Send + Sync + 'static {
    /// Makes one.
    fn make(&self) -> BoxFuture<'_, Result<Made, Broken>>;
}

/// A connection, which is perhaps still being made.
pub(super) struct Session {
    made: Instant,
    state: watch::Sender<State>,
    inner: Mutex<Inner>,
    /// Wakes its task: it may be over.
    wake: Notify,
}

/// How far a connection is.
enum State {
    /// It is being made.
    Dialing,
    /// It stands.
    Open(Link, Option<SocketAddr>),
    /// It is over.
    Over(Broken),
}

/// What the queries and the task of a connection share.
struct Inner {
    /// Queries under way.
    load: usize,
    /// Replies that came.
    heard: u64,
    /// Whether it takes no more queries.
    retired: bool,
    /// When a query began or ended last.
    last: Instant,
}

impl Session {
    /// Begins to make one.
    fn begin(maker: Arc<dyn Maker>, dial: Arc<DialTime>, life: Life) -> Arc<Self> {
        let now = Instant::now();
        let inner = Inner { load: 0, heard: 0, retired: false, last: now };
        let session = Arc::new(Self {
            made: now,
            state: watch::Sender::new(State::Dialing),
            inner: Mutex::new(inner),
            wake: Notify::new(),
        });
        tokio::spawn(run(Arc::clone(&session), maker, dial, life));
        session
    }

    /// Takes the lock; nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queries under way, if it takes more.
    fn load(&self) -> Option<usize> {
        let inner = self.lock();
        (!inner.retired && inner.load < MAX_PENDING).then_some(inner.load)
    }

    /// Takes no more queries.
    pub(super) fn retire(&self) {
        self.lock().retired = true;
        self.wake.notify_one();
    }

    /// Whether it takes no more queries.
    fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Whether its task has nothing more to do.
    fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.retired && inner.load == 0
    }

    /// Tells all queries under way why no reply will come.
    fn end(&self, why: Broken) {
        self.lock().retired = true;
        self.state.send_if_modified(|state| {
            if matches!(state, State::Over(_)) {
                return false;
            }
            *state = State::Over(why);
            true
        });
    }

    /// Waits until it stands, or ends.
    async fn opened(&self) -> Result<(Link, Option<SocketAddr>), Broken> {
        let mut state = self.state.subscribe();
        let state = state.wait_for(|state| !matches!(state, State::Dialing)).await;
        match state.as_deref() {
            Ok(State::Open(link, local)) => Ok((link.clone(), *local)),
            Ok(State::Over(why)) => Err(why.clone()),
            Ok(State::Dialing) | Err(_) => Err(Broken::Closed),
        }
    }
}

/// Ends a connection when its task ends, whatever ends it.
struct Task(Arc<Session>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.end(Broken::Closed);
    }
}

/// Makes a connection and runs it until it is over.
async fn run(session: Arc<Session>, maker: Arc<dyn Maker>, dial: Arc<DialTime>, life: Life) {
    let task = Task(session);
    let session = &task.0;
    let begun = Instant::now();
    let made = match timeout(dial.limit(), maker.make()).await {
        Ok(Ok(made)) => made,
        Ok(Err(why)) => return session.end(why),
        Err(_) => return session.end(Broken::DialTimeout),
    };
    dial.note(begun.elapsed());
    let mut driver = made.driver;
    let quic = match &made.link {
        Link::Quic(connection) => Some(connection.clone()),
        Link::Http2(_) | Link::Http3(_) => None,
    };
    session.state.send_replace(State::Open(made.link, made.local));
    while !session.is_over() {
        let now = Instant::now();
        let (load, last, retired) = {
            let inner = session.lock();
            (inner.load, inner.last, inner.retired)
        };
        // With queries under way it cannot have been idle for so long any sooner.
        let idle_end = if load > 0 { now + life.idle } else { last + life.idle };
        let end = life.most.map_or(idle_end, |most| idle_end.min(session.made + most));
        if end <= now && !retired {
            session.retire();
            continue;
        }
        tokio::select! {
            why = &mut driver => return session.end(why),
            () = session.wake.notified() => {}
            () = sleep_until(end), if !retired => {}
        }
    }
    // Nobody can open a stream any more, by which HTTP takes its leave.
    session.end(Broken::Closed);
    if let Some(connection) = quic {
        // RFC 9250 §4.3: DOQ_NO_ERROR.
        connection.close(0_u32.into(), b"");
    }
    drop(timeout(FAREWELL, driver).await);
}

/// A query on a connection. Dropping it ends it.
pub(super) struct Seat {
    pub(super) session: Arc<Session>,
    /// How many replies had come when it began.
    heard: u64,
}

impl Seat {
    /// Takes a place, if there is one.
    fn take(session: &Arc<Session>) -> Option<Self> {
        let mut inner = session.lock();
        if inner.retired || inner.load >= MAX_PENDING {
            return None;
        }
        inner.load += 1;
        inner.last = Instant::now();
        Some(Self { session: Arc::clone(session), heard: inner.heard })
    }

    /// Whether the connection stands already.
    pub(super) fn is_open(&self) -> bool {
        !matches!(*self.session.state.borrow(), State::Dialing)
    }

    /// Waits until it does.
    pub(super) async fn opened(&self) -> Result<(Link, Option<SocketAddr>), Broken> {
        self.session.opened().await
    }

    /// Notes that a reply came.
    pub(super) fn hear(&self) {
        self.session.lock().heard += 1;
    }

    /// Whether no reply at all has come on the connection since the query began.
    pub(super) fn heard_nothing(&self) -> bool {
        self.session.lock().heard == self.heard
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.session.lock();
        inner.load -= 1;
        inner.last = Instant::now();
        let last = inner.load == 0 && inner.retired;
        drop(inner);
        if last {
            self.session.wake.notify_one();
        }
    }
}

/// The connections to one upstream, by worker.
pub(super) struct Channel {
    maker: Arc<dyn Maker>,
    rooms: Box<[Mutex<Vec<Arc<Session>>>]>,
    dial: Arc<DialTime>,
    life: Life,
    /// How many connections may be idle; 0 is no limit.
    max_idle: usize,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

impl Drop for Channel {
    /// Their tasks end once the queries under way have.
    fn drop(&mut self) {
        for room in &mut self.rooms {
            let room = room.get_mut().unwrap_or_else(PoisonError::into_inner);
            room.iter().for_each(|session| session.retire());
        }
    }
}

impl Channel {
    /// None made yet.
    pub(super) fn new(maker: impl Maker, dial: Arc<DialTime>, life: Life, max_idle: usize) -> Self {
        let rooms = (0..POOLS).map(|_| Mutex::default()).collect();
        Self { maker: Arc::new(maker), rooms, dial, life, max_idle }
    }

    /// A place on a connection, on one made after `since` if that is given; tells whether it was made for this query. None if
    /// all are full. To be called in a runtime.
    pub(super) fn seat(&self, since: Option<Instant>) -> Option<(Seat, bool)> {
        let room = &self.rooms[pool::worker() % POOLS];
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        room.retain(|session| !session.is_retired());
        let known = choose(&room, since);
        if let Some(seat) = known.and_then(Seat::take) {
            return Some((seat, false));
        }
        if room.len() >= 2 * CONNECTIONS {
            return None;
        }
        let maker = Arc::clone(&self.maker);
        let session = Session::begin(maker, Arc::clone(&self.dial), self.life);
        let seat = Seat::take(&session);
        room.push(session);
        if self.max_idle > 0 {
            trim(&mut room, self.max_idle);
        }
        seat.map(|seat| (seat, true))
    }
}

/// The connection to use again: the one with the fewest queries, unless it has so many that another is better.
fn choose(room: &[Arc<Session>], since: Option<Instant>) -> Option<&Arc<Session>> {
    let new = room.iter().filter(|session| since.is_none_or(|since| session.made >= since));
    let open = new.filter_map(|session| Some((session.load()?, session)));
    let (load, session) = open.min_by_key(|(load, _)| *load)?;
    (load < STREAMS || room.len() >= CONNECTIONS).then_some(session)
}

/// Has no more than `most` connections idle; the oldest go.
fn trim(room: &mut Vec<Arc<Session>>, most: usize) {
    let is_idle = |session: &Arc<Session>| session.load() == Some(0);
    let mut surplus = room.iter().filter(|session| is_idle(session)).count().saturating_sub(most);
    room.retain(|session| {
        let goes = surplus > 0 && is_idle(session);
        if goes {
            surplus -= 1;
            session.retire();
        }
        !goes
    });
}
