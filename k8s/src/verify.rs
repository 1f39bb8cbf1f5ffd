//! Compares what is known of a cluster with a new list of it, object by object and in place, and mends what differs.
//!
//! What differs at first may be a change on its way: it is looked at again after a while, in a second list. Only what the
//! server still says of the same resource version, and the store still does not, is a difference.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    end::End,
    object::{Event, Kind, Object},
    probe::{Quiet, State},
    store::{Store, Writer},
    watch::{Common, Follower},
};

/// How many objects of a difference are named.
const NAMES: usize = 20;
/// How many objects are looked at again; of a store that differs in more it is enough to know so many.
const MOST: usize = 4096;
/// Objects that are looked at under one lock.
const STEP: u32 = 512;
/// What is waited after each piece of a list in the background, so that neither side is busy with it alone.
const PACE: Duration = Duration::from_millis(5);
/// How often the time is doubled after which a comparison that could not be made is tried again.
const MOST_DOUBLED: u32 = 6;

/// Why namespaces are left out that have no list.
const BY_NAME: &str = "each is looked up by its name now and then";

/// How an object differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Difference {
    /// The cluster has it and the store does not.
    Missing,
    /// The store has it and the cluster does not.
    Superfluous,
    /// Both have it and do not agree.
    Differing,
}

impl Difference {
    /// Every difference.
    pub const ALL: [Self; 3] = [Self::Missing, Self::Superfluous, Self::Differing];

    /// Gives its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Superfluous => "superfluous",
            Self::Differing => "differing",
        }
    }
}

/// What the comparison of a kind found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The kind.
    pub kind: Kind,
    /// How many objects of the cluster were compared.
    pub objects: usize,
    /// How many differ, by [`Difference::ALL`].
    pub counts: [usize; 3],
    /// The first that differ: how, and `namespace/name`.
    pub names: Vec<(Difference, String)>,
    /// Whether more differed at first than the 4,096 that were looked at again: how many more do is not known.
    pub more: bool,
    /// Why nothing was compared, if so.
    pub left_out: Option<&'static str>,
}

impl Verdict {
    /// Says whether nothing differs, as far as was compared.
    pub fn equal(&self) -> bool {
        self.counts == [0; 3] && !self.more
    }

    /// The verdict on a kind that is not compared.
    const fn none(kind: Kind, why: &'static str) -> Self {
        Self {
            kind,
            objects: 0,
            counts: [0; 3],
            names: Vec::new(),
            more: false,
            left_out: Some(why),
        }
    }

    /// Gives how many objects differ so.
    pub const fn count(&self, difference: Difference) -> usize {
        self.counts[difference as usize]
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.left_out {
            return write!(f, "{}: left out, {why}", self.kind);
        }
        write!(f, "{}: {} compared", self.kind, self.objects)?;
        if self.equal() {
            return f.write_str(", equal");
        }
        for difference in Difference::ALL {
            write!(f, ", {} {}", self.count(difference), difference.word())?;
        }
        if self.more {
            write!(f, ", and more, for only {MOST} that differed were looked at again")?;
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let names: Vec<_> =
            self.names.iter().map(|(how, name)| format!("{} {name}", how.word())).collect();
        write!(f, " ({})", names.join(", "))
    }
}

/// An object that differed in the first list.
#[derive(Debug)]
struct Suspect {
    /// How.
    how: Difference,
    /// The resource version that the list had; 0 of a superfluous one.
    version: u64,
    /// Whether the second list confirmed it; of a superfluous one that it was not named there.
    stands: bool,
}

/// One comparison.
#[derive(Debug)]
pub(crate) struct Check {
    /// The kind.
    kind: Kind,
    /// What is compared.
    store: Store,
    /// Puts one object at a time into a store of its own, in the form in which it would be kept.
    scratch: Writer,
    /// The numbers of objects that the list named.
    named: Vec<u64>,
    /// Objects that were compared.
    objects: usize,
    /// Those that differed, by namespace and name.
    suspects: HashMap<(Vec<u8>, Vec<u8>), Suspect>,
    /// Whether there were more.
    more: bool,
    /// Namespaces that are not compared.
    without: Vec<Vec<u8>>,
}

impl Check {
    /// Begins a comparison.
    pub(crate) fn new(store: &Store, kind: Kind) -> Self {
        let (scratch, _) = Writer::new(store.keep().clone(), Arc::new(Quiet));
        Self {
            kind,
            store: store.clone(),
            scratch,
            named: Vec::new(),
            objects: 0,
            suspects: HashMap::new(),
            more: false,
            without: Vec::new(),
        }
    }

