//! Services and imported services among the store's tables.

use std::hash::BuildHasher as _;

use crate::{
    content::{Change, Content, Family, MORE, Packed, Record, THERE, mark},
    object::Kind,
    pack::Cursor,
};

impl Content {
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
    pub(crate) fn find_or_wait(
        &mut self,
        imported: bool,
        space: u32,
        name: &[u8],
        blank: &[u8],
    ) -> u32 {
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
    pub(crate) fn forget(&mut self, imported: bool, number: u32) {
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
        self.touch_record(record);
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
}
