//! What all connections of a listener have in common. A reload changes it under them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use certs::{Gate, ServerTls};
use engine::{
    Door, Gateway, GroupKey, ListenSpec, ListenerId, Session, Stage, Stop, Timeouts, Tls, Transport,
};
use tokio::sync::watch;

use crate::limits::{Count, Limits, Room, Way};
use crate::proxy::Sessions;
use crate::rate::Rates;
use crate::seats::{Client, Leave, Seat};

/// How often connections are looked through for those that are too old.
const ROUND: Duration = Duration::from_secs(60);

/// One listener, for all its connections.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) gateway: Arc<Gateway>,
    /// The listener's number, for its exchanges.
    pub(crate) id: ListenerId,
    pub(crate) key: GroupKey,
    pub(crate) limits: Arc<Limits>,
    /// The connections open here.
    pub(crate) here: Arc<Count>,
    plan: ArcSwap<Plan>,
    /// Counts the configurations, for those who have to look at connections again.
    configurations: watch::Sender<u64>,
}

/// What the configuration says of a listener, ready for use. A connection takes it when it begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) spec: ListenSpec,
    pub(crate) timeouts: Timeouts,
    /// TLS; none for clear text.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// What clients have sent of late, if that is bounded.
    rates: Option<Arc<Rates>>,
    /// The clients that a proxy's datagrams speak for, if they are remembered.
    pub(crate) sessions: Option<Arc<Sessions>>,
}

impl Plan {
    /// What `spec` says; what is known of clients is taken over from `old` where the same holds for them.
    fn new(spec: ListenSpec, tls: Option<Arc<rustls::ServerConfig>>, old: Option<&Self>) -> Self {
        let rate = spec.limits.queries_per_client;
        let known = old.filter(|old| old.spec.limits.queries_per_client == rate);
        let rates = match known {
            Some(old) => old.rates.clone(),
            None => rate.map(|rate| Arc::new(Rates::new(rate))),
        };
        let sessions = match old.filter(|old| old.spec.proxy == spec.proxy) {
            Some(old) => old.sessions.clone(),
            None => {
                let bounds = spec.proxy.as_ref().and_then(|proxy| proxy.udp_sessions);
                bounds.map(|bounds| Arc::new(Sessions::new(bounds)))
            }
        };
        Self { timeouts: spec.timeouts(), spec, tls, rates, sessions }
    }

    /// The most connections that are served at a time, others wait (`https`, `grpc_server`); none if there is no such bound.
    pub(crate) fn served(&self, transport: Transport) -> Option<usize> {
        let most = match transport {
            Transport::Https => self.spec.https.max_connections,
            Transport::Grpc => self.spec.grpc.max_connections,
            _ => return None,
        };
        Some(most.unwrap_or(200)).filter(|most| *most > 0)
    }

    /// Takes a query of `peer` that came at `now`, or tells how long it has to wait for the rate that its client may have.
    pub(crate) fn pace(&self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        self.rates.as_ref().map_or(Ok(()), |rates| rates.take(Client::from(peer), now))
    }
}

