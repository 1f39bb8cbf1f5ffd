//! A watch set: a store and the tasks that keep it true.

use std::{
    future::Future,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    client::{Connected, Connection},
    config::{Config, Source},
    manifests::Folder,
    object::Kind,
    probe::{Probe, State},
    resolve::{Filter, IMPORT_NAME},
    snapshot::{Keeper, Place},
    store::{Store, Writer},
    url,
    verify::{Compared, Selected, Verdict, Verifier},
    watch::{Common, Timing},
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
    /// Keeps the store's snapshot, where there is one.
    keeper: Option<Arc<Keeper>>,
    /// Whether the snapshot has been read, or there is none.
    loading: watch::Receiver<bool>,
    /// What compares the store with the cluster, once that is followed; none of a folder.
    compared: Option<Arc<OnceLock<Compared>>>,
    /// How often that is done in the background.
    every: watch::Sender<Option<Duration>>,
    /// The connection; none for manifests.
    connection: Option<Arc<Connection>>,
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
        let (mut writer, store) = Writer::new(config.keep.clone(), Arc::clone(&probe));
        if config.namespace_labels.is_some() {
            writer.choose();
        }
        let (sender, progress) = watch::channel(());
        let keeper = Place::of(config)
            .map(|place| Arc::new(Keeper::new(place, store.clone(), Arc::clone(&probe))));
        let (loaded, loading) = watch::channel(keeper.is_none());
        let telling = tell(store.clone(), keeper.clone(), Arc::clone(&probe));
        let telling = runtime.spawn(telling).abort_handle();
        let (every, often) = watch::channel(config.verify);
        let mut compared = None;
        let mut connection = None;
        let mut tasks = if let Source::Manifests(path) = &config.source {
            let filter = Filter {
                namespaces: config.namespace_labels.clone(),
                objects: config.labels.clone(),
                exports: config.keep.exports,
            };
            let folder = Folder::new(path.clone(), filter);
            vec![runtime.spawn(read(folder, writer, probe, sender)).abort_handle()]
        } else {
            let cluster = Cluster {
                connection: Arc::clone(connection.insert(Connection::open(config, &probe))),
                kinds: Kind::ALL
                    .into_iter()
                    .filter(|kind| config.keep.holds(*kind))
                    .map(|kind| (kind, selectors(config, kind)))
                    .collect(),
                probe,
                progress: sender,
                timing,
                compared: Arc::clone(compared.insert(Arc::default())),
                often,
            };
            let keeping = keeper.clone().map(|keeper| runtime.spawn(keeper.run()).abort_handle());
            let following = runtime.spawn(cluster.follow(writer, keeper.clone(), loaded));
            keeping.into_iter().chain([following.abort_handle()]).collect()
        };
        tasks.push(telling);
        Arc::new(Self {
            store,
            key: config.key(),
            tasks,
            progress,
            keeper,
            loading,
            compared,
            every,
            connection,
        })
    }

    /// Gives the store to read.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Says how the connection to the API server is doing; none where manifests stand for one.
    pub fn connected(&self) -> Option<Connected> {
        self.connection.as_ref().map(|connection| connection.connected())
    }

    /// Gives the key of the configuration that this follows.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Waits until the store is synced, for `limit` at most after a snapshot was read; says whether it came to that in time.
    pub async fn wait_synced(&self, limit: Duration) -> bool {
        let (mut progress, mut loading) = (self.progress.clone(), self.loading.clone());
        // An error means that whoever reads it is gone.
        drop(loading.wait_for(|loaded| *loaded).await);
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

impl WatchSet {
    /// Compares the store with a new list of everything now, in place and object by object; kinds that the cluster has not, or
    /// keeps from us, are left out, also in one of the namespaces that are followed one by one. What differs is logged and listed
    /// anew. What can not be compared has in its place why: a kind, or everything.
    pub async fn verify(&self) -> Vec<Result<Verdict, String>> {
        let Some(compared) = &self.compared else {
            let why = "manifests are read from a folder, and have no API server";
            return vec![Err(why.to_owned())];
        };
        match compared.get() {
            Some(compared) => Verifier::new(compared).all().await,
            None => vec![Err("not followed yet".to_owned())],
        }
    }

    /// Sets how often that is done in the background, one kind after another and slowly; never if none.
    pub fn verify_every(&self, every: Option<Duration>) {
        self.every.send_if_modified(|old| std::mem::replace(old, every) != every);
    }

    /// Gives what puts the last state on disk when the process stops; nothing is done where no snapshot is kept.
    pub fn finish(&self) -> impl Future<Output = ()> + Send + use<> {
        let keeper = self.keeper.clone();
        async move {
            if let Some(keeper) = keeper {
                keeper.finish().await;
            }
        }
    }
}

/// A cluster to be followed.
#[derive(Debug)]
struct Cluster {
    /// The connection.
    connection: Arc<Connection>,
    /// The kinds, with their selectors as a query's text.
    kinds: Vec<(Kind, String)>,
    /// Is told of states.
    probe: Arc<dyn Probe>,
    /// Wakes those who wait for the store.
    progress: watch::Sender<()>,
    /// How long things may take.
    timing: Timing,
    /// Where it is put what the store is compared by.
    compared: Arc<OnceLock<Compared>>,
    /// How often that is to be done.
    often: watch::Receiver<Option<Duration>>,
}

impl Cluster {
    /// Reads the snapshot, if there is one, and follows the cluster for ever, where that is stated its namespaces one by one.
    async fn follow(
        self,
        mut writer: Writer,
        keeper: Option<Arc<Keeper>>,
        loaded: watch::Sender<bool>,
    ) {
        if let Some(keeper) = keeper {
            let read = tokio::task::spawn_blocking(move || {
                keeper.load(&mut writer);
                writer
            });
            let Ok(same) = read.await else { return };
            writer = same;
        }
        loaded.send_replace(true);
        let Self { connection, kinds, probe, progress, timing, compared, often } = self;
        let apart = writer.store().keep().apart().to_vec();
        let common = Arc::new(Common {
            connection,
            store: writer.store().clone(),
            writer: Mutex::new(writer),
            probe,
            progress,
            initial: AtomicBool::new(true),
            telling: Mutex::default(),
            look: Notify::new(),
            timing,
            repair: Default::default(),
            recovered: Notify::new(),
            verifying: Default::default(),
        });
        let mut selected = Vec::new();
        for (kind, selectors) in kinds {
            let places: Vec<_> = match kind {
                Kind::Namespaces => vec![None],
                _ if apart.is_empty() => vec![None],
                _ => (0..).zip(&apart).map(|(row, name)| Some((row, name.clone()))).collect(),
            };
            let select = |namespace| Selected { kind, namespace, selectors: selectors.clone() };
            selected.extend(places.into_iter().map(select));
        }
        // The followers end with the set.
        let mut followers = JoinSet::new();
        for one in &selected {
            followers.spawn(one.follower(&common).run());
        }
        let compared = compared.get_or_init(|| Compared { common, selected });
        followers.spawn(Verifier::new(compared).run(often));
        while followers.join_next().await.is_some() {}
    }
}

impl Drop for WatchSet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Tells how a store and its snapshot stand.
async fn tell(store: Store, keeper: Option<Arc<Keeper>>, probe: Arc<dyn Probe>) {
    loop {
        probe.standing(store.standing(), store.heard());
        if let Some((taken, bytes)) = keeper.as_ref().and_then(|keeper| keeper.figures()) {
            probe.snapshot(taken, bytes);
        }
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
        query += &url::value(&labels);
    }
    if kind == Kind::Pods {
        query += "&fieldSelector=";
        query += &url::value(RUNNING);
    }
    query
}

/// Reads a folder of manifests, now and as it changes.
async fn read(
    mut folder: Folder,
    mut writer: Writer,
    probe: Arc<dyn Probe>,
    progress: watch::Sender<()>,
) {
    let store = writer.store().clone();
    let (mut said, mut known) = (None, false);
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
                    log::error!(target: crate::LOG, "{problem}");
                }
                look.events.iter().flatten().for_each(|event| writer.apply(event));
                (said, known) = (None, true);
                State::Watching
            }
            Err(problem) => {
                if said.as_ref() != Some(&problem) {
                    let end = if known { "; what was read before is served on" } else { "" };
                    log::error!(target: crate::LOG, "{problem}{end}");
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
