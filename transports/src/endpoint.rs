//! QUIC endpoints, one a listener: what clients may take, when they have to prove their address, and which worker serves a
//! connection. What is spoken on the connections is in [`crate::quic`].

mod frugal;
mod streams;
mod terms;
mod tokens;

use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::metrics::{Counter, counter};
use engine::{Retry, Session, Stage, Stop, Transport};
use quinn::crypto::rustls::HandshakeData;
use quinn::{
    Connecting, Connection, EndpointConfig, Incoming, Runtime, ServerConfig, TokioRuntime, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub(crate) use streams::Streams;
pub(crate) use terms::Terms;

use frugal::{Bounded, Frugal};

use crate::accept::canonical;
use crate::desk::Desk;
use crate::limits::Room;
use crate::{https3, quic};

/// From how many handshakes under way on clients have to prove their address.
const LOAD: usize = 64;

/// For how long the last word of a handshake may be on its way out.
const LAST: Duration = Duration::from_secs(1);

/// How many queries of a listener may be large at a time; each takes 64 KiB, over HTTP/3 160 KiB at most.
const LARGE: usize = 64;

/// What a connection is closed with where others have taken all room.
const EXCESS: &[u8] = b"too many connections";

/// A listener's endpoint, for all its connections.
pub(crate) struct House {
    pub(crate) desk: Arc<Desk>,
    /// The address of the socket.
    local: SocketAddr,
    /// Places for queries that are large, which take memory while they come and while they are worked on.
    pub(crate) large: Arc<Semaphore>,
    /// What became of streams, in the order of [`Fate::ALL`].
    fates: [Counter; Fate::ALL.len()],
    /// How many handshakes are under way.
    handshakes: AtomicUsize,
    /// How many connections are open whose handshake is done.
    connections: AtomicUsize,
    results: Results,
}

/// What became of a stream, or of a connection for the sake of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has its answer.
    Answered,
    /// It was reset, since there is none.
    Unanswered,
    /// It is not what the protocol wants.
    Wrong,
    /// The client has cancelled it.
    Cancelled,
    /// The client takes too much, and its connection was closed.
    Load,
}

impl Fate {
    /// All, in the order of DoQ's error codes (RFC 9250 §8.4).
    const ALL: [Self; 5] =
        [Self::Answered, Self::Unanswered, Self::Wrong, Self::Cancelled, Self::Load];

    /// What it is for DoQ.
    fn code(self) -> &'static str {
        match self {
            Self::Answered => "0x0",
            Self::Unanswered => "0x1",
            Self::Wrong => "0x2",
            Self::Cancelled => "0x3",
            Self::Load => "0x4",
        }
    }

    /// What it is in words.
    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unanswered => "unanswered",
            Self::Wrong => "wrong",
            Self::Cancelled => "cancelled",
            Self::Load => "load",
        }
    }
}

/// What became of those who wanted a connection.
struct Results {
    done: Counter,
    failed: Counter,
    late: Counter,
    retried: Counter,
    refused: Counter,
    excess: Counter,
    turned_away: Counter,
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("desk", &self.desk).finish_non_exhaustive()
    }
}

/// A connection to serve.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) house: Arc<House>,
    /// What held when it began.
    pub(crate) terms: Arc<Terms>,
    pub(crate) connection: Connection,
    pub(crate) session: Arc<Session>,
    pub(crate) room: Room,
    /// The handshake, if queries are answered before it is done.
    pub(crate) handshake: Option<Handshake>,
    pub(crate) stop: Stop,
}

/// Serves a socket until `stop` says to drain; then answers what is under way, for as long as it allows. The endpoint itself
/// runs here, each connection on one of the workers.
///
/// # Errors
/// If the socket cannot be used, or there is no certificate.
pub(crate) async fn run(
    desk: Arc<Desk>,
    socket: std::net::UdpSocket,
    workers: &[Handle],
    mut stop: Stop,
) -> io::Result<()> {
    let house = Arc::new(House::new(desk, canonical(socket.local_addr()?)));
    let mut terms = Arc::new(Terms::new(house.desk.plan(), house.desk.key.transport, None)?);
    let mut settings = EndpointConfig::default();
    // Version 1 alone (RFC 9000 §15): the drafts before it are history.
    settings.supported_versions(vec![1]);
    let config = Some(ServerConfig::clone(&terms.config));
    let runtime = Arc::new(TokioRuntime);
    let socket = Frugal::new(runtime.wrap_udp_socket(socket)?);
    let endpoint = quinn::Endpoint::new_with_abstract_socket(
        settings,
        config,
        Arc::clone(&socket) as _,
        runtime,
    )?;
    let mut guests = JoinSet::new();
    for worker in workers.iter().cycle() {
        let incoming = loop {
            tokio::select! {
                biased;
                () = stop.reached(Stage::Draining) => break None,
                incoming = endpoint.accept() => break incoming,
                Some(_) = guests.join_next() => {}
            }
        };
        let Some(incoming) = incoming else { break };
        let plan = house.desk.plan();
        if !Arc::ptr_eq(&plan, &terms.plan) {
            match Terms::new(plan, house.desk.key.transport, Some(&terms)) {
                Ok(new) => terms = Arc::new(new),
                Err(error) => log::error!("{}: {error}", house.desk.key),
            }
        }
        if let Some(begun) = house.admit(incoming, &terms, &socket, worker) {
            guests.spawn_on(
                enter(Arc::clone(&house), Arc::clone(&terms), begun, stop.clone()),
                worker,
            );
        }
    }
    // Whoever comes now is told to go elsewhere.
    let refuse = async {
        while let Some(incoming) = endpoint.accept().await {
            incoming.refuse();
        }
        pending::<()>().await;
    };
    let ended = async {
        while guests.join_next().await.is_some() {}
        endpoint.close(VarInt::from_u32(0), b"");
        endpoint.wait_idle().await;
    };
    let both = async {
        tokio::select! { () = ended => {} () = refuse => {} }
    };
    if timeout(stop.grace, both).await.is_err() {
        log::debug!("{}: connections were still open after the grace period", house.desk.key);
    }
    Ok(())
}

