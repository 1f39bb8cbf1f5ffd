//! A watch set: a store and the tasks that keep it true.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};

use crate::{
    client::Connection,
    config::{Config, Source},
    manifests::Folder,
    object::Kind,
    probe::{Probe, State},
    resolve::{Filter, IMPORT_NAME},
    store::{Store, Writer},
    watch::{Common, Follower, Timing},
};

/// The phases in which a pod has no address any more.
const RUNNING: &str = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";
/// How often a folder of manifests is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is told how a store stands.
const TELL: Duration = Duration::from_secs(1);

/// A store and the tasks that keep it true. They end when this is dropped.
#[derive(Debug)]
pub struct WatchSet {
    /// The store.
    store: Store,
    /// The configuration's key.
    key: String,
    /// The tasks.
    tasks: Vec<AbortHandle>,
    /// Moves when the store does.
    progress: watch::Receiver<()>,
}

impl WatchSet {
    /// Starts to follow a cluster on a runtime. This does not wait and does not fail: a cluster that can not be reached
    /// is tried again for ever, and the reason is logged.
    pub fn start(config: &Config, probe: Arc<dyn Probe>, runtime: &Handle) -> Arc<Self> {
        Self::start_timed(config, probe, runtime, Timing::default())
    }

    /// Starts with other times.
    pub(crate) fn start_timed(
        config: &Config,
        probe: Arc<dyn Probe>,
        runtime: &Handle,
        timing: Timing,
    ) -> Arc<Self> {
        // The tasks that requests need are spawned where they are made.
        let _entered = runtime.enter();
        let (writer, store) = Writer::new(config.keep.clone(), Arc::clone(&probe));
        let (sender, progress) = watch::channel(());
        let telling = runtime.spawn(tell(store.clone(), Arc::clone(&probe))).abort_handle();
        let mut tasks = if let Source::Manifests(path) = &config.source {
            let filter = Filter {
                namespaces: config.namespace_labels.clone(),
                objects: config.labels.clone(),
                exports: config.keep.exports,
            };
            let folder = Folder::new(path.clone(), filter);
            vec![runtime.spawn(read(folder, writer, probe, sender)).abort_handle()]
        } else {
            let apart = config.keep.apart();
            let common = Arc::new(Common {
                connection: Connection::open(config, &probe),
                writer: Mutex::new(writer),
                store: store.clone(),
                probe,
                progress: sender,
                initial: AtomicBool::new(true),
                parts: Mutex::new(vec![Default::default(); apart.len()]),
                look: tokio::sync::Notify::new(),
                timing,
            });
            let follow = |kind, namespace| {
                let selectors = selectors(config, kind);
                let follower = Follower::new(Arc::clone(&common), kind, namespace, selectors);
                runtime.spawn(follower.run()).abort_handle()
            };
            let held = Kind::ALL.into_iter().filter(|kind| config.keep.holds(*kind));
            held.flat_map(|kind| match kind {
                Kind::Namespaces => vec![follow(kind, None)],
                _ if apart.is_empty() => vec![follow(kind, None)],
                _ => {
                    (0..).zip(apart).map(|one| follow(kind, Some((one.0, one.1.clone())))).collect()
                }
            })
            .collect()
        };
        tasks.push(telling);
        Arc::new(Self { store, key: config.key(), tasks, progress })
    }

    /// Gives the store to read.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Gives the key of the configuration that this follows.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Waits until the store is synced; says whether it came to that in time.
    pub async fn wait_synced(&self, limit: Duration) -> bool {
        let mut progress = self.progress.clone();
        let synced = async {
            while !self.store.synced() {
                if progress.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(limit, synced).await.is_ok() && self.store.synced()
    }
}

impl Drop for WatchSet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Tells how a store stands.
async fn tell(store: Store, probe: Arc<dyn Probe>) {
    loop {
        probe.standing(store.standing(), store.heard());
        sleep(TELL).await;
    }
}

/// Gives the selectors of a kind as a query's text.
fn selectors(config: &Config, kind: Kind) -> String {
    let labels = match kind {
        Kind::Namespaces => config.namespace_labels.as_ref(),
        _ => config.labels.as_ref(),
    };
    let labels = match (kind, labels) {
        (Kind::ImportSlices, Some(labels)) => format!("{IMPORT_NAME},{labels}"),
        (Kind::ImportSlices, None) => IMPORT_NAME.to_owned(),
        (_, labels) => labels.map(ToString::to_string).unwrap_or_default(),
    };
    let mut query = String::new();
    if !labels.is_empty() {
        query += "&labelSelector=";
        query += &escape(&labels);
    }
    if kind == Kind::Pods {
        query += "&fieldSelector=";
        query += &escape(RUNNING);
    }
    query
}

/// Escapes a query's value (RFC 3986, section 2.1).
fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// Reads a folder of manifests, now and as it changes.
async fn read(
    mut folder: Folder,
    mut writer: Writer,
    probe: Arc<dyn Probe>,
    progress: watch::Sender<()>,
) {
    let store = writer.store().clone();
    let mut said = None;
    loop {
        let looked = tokio::task::spawn_blocking(move || {
            let look = folder.look();
            (folder, look)
        });
        let Ok((same, look)) = looked.await else { return };
        folder = same;
        let state = match look {
            Ok(look) => {
                for problem in &look.problems {
                    log::error!(target: crate::LOG, "{problem}; what it said before is served on");
                }
                look.events.iter().flatten().for_each(|event| writer.apply(event));
                said = None;
                State::Watching
            }
            Err(problem) => {
                if said.as_ref() != Some(&problem) {
                    log::error!(target: crate::LOG, "{problem}; what was read before is served on");
                    said = Some(problem);
                }
                State::Failing
            }
        };
        for kind in Kind::ALL.into_iter().filter(|kind| store.keep().holds(*kind)) {
            if state == State::Watching {
                store.hear(kind);
            }
            if store.state(kind) != state {
                store.set_state(kind, state);
                probe.state(kind, state);
            }
        }
        progress.send_replace(());
        sleep(LOOK).await;
    }
}
