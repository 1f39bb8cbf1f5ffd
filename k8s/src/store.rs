//! The store of one watch set: one writer, any number of readers, and no I/O.

use std::{
    sync::{
        Arc, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use crate::{
    changes::{Log, Mark, Touched},
    compact::Compact,
    content::{
        Change, Content, ExportRecord, IMPORTED, MORE, PREFIXED, Packed, SELECTOR, THERE,
        kind_flags,
    },
    exports::{CONFLICT, INVALID},
    object::{
        Event, Export, Import, ImportKind, Key, Kind, Object, Pod, Service, ServiceKind, Slice,
    },
    pack,
    probe::{Probe, State},
    reader::Reader,
    snapshot::Head,
    standing::Watch,
};

/// Objects that a sweep looks at under one lock.
const STEP: u32 = 512;
/// Deletions between two looks whether memory can be given back.
const GONE: u32 = 1024;

/// What a store is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Keep {
    /// Namespaces to expose; all if empty. Services, imports and slices of others are not kept at all.
    pub namespaces: Vec<String>,
    /// EndpointSlices.
    pub endpoints: bool,
    /// Pods, with names and addresses.
    pub pods: bool,
    /// ServiceImports and the slices of imported services.
    pub multicluster: bool,
    /// The names of the Pods behind endpoints.
    pub pod_names: bool,
    /// The labels of Pods.
    pub pod_labels: bool,
    /// The topology zones of endpoints.
    pub zones: bool,
    /// ServiceExports.
    pub exports: bool,
}

impl Keep {
    /// Says whether objects of a kind are held.
    pub const fn holds(&self, kind: Kind) -> bool {
        match kind {
            Kind::Namespaces | Kind::Services => true,
            Kind::Slices => self.endpoints,
            Kind::Pods => self.pods,
            Kind::Imports => self.multicluster,
            Kind::ImportSlices => self.multicluster && self.endpoints,
            Kind::Exports => self.exports,
        }
    }
}

/// How one kind is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// The kind.
    pub kind: Kind,
    /// What its watch does.
    pub state: State,
    /// Whether a list of it has been complete.
    pub listed: bool,
    /// How many objects of it there are.
    pub objects: usize,
    /// When the source was last heard of, in Unix seconds; 0 if never.
    pub heard: u64,
}

/// The state of a kind, where readers see it without the lock.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// What its watch does.
    pub(crate) watch: Watch,
    /// Whether a list has been complete.
    listed: AtomicBool,
    /// Whether the objects are those of a snapshot.
    pub(crate) kept: AtomicBool,
    /// Whether the cluster kept the kind from us, or did not have it, when it was last asked.
    pub(crate) waived: AtomicBool,
    /// Objects.
    objects: AtomicUsize,
}

/// What the handles of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The tables.
    pub(crate) content: RwLock<Content>,
    /// Unix seconds of the zone's last change.
    serial: AtomicU32,
    /// Unix seconds of the last change of external addresses.
    external: AtomicU32,
    /// Changes so far.
    version: AtomicU64,
    /// Those of them that a serial tells.
    told: AtomicU64,
    /// The kinds, by [`Kind::index`].
    pub(crate) kinds: [Status; Kind::COUNT],
    /// The watches of each namespace that is followed by itself, by [`Kind::index`].
    pub(crate) apart: Box<[[Watch; Kind::COUNT]]>,
    /// How many of these fail that nothing is known of a namespace without.
    pub(crate) refused: AtomicUsize,
    /// When the store was made.
    pub(crate) start: Instant,
    /// When the cluster was last heard of before a snapshot that was read, in Unix seconds.
    pub(crate) taken: AtomicU64,
    /// Whether namespaces are taken to be there by what is in them, since the cluster has kept them from us so far.
    assumed: AtomicBool,
    /// What is held.
    keep: Keep,
}

