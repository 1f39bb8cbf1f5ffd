//! Byte strings that many records share, kept once and counted.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;

use crate::{
    arena::{Arena, Blob},
    slab::Slab,
};

/// Shared byte strings by number. Number 0 is the empty string and is never freed.
#[derive(Debug)]
pub(crate) struct Interner {
    /// The strings.
    arena: Arena,
    /// Where each is and how many use it.
    entries: Slab<(Blob, u32)>,
    /// Numbers by the hash of their string.
    index: HashTable<u32>,
    /// The hash's seed.
    seed: foldhash::fast::RandomState,
}

impl Interner {
    /// Makes an interner of the empty string.
    pub(crate) fn new() -> Self {
        let mut interner = Self {
            arena: Arena::new(),
            entries: Slab::new(),
            index: HashTable::new(),
            seed: foldhash::fast::RandomState::default(),
        };
        interner.put(b"");
        interner
    }

    /// Gives the string of a number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        self.arena.get(self.entries.get(number).0)
    }

    /// Finds a string's number.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.index.find(self.seed.hash_one(bytes), |&number| self.get(number) == bytes).copied()
    }

    /// Counts the users of a number.
    pub(crate) fn users(&self, number: u32) -> u32 {
        self.entries.get(number).1
    }

    /// Counts one more user of a string, new or known, and gives its number.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u32 {
        if let Some(number) = self.find(bytes) {
            self.entries.at(number).1 += 1;
            return number;
        }
        let number = self.entries.put((self.arena.put(bytes), 1));
        let Self { arena, entries, index, seed } = self;
        index.insert_unique(seed.hash_one(bytes), number, |&number| {
            seed.hash_one(arena.get(entries.get(number).0))
        });
        number
    }

    /// Counts one more user of a known number.
    pub(crate) fn keep(&mut self, number: u32) {
        self.entries.at(number).1 += 1;
    }

    /// Counts one user less; says whether that was the last.
    pub(crate) fn drop(&mut self, number: u32) -> bool {
        let entry = self.entries.at(number);
        entry.1 -= 1;
        if entry.1 > 0 {
            return false;
        }
        let blob = entry.0;
        let hash = self.seed.hash_one(self.arena.get(blob));
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        self.arena.free(blob);
        self.entries.free(number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_lives_as_long_as_it_is_used() {
        let mut interner = Interner::new();
        assert_eq!(interner.find(b""), Some(0));
        let shop = interner.put(b"shop");
        assert_eq!(interner.put(b"shop"), shop);
        assert!(!interner.drop(shop));
        assert_eq!(interner.get(shop), b"shop");
        assert!(interner.drop(shop));
        assert_eq!(interner.find(b"shop"), None);
        assert_ne!(interner.put(b"edge"), 0);
    }
}