    /// Compares an object; gives nothing if it agrees or is none that would be kept. Notes that it was named.
    fn compare(&mut self, event: &Event<'_>) -> Option<Difference> {
        let Event::Apply(object) = event else { return None };
        let (namespace, name) = key(object);
        self.scratch.apply(event);
        let difference = {
            let (own, new) = (self.store.read(), self.scratch.store().read());
            let own_number = own.content.number(self.kind, namespace, name);
            let new_number = new.content.number(self.kind, namespace, name);
            // A pod that ends is kept as it was, and not taken up.
            let ends = matches!(object, Object::Pod(pod) if pod.terminating);
            if let Some(number) = own_number
                && (ends || new_number.is_some())
            {
                let at = number as usize / 64;
                if at >= self.named.len() {
                    self.named.resize(at + 1, 0);
                }
                self.named[at] |= 1 << (number % 64);
            }
            let new_number = new_number?;
            self.objects += 1;
            match own_number {
                None => Some(Difference::Missing),
                Some(number) => (!own.content.agrees(self.kind, number, &new.content, new_number))
                    .then_some(Difference::Differing),
            }
        };
        let meta = object.meta();
        let namespace = if self.kind == Kind::Namespaces { "" } else { &*meta.namespace };
        self.scratch.apply(&Event::Delete(crate::Key {
            kind: self.kind,
            namespace: namespace.into(),
            name: (&*meta.name).into(),
        }));
        difference
    }

    /// Leaves a namespace out, which nothing has been said of so far: what is known of it is not looked for in any list.
    pub(crate) fn leave_out(&mut self, namespace: &str) {
        self.without.push(namespace.as_bytes().to_vec());
        self.suspects.retain(|(space, _), _| space != namespace.as_bytes());
    }

    /// Takes an object of the first list.
    pub(crate) fn first(&mut self, event: &Event<'_>) {
        let Some(how) = self.compare(event) else { return };
        if let Event::Apply(object) = event {
            let (namespace, name) = key(object);
            let suspect = Suspect { how, version: object.meta().version, stands: false };
            self.suspect((namespace.to_vec(), name.to_vec()), suspect);
        }
    }

    /// Notes an object that differs, unless there are too many.
    fn suspect(&mut self, key: (Vec<u8>, Vec<u8>), suspect: Suspect) {
        if self.without.contains(&key.0) {
            return;
        }
        if self.suspects.len() < MOST {
            self.suspects.insert(key, suspect);
        } else {
            self.more = true;
        }
    }

    /// Ends the first list: finds what it did not name.
    pub(crate) fn unnamed(&mut self) {
        let end = self.store.read().content.end(self.kind);
        let mut from = 0;
        while from < end {
            let to = end.min(from + STEP);
            let store = self.store.clone();
            let reader = store.read();
            for number in from..to {
                let named = self.named.get(number as usize / 64).copied().unwrap_or_default();
                if named & 1 << (number % 64) == 0
                    && let Some(key) = reader.content.key_of(self.kind, number)
                {
                    let how = Difference::Superfluous;
                    self.suspect(key, Suspect { how, version: 0, stands: true });
                }
            }
            from = to;
        }
    }

    /// Takes an object of the second list.
    pub(crate) fn second(&mut self, event: &Event<'_>) {
        let Event::Apply(object) = event else { return };
        let (namespace, name) = key(object);
        let key = (namespace.to_vec(), name.to_vec());
        if !self.suspects.contains_key(&key) {
            return;
        }
        let how = self.compare(event);
        if let Some(suspect) = self.suspects.get_mut(&key) {
            // One that changed meanwhile is told of by its next event.
            suspect.stands = suspect.how != Difference::Superfluous
                && suspect.version == object.meta().version
                && how == Some(suspect.how);
        }
    }

