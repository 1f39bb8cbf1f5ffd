//! How much one client, and all of them, may take.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::metrics::{Counter, Gauge, counter, describe, gauge};
use engine::{LimitSpec, ListenerId};
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::seats::{Client, Held, Leave, Seat, Seats, clock};

/// How long a new connection waits for those on their way out.
const LEAVING: Duration = Duration::from_millis(100);

/// The bounds of the front-ends, which hold for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections over all listeners, those of QUIC included.
    pub connections: usize,
    /// Open connections of one client (an IPv4 address, or the /64 of an IPv6 one).
    pub connections_per_client: usize,
    /// Connections that have not yet shown a PROXY header or ended their handshake.
    pub handshakes: usize,
    /// The same of one client.
    pub handshakes_per_client: usize,
    /// Queries of one connection that are answered at the same time.
    pub pipeline: usize,
    /// Queries of one UDP socket that wait for an answer at the same time.
    pub waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_client: 1_000,
            handshakes: 2_000,
            handshakes_per_client: 250,
            pipeline: 128,
            waiting: 10_000,
        }
    }
}

impl Bounds {
    /// The same with no more connections than the process may have files open, less what it needs besides: for upstreams,
    /// clusters, files, and for what each of the threads listens with. With it a warning, if connections had to be taken away.
    #[must_use]
    pub fn within_descriptors(self, threads: usize) -> (Self, Option<String>) {
        let soft = getrlimit(Resource::Nofile).current;
        let soft = soft.map_or(usize::MAX, |soft| usize::try_from(soft).unwrap_or(usize::MAX));
        self.within(soft, threads)
    }

    /// The same for a limit.
    fn within(self, soft: usize, threads: usize) -> (Self, Option<String>) {
        let reserve = (soft / 4).min(4096).max(64 + 8 * threads);
        let room = soft.saturating_sub(reserve).max(1);
        if room >= self.connections {
            return (self, None);
        }
        let warning = format!(
            "limits.tcp_connections is {}, but the process may have {soft} files open: {room} connections are allowed, {reserve} \
             descriptors are left for upstreams and files (raise LimitNOFILE or `ulimit -n`)",
            self.connections
        );
        (Self { connections: room, ..self }, Some(warning))
    }
}

/// What one listener has open.
#[derive(Debug, Default)]
pub(crate) struct Count {
    open: AtomicUsize,
    /// Told whenever a connection has ended.
    ended: Notify,
}

impl Count {
    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// One more.
    pub(crate) fn one(this: &Arc<Self>) -> Taken {
        this.open.fetch_add(1, Ordering::AcqRel);
        Taken(Arc::clone(this))
    }

    /// One more, as soon as fewer than `most` says are open; at once if it says nothing.
    pub(crate) async fn one_of(this: &Arc<Self>, most: impl Fn() -> Option<usize>) -> Taken {
        loop {
            let mut ended = pin!(this.ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            if take(&this.open, most().unwrap_or(usize::MAX)) {
                return Taken(Arc::clone(this));
            }
            ended.await;
        }
    }
}

/// Why there is no room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// The process has as many as it may, and none is idle.
    Total,
    /// The client has as many as it may.
    Client,
    /// The listener has as many as it may.
    Listener,
    /// The client has as many at the listener as it may.
    ListenerClient,
    /// Too many are beginning.
    Handshakes,
    /// Too many of the client are beginning.
    HandshakesClient,
}

/// Counters of connections that were not let in.
#[derive(Debug)]
struct Refused {
    total: Counter,
    client: Counter,
    listener: Counter,
    listener_client: Counter,
    handshakes: Counter,
    handshakes_client: Counter,
}

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// On a stream of its own.
    Direct,
    /// The same, from a proxy whose header is believed.
    Proxied,
    /// Over a socket shared with others: it holds no descriptor.
    Datagrams,
}

/// Counters of connections that were closed for a reason.
#[derive(Debug)]
pub(crate) struct Closed {
    /// No good PROXY header came, or none in time.
    pub(crate) proxy: Counter,
    /// The TLS handshake failed.
    pub(crate) handshake: Counter,
    /// The TLS handshake took too long.
    pub(crate) handshake_timeout: Counter,
    /// No whole query came in time.
    pub(crate) idle: Counter,
    /// The client did not take its answers.
    pub(crate) write: Counter,
    /// What came was no DNS, or no TLS.
    pub(crate) garbage: Counter,
    /// It was idle, and its place was wanted.
    crowded: Counter,
    /// Who asks may no longer.
    pub(crate) revoked: Counter,
    /// It was as old as a connection may get.
    old: Counter,
}

impl Closed {
    /// Counts a connection that was told to end.
    pub(crate) fn count(&self, why: Leave) {
        let counter = match why {
            Leave::Crowded => &self.crowded,
            Leave::Revoked => &self.revoked,
            Leave::Old => &self.old,
        };
        counter.increment(1);
    }
}

