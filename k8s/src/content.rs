//! The store's tables and the changes that keep them consistent. What is here runs under the store's lock.

use std::{hash::BuildHasher as _, net::IpAddr};

use hashbrown::HashTable;

use crate::{
    arena::{Arena, Blob},
    changes::Log,
    intern::Interner,
    object::{Kind, ServiceKind},
    slab::Slab,
};

/// The record, bundle or pod is of an object that is there. A record without it waits for its service: a slice came first.
pub(crate) const THERE: u8 = 1;
/// The service has a selector.
pub(crate) const SELECTOR: u8 = 2;
/// The service has more than cluster IPs.
pub(crate) const MORE: u8 = 4;
/// The slice's name begins with its service's, which is left out.
pub(crate) const PREFIXED: u8 = 8;
/// The slice belongs to an imported service.
pub(crate) const IMPORTED: u8 = 16;
/// Where the kind of a service is in its flags.
const KIND_SHIFT: u8 = 5;

/// Puts a service's kind into flags.
pub(crate) const fn kind_flags(kind: ServiceKind) -> u8 {
    (kind as u8) << KIND_SHIFT
}

/// Takes a service's kind out of flags.
pub(crate) const fn kind_of(flags: u8) -> ServiceKind {
    match flags >> KIND_SHIFT {
        0 => ServiceKind::ClusterIp,
        1 => ServiceKind::Headless,
        _ => ServiceKind::ExternalName,
    }
}

/// A service or an imported service.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    /// Resource version; 0 if unknown.
    pub(crate) version: u64,
    /// Name, addresses and the rest.
    pub(crate) blob: Blob,
    /// Number of its namespace.
    pub(crate) space: u32,
    /// Number of its port set.
    pub(crate) ports: u32,
    /// One more than the number of its first slice; 0 without any.
    pub(crate) first: u32,
    /// What it is.
    pub(crate) flags: u8,
    /// The list that named it last.
    pub(crate) seen: u8,
}

/// A slice.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bundle {
    /// Name and endpoints.
    pub(crate) blob: Blob,
    /// Number of its service's record.
    pub(crate) record: u32,
    /// Number of its port set.
    pub(crate) ports: u32,
    /// Number of the cluster it comes from.
    pub(crate) cluster: u32,
    /// One more than the number of its service's next slice; 0 for the last.
    pub(crate) next: u32,
    /// What it is.
    pub(crate) flags: u8,
    /// The list that named it last.
    pub(crate) seen: u8,
}

/// A pod.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PodRecord {
    /// Name, addresses and labels.
    pub(crate) blob: Blob,
    /// Number of its namespace.
    pub(crate) space: u32,
    /// Whether it is there.
    pub(crate) flags: u8,
    /// The list that named it last.
    pub(crate) seen: u8,
}

/// An export.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExportRecord {
    /// When it was made, in Unix seconds; 0 if unknown.
    pub(crate) created: u64,
    /// Its name.
    pub(crate) blob: Blob,
    /// Number of its namespace.
    pub(crate) space: u32,
    /// Whether it is there, and what a controller says of it.
    pub(crate) flags: u8,
    /// The list that named it last.
    pub(crate) seen: u8,
}

/// A namespace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Space {
    /// Whether there is a Namespace of that name that the selector lets pass.
    pub(crate) there: bool,
    /// Whether it is among those to be exposed.
    pub(crate) listed: bool,
    /// The list that named it last.
    pub(crate) seen: u8,
    /// The kinds whose objects in it have been listed, a bit each by [`Kind::index`]; told of namespaces that are listed one by one.
    pub(crate) listed_kinds: u8,
}

/// Services, or imported services, by number and by name.
#[derive(Debug)]
pub(crate) struct Family {
    /// The records.
    pub(crate) records: Slab<Record>,
    /// Their numbers by namespace and name.
    pub(crate) index: HashTable<u32>,
}

impl Family {
    /// Makes a family of none.
    const fn new() -> Self {
        Self { records: Slab::new(), index: HashTable::new() }
    }
}

/// Numbers of records by address: the address's hash and the number.
pub(crate) type Reverse = HashTable<(u32, u32)>;