/// A connection that has been let in, with the room that it takes.
struct Begun {
    connecting: Connecting,
    under_way: Place,
    /// Until the address is proved.
    bounded: Option<Bounded>,
    room: Room,
}

impl House {
    /// Nobody is in it yet.
    fn new(desk: Arc<Desk>, local: SocketAddr) -> Self {
        let server = desk.key.to_string();
        // The responses of HTTP are counted by their status, where they are made.
        let is_h3 = desk.key.transport == Transport::Https3;
        let fate = |fate: Fate| match is_h3 {
            true => counter(
                "causeway_https3_requests_total",
                &[("server", &server), ("result", fate.name())],
            ),
            false => counter(
                "coredns_dns_quic_responses_total",
                &[("server", &server), ("status", fate.code())],
            ),
        };
        let result = |result| {
            counter("causeway_quic_handshakes_total", &[("server", &server), ("result", result)])
        };
        Self {
            large: Arc::new(Semaphore::new(LARGE)),
            fates: Fate::ALL.map(fate),
            handshakes: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            results: Results {
                done: result("done"),
                failed: result("failed"),
                late: result("late"),
                retried: result("retried"),
                refused: result("refused"),
                excess: result("excess"),
                turned_away: result("turned_away"),
            },
            desk,
            local,
        }
    }

    /// Counts what became of a stream.
    pub(crate) fn count(&self, fate: Fate) {
        self.fates[fate as usize].increment(1);
    }

    /// Lets a connection in, whose driver and timers are then `worker`'s; or sends it away, by means that cost less than a
    /// handshake.
    fn admit(
        self: &Arc<Self>,
        incoming: Incoming,
        terms: &Terms,
        socket: &Arc<Frugal>,
        worker: &Handle,
    ) -> Option<Begun> {
        let under_way = self.handshakes.load(Ordering::Relaxed);
        let prove = match terms.plan.spec.quic.retry.unwrap_or_default() {
            Retry::Never => false,
            Retry::Load => under_way >= LOAD,
            Retry::Always => true,
        };
        if prove && !incoming.remote_address_validated() {
            self.results.retried.increment(1);
            if let Err(error) = incoming.retry() {
                error.into_incoming().ignore();
            }
            return None;
        }
        let room = self.desk.enter(incoming.remote_address().ip());
        let Some(room) = room else {
            self.results.refused.increment(1);
            incoming.refuse();
            return None;
        };
        let peer = incoming.remote_address();
        let bounded = (!incoming.remote_address_validated()).then(|| socket.bound(peer));
        let _in = worker.enter();
        match incoming.accept_with(Arc::clone(&terms.config)) {
            Ok(connecting) => Some(Begun {
                connecting,
                under_way: Place::take(self, |house| &house.handshakes),
                bounded,
                room,
            }),
            Err(error) => {
                self.results.failed.increment(1);
                log::debug!("{}: {error}", self.desk.key);
                None
            }
        }
    }
}

/// Sees a connection through its handshake, and serves it. What each of these takes is its own, in a box: the one is over when
/// the other begins, and a connection that is idle has no need of it.
async fn enter(house: Arc<House>, terms: Arc<Terms>, begun: Begun, stop: Stop) {
    let is_h3 = house.desk.key.transport == Transport::Https3;
    let Some((guest, place)) = Box::pin(meet(house, terms, begun, stop)).await else { return };
    match is_h3 {
        true => Box::pin(https3::serve(guest)).await,
        false => Box::pin(quic::serve(guest)).await,
    }
    drop(place);
}