/// A handle to read a watch set's store by. Clones are cheap and read the same store.
#[derive(Debug, Clone)]
pub struct Store {
    /// The store.
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Takes the read lock for one look-up or a batch of them. Writers wait for it: hold it briefly, and never take a
    /// second one while you hold it, for a writer that waits between the two would stop both.
    pub fn read(&self) -> Reader<'_> {
        Reader { content: self.shared.content.read().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Says whether all answers may be given: namespaces, services and (where held) slices have been listed, and the other
    /// kinds have too or can not be. [`Self::listed`] tells of one kind.
    pub fn synced(&self) -> bool {
        Kind::ALL.into_iter().filter(|kind| self.shared.keep.holds(*kind)).all(|kind| {
            self.listed(kind)
                || (!matches!(kind, Kind::Namespaces | Kind::Services | Kind::Slices)
                    && self.shared.kinds[kind.index()].waived.load(Relaxed))
        })
    }

    /// Says whether some answers may be given: services have been listed, and the other kinds have too or are kept from us.
    /// What needs endpoints can be told only if [`Self::knows_endpoints`], and of a namespace in which nothing is
    /// [`Reader::doubts`] says whether it may be there.
    pub fn answers(&self) -> bool {
        Kind::ALL.into_iter().filter(|kind| self.shared.keep.holds(*kind)).all(|kind| {
            self.listed(kind)
                || match kind {
                    Kind::Services => false,
                    Kind::Namespaces => self.shared.assumed.load(Relaxed),
                    _ => self.shared.kinds[kind.index()].waived.load(Relaxed),
                }
        })
    }

    /// Says whether the endpoints of services, or of imported ones, are known, or are not to be.
    pub fn knows_endpoints(&self, imported: bool) -> bool {
        let kind = if imported { Kind::ImportSlices } else { Kind::Slices };
        !self.shared.keep.holds(kind) || self.listed(kind)
    }

    /// Says whether a list of the kind has been complete, now or earlier, or was when a snapshot was taken.
    pub fn listed(&self, kind: Kind) -> bool {
        self.shared.kinds[kind.index()].listed.load(Relaxed)
    }

    /// Says what the watch of a kind does.
    pub fn state(&self, kind: Kind) -> State {
        self.shared.kinds[kind.index()].watch.state()
    }

    /// Gives the Unix time of the last change that a zone's serial tells (addresses, ports, names), in seconds; 0
    /// before the first.
    pub fn serial(&self) -> u32 {
        self.shared.serial.load(Relaxed)
    }

    /// Gives the Unix time of the last change of external addresses, in seconds; 0 before the first.
    pub fn external_serial(&self) -> u32 {
        self.shared.external.load(Relaxed)
    }

    /// Counts changes: two equal numbers mean equal content.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Relaxed)
    }

    /// Gives a number that no other store has as long as this one lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Counts the changes that [`Self::serial`] or [`Self::external_serial`] tells: two equal numbers mean equal records.
    pub fn told(&self) -> u64 {
        self.shared.told.load(Relaxed)
    }

    /// Begins to follow changes: from now on what is touched is kept for [`Self::changes`], as far as it has room. Gives where
    /// that begins.
    pub fn follow(&self) -> Mark {
        let mut content = self.shared.content.write().unwrap_or_else(PoisonError::into_inner);
        content.log.get_or_insert_with(|| Box::new(Log::new())).end()
    }

    /// Gives what was touched since a mark, in order, some of it several times, and where that ends; none if it is not known any
    /// more, so that everything may have changed.
    pub fn changes(&self, since: Mark) -> (Option<Vec<Touched>>, Mark) {
        let reader = self.read();
        match &reader.content.log {
            Some(log) => (log.since(since), log.end()),
            None => (None, since),
        }
    }

    /// Gives how each held kind is doing.
    pub fn freshness(&self) -> impl Iterator<Item = Freshness> + '_ {
        Kind::ALL.into_iter().filter(|kind| self.shared.keep.holds(*kind)).map(|kind| {
            let status = &self.shared.kinds[kind.index()];
            Freshness {
                kind,
                state: self.state(kind),
                listed: self.listed(kind),
                objects: status.objects.load(Relaxed),
                heard: status.watch.heard.load(Relaxed),
            }
        })
    }

    /// Says what the store holds.
    pub fn keep(&self) -> &Keep {
        &self.shared.keep
    }

    /// Gives what a snapshot says of itself that is taken now, of a cluster that was last heard of at this Unix time.
    pub(crate) fn head(&self, taken: u64, identity: &str) -> Head {
        let held = || Kind::ALL.into_iter().filter(|kind| self.shared.keep.holds(*kind));
        let waived = |kind: &Kind| self.shared.kinds[kind.index()].waived.load(Relaxed);
        Head {
            taken,
            serial: self.serial(),
            external: self.external_serial(),
            identity: identity.to_owned(),
            listed: held().filter(|kind| self.listed(*kind)).collect(),
            waived: held().filter(waived).collect(),
        }
    }
}