/// What a change did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Anything that a reader sees.
    pub(crate) seen: bool,
    /// Something that the zone's serial tells.
    pub(crate) serial: bool,
    /// Something that the serial of external addresses tells.
    pub(crate) external: bool,
}

impl Change {
    /// Nothing changed.
    pub(crate) const NONE: Self = Self { seen: false, serial: false, external: false };
    /// The zone changed.
    pub(crate) const ZONE: Self = Self { seen: true, serial: true, external: false };

    /// Joins two changes.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            seen: self.seen || other.seen,
            serial: self.serial || other.serial,
            external: self.external || other.external,
        }
    }
}

/// Everything that a store knows.
#[derive(Debug)]
pub(crate) struct Content {
    /// Bytes of records, bundles and pods.
    pub(crate) arena: Arena,
    /// Names of namespaces.
    pub(crate) spaces: Interner,
    /// The namespaces by number.
    pub(crate) space: Vec<Space>,
    /// Port sets.
    pub(crate) ports: Interner,
    /// Names of clusters.
    pub(crate) clusters: Interner,
    /// Services.
    pub(crate) services: Family,
    /// Imported services.
    pub(crate) imports: Family,
    /// Slices of both.
    pub(crate) bundles: Slab<Bundle>,
    /// Numbers of slices by namespace and name.
    pub(crate) bundle_index: HashTable<u32>,
    /// Pods.
    pub(crate) pods: Slab<PodRecord>,
    /// Numbers of pods by namespace and name.
    pub(crate) pod_index: HashTable<u32>,
    /// Exports.
    pub(crate) exports: Slab<ExportRecord>,
    /// Numbers of exports by namespace and name.
    pub(crate) export_index: HashTable<u32>,
    /// Services by cluster IP.
    pub(crate) by_ip: Reverse,
    /// Services by external address.
    pub(crate) by_external: Reverse,
    /// Slices of the cluster's own services by endpoint address.
    pub(crate) by_endpoint: Reverse,
    /// Pods by address.
    pub(crate) by_pod: Reverse,
    /// Objects of each kind.
    pub(crate) counts: [usize; Kind::COUNT],
    /// What changed, if somebody follows.
    pub(crate) log: Option<Box<Log>>,
    /// Namespaces to expose; all if empty.
    pub(crate) exposed: Vec<String>,
    /// The kinds without which nothing is known of a namespace, a bit each by [`Kind::index`]; 0 unless namespaces are listed one by
    /// one.
    pub(crate) apart: u8,
    /// Whether namespaces are taken to be there by what is in them, since none have been listed.
    pub(crate) assumed: bool,
    /// The seed of all hashes.
    pub(crate) seed: foldhash::fast::RandomState,
}

impl Content {
    /// Makes empty tables that expose these namespaces, or all.
    pub(crate) fn new(exposed: Vec<String>, apart: u8) -> Self {
        Self {
            arena: Arena::new(),
            spaces: Interner::new(),
            space: vec![Space::default()],
            ports: Interner::new(),
            clusters: Interner::new(),
            services: Family::new(),
            imports: Family::new(),
            bundles: Slab::new(),
            bundle_index: HashTable::new(),
            pods: Slab::new(),
            pod_index: HashTable::new(),
            exports: Slab::new(),
            export_index: HashTable::new(),
            by_ip: HashTable::new(),
            by_external: HashTable::new(),
            by_endpoint: HashTable::new(),
            by_pod: HashTable::new(),
            counts: [0; Kind::COUNT],
            log: None,
            exposed,
            apart,
            assumed: false,
            seed: foldhash::fast::RandomState::default(),
        }
    }

    /// Gives the services or the imported ones.
    pub(crate) const fn family(&self, imported: bool) -> &Family {
        if imported { &self.imports } else { &self.services }
    }

    /// Gives the services or the imported ones to change.
    pub(crate) const fn family_mut(&mut self, imported: bool) -> &mut Family {
        if imported { &mut self.imports } else { &mut self.services }
    }

    /// Says whether a namespace is there and exposed.
    pub(crate) fn shows(&self, space: u32) -> bool {
        let space = self.space[space as usize];
        (space.there || self.assumed) && space.listed
    }

