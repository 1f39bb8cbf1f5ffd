//! Slices among the store's tables.

use std::hash::BuildHasher as _;

use crate::{
    arena::Arena,
    content::{
        Bundle, Change, Content, Family, IMPORTED, PREFIXED, Packed, Record, SELECTOR, THERE,
        kind_of, mark,
    },
    object::{Kind, ServiceKind},
    pack::{Cursor, Endpoints},
};

impl Content {
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
        self.touch_bundle(bundle);
        let Self { arena, by_endpoint, seed, .. } = self;
        for endpoint in Endpoints::new(arena.get(bundle.blob)) {
            if let Some(ip) = endpoint.address.ip() {
                mark(by_endpoint, seed, ip, number, add);
            }
        }
    }
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
pub(crate) fn bundle_name<'b>(
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
