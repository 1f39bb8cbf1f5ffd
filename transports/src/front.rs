//! The front-ends of a configuration: opened before it goes live, kept over reloads where nothing changed.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use certs::ServerTls;
use engine::{Gateway, Group, GroupKey, ListenSpec, ListenerId, Stage, Stopper, Transport};
use tokio::task::JoinHandle;

use crate::desk::{self, Desk};
use crate::limits::Limits;
use crate::udp::Udp;
use crate::workers::Workers;
use crate::{accept, endpoint, socket};

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {key}: {why}{}", remedy(.why))]
pub struct BindError {
    /// The listener.
    pub key: GroupKey,
    /// Why not.
    pub why: io::Error,
}

/// What helps against a bind error.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (a port below 1024 needs root or CAP_NET_BIND_SERVICE; another port can be given in the key or by -dns.port)"
        }
        io::ErrorKind::AddrInUse => {
            " (another program has the port; see `ss -lunp`, or choose another one)"
        }
        io::ErrorKind::AddrNotAvailable => " (no interface has this address; see `bind`)",
        _ => "",
    }
}

/// What a configuration needs of its listeners: sockets opened and not yet served, and what running ones change to.
#[derive(Debug, Default)]
pub struct Bound {
    opened: Vec<(Ready, Sockets)>,
    changed: Vec<Ready>,
}

/// A listener's specification, checked.
#[derive(Debug)]
struct Ready {
    key: GroupKey,
    id: ListenerId,
    spec: ListenSpec,
    certs: Option<Arc<ServerTls>>,
}

/// One listener's sockets.
#[derive(Debug, Default)]
struct Sockets {
    udp: Vec<std::net::UdpSocket>,
    tcp: Vec<std::net::TcpListener>,
}

/// One listener at work.
#[derive(Debug)]
struct Running {
    desk: Arc<Desk>,
    stopper: Stopper,
    tasks: Vec<JoinHandle<()>>,
    addr: Option<SocketAddr>,
}

/// Whether a transport is served by one QUIC endpoint, whatever number of sockets is stated.
fn is_quic(transport: Transport) -> bool {
    matches!(transport, Transport::Quic | Transport::Https3)
}

/// All front-ends of the process.
#[derive(Debug)]
pub struct Fronts {
    workers: Workers,
    limits: Arc<Limits>,
    grace: std::time::Duration,
    running: HashMap<GroupKey, Running>,
}

impl Fronts {
    /// None yet. `grace` is how long a listener that ends may drain.
    pub fn new(workers: Workers, limits: Arc<Limits>, grace: std::time::Duration) -> Self {
        Self { workers, limits, grace, running: HashMap::new() }
    }