/// Changes a store. There is one of it.
#[derive(Debug)]
pub struct Writer {
    /// The store.
    store: Store,
    /// Is told of latencies and counts.
    probe: Arc<dyn Probe>,
    /// The number of the list under way, by kind; objects carry it. A row for each namespace that is followed by itself, and a
    /// last one for all else.
    lists: Vec<[List; Kind::COUNT]>,
    /// Packed bytes of the object at hand.
    blob: Vec<u8>,
    /// Packed ports of it.
    ports: Vec<u8>,
    /// Its packed name alone.
    blank: Vec<u8>,
    /// Objects that were deleted since it was last looked whether memory can be given back.
    gone: u32,
    /// Whether namespaces are chosen by what only they tell, so that nothing can be exposed without them.
    chosen: bool,
}

impl Writer {
    /// Makes an empty store and its writer.
    pub fn new(keep: Keep, probe: Arc<dyn Probe>) -> (Self, Store) {
        let shared = Shared {
            content: RwLock::new(Content::new(keep.namespaces.clone(), keep.needed_apart())),
            serial: AtomicU32::new(0),
            external: AtomicU32::new(0),
            version: AtomicU64::new(0),
            told: AtomicU64::new(0),
            kinds: Default::default(),
            apart: keep.apart().iter().map(|_| Default::default()).collect(),
            refused: AtomicUsize::new(0),
            start: Instant::now(),
            taken: AtomicU64::new(0),
            assumed: AtomicBool::new(false),
            keep,
        };
        let store = Store { shared: Arc::new(shared) };
        let writer = Self {
            store: store.clone(),
            probe,
            lists: vec![Default::default(); store.keep().apart().len() + 1],
            blob: Vec::new(),
            ports: Vec::new(),
            blank: Vec::new(),
            gone: 0,
            chosen: false,
        };
        (writer, store)
    }

    /// Gives the store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Makes the store agree with an event. Objects of a kind that is not held are passed over.
    pub fn apply(&mut self, event: &Event<'_>) {
        let change = match event {
            Event::Restart(kind) => {
                (0..self.lists.len()).for_each(|row| self.restart(*kind, row));
                return;
            }
            Event::Synced(kind) => {
                self.sweep(*kind, None);
                return;
            }
            Event::RestartIn(kind, namespace) => {
                self.restart(*kind, self.row(*kind, namespace));
                return;
            }
            Event::SyncedIn(kind, namespace) => {
                self.sweep(*kind, Some(self.row(*kind, namespace)));
                return;
            }
            Event::Refused(kind, namespace) if namespace.is_empty() => {
                self.store.shared.kinds[kind.index()].waived.store(true, Relaxed);
                if *kind == Kind::Namespaces {
                    self.assume();
                }
                return;
            }
            Event::Refused(kind, namespace) => {
                let row = self.row(*kind, namespace);
                self.lists[row][kind.index()].refused = true;
                self.store.set_state_in(*kind, row, State::Forbidden);
                self.settle(*kind);
                return;
            }
            Event::Apply(object) if !self.store.keep().holds(object.kind()) => return,
            Event::Delete(key) if !self.store.keep().holds(key.kind) => return,
            Event::Apply(object)
                if !named(object.meta().namespace.as_bytes(), object.meta().name.as_bytes()) =>
            {
                log::warn!(
                    target: crate::LOG,
                    "{} {:?} in namespace {:?} has no usable name and is passed over",
                    object.kind(), object.meta().name, object.meta().namespace
                );
                return;
            }
            Event::Apply(Object::Namespace(meta)) => {
                let seen = self.list(Kind::Namespaces, "");
                self.lock().set_space(meta.name.as_bytes(), seen)
            }
            Event::Apply(Object::Service(service)) => self.service(service),
            Event::Apply(Object::Import(import)) => self.import(import),
            Event::Apply(Object::Slice(slice)) => self.slice(slice, false),
            Event::Apply(Object::ImportSlice(slice)) => self.slice(slice, true),
            Event::Apply(Object::Pod(pod)) => self.pod(pod),
            Event::Apply(Object::Export(export)) => self.export(export),
            Event::Delete(key) => self.delete(key),
        };
        let kind = match event {
            Event::Apply(object) => object.kind(),
            Event::Delete(key) => key.kind,
            Event::Restart(kind)
            | Event::Synced(kind)
            | Event::RestartIn(kind, _)
            | Event::SyncedIn(kind, _)
            | Event::Refused(kind, _) => *kind,
        };
        self.note(kind, change);
        if matches!(event, Event::Delete(_)) {
            self.gone += 1;
            if self.gone >= GONE {
                self.give_back();
            }
        }
    }

