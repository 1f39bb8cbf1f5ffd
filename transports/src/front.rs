//! The front-ends of a configuration: opened before it goes live, kept over reloads where nothing changed.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{Gateway, Group, GroupKey, ListenSpec, ListenerId, Stage, Stopper, Transport};
use tokio::task::JoinHandle;

use crate::limits::Limits;
use crate::socket;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::workers::Workers;

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

/// Sockets opened and not yet served.
#[derive(Debug, Default)]
pub struct Bound {
    opened: Vec<Opened>,
}

/// One listener's sockets.
#[derive(Debug)]
struct Opened {
    key: GroupKey,
    id: ListenerId,
    spec: ListenSpec,
    udp: Vec<std::net::UdpSocket>,
    tcp: Vec<std::net::TcpListener>,
}

/// One listener at work.
#[derive(Debug)]
struct Running {
    spec: ListenSpec,
    stopper: Stopper,
    tasks: Vec<JoinHandle<()>>,
    addr: Option<SocketAddr>,
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
    pub const TRANSPORTS: &'static [Transport] = &[Transport::Udp];

    /// Opens the sockets of the listeners that are not running yet, or run with another specification.
    ///
    /// # Errors
    /// The first that cannot be opened; those opened so far are closed again, and nothing changes.
    pub fn bind<'a>(&self, groups: impl Iterator<Item = &'a Group>) -> Result<Bound, BindError> {
        let mut bound = Bound::default();
        for group in groups {
            if self.running.get(&group.key).is_some_and(|running| running.spec == group.spec) {
                continue;
            }
            let opened = self.open(group).map_err(|why| BindError { key: group.key, why })?;
            bound.opened.push(opened);
        }
        Ok(bound)
    }

    /// Opens one listener's sockets: one a worker, or as many as it says.
    fn open(&self, group: &Group) -> io::Result<Opened> {
        let count = group.spec.sockets.unwrap_or_else(|| self.workers.count()).max(1);
        let GroupKey { addr, mut port, .. } = group.key;
        let (mut udp, mut tcp) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let socket = socket::udp(addr, port)?;
            // Port 0 is chosen once.
            port = socket.local_addr()?.port();
            udp.push(socket);
            tcp.push(socket::tcp(addr, port)?);
        }
        Ok(Opened { key: group.key, id: group.id, spec: group.spec.clone(), udp, tcp })
    }

    /// Serves what was bound; [`Fronts::retain`] ends what the configuration no longer has.
    pub fn start(&mut self, bound: Bound, gateway: &Arc<Gateway>) {
        for opened in bound.opened {
            let (key, fresh) = (opened.key, self.serve(opened, gateway));
            if let Some(old) = self.running.insert(key, fresh) {
                old.stopper.reach(Stage::Draining);
            }
        }
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
    fn serve(&self, opened: Opened, gateway: &Arc<Gateway>) -> Running {
        let stopper = Stopper::new(self.grace);
        let addr = opened.udp.first().and_then(|socket| socket.local_addr().ok());
        let mut tasks = Vec::new();
        for (at, (udp, tcp)) in opened.udp.into_iter().zip(opened.tcp).enumerate() {
            let worker = self.workers.handle(at);
            let id = opened.id;
            let own = Tcp {
                gateway: Arc::clone(gateway),
                listener: id,
                limits: Arc::clone(&self.limits),
                timeouts: opened.spec.timeouts(),
                max_queries: opened.spec.max_queries.unwrap_or(0),
            };
            let (stop, limits, gateway) =
                (stopper.stop(), Arc::clone(&self.limits), Arc::clone(gateway));
            tasks.push(worker.spawn(async move {
                match Udp::new(udp, gateway, id, limits) {
                    Ok(udp) => udp.run(stop).await,
                    Err(error) => log::error!("serving UDP: {error}"),
                }
            }));
            let stop = stopper.stop();
            tasks.push(worker.spawn(async move {
                match tokio::net::TcpListener::from_std(tcp) {
                    Ok(listener) => own.run(listener, stop).await,
                    Err(error) => log::error!("serving TCP: {error}"),
                }
            }));
        }
        Running { spec: opened.spec, stopper, tasks, addr }
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