    /// Ends the comparison.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let reader = self.store.read();
        let mut found: Vec<_> = std::mem::take(&mut self.suspects)
            .into_iter()
            .filter(|(_, suspect)| suspect.stands)
            // What was superfluous may have been taken away after the second list had passed its place.
            .filter(|((namespace, name), suspect)| {
                suspect.how != Difference::Superfluous
                    || reader.content.number(self.kind, namespace, name).is_some()
            })
            .map(|((namespace, name), suspect)| {
                let name = name.escape_ascii().to_string();
                let name = if namespace.is_empty() {
                    name
                } else {
                    format!("{}/{name}", namespace.escape_ascii())
                };
                (suspect.how, name)
            })
            .collect();
        found.sort_unstable();
        let mut counts = [0; 3];
        found.iter().for_each(|(how, _)| counts[*how as usize] += 1);
        found.truncate(NAMES);
        Verdict {
            kind: self.kind,
            objects: self.objects,
            counts,
            names: found,
            more: self.more,
            left_out: None,
        }
    }
}

/// Gives an object's namespace and name.
fn key<'o>(object: &'o Object<'_>) -> (&'o [u8], &'o [u8]) {
    let meta = object.meta();
    let namespace = match object {
        Object::Namespace(_) => &[],
        _ => meta.namespace.as_bytes(),
    };
    (namespace, meta.name.as_bytes())
}

/// What is followed by itself.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The kind.
    pub(crate) kind: Kind,
    /// The namespace, with its number, if it is followed by itself.
    pub(crate) namespace: Option<(usize, String)>,
    /// Selectors as a query's text.
    pub(crate) selectors: String,
}

impl Selected {
    /// Makes a follower of it.
    pub(crate) fn follower(&self, common: &Arc<Common>) -> Follower {
        let (namespace, selectors) = (self.namespace.clone(), self.selectors.clone());
        Follower::new(Arc::clone(common), self.kind, namespace, selectors)
    }
}

/// What a store is compared by.
#[derive(Debug)]
pub(crate) struct Compared {
    /// What the followers share.
    pub(crate) common: Arc<Common>,
    /// What is followed.
    pub(crate) selected: Vec<Selected>,
}

/// Compares the kinds of a store with its cluster.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// What the followers share.
    common: Arc<Common>,
    /// Those that list, by kind; more than one of a kind whose namespaces are followed one by one.
    listers: Vec<Vec<Follower>>,
    /// Whether namespaces are looked up by their names, and so have no list.
    by_name: bool,
}

impl Verifier {
    /// Makes a verifier of what is followed.
    pub(crate) fn new(compared: &Compared) -> Self {
        let Compared { common, selected } = compared;
        let by_name = !common.store.keep().apart().is_empty();
        let kinds = Kind::ALL.into_iter().filter(|kind| !(by_name && *kind == Kind::Namespaces));
        let listers = kinds
            .map(|kind| selected.iter().filter(move |one| one.kind == kind))
            .map(|of| of.map(|one| one.follower(common)).collect::<Vec<_>>())
            .filter(|listers| !listers.is_empty())
            .collect();
        Self { common: Arc::clone(common), listers, by_name }
    }

    /// Compares all kinds that the cluster has and lets us see, and has listed anew what differs. One that can not be compared has in
    /// its place why, in words that begin with it.
    pub(crate) async fn all(&mut self) -> Vec<Result<Verdict, String>> {
        let mut verdicts = Vec::new();
        if self.by_name {
            verdicts.push(Ok(Verdict::none(Kind::Namespaces, BY_NAME)));
        }
        for at in 0..self.listers.len() {
            verdicts.extend(self.one(at, Duration::ZERO).await.transpose());
        }
        verdicts
    }

    /// Compares one kind, as far as the cluster has it and lets us see it; tells of what it found.
    ///
    /// # Errors
    /// Why it can not be compared.
    async fn one(&mut self, at: usize, pace: Duration) -> Result<Option<Verdict>, String> {
        let common = Arc::clone(&self.common);
        let Some(listers) = self.listers.get_mut(at) else { return Ok(None) };
        let Some(kind) = listers.first().map(|lister| lister.kind) else { return Ok(None) };
        // Two at a time would ask the server for everything twice.
        let _turn = common.verifying.lock().await;
        listers.iter_mut().for_each(|lister| lister.pace = pace);
        let verdict = match compare(&common, kind, listers).await {
            Ok(Some(verdict)) => verdict,
            Ok(None) => return Ok(None),
            Err(cause) => {
                common.probe.unverified(kind);
                return Err(format!("{kind}: {cause}"));
            }
        };
        common.probe.verified(&verdict);
        if verdict.equal() {
            log::debug!(target: crate::LOG, "verified {verdict}");
        } else {
            log::warn!(
                target: crate::LOG,
                "verified {verdict}: what is known differs from what the API server lists, and is listed again"
            );
            common.repair[kind.index()].send_replace(());
        }
        Ok(Some(verdict))
    }