/// Counters of queries that came too fast.
#[derive(Debug)]
pub(crate) struct Limited {
    /// Dropped, over UDP.
    pub(crate) dropped: Counter,
    /// Sent to TCP, over UDP.
    pub(crate) truncated: Counter,
    /// Read later, on streams.
    pub(crate) delayed: Counter,
    /// Refused, such as by HTTP's 429.
    pub(crate) refused: Counter,
}

/// Counts connections against [`Bounds`].
#[derive(Debug)]
pub struct Limits {
    /// The bounds.
    pub bounds: Bounds,
    open: AtomicUsize,
    greeting: AtomicUsize,
    seats: Seats,
    /// Connections told to make room that still have their descriptors.
    leaving: AtomicUsize,
    /// Tells that one of them has ended.
    left: Notify,
    /// When room was last made, so that a full house does not spend its time on looking for it.
    relieved: AtomicU64,
    refused: Refused,
    pub(crate) closed: Closed,
    pub(crate) limited: Limited,
    open_gauge: Gauge,
    /// Datagrams dropped for their PROXY header.
    bad_headers: Counter,
    /// When the log was last told of one.
    told: AtomicU64,
    /// Queries dropped because too many wait.
    pub(crate) waiting_full: Counter,
}

impl Limits {
    /// Nothing open yet.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        describe("causeway_connections_refused_total", "Connections that were not let in.");
        describe("causeway_connections_closed_total", "Connections closed for a reason.");
        describe("causeway_connections_open", "Connections that are open.");
        describe(
            "causeway_queries_limited_total",
            "Queries that came faster than `limits` allows.",
        );
        describe("causeway_udp_queries_dropped_total", "Queries dropped because too many wait.");
        describe(
            "causeway_proxy_datagrams_dropped_total",
            "Datagrams dropped for their PROXY header.",
        );
        let refused = |reason| counter("causeway_connections_refused_total", &[("reason", reason)]);
        let closed = |reason| counter("causeway_connections_closed_total", &[("reason", reason)]);
        let limited = |reason| counter("causeway_queries_limited_total", &[("reason", reason)]);
        Arc::new(Self {
            bounds,
            open: AtomicUsize::new(0),
            greeting: AtomicUsize::new(0),
            seats: Seats::default(),
            leaving: AtomicUsize::new(0),
            left: Notify::new(),
            relieved: AtomicU64::new(0),
            refused: Refused {
                total: refused("total"),
                client: refused("client"),
                listener: refused("listener"),
                listener_client: refused("listener_client"),
                handshakes: refused("handshakes"),
                handshakes_client: refused("handshakes_client"),
            },
            closed: Closed {
                proxy: closed("proxy"),
                handshake: closed("handshake"),
                handshake_timeout: closed("handshake_timeout"),
                idle: closed("idle"),
                write: closed("write"),
                garbage: closed("garbage"),
                crowded: closed("crowded"),
                revoked: closed("revoked"),
                old: closed("old"),
            },
            limited: Limited {
                dropped: limited("dropped"),
                truncated: limited("truncated"),
                delayed: limited("delayed"),
                refused: limited("refused"),
            },
            open_gauge: gauge("causeway_connections_open", &[]),
            bad_headers: counter("causeway_proxy_datagrams_dropped_total", &[]),
            told: AtomicU64::new(0),
            waiting_full: counter("causeway_udp_queries_dropped_total", &[]),
        })
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// All connections.
    pub(crate) fn seats(&self) -> &Seats {
        &self.seats
    }

    /// Room for one more connection; none, and counted, if there is not. Who the client is of a
    /// connection that is [`Way::Proxied`], [`Room::claim`] says later.
    pub(crate) fn enter(
        self: &Arc<Self>,
        (id, here): (ListenerId, Taken),
        peer: IpAddr,
        spec: &LimitSpec,
        way: Way,
    ) -> Option<Room> {
        self.try_enter((id, here), peer, spec, way).map_err(|full| self.count(full)).ok()
    }