    /// Says whether an exposed namespace of which nothing is known may be there, since none have been listed.
    pub(crate) fn doubts(&self, name: &[u8]) -> bool {
        self.assumed
            && (self.exposed.is_empty()
                || self.exposed.iter().any(|other| other.as_bytes() == name))
            && !self.spaces.find(name).is_some_and(|space| self.shows(space))
    }

    /// Counts one more user of a namespace's name.
    pub(crate) fn enter(&mut self, name: &[u8]) -> u32 {
        let number = self.spaces.put(name);
        if number as usize >= self.space.len() {
            self.space.resize(number as usize + 1, Space::default());
        }
        let listed =
            self.exposed.is_empty() || self.exposed.iter().any(|other| other.as_bytes() == name);
        self.space[number as usize].listed = listed;
        number
    }

    /// Counts one user of a namespace's name less.
    pub(crate) fn leave(&mut self, number: u32) {
        if self.spaces.drop(number) {
            self.space[number as usize] = Space::default();
        }
    }

    /// Makes a namespace known to exist.
    pub(crate) fn set_space(&mut self, name: &[u8], seen: u8) -> Change {
        let number = self.enter(name);
        let space = &mut self.space[number as usize];
        space.seen = seen;
        if space.there {
            self.leave(number);
            return Change::NONE;
        }
        // The count that `enter` added is the Namespace's own.
        space.there = true;
        self.counts[Kind::Namespaces.index()] += 1;
        let listed = space.listed;
        self.touch_space(number);
        if listed { Change { external: true, ..Change::ZONE } } else { Change::NONE }
    }

    /// Makes a namespace known to be gone.
    pub(crate) fn remove_space(&mut self, number: u32) -> Change {
        let space = &mut self.space[number as usize];
        if !space.there {
            return Change::NONE;
        }
        space.there = false;
        let listed = space.listed;
        self.counts[Kind::Namespaces.index()] -= 1;
        self.touch_space(number);
        self.leave(number);
        if listed { Change { external: true, ..Change::ZONE } } else { Change::NONE }
    }

    /// Hashes a name in a namespace.
    pub(crate) fn hash(&self, space: u32, name: &[u8]) -> u64 {
        self.seed.hash_one((space, name))
    }

    /// Forgets which list named the objects of a kind, so that the count of lists can begin anew.
    pub(crate) fn forget_lists(&mut self, kind: Kind, of: impl Fn(u32) -> bool) {
        match kind {
            Kind::Namespaces => self.space.iter_mut().for_each(|space| space.seen = 0),
            Kind::Services | Kind::Imports => {
                let records = &mut self.family_mut(kind == Kind::Imports).records;
                for number in 0..records.end() {
                    let record = records.at(number);
                    if of(record.space) {
                        record.seen = 0;
                    }
                }
            }
            Kind::Slices | Kind::ImportSlices => {
                let imported = kind == Kind::ImportSlices;
                for number in 0..self.bundles.end() {
                    let bundle = *self.bundles.get(number);
                    if (bundle.flags & IMPORTED != 0) == imported && of(self.space_of(&bundle)) {
                        self.bundles.at(number).seen = 0;
                    }
                }
            }
            Kind::Pods => {
                for number in 0..self.pods.end() {
                    let pod = self.pods.at(number);
                    if of(pod.space) {
                        pod.seen = 0;
                    }
                }
            }
            Kind::Exports => {
                for number in 0..self.exports.end() {
                    let export = self.exports.at(number);
                    if of(export.space) {
                        export.seen = 0;
                    }
                }
            }
        }
    }