    /// The transports that can be served.
    pub const TRANSPORTS: &'static [Transport] = &[
        Transport::Udp,
        Transport::Tls,
        Transport::Https,
        Transport::Grpc,
        Transport::Quic,
        Transport::Https3,
    ];

    /// Opens the sockets of the listeners that are not running yet, or run with another number of sockets. All else that a
    /// specification says changes under the connections that are open.
    ///
    /// # Errors
    /// The first that cannot be opened; those opened so far are closed again, and nothing changes.
    pub fn bind<'a>(&self, groups: impl Iterator<Item = &'a Group>) -> Result<Bound, BindError> {
        let mut bound = Bound::default();
        for group in groups {
            let failed = |why| BindError { key: group.key, why };
            let (key, id, spec) = (group.key, group.id, group.spec.clone());
            let certs = desk::certs(&spec.tls).map_err(io::Error::other).map_err(failed)?;
            let ready = Ready { key, id, spec, certs };
            let running = self.running.get(&key).map(|running| running.desk.plan());
            match running {
                Some(old) if is_quic(key.transport) || old.spec.sockets == ready.spec.sockets => {
                    if old.spec != ready.spec {
                        bound.changed.push(ready);
                    }
                }
                _ => {
                    let sockets = self.open(&ready).map_err(failed)?;
                    bound.opened.push((ready, sockets));
                }
            }
        }
        Ok(bound)
    }

    /// Opens one listener's sockets: one a worker, or as many as it says. QUIC has a single one, since its connections outlive
    /// the addresses by which the kernel would choose among several (RFC 9000 §9).
    fn open(&self, ready: &Ready) -> io::Result<Sockets> {
        let count = ready.spec.sockets.unwrap_or_else(|| self.workers.count()).max(1);
        let GroupKey { transport, addr, mut port } = ready.key;
        let (count, udp, tcp) = match transport {
            Transport::Udp | Transport::Tcp => (count, true, true),
            Transport::Tls | Transport::Https | Transport::Grpc => (count, false, true),
            Transport::Quic | Transport::Https3 => (1, true, false),
        };
        let mut sockets = Sockets::default();
        for _ in 0..count {
            // Port 0 is chosen once.
            if udp {
                let socket = socket::udp(addr, port)?;
                port = socket.local_addr()?.port();
                sockets.udp.push(socket);
            }
            if tcp {
                let socket = socket::tcp(addr, port)?;
                port = socket.local_addr()?.port();
                sockets.tcp.push(socket);
            }
        }
        Ok(sockets)
    }

    /// Serves what was bound; [`Fronts::retain`] ends what the configuration no longer has.
    pub fn start(&mut self, bound: Bound, gateway: &Arc<Gateway>) {
        for ready in bound.changed {
            if let Some(running) = self.running.get(&ready.key) {
                running.desk.update(ready.spec, ready.certs.as_ref());
            }
        }
        for (ready, sockets) in bound.opened {
            let (key, fresh) = (ready.key, self.serve(ready, sockets, gateway));
            if let Some(old) = self.running.insert(key, fresh) {
                old.stopper.reach(Stage::Draining);
            }
        }
        self.running.values().for_each(|running| running.desk.configured());
    }

    /// Drains the listeners that are not among `groups`.
    pub fn retain<'a>(&mut self, groups: impl Iterator<Item = &'a Group>) {
        let wanted: Vec<GroupKey> = groups.map(|group| group.key).collect();
        self.running.retain(|key, running| {
            let keep = wanted.contains(key);
            if !keep {
                running.stopper.reach(Stage::Draining);
            }
            keep
        });
    }

    /// Starts one listener's loops.
    fn serve(&self, ready: Ready, sockets: Sockets, gateway: &Arc<Gateway>) -> Running {
        let stopper = Stopper::new(self.grace);
        let udp = sockets.udp.first().map(std::net::UdpSocket::local_addr);
        let addr = udp.or_else(|| sockets.tcp.first().map(std::net::TcpListener::local_addr));
        let (gateway, limits) = (Arc::clone(gateway), Arc::clone(&self.limits));
        let named = (ready.id, ready.key);
        let desk = Desk::new(gateway, named, limits, ready.spec, ready.certs.as_ref());
        let mut tasks = Vec::new();
        let watch = Arc::clone(&desk).watch(stopper.stop());
        tasks.push(self.workers.handle(0).spawn(watch));
        for (at, socket) in sockets.udp.into_iter().enumerate() {
            let (desk, stop) = (Arc::clone(&desk), stopper.stop());
            if is_quic(desk.key.transport) {
                let workers = self.workers.handles().to_vec();
                tasks.push(self.workers.handle(at).spawn(async move {
                    let key = desk.key;
                    if let Err(error) = endpoint::run(desk, socket, &workers, stop).await {
                        log::error!("serving {key}: {error}");
                    }
                }));
                continue;
            }
            tasks.push(self.workers.handle(at).spawn(async move {
                match Udp::new(socket, desk) {
                    Ok(udp) => udp.run(stop).await,
                    Err(error) => log::error!("serving UDP: {error}"),
                }
            }));
        }
        for (at, socket) in sockets.tcp.into_iter().enumerate() {
            let (desk, stop) = (Arc::clone(&desk), stopper.stop());
            tasks.push(self.workers.handle(at).spawn(async move {
                match tokio::net::TcpListener::from_std(socket) {
                    Ok(listener) => accept::run(desk, listener, stop).await,
                    Err(error) => log::error!("serving TCP: {error}"),
                }
            }));
        }
        Running { desk, stopper, tasks, addr: addr.and_then(Result::ok) }
    }

    /// The addresses that are listened on.
    pub fn addrs(&self) -> impl Iterator<Item = (GroupKey, SocketAddr)> {
        self.running.iter().filter_map(|(key, running)| Some((*key, running.addr?)))
    }

    /// Drains all listeners; resolves when they are done, or the grace period is over.
    pub async fn drain(&mut self) {
        let mut tasks = Vec::new();
        for (_, running) in self.running.drain() {
            running.stopper.reach(Stage::Draining);
            tasks.extend(running.tasks);
        }
        let all = async {
            for task in tasks {
                // A listener that panicked has said so already.
                drop(task.await);
            }
        };
        if tokio::time::timeout(self.grace + std::time::Duration::from_secs(1), all).await.is_err()
        {
            log::warn!("queries were still under way after the grace period");
        }
    }
}
