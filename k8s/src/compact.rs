//! Memory given back: what is left of a store that has shrunk is put into new memory, and the old is freed as a whole.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;

use crate::{
    arena::{Arena, Blob},
    bundles::bundle_name,
    content::{
        Bundle, Content, ExportRecord, Family, IMPORTED, PodRecord, Record, Reverse, spread,
    },
    pack::Cursor,
    slab::Slab,
    store::Store,
};

/// A store whose bytes take less than this is left alone.
const LEAST: usize = 256 << 10;
/// Records that are copied under one lock.
const STEP: u32 = 4096;

/// What of a store's tables takes memory, made anew. Numbers stay what they are.
#[derive(Debug)]
pub(crate) struct Compact {
    /// Bytes of records, bundles, pods and exports.
    arena: Arena,
    /// Services.
    services: Family,
    /// Imported services.
    imports: Family,
    /// Slices of both.
    bundles: Slab<Bundle>,
    /// Numbers of slices.
    bundle_index: HashTable<u32>,
    /// Pods.
    pods: Slab<PodRecord>,
    /// Numbers of pods.
    pod_index: HashTable<u32>,
    /// Exports.
    exports: Slab<ExportRecord>,
    /// Numbers of exports.
    export_index: HashTable<u32>,
    /// The tables by address.
    reverse: [Reverse; 4],
}

/// A record that has bytes in the arena.
trait Stored: Copy + Default {
    /// Its bytes.
    fn blob(&mut self) -> &mut Blob;
}

impl Stored for Record {
    fn blob(&mut self) -> &mut Blob {
        &mut self.blob
    }
}

impl Stored for Bundle {
    fn blob(&mut self) -> &mut Blob {
        &mut self.blob
    }
}

impl Stored for PodRecord {
    fn blob(&mut self) -> &mut Blob {
        &mut self.blob
    }
}

impl Stored for ExportRecord {
    fn blob(&mut self) -> &mut Blob {
        &mut self.blob
    }
}

impl Content {
    /// Says whether three quarters of the memory for records are free. With less there would be more copies on the way down, each
    /// in memory that allocators may keep.
    pub(crate) fn is_sparse(&self) -> bool {
        self.arena.held() > LEAST && self.arena.used() < self.arena.held() / 4
    }

    /// Puts what was made anew in the place of what was there, which is given back to be freed without the lock.
    pub(crate) fn exchange(&mut self, mut new: Compact) -> Compact {
        let [by_ip, by_external, by_endpoint, by_pod] = &mut new.reverse;
        std::mem::swap(&mut self.by_ip, by_ip);
        std::mem::swap(&mut self.by_external, by_external);
        std::mem::swap(&mut self.by_endpoint, by_endpoint);
        std::mem::swap(&mut self.by_pod, by_pod);
        std::mem::swap(&mut self.arena, &mut new.arena);
        std::mem::swap(&mut self.services, &mut new.services);
        std::mem::swap(&mut self.imports, &mut new.imports);
        std::mem::swap(&mut self.bundles, &mut new.bundles);
        std::mem::swap(&mut self.bundle_index, &mut new.bundle_index);
        std::mem::swap(&mut self.pods, &mut new.pods);
        std::mem::swap(&mut self.pod_index, &mut new.pod_index);
        std::mem::swap(&mut self.exports, &mut new.exports);
        std::mem::swap(&mut self.export_index, &mut new.export_index);
        new
    }
}

impl Compact {
    /// Copies a store's tables, in steps between which readers have their turn. Nobody may change the store meanwhile: the one
    /// who calls is its writer.
    pub(crate) fn of(store: &Store) -> Self {
        let mut arena = Arena::new();
        let services = slab(store, &mut arena, |content| &content.services.records);
        let imports = slab(store, &mut arena, |content| &content.imports.records);
        let bundles = slab(store, &mut arena, |content| &content.bundles);
        let pods = slab(store, &mut arena, |content| &content.pods);
        let exports = slab(store, &mut arena, |content| &content.exports);
        let seed = store.read().content.seed.clone();
        let named = |space: u32, blob: Blob| seed.hash_one((space, Cursor(arena.get(blob)).text()));
        let record = |records: &Slab<Record>, number| {
            let record = records.get(number);
            named(record.space, record.blob)
        };
        let services_index =
            index(store, |content| &content.services.index, |number| record(&services, number));
        let imports_index =
            index(store, |content| &content.imports.index, |number| record(&imports, number));
        let pod_index = index(
            store,
            |content| &content.pod_index,
            |number| named(pods.get(number).space, pods.get(number).blob),
        );
        let export_index = index(
            store,
            |content| &content.export_index,
            |number| named(exports.get(number).space, exports.get(number).blob),
        );
        let services = Family { records: services, index: services_index };
        let imports = Family { records: imports, index: imports_index };
        let bundle_index = index(
            store,
            |content| &content.bundle_index,
            |number| {
                let bundle = bundles.get(number);
                let family = if bundle.flags & IMPORTED != 0 { &imports } else { &services };
                let space = family.records.get(bundle.record).space;
                let mut buffer = Vec::new();
                let name = bundle_name(&arena, &services, &imports, bundle, &mut buffer);
                seed.hash_one((space, name))
            },
        );
        let reverse = [
            reverse(store, |content| &content.by_ip),
            reverse(store, |content| &content.by_external),
            reverse(store, |content| &content.by_endpoint),
            reverse(store, |content| &content.by_pod),
        ];
        Self {
            arena,
            services,
            imports,
            bundles,
            bundle_index,
            pods,
            pod_index,
            exports,
            export_index,
            reverse,
        }
    }
}

/// Copies records with their bytes; numbers that are free at the end go.
fn slab<T: Stored>(
    store: &Store,
    arena: &mut Arena,
    records: impl Fn(&Content) -> &Slab<T>,
) -> Slab<T> {
    let mut new = records(&store.read().content).blank();
    let mut from = 0;
    while from < new.end() {
        let to = new.end().min(from + STEP);
        let reader = store.read();
        for number in from..to {
            let mut record = *records(&reader.content).get(number);
            let blob = record.blob();
            *blob = arena.put(reader.content.arena.get(*blob));
            *new.at(number) = record;
        }
        from = to;
    }
    new
}

/// Copies a table of numbers by what `hash` says of each.
fn index(
    store: &Store,
    table: impl Fn(&Content) -> &HashTable<u32>,
    hash: impl Fn(u32) -> u64,
) -> HashTable<u32> {
    let reader = store.read();
    let numbers = table(&reader.content);
    let mut new = HashTable::with_capacity(numbers.len());
    for number in numbers {
        new.insert_unique(hash(*number), *number, |number| hash(*number));
    }
    new
}

/// Copies a table by address.
fn reverse(store: &Store, table: impl Fn(&Content) -> &Reverse) -> Reverse {
    let reader = store.read();
    let entries = table(&reader.content);
    let mut new = HashTable::with_capacity(entries.len());
    for entry in entries {
        new.insert_unique(spread(entry.0), *entry, |entry| spread(entry.0));
    }
    new
}
