//! The connections that are open: whose they are, which of them are idle, and how one is told to end.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use engine::{ListenerId, Session};
use tokio::sync::Notify;

/// How many locks share the clients.
const SHARDS: usize = 16;

/// A client: an IPv4 address, or the /64 of an IPv6 one, for a household or a machine has at least that much of it
/// (RFC 6177 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(u64);

impl From<IpAddr> for Client {
    fn from(addr: IpAddr) -> Self {
        match addr.to_canonical() {
            // No /64 begins so: 0000::/8 is reserved (RFC 4291 §2.4).
            IpAddr::V4(addr) => Self(0x0000_ffff_0000_0000 | u64::from(addr.to_bits())),
            IpAddr::V6(addr) => {
                let [a, b, c, d, e, f, g, h, ..] = addr.octets();
                Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
            }
        }
    }
}

/// Why a connection is told to end before its listener does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Who asks there may no longer: nothing more is answered.
    Revoked,
    /// Its place is wanted for somebody who asks.
    Crowded,
    /// It is as old as a connection may get.
    Old,
}

/// What a connection is doing: beginning (PROXY header, handshake), being served, or idle since a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Greeting,
    Serving,
    Idle(u64),
}

/// The bits of [`Doing::Greeting`] and [`Doing::Serving`] in a seat; all else is a time.
const GREETING: u64 = u64::MAX;
const SERVING: u64 = u64::MAX - 1;

/// Milliseconds since the process first asked.
pub(crate) fn clock(now: Instant) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(now.saturating_duration_since(*START).as_millis()).unwrap_or(SERVING - 1)
}

/// One connection, as others see it.
#[derive(Debug)]
pub(crate) struct Seat {
    listener: ListenerId,
    /// Whether it holds a file descriptor of its own.
    pub(crate) has_descriptor: bool,
    /// When it began.
    began: u64,
    doing: AtomicU64,
    /// Whether it counts among those that begin.
    beginning: AtomicBool,
    /// Whether it no longer counts, for it was told to make room.
    dismissed: AtomicBool,
    /// Whether answers tell the client to go (RFC 7828 §3.4).
    leaving: AtomicBool,
    session: OnceLock<Arc<Session>>,
    /// [`Leave`] and 1, or 0.
    told: AtomicU8,
    tell: Notify,
}

impl Seat {
    /// A connection that begins now.
    fn new(listener: ListenerId, has_descriptor: bool) -> Self {
        Self {
            listener,
            has_descriptor,
            began: clock(Instant::now()),
            doing: AtomicU64::new(GREETING),
            beginning: AtomicBool::new(true),
            dismissed: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            session: OnceLock::new(),
            told: AtomicU8::new(0),
            tell: Notify::new(),
        }
    }

    /// Notes that it is being served: nobody takes its place.
    pub(crate) fn serve(&self) {
        self.doing.store(SERVING, Ordering::Relaxed);
    }

    /// Notes that it waits for its client since `now`: if room is needed, it may be told to end.
    pub(crate) fn idle(&self, now: Instant) {
        self.doing.store(clock(now), Ordering::Relaxed);
    }

    /// Notes that answers tell the client to go from now on.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether answers tell the client to go.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Keeps what TLS has shown, so that the connection is found when secrets change.
    pub(crate) fn seal(&self, session: &Arc<Session>) {
        // A connection has one handshake.
        self.session.get_or_init(|| Arc::clone(session));
    }

    /// What TLS has shown.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// For how long it has been open at `now`.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        Duration::from_millis(clock(now).saturating_sub(self.began))
    }

    /// Tells the connection to end. What it was told first counts.
    pub(crate) fn tell(&self, why: Leave) {
        let code = match why {
            Leave::Revoked => 1,
            Leave::Crowded => 2,
            Leave::Old => 3,
        };
        if self.told.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.tell.notify_one();
        }
    }

    /// Resolves when the connection has to end though its listener goes on. For one task at a time.
    pub(crate) async fn told(&self) -> Leave {
        loop {
            match self.told.load(Ordering::Acquire) {
                1 => return Leave::Revoked,
                2 => return Leave::Crowded,
                3 => return Leave::Old,
                _ => self.tell.notified().await,
            }
        }
    }

    /// What it is doing.
    fn doing(&self) -> Doing {
        match self.doing.load(Ordering::Relaxed) {
            GREETING => Doing::Greeting,
            SERVING => Doing::Serving,
            since => Doing::Idle(since),
        }
    }

    /// Takes it out of the count of those that begin; false if somebody has done so.
    pub(crate) fn begun(&self) -> bool {
        self.beginning.swap(false, Ordering::AcqRel)
    }

    /// Takes it out of the count; false if somebody has done so.
    pub(crate) fn dismiss(&self) -> bool {
        !self.dismissed.swap(true, Ordering::AcqRel)
    }
}

