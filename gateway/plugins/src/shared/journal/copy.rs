//! The published records of a zone, and what they were.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;
use k8s::Mark;
use wire::{Answer, Name};

use super::{Book, Unit, follow};
use crate::shared::transfer::Pages;

/// Records of the past that are kept in any case.
const FEW: usize = 16 * 1024;
/// How many times the zone the past may be: what changes again and again is in it as often, and in a client's differences once.
const TIMES: usize = 4;

/// Units by their keys.
type Units = HashSet<Unit, RandomState>;

/// The published records of a zone, and what they were.
#[derive(Debug)]
pub(super) struct Copied {
    /// How far the changes of the stores are published.
    marks: Vec<Mark>,
    /// The records.
    units: Units,
    /// How many they are.
    records: usize,
    /// The last publications, the oldest first.
    steps: VecDeque<Step>,
    /// The records in them.
    past: usize,
    /// Whether somebody got the last state from here.
    handed: bool,
}

/// A publication.
#[derive(Debug)]
struct Step {
    /// The serial before.
    from: u32,
    /// Whether somebody got the state before from here. A client that says it has it, though it was never handed out, has one that
    /// another process gave the same serial.
    handed: bool,
    /// What the units that it changed were before.
    units: Vec<Unit>,
}

/// What has changed since a serial: units before and after.
#[derive(Debug)]
pub(super) struct Changes(Vec<(Unit, Unit)>);

impl Copied {
    /// Copies all records of a zone.
    pub(super) fn new(book: &dyn Book, zone: &Name) -> Self {
        let marks = follow(book);
        let mut own = Self {
            marks,
            units: Units::default(),
            records: 0,
            steps: VecDeque::new(),
            past: 0,
            handed: false,
        };
        own.look(book, zone, &all(book, zone));
        own
    }

    /// Copies what has changed; says whether that is anything. `serial` is the one that it had so far.
    pub(super) fn renew(&mut self, book: &dyn Book, zone: &Name, serial: u32) -> bool {
        let mut keys: Option<HashSet<Box<[u8]>>> = Some(HashSet::from([Box::default()]));
        let mut marks = Vec::with_capacity(self.marks.len());
        let known = self.marks.iter().map(Some).chain(std::iter::repeat(None));
        for (store, mark) in book.stores().into_iter().zip(known) {
            let (touched, end) = match mark {
                Some(mark) => store.changes(*mark),
                None => (None, store.follow()),
            };
            // A log that has begun anew has an end of its own.
            marks.push(if touched.is_some() { end } else { store.follow() });
            match (&mut keys, touched) {
                (Some(keys), Some(touched)) => {
                    for one in touched {
                        book.units_of(zone, &one, &mut |key| {
                            keys.insert(key.into());
                        });
                    }
                }
                (keys, _) => *keys = None,
            }
        }
        self.marks = marks;
        let units = match keys {
            Some(keys) => self.look(book, zone, &keys),
            None => {
                let mut keys = all(book, zone);
                keys.extend(self.units.iter().map(|unit| unit.key().into()));
                self.look(book, zone, &keys)
            }
        };
        if units.is_empty() {
            return false;
        }
        self.past += size(&units);
        let handed = std::mem::take(&mut self.handed);
        self.steps.push_back(Step { from: serial, handed, units });
        while self.past > self.records.saturating_mul(TIMES).max(FEW)
            && let Some(oldest) = self.steps.pop_front()
        {
            self.past -= size(&oldest.units);
        }
        true
    }

    /// Copies units; gives what those that have changed were.
    fn look(&mut self, book: &dyn Book, zone: &Name, keys: &HashSet<Box<[u8]>>) -> Vec<Unit> {
        let mut changed = Vec::new();
        let mut answer = Answer::default();
        for key in keys {
            answer.clear();
            book.write(zone, key, &mut answer);
            let unit = Unit::pack(key, &book.stems(zone, key), &answer);
            let old = self.units.get(&**key).cloned().unwrap_or_else(|| Unit::empty(key));
            if unit.has_same(&old) {
                continue;
            }
            self.records = self.records + unit.len() - old.len();
            if unit.is_empty() {
                self.units.remove(&**key);
            } else {
                self.units.replace(unit);
            }
            changed.push(old);
        }
        changed
    }

    /// Notes that somebody gets the last state.
    pub(super) fn hand_out(&mut self) {
        self.handed = true;
    }

    /// What has changed since a serial; none if that is not known, or is more records than `most` or than the zone has.
    pub(super) fn since(&self, serial: u32, most: usize) -> Option<Changes> {
        let most = most.min(self.records);
        let first = self.steps.iter().position(|step| step.from == serial && step.handed)?;
        let mut seen: HashSet<&[u8], RandomState> = HashSet::default();
        let mut changes = Vec::new();
        let mut records = 0;
        for old in self.steps.iter().skip(first).flat_map(|step| &step.units) {
            if !seen.insert(old.key()) {
                continue;
            }
            let new = self.units.get(old.key()).cloned().unwrap_or_else(|| Unit::empty(old.key()));
            records += old.without(&new).count() + new.without(old).count();
            if records > most {
                return None;
            }
            changes.push((old.clone(), new));
        }
        Some(Changes(changes))
    }

    /// All units, in any order.
    pub(super) fn all(&self) -> Vec<Unit> {
        self.units.iter().cloned().collect()
    }
}

/// How many records units have; one counts as one at least.
fn size(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.len().max(1)).sum()
}

impl Changes {
    /// The messages of an incremental transfer (RFC 1995 §4): the new SOA record, the old one, what is no longer there, the new
    /// one, what has come, the new one.
    pub(super) fn pages(&self, book: &dyn Book, zone: &Name, old: &Answer, new: &Answer) -> Pages {
        let mut pages = Pages::new();
        let mut buffer = Vec::new();
        let mut push = |pages: &mut Pages, own: &Unit, other: &Unit| {
            let stems = book.stems(zone, own.key());
            for record in own.without(other) {
                record.with(&stems, &mut buffer, |owner, data| {
                    pages.push(owner, record.rtype, record.ttl, data);
                });
            }
        };
        pages.extend(new);
        pages.extend(old);
        self.0.iter().for_each(|(before, after)| push(&mut pages, before, after));
        pages.extend(new);
        self.0.iter().for_each(|(before, after)| push(&mut pages, after, before));
        pages.extend(new);
        pages
    }
}

/// The keys of all units that a zone may have.
fn all(book: &dyn Book, zone: &Name) -> HashSet<Box<[u8]>> {
    let mut keys = HashSet::from([Box::default()]);
    book.units(zone, &mut |key| {
        keys.insert(key.into());
    });
    keys
}