    /// Takes the write lock.
    fn lock(&self) -> RwLockWriteGuard<'_, Content> {
        self.store.shared.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells readers without the lock what a change did.
    fn note(&self, kind: Kind, change: Change) {
        let shared = &self.store.shared;
        if change.seen {
            let now = u32::try_from(unix_time().0).unwrap_or(u32::MAX);
            if change.serial {
                advance(&shared.serial, now);
            }
            if change.external {
                advance(&shared.external, now);
            }
            if change.serial || change.external {
                shared.told.fetch_add(1, Relaxed);
            }
            shared.version.fetch_add(1, Relaxed);
        } else if kind != Kind::Namespaces {
            // A namespace that is not exposed counts, though no reader sees it.
            return;
        }
        let count = self.store.read().content.counts[kind.index()];
        if shared.kinds[kind.index()].objects.swap(count, Relaxed) != count {
            self.probe.objects(kind, count);
        }
    }

    /// Says whether objects of this namespace are kept.
    fn wants(&self, namespace: &str) -> bool {
        let exposed = &self.store.keep().namespaces;
        exposed.is_empty() || exposed.iter().any(|other| other == namespace)
    }

    /// Sets a service.
    fn service(&mut self, service: &Service<'_>) -> Change {
        if !self.wants(&service.meta.namespace) {
            return Change::NONE;
        }
        self.blob.clear();
        let more = pack::put_service(&mut self.blob, service);
        self.ports.clear();
        pack::put_ports(&mut self.ports, &service.ports);
        let flags = THERE
            | kind_flags(service.kind)
            | if more { MORE } else { 0 }
            | if service.selector { SELECTOR } else { 0 };
        self.record(
            false,
            (&service.meta.namespace, &service.meta.name),
            flags,
            service.meta.version,
        )
    }

    /// Sets an imported service.
    fn import(&mut self, import: &Import<'_>) -> Change {
        if !self.wants(&import.meta.namespace) {
            return Change::NONE;
        }
        self.blob.clear();
        pack::put_text(&mut self.blob, import.meta.name.as_bytes());
        pack::put_ips(&mut self.blob, &import.ips);
        self.ports.clear();
        pack::put_ports(&mut self.ports, &import.ports);
        let kind = match import.kind {
            ImportKind::ClusterSetIp => ServiceKind::ClusterIp,
            ImportKind::Headless => ServiceKind::Headless,
        };
        self.record(
            true,
            (&import.meta.namespace, &import.meta.name),
            THERE | kind_flags(kind),
            import.meta.version,
        )
    }

    /// Sets the record that has been packed.
    fn record(&self, imported: bool, key: (&str, &str), flags: u8, version: u64) -> Change {
        let kind = if imported { Kind::Imports } else { Kind::Services };
        let seen = self.list(kind, key.0);
        let packed = Packed { blob: &self.blob, ports: &self.ports, version, flags, seen };
        self.lock().set_record(imported, (key.0.as_bytes(), key.1.as_bytes()), &packed)
    }

