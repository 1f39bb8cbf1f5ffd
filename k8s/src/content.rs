//! The store's tables and the changes that keep them consistent. What is here runs under the store's lock.

use std::{hash::BuildHasher as _, net::IpAddr};

use hashbrown::HashTable;

use crate::{
    arena::{Arena, Blob},
    intern::Interner,
    object::{Kind, ServiceKind},
    pack::{Cursor, Endpoints, Ips},
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

/// A namespace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Space {
    /// Whether there is a Namespace of that name that the selector lets pass.
    pub(crate) there: bool,
    /// Whether it is among those to be exposed.
    pub(crate) listed: bool,
    /// The list that named it last.
    pub(crate) seen: u8,
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
    /// Services by cluster IP.
    pub(crate) by_ip: Reverse,
    /// Services by external address.
    pub(crate) by_external: Reverse,
    /// Slices of the cluster's own services by endpoint address.
    pub(crate) by_endpoint: Reverse,
    /// Pods by address.
    pub(crate) by_pod: Reverse,
    /// Objects of each kind.
    pub(crate) counts: [usize; 6],
    /// Namespaces to expose; all if empty.
    pub(crate) exposed: Vec<String>,
    /// The seed of all hashes.
    pub(crate) seed: foldhash::fast::RandomState,
}

