//! The watches behind plugins, shared by all blocks that see the same of a cluster.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::config::{Diagnostic, Word};
use engine::{Setup, Stage};
use k8s::{Keep, Selector, Store, WatchSet};
use wire::Name;

use super::connection::Connection;
use super::metrics::{self, Joint};
use super::overlap::Registry;
use super::status::Status;
use super::verify;

/// How often the log says that the start waits.
const REMIND: Duration = Duration::from_millis(500);

/// What a plugin wants to see of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Want {
    /// What the store has to hold.
    pub(crate) keep: Keep,
    /// What labels of objects must fulfil.
    pub(crate) labels: Option<Selector>,
    /// What labels of namespaces must fulfil.
    pub(crate) namespace_labels: Option<Selector>,
}

/// A cluster as plugins use it: what it is called, and its watches.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The name that it is declared by; empty for one that a plugin's own block states.
    name: Box<str>,
    /// What the cluster calls itself, if that is known.
    domain: Option<Name>,
    /// The watches.
    watched: Arc<Watched>,
}

/// A cluster's watches and the store that they fill.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The watches; they end with this.
    watches: Arc<WatchSet>,
    /// Whether somebody tells the log that the start waits for it.
    told: AtomicBool,
}

/// Gives the cluster that a Corefile declares by a name, with watches for what is wanted of it: those of another block or of the
/// configuration before if they are the same. The start waits for it as long as it says.
///
/// # Errors
/// A name that is not declared, with the nearest; wrong lines of its block; a connection that cannot be made from what is
/// stated. A cluster that does not answer is none.
pub(crate) fn declared(
    setup: &mut Setup<'_>,
    word: &Word,
    want: Want,
) -> Result<Arc<Source>, Diagnostic> {
    let block = setup.cluster(word)?;
    let connection = Connection::declared(block)?;
    connection.warn(setup);
    Source::open(setup, block.name(), block.key(), &connection, want)
}

/// The same for a cluster that the plugin's own block states.
///
/// # Errors
/// A connection that cannot be made from what is stated.
pub(crate) fn stated(
    setup: &mut Setup<'_>,
    connection: &Connection,
    want: Want,
) -> Result<Arc<Source>, Diagnostic> {
    let place = &setup.directive().name;
    Source::open(setup, "", place, connection, want)
}

impl Source {
    /// Starts the watches of a cluster, or finds them. `place` is where wrong things are that have no place of their own.
    fn open(
        setup: &mut Setup<'_>,
        name: &str,
        place: &Word,
        connection: &Connection,
        want: Want,
    ) -> Result<Arc<Self>, Diagnostic> {
        let source = connection.source().map_err(|wrong| match wrong.place {
            Some(_) => wrong,
            None => {
                Diagnostic { place: Some(place.place.clone()), span: place.text.len(), ..wrong }
            }
        })?;
        connection.warn_of_file(setup, &source);
        let watch = k8s::Config {
            keep: want.keep,
            namespace_labels: want.namespace_labels,
            labels: want.labels,
            snapshot: connection.snapshot.clone(),
            limits: connection.limits,
            agent: k8s::agent(&setup.process().version, &setup.process().commit),
            verify: connection.verify,
            ..k8s::Config::new(source)
        };
        let cluster = metrics::cluster(name, &watch.source);
        let joint = Joint::shared(setup, &cluster)?;
        // A declared cluster has watches and figures of its own.
        let watched = setup.share(&format!("{name} {}", watch.key()), || {
            let runtime = tokio::runtime::Handle::try_current()
                .map_err(|_| place.wrong("can only be started inside a runtime"))?;
            let watches = WatchSet::start(&watch, joint.one_more(), &runtime);
            Ok(Arc::new(Watched::new(watches)))
        })?;
        // Watches that another block or the configuration before has started may have been told otherwise.
        watched.watches.verify_every(connection.verify);
        if !matches!(watch.source, k8s::Source::Manifests(_)) {
            verify::register(setup, &cluster, &watched.watches)?;
        }
        let folder = match &watch.source {
            k8s::Source::Manifests(folder) => folder.display().to_string(),
            _ => String::new(),
        };
        let registry = registered(setup, name, &watched)?;
        let status = Status::new(name, &folder, &watched.watches, registry);
        setup.control("status", format!("clusters/{name} {}", watch.key()), Arc::new(status));
        setup.before_serving(watched.wait(connection.startup_timeout));
        match &watch.source {
            _ if watch.snapshot.is_none() => {}
            k8s::Source::Manifests(_) => {
                let odd = place.wrong("keeps no snapshot of manifests, which are files themselves");
                setup.warn(odd.help("take `snapshot` away"));
            }
            _ => keep_last(setup, &watched.watches),
        }
        Ok(Arc::new(Self { name: name.into(), domain: connection.domain.clone(), watched }))
    }