/// Sees a connection through its handshake.
async fn meet(
    house: Arc<House>,
    terms: Arc<Terms>,
    begun: Begun,
    stop: Stop,
) -> Option<(Guest, Place)> {
    let Begun { mut connecting, under_way, bounded, room } = begun;
    let deadline = Instant::now() + terms.plan.spec.limits.handshake();
    // Who has to be known before a query is looked at has to show all there is to show first.
    let early = house.desk.key.transport == Transport::Quic
        && terms.plan.spec.quic.early_data
        && house.desk.door().is_none();
    let connected = async {
        if !early {
            return connecting.await.map(|connection| (connection, None));
        }
        connecting.handshake_data().await?;
        match connecting.into_0rtt() {
            Ok((connection, done)) => Ok((connection, Some(done))),
            Err(connecting) => connecting.await.map(|connection| (connection, None)),
        }
    };
    let closed = &house.desk.limits.closed;
    let connected = tokio::select! {
        connected = timeout_at(deadline, connected) => connected,
        why = room.seat().told() => {
            closed.count(why);
            return forget(under_way, bounded).await;
        }
    };
    let (connection, done) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => {
            house.results.failed.increment(1);
            closed.handshake.increment(1);
            log::debug!("{}: a handshake failed: {error}", house.desk.key);
            return forget(under_way, bounded).await;
        }
        Err(_) => {
            house.results.late.increment(1);
            closed.handshake_timeout.increment(1);
            return forget(under_way, bounded).await;
        }
    };
    let session = Arc::new(facts(&connection, done.is_some()));
    let handshake = done.map(|done| Handshake { done, deadline, _under_way: (under_way, bounded) });
    if handshake.is_none() {
        house.results.done.increment(1);
        room.greeted();
    }
    let place = Place::take(&house, |house| &house.connections);
    if terms.connections.is_some_and(|most| place.number > most) {
        house.results.excess.increment(1);
        connection.close(terms.excess, EXCESS);
        return None;
    }
    if !house.desk.admit(room.seat(), &session) {
        house.results.turned_away.increment(1);
        connection.close(terms.nothing, b"");
        return None;
    }
    let guest = Guest { house, terms, connection, session, room, handshake, stop };
    Some((guest, place))
}

/// Waits until the last word of a handshake that has failed has left, which counts as well.
async fn forget<T>(under_way: Place, bounded: Option<Bounded>) -> Option<T> {
    drop(under_way);
    if bounded.is_some() {
        sleep(LAST).await;
    }
    None
}

/// What the handshake has shown, so far.
fn facts(connection: &Connection, early: bool) -> Session {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let name = data.and_then(|data| data.server_name);
    let certificates = connection
        .peer_identity()
        .and_then(|all| all.downcast::<Vec<CertificateDer<'static>>>().ok())
        .unwrap_or_default();
    Session {
        name: name.map(|name| name.trim_end_matches('.').to_ascii_lowercase().into()),
        certificates: certificates.iter().map(|one| one.as_ref().into()).collect(),
        // QUIC has no other (RFC 9001 §4.2).
        version: "TLSv1.3",
        early,
        ..Session::default()
    }
}

/// A handshake under way on a connection that is served already (0-RTT).
pub(crate) struct Handshake {
    done: quinn::ZeroRttAccepted,
    deadline: Instant,
    _under_way: (Place, Option<Bounded>),
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake").finish_non_exhaustive()
    }
}

impl Handshake {
    /// Waits for the end of `handshake`; never resolves if there is none. Gives the session that it led to, or none if it
    /// took too long.
    pub(crate) async fn proven(
        handshake: &mut Option<Self>,
        house: &House,
        room: &Room,
        connection: &Connection,
    ) -> Option<Arc<Session>> {
        let Some(own) = handshake else { return pending().await };
        let done = timeout_at(own.deadline, &mut own.done).await;
        *handshake = None;
        if done.is_err() {
            house.results.late.increment(1);
            house.desk.limits.closed.handshake_timeout.increment(1);
            return None;
        }
        house.results.done.increment(1);
        room.greeted();
        Some(Arc::new(facts(connection, false)))
    }
}

impl House {
    /// The client's address as of now: it may move (RFC 9000 §9).
    pub(crate) fn peer(connection: &Connection) -> SocketAddr {
        canonical(connection.remote_address())
    }

    /// The address that was asked.
    pub(crate) fn asked(&self, connection: &Connection) -> SocketAddr {
        let ip = connection.local_ip().unwrap_or_else(|| self.local.ip());
        canonical(SocketAddr::new(ip, self.local.port()))
    }
}

/// A place among a counted number, given back when dropped.
struct Place {
    house: Arc<House>,
    of: fn(&House) -> &AtomicUsize,
    /// How many there were when it was taken, with this one.
    number: usize,
}

impl Place {
    /// Takes one.
    fn take(house: &Arc<House>, of: fn(&House) -> &AtomicUsize) -> Self {
        let number = of(house).fetch_add(1, Ordering::Relaxed) + 1;
        Self { house: Arc::clone(house), of, number }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.of)(&self.house).fetch_sub(1, Ordering::Relaxed);
    }
}
