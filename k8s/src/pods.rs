//! Pods among the store's tables.

use std::hash::BuildHasher as _;

use crate::{
    content::{Change, Content, PodRecord, THERE, mark},
    object::Kind,
    pack::{Cursor, Ips},
};

impl Content {
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
}

/// Gives a packed pod's addresses.
fn pod_ips(pod: &[u8]) -> Ips<'_> {
    let mut cursor = Cursor(pod);
    cursor.text();
    cursor.ips()
}