    /// Compares now and then for ever: after `every` and, since a server that was away may be another one, some time after
    /// it is back.
    pub(crate) async fn run(mut self, mut every: watch::Receiver<Option<Duration>>) {
        let common = Arc::clone(&self.common);
        let timing = common.timing;
        let mut last = Instant::now();
        // When the comparison after an outage is due, when the last one ended, and how many in succession came to nothing.
        let (mut owed, mut before, mut vain) = (None::<Instant>, None, 0);
        loop {
            let next = *every.borrow_and_update();
            let Some(next) = next else {
                if every.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let Some(chance) = self.listers.first_mut().and_then(|of| of.first_mut()) else {
                return;
            };
            let regular = last + chance.jitter(next);
            let soon = chance.jitter(timing.recovered);
            tokio::select! {
                () = sleep_until(owed.map_or(regular, |due| due.min(regular))) => {}
                changed = every.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = common.recovered.notified() => {
                    let now = Instant::now();
                    let due = (now + soon).max(before.map_or(now, |end| end + timing.between));
                    owed = Some(owed.map_or(due, |earlier| earlier.min(due)));
                    vain = 0;
                    continue;
                }
            }
            let complete = self.round().await;
            last = Instant::now();
            if owed.take().is_some() {
                before = Some(last);
                // What could not be compared then is not left until the next time comes: it may be wrong for so long.
                if !complete {
                    owed = Some(last + soon * (1 << vain));
                    vain = (vain + 1).min(MOST_DOUBLED);
                }
            }
        }
    }

    /// Compares all kinds in the background; says whether all could be compared.
    async fn round(&mut self) -> bool {
        let mut complete = true;
        for at in 0..self.listers.len() {
            if let Err(cause) = self.one(at, PACE).await {
                log::debug!(target: crate::LOG, "not verified: {cause}");
                complete = false;
            }
            sleep(self.common.timing.grace).await;
        }
        complete
    }
}

/// Compares a kind, in the namespaces in which the cluster lets us see it if they are followed one by one; gives nothing if there is
/// none.
async fn compare(
    common: &Common,
    kind: Kind,
    listers: &mut [Follower],
) -> Result<Option<Verdict>, String> {
    let store = &common.store;
    let mut check = Check::new(store, kind);
    let mut seen: Vec<_> = listers.iter_mut().collect();
    list(&mut seen, store, &mut check, Check::first).await?;
    if seen.is_empty() {
        return Ok(None);
    }
    check.unnamed();
    if !check.suspects.is_empty() {
        let objects = check.objects;
        sleep(common.timing.grace).await;
        list(&mut seen, store, &mut check, Check::second).await?;
        if seen.is_empty() {
            return Ok(None);
        }
        followed(store, kind)?;
        check.objects = objects;
    }
    Ok(Some(check.verdict()))
}

/// Has what is listed taken in one way or the other. Those whose rights are missing, or turn out to be, are left out from then on.
async fn list(
    listers: &mut Vec<&mut Follower>,
    store: &Store,
    check: &mut Check,
    take: fn(&mut Check, &Event<'_>),
) -> Result<(), String> {
    for lister in std::mem::take(listers) {
        if lister.does_without() {
            leave_out(lister, check);
            continue;
        }
        followed(store, lister.kind)?;
        match lister.newest(&mut |event| take(check, event)).await {
            Ok(()) => listers.push(lister),
            Err(End::Forbidden(_)) => leave_out(lister, check),
            Err(end) => return Err(end.words()),
        }
    }
    Ok(())
}

/// Leaves out the namespace of what is not listed.
fn leave_out(lister: &Follower, check: &mut Check) {
    if let Some((_, name)) = &lister.namespace {
        check.leave_out(name);
    }
}

/// Refuses to compare what is not followed: it is known to be out of date.
fn followed(store: &Store, kind: Kind) -> Result<(), String> {
    match store.state(kind) {
        State::Watching => Ok(()),
        state => Err(format!("not followed at present ({})", state.word())),
    }
}