    /// Gives one more than the highest number of a kind.
    pub(crate) fn end(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Namespaces => self.space.len() as u32,
            Kind::Services => self.services.records.end(),
            Kind::Imports => self.imports.records.end(),
            Kind::Slices | Kind::ImportSlices => self.bundles.end(),
            Kind::Pods => self.pods.end(),
            Kind::Exports => self.exports.end(),
        }
    }

    /// Removes the object of a kind and number unless the list `seen` named it.
    pub(crate) fn sweep(
        &mut self,
        kind: Kind,
        number: u32,
        list: impl Fn(u32) -> Option<u8>,
    ) -> Change {
        let gone = |space, seen| list(space).is_some_and(|list| list != seen);
        match kind {
            Kind::Namespaces if gone(number, self.space[number as usize].seen) => {
                self.remove_space(number)
            }
            Kind::Services | Kind::Imports => {
                let imported = kind == Kind::Imports;
                let record = self.family(imported).records.get(number);
                if gone(record.space, record.seen) {
                    self.remove_record(imported, number)
                } else {
                    Change::NONE
                }
            }
            Kind::Slices | Kind::ImportSlices => {
                let bundle = *self.bundles.get(number);
                let imported = kind == Kind::ImportSlices;
                if (bundle.flags & IMPORTED != 0) == imported
                    && gone(self.space_of(&bundle), bundle.seen)
                {
                    self.remove_bundle(number)
                } else {
                    Change::NONE
                }
            }
            Kind::Pods => {
                let pod = self.pods.get(number);
                if gone(pod.space, pod.seen) { self.remove_pod(number) } else { Change::NONE }
            }
            Kind::Exports => {
                let export = self.exports.get(number);
                if gone(export.space, export.seen) {
                    self.remove_export(number)
                } else {
                    Change::NONE
                }
            }
            Kind::Namespaces => Change::NONE,
        }
    }

    /// Gives the namespace of a slice: that of its service.
    fn space_of(&self, bundle: &Bundle) -> u32 {
        if bundle.flags & THERE == 0 {
            return 0;
        }
        self.family(bundle.flags & IMPORTED != 0).records.get(bundle.record).space
    }

    /// Notes that the objects of a kind in a namespace have been listed; the name stays in use from then on.
    pub(crate) fn set_listed(&mut self, name: &[u8], kind: Kind) {
        let number = self.enter(name);
        if self.space[number as usize].listed_kinds != 0 {
            self.leave(number);
        }
        self.space[number as usize].listed_kinds |= 1 << kind.index();
    }

    /// Says whether it is still to come what an exposed namespace has: services or endpoints, where namespaces are listed one by
    /// one.
    pub(crate) fn awaits(&self, name: &[u8]) -> bool {
        self.lacks(name, self.apart)
    }

    /// Says whether it does so of any exposed namespace.
    pub(crate) fn awaits_any(&self) -> bool {
        self.apart != 0 && self.exposed.iter().any(|name| self.lacks(name.as_bytes(), self.apart))
    }

    /// Says whether it is still to come what an exposed namespace has of one of these kinds, a bit each by [`Kind::index`].
    pub(crate) fn lacks(&self, name: &[u8], kinds: u8) -> bool {
        self.apart != 0
            && self.exposed.iter().any(|other| other.as_bytes() == name)
            && self
                .spaces
                .find(name)
                .is_none_or(|space| self.space[space as usize].listed_kinds & kinds != kinds)
    }
}

/// What a record or bundle is to become.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    /// Packed name and the rest.
    pub(crate) blob: &'a [u8],
    /// Packed ports.
    pub(crate) ports: &'a [u8],
    /// Resource version.
    pub(crate) version: u64,
    /// What it is.
    pub(crate) flags: u8,
    /// The list that names it.
    pub(crate) seen: u8,
}

/// Hashes an address to what the reverse tables keep of it.
pub(crate) fn short_hash(seed: &foldhash::fast::RandomState, ip: IpAddr) -> u32 {
    (seed.hash_one(ip) >> 32) as u32
}

/// Spreads a short hash over the bits that a table looks at.
pub(crate) const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Adds an address to a reverse table, once a number, or takes it out.
pub(crate) fn mark(
    table: &mut Reverse,
    seed: &foldhash::fast::RandomState,
    ip: IpAddr,
    number: u32,
    add: bool,
) {
    let hash = short_hash(seed, ip);
    let found = table.find_entry(spread(hash), |&entry| entry == (hash, number));
    match (found, add) {
        (Ok(entry), false) => {
            entry.remove();
        }
        (Err(absent), true) => {
            absent
                .into_table()
                .insert_unique(spread(hash), (hash, number), |entry| spread(entry.0));
        }
        _ => {}
    }
}