    /// Sets a slice, or removes one that names no service any more.
    fn slice(&mut self, slice: &Slice<'_>, imported: bool) -> Change {
        if !self.wants(&slice.meta.namespace) {
            return Change::NONE;
        }
        let kind = if imported { Kind::ImportSlices } else { Kind::Slices };
        let (namespace, name) = (&*slice.meta.namespace, &*slice.meta.name);
        if !named(b"", slice.service.as_bytes()) {
            return self.delete(&Key { kind, namespace: namespace.into(), name: name.into() });
        }
        let tail = name.strip_prefix(&*slice.service);
        let (zones, pods) = (self.store.keep().zones, self.store.keep().pod_names);
        self.blob.clear();
        pack::put_slice(
            &mut self.blob,
            tail.unwrap_or(name).as_bytes(),
            &slice.endpoints,
            zones,
            pods,
        );
        self.ports.clear();
        pack::put_ports(&mut self.ports, &slice.ports);
        self.blank.clear();
        pack::put_text(&mut self.blank, slice.service.as_bytes());
        pack::put_ips(&mut self.blank, &[]);
        let packed = Packed {
            blob: &self.blob,
            ports: &self.ports,
            version: slice.meta.version,
            flags: THERE
                | if tail.is_some() { PREFIXED } else { 0 }
                | if imported { IMPORTED } else { 0 },
            seen: self.list(kind, namespace),
        };
        let (change, service, selector) = self.lock().set_bundle(
            (namespace.as_bytes(), name.as_bytes()),
            (slice.service.as_bytes(), &self.blank),
            slice.cluster.as_bytes(),
            &packed,
        );
        let follows = self.store.listed(kind) && !self.store.is_kept(kind);
        if change.seen && !imported && follows && !slice.triggered.is_empty() {
            self.programmed(&slice.triggered, service, selector);
        }
        change
    }

    /// Tells how long a change of endpoints took to get here.
    fn programmed(&self, triggered: &str, service: ServiceKind, selector: bool) {
        let Ok(then) = triggered.parse::<k8s_openapi::jiff::Timestamp>() else {
            return;
        };
        let (seconds, nanoseconds) = unix_time();
        let passed =
            seconds as f64 + f64::from(nanoseconds) / 1e9 - then.as_nanosecond() as f64 / 1e9;
        let kind = match (service, selector) {
            (ServiceKind::ClusterIp, _) => "cluster_ip",
            (ServiceKind::Headless, true) => "headless_with_selector",
            (ServiceKind::Headless, false) => "headless_without_selector",
            (ServiceKind::ExternalName, _) => return,
        };
        // Clocks of two machines: a negative latency means nothing but drift.
        self.probe.programmed(kind, passed.max(0.0));
    }

    /// Sets a pod.
    fn pod(&mut self, pod: &Pod<'_>) -> Change {
        self.blob.clear();
        pack::put_pod(&mut self.blob, pod, self.store.keep().pod_labels);
        let seen = self.list(Kind::Pods, &pod.meta.namespace);
        let key = (pod.meta.namespace.as_bytes(), pod.meta.name.as_bytes());
        self.lock().set_pod(key, &self.blob, pod.terminating, seen)
    }

    /// Sets an export.
    fn export(&mut self, export: &Export<'_>) -> Change {
        if !self.wants(&export.meta.namespace) {
            return Change::NONE;
        }
        self.blob.clear();
        pack::put_text(&mut self.blob, export.meta.name.as_bytes());
        let key = (export.meta.namespace.as_bytes(), export.meta.name.as_bytes());
        let new = ExportRecord {
            created: export.created,
            flags: THERE
                | if export.invalid { INVALID } else { 0 }
                | if export.conflict { CONFLICT } else { 0 },
            seen: self.list(Kind::Exports, &export.meta.namespace),
            ..ExportRecord::default()
        };
        self.lock().set_export(key, &self.blob, new)
    }

    /// Removes an object by its name.
    fn delete(&self, key: &Key<'_>) -> Change {
        let mut content = self.lock();
        let name = key.name.as_bytes();
        let space = if key.kind == Kind::Namespaces { name } else { key.namespace.as_bytes() };
        let Some(space) = content.spaces.find(space) else {
            return Change::NONE;
        };
        match key.kind {
            Kind::Namespaces => content.remove_space(space),
            Kind::Services | Kind::Imports => {
                let imported = key.kind == Kind::Imports;
                content
                    .find(imported, space, name)
                    .map_or(Change::NONE, |number| content.remove_record(imported, number))
            }
            Kind::Slices | Kind::ImportSlices => content
                .find_bundle(key.kind == Kind::ImportSlices, space, name)
                .map_or(Change::NONE, |number| content.remove_bundle(number)),
            Kind::Pods => content
                .find_pod(space, name)
                .map_or(Change::NONE, |number| content.remove_pod(number)),
            Kind::Exports => content
                .find_export(space, name)
                .map_or(Change::NONE, |number| content.remove_export(number)),
        }
    }