impl Desk {
    /// A listener that begins with `spec`.
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        (id, key): (ListenerId, GroupKey),
        limits: Arc<Limits>,
        spec: ListenSpec,
        certs: Option<&Arc<ServerTls>>,
    ) -> Arc<Self> {
        let tls = configure(certs, key.transport, &spec, gate(&gateway, id));
        let plan = Plan::new(spec, tls, None);
        Arc::new(Self {
            gateway,
            id,
            key,
            limits,
            here: Arc::default(),
            plan: ArcSwap::from_pointee(plan),
            configurations: watch::Sender::new(0),
        })
    }

    /// What holds for connections that begin now.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// The same, for a moment.
    pub(crate) fn peek(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// Replaces what the configuration says. TLS that is the same stays, and with it the sessions that can be resumed.
    pub(crate) fn update(&self, spec: ListenSpec, certs: Option<&Arc<ServerTls>>) {
        let old = self.plan();
        let same = old.spec.tls == spec.tls && old.spec.quic.early_data == spec.quic.early_data;
        let tls = if same {
            old.tls.clone()
        } else {
            configure(certs, self.key.transport, &spec, gate(&self.gateway, self.id))
        };
        self.plan.store(Arc::new(Plan::new(spec, tls, Some(&old))));
    }

    /// Notes that a configuration has gone live: its door may be another one.
    pub(crate) fn configured(&self) {
        self.configurations.send_modify(|count| *count += 1);
    }

    /// Room for a connection of `peer` over a shared socket; none, and counted, if there is not. It counts as beginning until [`Room::greeted`].
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Room> {
        let taken = Count::one(&self.here);
        self.limits.enter((self.id, taken), peer, &self.peek().spec.limits, Way::Datagrams)
    }

    /// Whether `peer` may send another query now. If not it is counted as refused, and is to be told so (HTTP's 429).
    pub(crate) fn rate(&self, peer: IpAddr) -> bool {
        let within = self.peek().pace(peer, Instant::now()).is_ok();
        if !within {
            self.limits.limited.refused.increment(1);
        }
        within
    }

    /// Whether a connection whose handshake has shown `session` may stay. From here on it is told to end when its secrets no
    /// longer count ([`Seat::told`]).
    pub(crate) fn admit(&self, seat: &Seat, session: &Arc<Session>) -> bool {
        // Before the question, so that no change goes by between the two.
        seat.seal(session);
        self.door().is_none_or(|door| door.connection(session))
    }

    /// Tells connections to end that may not stay: looks again whenever secrets change or a configuration goes live, and now
    /// and then for those that are too old. Ends when `stop` says to drain.
    pub(crate) async fn watch(self: Arc<Self>, mut stop: Stop) {
        let mut configurations = self.configurations.subscribe();
        loop {
            let door = self.door();
            let mut changes = door.as_ref().map(|door| door.changes());
            self.look(door.as_deref());
            let changed = async {
                let told = match &mut changes {
                    Some(changes) => changes.changed().await.is_ok(),
                    None => false,
                };
                // A door that is gone changes no more; the configuration that follows has another.
                if !told {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = changed => {}
                // An error cannot be: the sender is a field of ours.
                _ = configurations.changed() => {}
                () = tokio::time::sleep(ROUND) => {}
            }
        }
    }

    /// Tells connections to end that may not stay.
    fn look(&self, door: Option<&dyn Door>) {
        let (now, age) = (Instant::now(), self.peek().spec.limits.age());
        self.limits.seats().each(self.id, |seat| {
            if let (Some(door), Some(session)) = (door, seat.session())
                && !door.connection(session)
            {
                seat.tell(Leave::Revoked);
            } else if seat.age(now) >= age {
                seat.tell(Leave::Old);
            }
        });
    }

    /// Who finds out who asks here, if anybody does.
    pub(crate) fn door(&self) -> Option<Arc<dyn Door>> {
        door(&self.gateway, self.id)
    }
}

/// Who finds out who asks at a listener.
fn door(gateway: &Gateway, id: ListenerId) -> Option<Arc<dyn Door>> {
    gateway.peek().group(id)?.door.clone()
}

/// What ends handshakes for names that nobody has.
fn gate(gateway: &Arc<Gateway>, id: ListenerId) -> Gate {
    let gateway = Arc::clone(gateway);
    Arc::new(move |name| door(&gateway, id).is_none_or(|door| door.name(name)))
}

/// The certificates of a listener's blocks in one.
///
/// # Errors
/// If the blocks contradict one another.
pub(crate) fn certs(tls: &[Tls]) -> Result<Option<Arc<ServerTls>>, certs::Error> {
    let all: Vec<Arc<ServerTls>> = tls.iter().filter_map(Tls::get).collect();
    match &*all {
        [] => Ok(None),
        [one] => Ok(Some(Arc::clone(one))),
        all => ServerTls::merge(all).map(Some),
    }
}

/// TLS for a transport, with its protocols (RFC 7301); none for clear text.
fn configure(
    certs: Option<&Arc<ServerTls>>,
    transport: Transport,
    spec: &ListenSpec,
    gate: Gate,
) -> Option<Arc<rustls::ServerConfig>> {
    let (certs, gate) = (certs?, Some(gate));
    Some(match transport {
        Transport::Udp | Transport::Tcp => return None,
        Transport::Quic => certs.quic(&[b"doq"], gate, spec.quic.early_data),
        Transport::Https3 => certs.quic(&[b"h3"], gate, false),
        Transport::Https => certs.stream(&[b"h2", b"http/1.1"], gate),
        Transport::Grpc => certs.stream(&[b"h2"], gate),
        Transport::Tls => certs.stream(&[b"dot"], gate),
    })
}