    /// An unnamed source of these watches.
    #[cfg(test)]
    pub(crate) fn of(watches: Arc<WatchSet>) -> Self {
        Self { name: "".into(), domain: None, watched: Arc::new(Watched::new(watches)) }
    }

    /// The name that the cluster is declared by; empty for one that a plugin's own block states.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the cluster calls itself; none if nobody says.
    pub(crate) fn domain(&self) -> Option<&Name> {
        self.domain.as_ref()
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        self.watched.store()
    }

    /// What is watched, as long as somebody needs it.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> std::sync::Weak<Watched> {
        Arc::downgrade(&self.watched)
    }

    /// Waits until the cluster is known, for `limit` at most.
    #[cfg(test)]
    pub(crate) fn wait(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.watched.wait(limit)
    }
}

/// Has a declared cluster be compared with the others, if there are any.
///
/// # Errors
/// None of its own.
fn registered(
    setup: &mut Setup<'_>,
    name: &str,
    watched: &Arc<Watched>,
) -> Result<Option<Arc<Registry>>, Diagnostic> {
    if name.is_empty() || setup.clusters().len() < 2 {
        return Ok(None);
    }
    let registry = setup.share("clusters", || Ok(Registry::new()))?;
    registry.add(name, watched);
    let looking = Arc::clone(&registry);
    setup.task(|mut stop| async move {
        tokio::select! {
            () = stop.reached(Stage::Draining) => {}
            () = looking.watch() => {}
        }
    });
    Ok(Some(registry))
}

/// Has the process put the cluster's last state on disk before it ends.
fn keep_last(setup: &mut Setup<'_>, watches: &Arc<WatchSet>) {
    let (process, watches) = (Arc::clone(setup.process()), Arc::downgrade(watches));
    setup.task(move |mut replaced| async move {
        let mut process_stop = process.stop();
        let linger = process.linger();
        tokio::select! {
            () = process_stop.reached(Stage::Draining) => {}
            // The next configuration has a task of its own.
            () = replaced.reached(Stage::Draining) => {
                if process.stopper().stage() < Stage::Draining {
                    return;
                }
            }
        }
        let last = watches.upgrade().map(|watches| watches.finish());
        if let Some(last) = last {
            last.await;
        }
        drop(linger);
    });
}

impl Watched {
    /// What is shared of these watches.
    fn new(watches: Arc<WatchSet>) -> Self {
        Self { watches, told: AtomicBool::new(false) }
    }

    /// The store.
    pub(super) fn store(&self) -> &Store {
        self.watches.store()
    }

    /// Waits until the cluster is known, for `limit` at most. Only the first who waits says so in the log.
    fn wait(self: &Arc<Self>, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let watched = Arc::clone(self);
        async move {
            if watched.watches.wait_synced(REMIND.min(limit)).await {
                return;
            }
            let tells = !watched.told.swap(true, Ordering::Relaxed);
            let mut left = limit.saturating_sub(REMIND);
            while !left.is_zero() {
                if tells {
                    log::info!(target: "plugin/kubernetes", "waiting for Kubernetes API before starting server");
                }
                if watched.watches.wait_synced(REMIND.min(left)).await {
                    return;
                }
                left = left.saturating_sub(REMIND);
            }
            if tells {
                log::warn!(target: "plugin/kubernetes", "starting server with unsynced Kubernetes API");
            }
        }
    }
}