    /// Gives the row that counts the lists of a namespace: its own, or the last.
    fn row(&self, kind: Kind, namespace: &str) -> usize {
        let apart = if kind == Kind::Namespaces { &[] } else { self.store.keep().apart() };
        let row = apart.iter().position(|other| other == namespace);
        row.unwrap_or(self.lists.len() - 1)
    }

    /// Gives the number of the list under way.
    fn list(&self, kind: Kind, namespace: &str) -> u8 {
        self.lists[self.row(kind, namespace)][kind.index()].number
    }

    /// Gives the numbers of the namespaces that have rows of their own, with these; a namespace without objects has none.
    fn rows(&self, kind: Kind) -> Vec<(u32, usize)> {
        let apart = if kind == Kind::Namespaces { &[] } else { self.store.keep().apart() };
        let content = self.lock();
        let space = |name: &String| content.spaces.find(name.as_bytes());
        apart.iter().zip(0..).filter_map(|(name, row)| Some((space(name)?, row))).collect()
    }

    /// Begins a list: objects get a new number, by which the sweep knows those that the list did not name.
    fn restart(&mut self, kind: Kind, row: usize) {
        let next = self.lists[row][kind.index()].number.checked_add(1);
        self.lists[row][kind.index()].number = next.unwrap_or_else(|| {
            let rows = self.rows(kind);
            let last = self.lists.len() - 1;
            self.lock().forget_lists(kind, |space| row_of(&rows, space, last) == row);
            1
        });
    }

    /// Removes what the last list of all, or of a row, did not name, in bounded steps between which readers have their turn.
    fn remove_unnamed(&self, kind: Kind, only: Option<usize>) {
        let rows = self.rows(kind);
        let lists: Vec<u8> = self.lists.iter().map(|row| row[kind.index()].number).collect();
        let last = lists.len() - 1;
        let list = |space| {
            let row = row_of(&rows, space, last);
            only.is_none_or(|only| only == row).then(|| lists[row])
        };
        let end = self.lock().end(kind);
        let mut from = 0;
        while from < end {
            let to = end.min(from + STEP);
            let mut content = self.lock();
            let change = (from..to)
                .fold(Change::NONE, |change, number| change.and(content.sweep(kind, number, list)));
            drop(content);
            self.note(kind, change);
            from = to;
        }
    }

    /// Puts what is left of a store that has shrunk into less memory.
    fn give_back(&mut self) {
        self.gone = 0;
        if !self.store.read().content.is_sparse() {
            return;
        }
        let new = Compact::of(&self.store);
        let old = self.lock().exchange(new);
        // What takes longest, without the lock.
        drop(old);
    }

    /// Ends a list of all, or of a row.
    fn sweep(&mut self, kind: Kind, only: Option<usize>) {
        self.remove_unnamed(kind, only);
        for (at, row) in self.lists.iter_mut().enumerate() {
            if only.is_none_or(|only| only == at) {
                row[kind.index()].complete = true;
                row[kind.index()].own |= only.is_some();
                self.store.hear_in(kind, at);
                self.store.set_state_in(kind, at, State::Watching);
            }
        }
        let apart = self.store.keep().apart();
        let mut content = self.lock();
        for name in apart.iter().zip(0..).filter(|(_, row)| only.is_none_or(|only| only == *row)) {
            content.set_listed(name.0.as_bytes(), kind);
        }
        content.assumed &= kind != Kind::Namespaces;
        drop(content);
        self.settle(kind);
        if only.is_none() {
            self.store.shared.kinds[kind.index()].kept.store(false, Relaxed);
        }
        self.give_back();
    }

    /// Has nothing exposed without a list of namespaces: labels of theirs choose them.
    pub(crate) const fn choose(&mut self) {
        self.chosen = true;
    }

