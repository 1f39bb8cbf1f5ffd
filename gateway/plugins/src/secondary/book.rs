//! The zones of a server block: those that the Corefile names, and those that catalogs list.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use engine::metrics::{Collect, Figures, describe};
use engine::{Stage, Stop};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use wire::Name;

use super::catalog::Catalog;
use super::held::Held;
use crate::shared::fall::Fall;
use crate::shared::zone::Table;
use crate::shared::zones::Zones;

/// The serial of a zone.
const SERIAL: &str = "causeway_secondary_serial";
/// Whether a zone is too old.
const EXPIRED: &str = "causeway_secondary_expired";
/// Whether a zone cannot be renewed.
const FAILING: &str = "causeway_secondary_failing";

/// Zones by their names, with the names that go on where they have nothing.
type Shelf = Table<(Arc<Held>, Fall)>;

/// A zone that the Corefile names.
#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) held: Arc<Held>,
    pub(super) fall: Fall,
    /// If it is a catalog, the zones that its members may be; all without any.
    pub(super) catalog: Option<Zones>,
}

/// A zone that a catalog lists.
#[derive(Debug)]
struct Member {
    /// The number of its catalog.
    owner: usize,
    /// The label that makes it itself.
    id: Box<[u8]>,
    held: Arc<Held>,
}

/// What the catalogs list, and what has become of it.
#[derive(Debug, Default)]
struct State {
    /// By the number of the catalog.
    lists: BTreeMap<usize, Catalog>,
    members: BTreeMap<Name, Member>,
}

/// All zones of a server block.
#[derive(Debug)]
pub(super) struct Book {
    fixed: Box<[Fixed]>,
    state: Mutex<State>,
    now: ArcSwap<Shelf>,
    changed: watch::Sender<()>,
}

impl Book {
    /// The zones that the Corefile names, and the members of catalogs that are there already.
    pub(super) fn new(fixed: Vec<Fixed>) -> Arc<Self> {
        describe(SERIAL, "The serial of the zone that is served.");
        describe(EXPIRED, "Whether the zone could not be renewed for too long and is not served.");
        describe(FAILING, "Whether the last try to renew the zone has failed.");
        let book = Arc::new(Self {
            fixed: fixed.into(),
            state: Mutex::default(),
            now: ArcSwap::default(),
            changed: watch::Sender::new(()),
        });
        engine::metrics::collect(&book);
        book.publish(&State::default());
        (0..book.fixed.len()).for_each(|number| book.look(number));
        book
    }

    /// The zones as they are now.
    pub(super) fn zones(&self) -> Guard<Arc<Shelf>> {
        self.now.load()
    }

    /// Takes up what a catalog lists now, if it is there.
    fn look(&self, number: usize) {
        let fixed = self.fixed.get(number).filter(|fixed| fixed.catalog.is_some());
        let version = fixed.and_then(|fixed| fixed.held.served.version());
        if let Some(Ok(listed)) = version.map(|version| Catalog::read(&version.zone)) {
            self.list(number, listed);
        }
    }