impl Content {
    /// Makes empty tables that expose these namespaces, or all.
    pub(crate) fn new(exposed: Vec<String>) -> Self {
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
            by_ip: HashTable::new(),
            by_external: HashTable::new(),
            by_endpoint: HashTable::new(),
            by_pod: HashTable::new(),
            counts: [0; 6],
            exposed,
            seed: foldhash::fast::RandomState::default(),
        }
    }

    /// Gives the services or the imported ones.
    pub(crate) const fn family(&self, imported: bool) -> &Family {
        if imported { &self.imports } else { &self.services }
    }

    /// Gives the services or the imported ones to change.
    const fn family_mut(&mut self, imported: bool) -> &mut Family {
        if imported { &mut self.imports } else { &mut self.services }
    }

    /// Says whether a namespace is there and exposed.
    pub(crate) fn shows(&self, space: u32) -> bool {
        let space = self.space[space as usize];
        space.there && space.listed
    }

    /// Counts one more user of a namespace's name.
    fn enter(&mut self, name: &[u8]) -> u32 {
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
    fn leave(&mut self, number: u32) {
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
        if space.listed { Change { external: true, ..Change::ZONE } } else { Change::NONE }
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
        self.leave(number);
        if listed { Change { external: true, ..Change::ZONE } } else { Change::NONE }
    }

    /// Hashes a name in a namespace.
    pub(crate) fn hash(&self, space: u32, name: &[u8]) -> u64 {
        self.seed.hash_one((space, name))
    }

    /// Finds a service's record.
    pub(crate) fn find(&self, imported: bool, space: u32, name: &[u8]) -> Option<u32> {
        let family = self.family(imported);
        let same = |&number: &u32| {
            let record = family.records.get(number);
            record.space == space && Cursor(self.arena.get(record.blob)).text() == name
        };
        family.index.find(self.hash(space, name), same).copied()
    }

    /// Finds a service's record or makes one that waits for its service. `blank` is the packed form of nothing but the name.
    fn find_or_wait(&mut self, imported: bool, space: u32, name: &[u8], blank: &[u8]) -> u32 {
        if let Some(number) = self.find(imported, space, name) {
            return number;
        }
        self.spaces.keep(space);
        let record = Record {
            blob: self.arena.put(blank),
            space,
            ports: self.ports.put(b""),
            ..Record::default()
        };
        let hash = self.hash(space, name);
        let Self { arena, seed, services, imports, .. } = self;
        let Family { records, index } = if imported { imports } else { services };
        let number = records.put(record);
        index.insert_unique(hash, number, |&number| {
            let record = records.get(number);
            seed.hash_one((record.space, Cursor(arena.get(record.blob)).text()))
        });
        number
    }

    /// Frees a record that nothing needs any more.
    fn forget(&mut self, imported: bool, number: u32) {
        let record = *self.family(imported).records.get(number);
        if record.flags & THERE != 0 || record.first != 0 {
            return;
        }
        let hash = self.hash(record.space, Cursor(self.arena.get(record.blob)).text());
        let family = self.family_mut(imported);
        if let Ok(entry) = family.index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        family.records.free(number);
        self.arena.free(record.blob);
        self.ports.drop(record.ports);
        self.leave(record.space);
    }

    /// Sets a service or imported service.
    pub(crate) fn set_record(
        &mut self,
        imported: bool,
        key: (&[u8], &[u8]),
        new: &Packed<'_>,
    ) -> Change {
        let space = self.enter(key.0);
        let number = self.find_or_wait(imported, space, key.1, new.blob);
        self.leave(space);
        let old = *self.family(imported).records.get(number);
        let same = old.flags == new.flags
            && self.arena.get(old.blob) == new.blob
            && self.ports.get(old.ports) == new.ports;
        if same {
            let record = self.family_mut(imported).records.at(number);
            (record.seen, record.version) = (new.seen, new.version);
            return Change::NONE;
        }
        let outside = if imported { Vec::new() } else { self.outside(old) };
        if !imported {
            self.index_record(number, old, false);
        }
        if old.flags & THERE == 0 {
            let kind = if imported { Kind::Imports } else { Kind::Services };
            self.counts[kind.index()] += 1;
        }
        let ports = self.ports.put(new.ports);
        self.ports.drop(old.ports);
        let blob = self.arena.replace(old.blob, new.blob);
        let record =
            Record { blob, ports, flags: new.flags, seen: new.seen, version: new.version, ..old };
        *self.family_mut(imported).records.at(number) = record;
        if imported {
            return Change::ZONE;
        }
        self.index_record(number, record, true);
        let outside_now = self.outside(record);
        let external =
            outside != outside_now || !outside_now.is_empty() && old.ports != record.ports;
        Change { external, ..Change::ZONE }
    }

    /// Copies what a service is outside its cluster, to compare it.
    fn outside(&self, record: Record) -> Vec<u8> {
        if record.flags & MORE == 0 {
            return Vec::new();
        }
        let mut cursor = Cursor(self.arena.get(record.blob));
        cursor.text();
        cursor.ips();
        cursor.text();
        cursor.0.to_vec()
    }

    /// Removes a service or imported service.
    pub(crate) fn remove_record(&mut self, imported: bool, number: u32) -> Change {
        let old = *self.family(imported).records.get(number);
        if old.flags & THERE == 0 {
            return Change::NONE;
        }
        let kind = if imported { Kind::Imports } else { Kind::Services };
        self.counts[kind.index()] -= 1;
        let external = !imported && !self.outside(old).is_empty();
        if !imported {
            self.index_record(number, old, false);
        }
        self.family_mut(imported).records.at(number).flags = 0;
        self.forget(imported, number);
        Change { external, ..Change::ZONE }
    }

    /// Adds a service's addresses to the reverse tables or takes them out.
    fn index_record(&mut self, number: u32, record: Record, add: bool) {
        if record.flags & THERE == 0 {
            return;
        }
        let Self { arena, by_ip, by_external, seed, .. } = self;
        let mut cursor = Cursor(arena.get(record.blob));
        cursor.text();
        for ip in cursor.ips() {
            mark(by_ip, seed, ip, number, add);
        }
        if record.flags & MORE != 0 {
            cursor.text();
            for ip in cursor.ips().chain(cursor.ips()) {
                mark(by_external, seed, ip, number, add);
            }
        }
    }

    /// Gives the name of a slice, put together in `buffer`.
    pub(crate) fn bundle_name<'b>(&'b self, bundle: &Bundle, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        bundle_name(&self.arena, &self.services, &self.imports, bundle, buffer)
    }

    /// Finds a slice.
    pub(crate) fn find_bundle(&self, imported: bool, space: u32, name: &[u8]) -> Option<u32> {
        let same = |&number: &u32| {
            let bundle = self.bundles.get(number);
            let record = self.family(bundle.flags & IMPORTED != 0).records.get(bundle.record);
            if (bundle.flags & IMPORTED != 0) != imported || record.space != space {
                return false;
            }
            let rest = Cursor(self.arena.get(bundle.blob)).text();
            if bundle.flags & PREFIXED == 0 {
                return rest == name;
            }
            let service = Cursor(self.arena.get(record.blob)).text();
            name.strip_prefix(service).is_some_and(|tail| tail == rest)
        };
        self.bundle_index.find(self.hash(space, name), same).copied()
    }

    /// Sets a slice. `service` is its service's name, `blank` the packed form of that alone.
    pub(crate) fn set_bundle(
        &mut self,
        key: (&[u8], &[u8]),
        service: (&[u8], &[u8]),
        cluster: &[u8],
        new: &Packed<'_>,
    ) -> (Change, ServiceKind, bool) {
        let imported = new.flags & IMPORTED != 0;
        let space = self.enter(key.0);
        let record = self.find_or_wait(imported, space, service.0, service.1);
        let found = self.find_bundle(imported, space, key.1);
        let owner = *self.family(imported).records.get(record);
        let (kind, selector) = (kind_of(owner.flags), owner.flags & SELECTOR != 0);
        self.leave(space);
        if let Some(number) = found {
            let old = *self.bundles.get(number);
            if old.record == record {
                let change = self.change_bundle(number, old, kind, cluster, new);
                return (change, kind, selector);
            }
            // It went over to another service. The new one has a record by now, which the removal leaves alone
            // for the moment, since it is of another name.
            self.remove_bundle(number);
        }
        let bundle = Bundle {
            blob: self.arena.put(new.blob),
            record,
            ports: self.ports.put(new.ports),
            cluster: self.clusters.put(cluster),
            next: self.family(imported).records.get(record).first,
            flags: new.flags,
            seen: new.seen,
        };
        let hash = self.hash(space, key.1);
        let Self { arena, seed, services, imports, bundles, bundle_index, .. } = self;
        let number = bundles.put(bundle);
        bundle_index.insert_unique(hash, number, |&number| {
            let bundle = bundles.get(number);
            let family = if bundle.flags & IMPORTED != 0 { &*imports } else { &*services };
            let space = family.records.get(bundle.record).space;
            let mut buffer = Vec::new();
            seed.hash_one((space, bundle_name(arena, services, imports, bundle, &mut buffer)))
        });
        self.family_mut(imported).records.at(record).first = number + 1;
        self.counts[bundle_kind(imported).index()] += 1;
        self.index_bundle(number, bundle, true);
        (bundle_change(imported, kind), kind, selector)
    }

    /// Changes a slice that stays with its service.
    fn change_bundle(
        &mut self,
        number: u32,
        old: Bundle,
        kind: ServiceKind,
        cluster: &[u8],
        new: &Packed<'_>,
    ) -> Change {
        self.bundles.at(number).seen = new.seen;
        let same = self.arena.get(old.blob) == new.blob
            && self.ports.get(old.ports) == new.ports
            && self.clusters.get(old.cluster) == cluster;
        if same {
            return Change::NONE;
        }
        self.index_bundle(number, old, false);
        let (ports, place) = (self.ports.put(new.ports), self.clusters.put(cluster));
        self.ports.drop(old.ports);
        self.clusters.drop(old.cluster);
        let blob = self.arena.replace(old.blob, new.blob);
        let bundle =
            Bundle { blob, ports, cluster: place, flags: new.flags, seen: new.seen, ..old };
        *self.bundles.at(number) = bundle;
        self.index_bundle(number, bundle, true);
        bundle_change(bundle.flags & IMPORTED != 0, kind)
    }

    /// Removes a slice.
    pub(crate) fn remove_bundle(&mut self, number: u32) -> Change {
        let old = *self.bundles.get(number);
        if old.flags & THERE == 0 {
            return Change::NONE;
        }
        let imported = old.flags & IMPORTED != 0;
        self.index_bundle(number, old, false);
        let Record { space, flags, .. } = *self.family(imported).records.get(old.record);
        let mut buffer = Vec::new();
        let hash = self.hash(space, self.bundle_name(&old, &mut buffer));
        if let Ok(entry) = self.bundle_index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        self.unlink(imported, old.record, number, old.next);
        self.bundles.free(number);
        self.arena.free(old.blob);
        self.ports.drop(old.ports);
        self.clusters.drop(old.cluster);
        self.counts[bundle_kind(imported).index()] -= 1;
        self.forget(imported, old.record);
        bundle_change(imported, kind_of(flags))
    }

    /// Takes a slice out of its service's chain.
    fn unlink(&mut self, imported: bool, record: u32, number: u32, next: u32) {
        let first = self.family(imported).records.get(record).first;
        if first == number + 1 {
            self.family_mut(imported).records.at(record).first = next;
            return;
        }
        let mut before = first;
        while before != 0 {
            let bundle = self.bundles.at(before - 1);
            if bundle.next == number + 1 {
                bundle.next = next;
                return;
            }
            before = bundle.next;
        }
    }

    /// Adds a slice's addresses to the reverse table or takes them out. Imported services have no reverse names.
    fn index_bundle(&mut self, number: u32, bundle: Bundle, add: bool) {
        if bundle.flags & IMPORTED != 0 {
            return;
        }
        let Self { arena, by_endpoint, seed, .. } = self;
        for endpoint in Endpoints::new(arena.get(bundle.blob)) {
            if let Some(ip) = endpoint.address.ip() {
                mark(by_endpoint, seed, ip, number, add);
            }
        }
    }

    /// Finds a pod.
    pub(crate) fn find_pod(&self, space: u32, name: &[u8]) -> Option<u32> {
        let same = |&number: &u32| {
            let pod = self.pods.get(number);
            pod.space == space && Cursor(self.arena.get(pod.blob)).text() == name
        };
        self.pod_index.find(self.hash(space, name), same).copied()
    }

    /// Sets a pod; one that is ending is only kept.
    pub(crate) fn set_pod(
        &mut self,
        key: (&[u8], &[u8]),
        blob: &[u8],
        ending: bool,
        seen: u8,
    ) -> Change {
        let space = self.enter(key.0);
        let found = self.find_pod(space, key.1);
        if let Some(number) = found {
            self.leave(space);
            self.pods.at(number).seen = seen;
            let old = *self.pods.get(number);
            if ending || self.arena.get(old.blob) == blob {
                return Change::NONE;
            }
            let moved = pod_ips(self.arena.get(old.blob)) != pod_ips(blob);
            self.index_pod(number, old, false);
            let blob = self.arena.replace(old.blob, blob);
            let pod = PodRecord { blob, ..old };
            *self.pods.at(number) = pod;
            self.index_pod(number, pod, true);
            return Change { seen: true, serial: moved, external: false };
        }
        if ending {
            self.leave(space);
            return Change::NONE;
        }
        let pod = PodRecord { blob: self.arena.put(blob), space, flags: THERE, seen };
        let hash = self.hash(space, key.1);
        let Self { arena, seed, pods, pod_index, .. } = self;
        let number = pods.put(pod);
        pod_index.insert_unique(hash, number, |&number| {
            let pod = pods.get(number);
            seed.hash_one((pod.space, Cursor(arena.get(pod.blob)).text()))
        });
        self.counts[Kind::Pods.index()] += 1;
        self.index_pod(number, pod, true);
        Change {
            seen: true,
            serial: !pod_ips(self.arena.get(pod.blob)).is_empty(),
            external: false,
        }
    }

    /// Removes a pod.
    pub(crate) fn remove_pod(&mut self, number: u32) -> Change {
        let old = *self.pods.get(number);
        if old.flags & THERE == 0 {
            return Change::NONE;
        }
        self.index_pod(number, old, false);
        let bytes = self.arena.get(old.blob);
        let (hash, serial) =
            (self.hash(old.space, Cursor(bytes).text()), !pod_ips(bytes).is_empty());
        if let Ok(entry) = self.pod_index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        self.pods.free(number);
        self.arena.free(old.blob);
        self.counts[Kind::Pods.index()] -= 1;
        self.leave(old.space);
        Change { seen: true, serial, external: false }
    }

    /// Adds a pod's addresses to the reverse table or takes them out.
    fn index_pod(&mut self, number: u32, pod: PodRecord, add: bool) {
        let Self { arena, by_pod, seed, .. } = self;
        for ip in pod_ips(arena.get(pod.blob)) {
            mark(by_pod, seed, ip, number, add);
        }
    }

    /// Forgets which list named the objects of a kind, so that the count of lists can begin anew.
    pub(crate) fn forget_lists(&mut self, kind: Kind) {
        match kind {
            Kind::Namespaces => self.space.iter_mut().for_each(|space| space.seen = 0),
            Kind::Services | Kind::Imports => {
                let records = &mut self.family_mut(kind == Kind::Imports).records;
                (0..records.end()).for_each(|number| records.at(number).seen = 0);
            }
            Kind::Slices | Kind::ImportSlices => {
                let bundles = &mut self.bundles;
                let imported = kind == Kind::ImportSlices;
                for number in 0..bundles.end() {
                    let bundle = bundles.at(number);
                    if (bundle.flags & IMPORTED != 0) == imported {
                        bundle.seen = 0;
                    }
                }
            }
            Kind::Pods => (0..self.pods.end()).for_each(|number| self.pods.at(number).seen = 0),
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
        }
    }

    /// Removes the object of a kind and number unless the list `seen` named it.
    pub(crate) fn sweep(&mut self, kind: Kind, number: u32, seen: u8) -> Change {
        match kind {
            Kind::Namespaces if self.space[number as usize].seen != seen => {
                self.remove_space(number)
            }
            Kind::Services | Kind::Imports
                if self.family(kind == Kind::Imports).records.get(number).seen != seen =>
            {
                self.remove_record(kind == Kind::Imports, number)
            }
            Kind::Slices | Kind::ImportSlices => {
                let bundle = *self.bundles.get(number);
                let imported = kind == Kind::ImportSlices;
                if bundle.seen != seen && (bundle.flags & IMPORTED != 0) == imported {
                    self.remove_bundle(number)
                } else {
                    Change::NONE
                }
            }
            Kind::Pods if self.pods.get(number).seen != seen => self.remove_pod(number),
            _ => Change::NONE,
        }
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

/// Gives the kind of slices of own or imported services.
const fn bundle_kind(imported: bool) -> Kind {
    if imported { Kind::ImportSlices } else { Kind::Slices }
}

/// Gives what a change of a slice's endpoints means. Headless services may be published outside by their endpoints.
fn bundle_change(imported: bool, kind: ServiceKind) -> Change {
    Change { external: !imported && kind == ServiceKind::Headless, ..Change::ZONE }
}

/// Gives a slice's name, put together in `buffer` if it is not whole in the arena.
fn bundle_name<'b>(
    arena: &'b Arena,
    services: &Family,
    imports: &Family,
    bundle: &Bundle,
    buffer: &'b mut Vec<u8>,
) -> &'b [u8] {
    let rest = Cursor(arena.get(bundle.blob)).text();
    if bundle.flags & PREFIXED == 0 {
        return rest;
    }
    let family = if bundle.flags & IMPORTED != 0 { imports } else { services };
    buffer.extend_from_slice(Cursor(arena.get(family.records.get(bundle.record).blob)).text());
    buffer.extend_from_slice(rest);
    buffer
}

/// Gives a packed pod's addresses.
fn pod_ips(pod: &[u8]) -> Ips<'_> {
    let mut cursor = Cursor(pod);
    cursor.text();
    cursor.ips()
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
fn mark(
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
