//! What all connections of a listener have in common. A reload changes it under them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use certs::{Gate, ServerTls};
use engine::{Door, Gateway, GroupKey, ListenSpec, ListenerId, Timeouts, Tls, Transport};

use crate::limits::Limits;

/// One listener, for all its connections.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) gateway: Arc<Gateway>,
    /// The listener's number, for its exchanges.
    pub(crate) id: ListenerId,
    pub(crate) key: GroupKey,
    pub(crate) limits: Arc<Limits>,
    plan: ArcSwap<Plan>,
}

/// What the configuration says of a listener, ready for use. A connection takes it when it begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) spec: ListenSpec,
    pub(crate) timeouts: Timeouts,
    /// TLS; none for clear text.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
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
        let tls = certs.map(|certs| configure(certs, key.transport, &spec, gate(&gateway, id)));
        let plan = Plan { timeouts: spec.timeouts(), spec, tls };
        Arc::new(Self { gateway, id, key, limits, plan: ArcSwap::from_pointee(plan) })
    }

    /// What holds for connections that begin now.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// Replaces what the configuration says. TLS that is the same stays, and with it the sessions that can be resumed.
    pub(crate) fn update(&self, spec: ListenSpec, certs: Option<&Arc<ServerTls>>) {
        let old = self.plan();
        let same = old.spec.tls == spec.tls && old.spec.quic.early_data == spec.quic.early_data;
        let tls = if same {
            old.tls.clone()
        } else {
            let gate = || gate(&self.gateway, self.id);
            certs.map(|certs| configure(certs, self.key.transport, &spec, gate()))
        };
        self.plan.store(Arc::new(Plan { timeouts: spec.timeouts(), spec, tls }));
    }

    /// Who finds out who asks here, if anybody does.
    pub(crate) fn door(&self) -> Option<Arc<dyn Door>> {
        door(&self.gateway, self.id)
    }
}

/// Who finds out who asks at a listener.
fn door(gateway: &Gateway, id: ListenerId) -> Option<Arc<dyn Door>> {
    gateway.live().group(id)?.door.clone()
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

/// TLS for a transport, with its protocols (RFC 7301).
fn configure(
    certs: &Arc<ServerTls>,
    transport: Transport,
    spec: &ListenSpec,
    gate: Gate,
) -> Arc<rustls::ServerConfig> {
    let gate = Some(gate);
    match transport {
        Transport::Quic => certs.quic(&[b"doq"], gate, spec.quic.early_data),
        Transport::Https3 => certs.quic(&[b"h3"], gate, false),
        Transport::Https => certs.stream(&[b"h2", b"http/1.1"], gate),
        Transport::Grpc => certs.stream(&[b"h2"], gate),
        Transport::Udp | Transport::Tcp | Transport::Tls => certs.stream(&[b"dot"], gate),
    }
}