/// How many connections a client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// In all.
    pub(crate) all: usize,
    /// At the listener in question.
    pub(crate) here: usize,
    /// Of all, those that are beginning.
    pub(crate) greeting: usize,
}

/// One lock's clients, with their connections.
type Shard = HashMap<Client, Vec<Arc<Seat>>>;

/// All connections of the process.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

impl Seats {
    /// Adds a connection of `client` if `may` allows it after a look at what the client has.
    pub(crate) fn add<E>(
        &self,
        client: Client,
        listener: ListenerId,
        has_descriptor: bool,
        may: impl FnOnce(Held) -> Result<(), E>,
    ) -> Result<Arc<Seat>, E> {
        let seat = Arc::new(Seat::new(listener, has_descriptor));
        self.insert(client, &seat, may)?;
        Ok(seat)
    }

    /// Gives a connection to the client that it is of, if `may` allows it.
    pub(crate) fn rename<E>(
        &self,
        seat: &Arc<Seat>,
        old: Client,
        new: Client,
        may: impl FnOnce(Held) -> Result<(), E>,
    ) -> Result<(), E> {
        self.insert(new, seat, may)?;
        if new != old {
            self.remove(old, seat);
        }
        Ok(())
    }

    /// Takes a connection out.
    pub(crate) fn remove(&self, client: Client, seat: &Arc<Seat>) {
        let mut shard = self.shard(client);
        let Some(seats) = shard.get_mut(&client) else { return };
        if let Some(at) = seats.iter().position(|one| Arc::ptr_eq(one, seat)) {
            seats.swap_remove(at);
        }
        if seats.is_empty() {
            shard.remove(&client);
        } else if seats.len() * 4 < seats.capacity() {
            seats.shrink_to(seats.len() * 2);
        }
    }

    /// Tells up to `most` connections to make room: of those that are idle (or, with `greeting`, have been beginning for a
    /// second), those of the clients with the most such connections, the longest idle first. Gives how many.
    pub(crate) fn relieve(&self, most: usize, greeting: bool, dismiss: impl Fn(&Seat)) -> usize {
        let now = clock(Instant::now());
        let mut found: Vec<(std::cmp::Reverse<usize>, u64, Arc<Seat>)> = Vec::new();
        for shard in &self.shards {
            for seats in shard.lock().unwrap_or_else(PoisonError::into_inner).values() {
                let from = found.len();
                for seat in seats {
                    let since = match seat.doing() {
                        Doing::Idle(since) if !greeting => since,
                        Doing::Greeting if greeting && now >= seat.began + 1000 => seat.began,
                        _ => continue,
                    };
                    found.push((std::cmp::Reverse(seats.len()), since, Arc::clone(seat)));
                }
                let count = found.len() - from;
                found[from..].iter_mut().for_each(|one| one.0.0 = count);
            }
        }
        found.sort_unstable_by_key(|(count, since, _)| (*count, *since));
        let mut told = 0;
        for (_, _, seat) in found {
            if told == most {
                break;
            }
            if seat.dismiss() {
                dismiss(&seat);
                seat.tell(Leave::Crowded);
                told += 1;
            }
        }
        told
    }

    /// Shows every connection of a listener.
    pub(crate) fn each(&self, listener: ListenerId, mut look: impl FnMut(&Seat)) {
        for shard in &self.shards {
            // Whoever looks may take his time, so not under the lock.
            let seats: Vec<Arc<Seat>> = {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.values().flatten().filter(|seat| seat.listener == listener).cloned().collect()
            };
            seats.iter().for_each(|seat| look(seat));
        }
    }

    /// Adds a connection if `may` allows it.
    fn insert<E>(
        &self,
        client: Client,
        seat: &Arc<Seat>,
        may: impl FnOnce(Held) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut shard = self.shard(client);
        let seats = shard.get(&client).map(Vec::as_slice).unwrap_or_default();
        let mut held = Held::default();
        for one in seats.iter().filter(|one| !Arc::ptr_eq(one, seat)) {
            held.all += 1;
            held.here += usize::from(one.listener == seat.listener);
            held.greeting += usize::from(one.doing() == Doing::Greeting);
        }
        let is_known = held.all < seats.len();
        may(held)?;
        if !is_known {
            shard.entry(client).or_default().push(Arc::clone(seat));
        }
        Ok(())
    }

    /// The clients that share a lock with this one.
    fn shard(&self, client: Client) -> MutexGuard<'_, Shard> {
        let at = usize::try_from(self.hasher.hash_one(client) % SHARDS as u64).unwrap_or_default();
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