    /// Looks at a catalog whenever it has changed.
    async fn follow(self: Arc<Self>, number: usize) {
        let Some(fixed) = self.fixed.get(number) else { return };
        let mut changes = fixed.held.changes();
        loop {
            self.look(number);
            // The sender goes with the zone, and that with this book.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes up a catalog's list.
    fn list(&self, number: usize, mut listed: Catalog) {
        let Some(Fixed { catalog: Some(only), .. }) = self.fixed.get(number) else { return };
        listed.0.retain(|name, _| only.iter().next().is_none() || only.has(name));
        // RFC 9432 §5.2: what is configured otherwise is not touched.
        listed.0.retain(|name, _| self.fixed.iter().all(|fixed| fixed.held.name() != name));
        let mut state = self.state();
        if state.lists.get(&number) == Some(&listed) {
            return;
        }
        state.lists.insert(number, listed);
        self.settle(&mut state);
        self.publish(&state);
        drop(state);
        self.changed.send_replace(());
    }

    /// What the catalogs list.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A zone of this name, from where its catalog comes from.
    fn member(&self, owner: usize, id: &[u8], name: &Name) -> Option<Member> {
        let primaries = Arc::clone(&self.fixed.get(owner)?.held.primaries);
        Some(Member {
            owner,
            id: id.into(),
            held: Arc::new(Held::new(name.clone(), primaries, false)),
        })
    }

    /// The name of a catalog.
    fn catalog(&self, number: usize) -> Name {
        self.fixed.get(number).map(|fixed| fixed.held.name().clone()).unwrap_or_default()
    }

    /// Brings the members in line with the lists.
    fn settle(&self, state: &mut State) {
        let State { lists, members } = state;
        for (name, mut member) in std::mem::take(members) {
            let listed = |number: usize| lists.get(&number).and_then(|list| list.0.get(&name));
            let Some(own) = listed(member.owner) else {
                log::info!(target: "plugin/secondary", "Removed catalog member zone {name}");
                continue;
            };
            // RFC 9432 §4.3.1: a zone moves if its catalog says whereto, and that one lists it.
            let to = own.coo.as_ref().and_then(|coo| {
                let mut others = lists.keys().filter(|number| **number != member.owner);
                others.find(|number| self.catalog(**number) == *coo && listed(**number).is_some())
            });
            if let Some((to, entry)) = to.and_then(|to| Some((*to, listed(*to)?))) {
                let (old, new) = (self.catalog(member.owner), self.catalog(to));
                log::info!(target: "plugin/secondary", "Migrated catalog member zone {name} from {old} to {new}");
                // Its state is kept only if the ids are the same.
                let is_same = entry.id == member.id;
                member.owner = to;
                if !is_same && let Some(anew) = self.member(to, &entry.id, &name) {
                    member = anew;
                } else if let Some(fixed) = self.fixed.get(to) {
                    let primaries = Arc::clone(&fixed.held.primaries);
                    member.held = Arc::new(Held::taken_over(&member.held, primaries));
                }
            } else if own.id != member.id {
                log::info!(target: "plugin/secondary", "Reset catalog member zone {name}");
                if let Some(anew) = self.member(member.owner, &own.id, &name) {
                    member = anew;
                }
            }
            members.insert(name, member);
        }
        for (number, list) in lists.iter() {
            for (name, entry) in &list.0 {
                match members.get(name) {
                    Some(known) if known.owner == *number => {}
                    Some(known) => {
                        let (own, other) = (self.catalog(*number), self.catalog(known.owner));
                        log::warn!(target: "plugin/secondary", "{own} lists {name}, which is a member of {other}: passed over");
                    }
                    None => {
                        if let Some(member) = self.member(*number, &entry.id, name) {
                            log::info!(target: "plugin/secondary", "Added catalog member zone {name}");
                            members.insert(name.clone(), member);
                        }
                    }
                }
            }
        }
    }

    /// Serves the members as they are now.
    fn publish(&self, state: &State) {
        let fixed = self.fixed.iter().map(|fixed| (Arc::clone(&fixed.held), fixed.fall.clone()));
        let members = state.members.values().map(|member| {
            let fall = self.fixed.get(member.owner).map(|fixed| fixed.fall.clone());
            (Arc::clone(&member.held), fall.unwrap_or_default())
        });
        let all = fixed.chain(members).map(|(held, fall)| (held.name().clone(), (held, fall)));
        self.now.store(Arc::new(all.collect()));
    }

    /// All zones.
    fn all(&self) -> Vec<Arc<Held>> {
        let fixed = self.fixed.iter().map(|fixed| Arc::clone(&fixed.held));
        let state = self.state();
        fixed.chain(state.members.values().map(|member| Arc::clone(&member.held))).collect()
    }

    /// Renews all zones until told to stop.
    pub(super) async fn keep(self: Arc<Self>, mut stop: Stop) {
        let mut changed = self.changed.subscribe();
        // When the set goes, its tasks do.
        let mut tasks = JoinSet::new();
        for (number, _) in
            self.fixed.iter().enumerate().filter(|(_, fixed)| fixed.catalog.is_some())
        {
            tasks.spawn(Arc::clone(&self).follow(number));
        }
        let mut running: HashMap<Name, (Arc<Held>, AbortHandle)> = HashMap::new();
        loop {
            let wanted = self.all();
            let by_name: HashMap<&Name, &Arc<Held>> =
                wanted.iter().map(|held| (held.name(), held)).collect();
            running.retain(|name, (held, handle)| {
                let stays = by_name.get(name).is_some_and(|own| Arc::ptr_eq(own, held));
                if !stays {
                    handle.abort();
                }
                stays
            });
            for held in wanted {
                if !running.contains_key(held.name()) {
                    let handle = tasks.spawn(Arc::clone(&held).run());
                    running.insert(held.name().clone(), (held, handle));
                }
            }
            while let Some(ended) = tasks.try_join_next() {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    log::error!(target: "plugin/secondary", "renewing a zone ended early: {error}");
                }
            }
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                // The sender is this book's own.
                _ = changed.changed() => {}
            }
        }
    }
}

impl Collect for Book {
    fn collect(&self, figures: &mut Figures) {
        for (name, (held, _)) in self.zones().iter() {
            let name = name.to_string();
            let labels = [("zone", &*name)];
            if let Some(serial) = held.served.serial() {
                figures.gauge(SERIAL, &labels, f64::from(serial));
            }
            figures.gauge(EXPIRED, &labels, f64::from(u8::from(held.served.is_expired())));
            figures.gauge(FAILING, &labels, f64::from(u8::from(held.is_failing())));
        }
    }
}