    /// Takes namespaces to be there by what is in them until they have been listed, if that says which are exposed.
    fn assume(&self) {
        if self.chosen
            || self.store.listed(Kind::Namespaces)
            || !self.store.keep().apart().is_empty()
        {
            return;
        }
        self.lock().assumed = true;
        if !self.store.shared.assumed.swap(true, Relaxed) {
            self.store.shared.version.fetch_add(1, Relaxed);
        }
    }

    /// Begins to take in a snapshot.
    pub(crate) fn begin_kept(&mut self) {
        Kind::ALL.into_iter().for_each(|kind| self.apply(&Event::Restart(kind)));
    }

    /// Has what was taken in be served until the first lists are complete.
    pub(crate) fn end_kept(&mut self, head: &Head) {
        let shared = &self.store.shared;
        shared.serial.store(head.serial, Relaxed);
        shared.external.store(head.external, Relaxed);
        shared.taken.store(head.taken, Relaxed);
        for kind in &head.waived {
            shared.kinds[kind.index()].waived.store(true, Relaxed);
        }
        for kind in &head.listed {
            let status = &shared.kinds[kind.index()];
            let rows = shared.apart.iter().map(|row| &row[kind.index()]);
            for watch in rows.chain([&status.watch]) {
                watch.heard.store(head.taken, Relaxed);
            }
            status.kept.store(true, Relaxed);
            status.listed.store(true, Relaxed);
        }
        if head.waived.contains(&Kind::Namespaces) {
            self.assume();
        }
        let mut content = self.lock();
        for name in self.store.keep().apart() {
            head.listed.iter().for_each(|kind| content.set_listed(name.as_bytes(), *kind));
        }
    }

    /// Forgets what was taken in.
    pub(crate) fn discard_kept(&mut self) {
        self.begin_kept();
        Kind::ALL.into_iter().for_each(|kind| self.remove_unnamed(kind, None));
    }

    /// Tells that a kind is listed once every namespace has been that has the rights for it.
    fn settle(&self, kind: Kind) {
        let count = if kind == Kind::Namespaces { 0 } else { self.store.keep().apart().len() };
        let rows =
            if count == 0 { &self.lists[self.lists.len() - 1..] } else { &self.lists[..count] };
        let lists = || rows.iter().map(|row| row[kind.index()]);
        let status = &self.store.shared.kinds[kind.index()];
        if lists().any(|list| list.complete) && lists().all(|list| list.complete || list.refused) {
            status.listed.store(true, Relaxed);
        }
        // What one namespace has now says nothing of what a snapshot has of the others.
        if lists().any(|list| list.own) && lists().all(|list| list.own || list.refused) {
            status.kept.store(false, Relaxed);
        }
    }
}

/// The lists of a kind, in one namespace or in all.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    /// The number of the one under way.
    number: u8,
    /// Whether one has been complete.
    complete: bool,
    /// Whether that was one of the namespace alone, which a snapshot is not.
    own: bool,
    /// Whether the rights for it are missing.
    refused: bool,
}

/// Finds the row of a namespace.
fn row_of(rows: &[(u32, usize)], space: u32, last: usize) -> usize {
    rows.iter().find(|(other, _)| *other == space).map_or(last, |(_, row)| *row)
}

/// Moves a serial to the time, or on by one if the clock has been put back: who compares serials must see each change.
fn advance(serial: &AtomicU32, now: u32) {
    let before = serial.load(Relaxed);
    serial.store(if now < before { before.wrapping_add(1) } else { now }, Relaxed);
}

/// Says whether an object can be kept under these names: DNS labels for namespaces, at most a DNS name for the rest.
fn named(namespace: &[u8], name: &[u8]) -> bool {
    namespace.len() <= 63 && !name.is_empty() && name.len() <= 253
}

/// Gives the time: Unix seconds and nanoseconds.
pub(crate) fn unix_time() -> (u64, u32) {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (passed.as_secs(), passed.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_never_goes_back() {
        let serial = AtomicU32::new(0);
        let moved = [100, 100, 90, 90, 101, 102, 200].map(|now| {
            advance(&serial, now);
            serial.load(Relaxed)
        });
        assert_eq!(moved, [100, 100, 101, 102, 103, 104, 200]);
    }
}