    /// Room for one more connection.
    fn try_enter(
        self: &Arc<Self>,
        (id, here): (ListenerId, Taken),
        peer: IpAddr,
        spec: &LimitSpec,
        way: Way,
    ) -> Result<Room, Full> {
        if spec.connections.is_some_and(|most| here.0.open() > most) {
            return Err(Full::Listener);
        }
        let total = self.bounds.connections;
        // Where another thread has just made room, there may be some all the same.
        let counted = take(&self.open, total) || {
            self.relieve(false);
            take(&self.open, total)
        };
        if !counted {
            return Err(Full::Total);
        }
        self.open_gauge.increment(1);
        let beginning = take(&self.greeting, self.bounds.handshakes) || {
            self.relieve(true);
            take(&self.greeting, self.bounds.handshakes)
        };
        let client = Client::from(peer);
        let seat = match beginning {
            false => Err(Full::Handshakes),
            true => {
                self.seats.add(client, id, way != Way::Datagrams, |held| self.may(held, spec, way))
            }
        };
        let seat = seat.inspect_err(|_| {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.open_gauge.decrement(1);
            if beginning {
                self.greeting.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Room { limits: Arc::clone(self), _here: here, seat, client })
    }

    /// Whether a client that has so much may have one more.
    fn may(&self, held: Held, spec: &LimitSpec, way: Way) -> Result<(), Full> {
        let here = spec.connections_per_client.unwrap_or(usize::MAX);
        match () {
            () if way == Way::Proxied => Ok(()),
            () if held.all >= self.bounds.connections_per_client => Err(Full::Client),
            () if held.here >= here => Err(Full::ListenerClient),
            () if held.greeting >= self.bounds.handshakes_per_client => Err(Full::HandshakesClient),
            () => Ok(()),
        }
    }

    /// Tells one connection in a hundred to make room, at most once in 10 ms where there are many to look through.
    fn relieve(&self, greeting: bool) {
        let of = if greeting { self.bounds.handshakes } else { self.bounds.connections };
        let pause = u64::try_from(of / 1000).map_or(10, |pause| pause.min(10));
        if !is_due(&self.relieved, pause) {
            return;
        }
        let dismiss = |seat: &Seat| {
            if seat.has_descriptor {
                self.leaving.fetch_add(1, Ordering::Relaxed);
            }
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.begun(seat);
        };
        self.seats.relieve((of / 100).max(1), greeting, dismiss);
    }

    /// How many connections may be on their way out at a time. They are counted no more and hold a descriptor each, which others
    /// would lack.
    fn may_leave(&self) -> usize {
        (self.bounds.connections / 10).clamp(1, 1000)
    }

    /// Waits, for a while, as long as too many connections are on their way out.
    pub(crate) async fn settle(&self) {
        let few = async {
            loop {
                let left = self.left.notified();
                if self.leaving.load(Ordering::Relaxed) < self.may_leave() {
                    break;
                }
                left.await;
            }
        };
        // Who does not go in time does not keep the others out.
        drop(timeout(LEAVING, few).await);
    }

    /// Counts a datagram whose PROXY header is wrong, and says so, once in ten seconds.
    pub(crate) fn bad_header(&self, from: SocketAddr, why: &str) {
        self.bad_headers.increment(1);
        if is_due(&self.told, 10_000) {
            log::warn!("dropping invalid Proxy Protocol packet from {from}: {why}");
        }
    }

    /// Counts a connection no longer among those that begin.
    fn begun(&self, seat: &Seat) {
        if seat.begun() {
            self.greeting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a connection that was not let in.
    fn count(&self, full: Full) {
        let counter = match full {
            Full::Total => &self.refused.total,
            Full::Client => &self.refused.client,
            Full::Listener => &self.refused.listener,
            Full::ListenerClient => &self.refused.listener_client,
            Full::Handshakes => &self.refused.handshakes,
            Full::HandshakesClient => &self.refused.handshakes_client,
        };
        counter.increment(1);
    }
}

/// Whether `pause` milliseconds have passed since this was last so, for one of those who ask.
fn is_due(last: &AtomicU64, pause: u64) -> bool {
    let (now, then) = (clock(Instant::now()).max(1), last.load(Ordering::Relaxed));
    (then == 0 || now >= then + pause)
        && last.compare_exchange(then, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Adds one unless there are `most`.
fn take(count: &AtomicUsize, most: usize) -> bool {
    count
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < most).then_some(open + 1))
        .is_ok()
}

/// One of a listener's connections, given back when dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Count>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }
}

/// Room for one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    limits: Arc<Limits>,
    _here: Taken,
    seat: Arc<Seat>,
    client: Client,
}

impl Room {
    /// The connection as others see it.
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Gives the room to the client that a proxy speaks for; false, and counted, if that one has as much as it may.
    pub(crate) fn claim(&mut self, peer: IpAddr, spec: &LimitSpec) -> bool {
        let (new, limits) = (Client::from(peer), &self.limits);
        let renamed = limits
            .seats
            .rename(&self.seat, self.client, new, |held| limits.may(held, spec, Way::Direct));
        match renamed {
            Ok(()) => self.client = new,
            Err(full) => limits.count(full),
        }
        renamed.is_ok()
    }

    /// Notes that the connection has begun: PROXY header and handshake are done, and it waits for its client.
    pub(crate) fn greeted(&self) {
        self.seat.idle(Instant::now());
        self.limits.begun(&self.seat);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.limits.seats.remove(self.client, &self.seat);
        self.limits.begun(&self.seat);
        self.limits.open_gauge.decrement(1);
        if self.seat.dismiss() {
            self.limits.open.fetch_sub(1, Ordering::Relaxed);
        } else if self.seat.has_descriptor {
            self.limits.leaving.fetch_sub(1, Ordering::Relaxed);
            self.limits.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
