//! Exports among the store's tables.

use std::hash::BuildHasher as _;

use crate::{
    content::{Change, Content, ExportRecord, THERE},
    object::Kind,
    pack::Cursor,
};

/// A controller says that the export is invalid.
pub(crate) const INVALID: u8 = 2;
/// A controller says that the export conflicts with others.
pub(crate) const CONFLICT: u8 = 4;

impl Content {
    /// Finds an export.
    pub(crate) fn find_export(&self, space: u32, name: &[u8]) -> Option<u32> {
        let same = |&number: &u32| {
            let export = self.exports.get(number);
            export.space == space && Cursor(self.arena.get(export.blob)).text() == name
        };
        self.export_index.find(self.hash(space, name), same).copied()
    }

    /// Sets an export; `new` lacks its place and its name, of which `blob` is the packed form.
    pub(crate) fn set_export(
        &mut self,
        key: (&[u8], &[u8]),
        blob: &[u8],
        new: ExportRecord,
    ) -> Change {
        let space = self.enter(key.0);
        if let Some(number) = self.find_export(space, key.1) {
            self.leave(space);
            let old = self.exports.at(number);
            let same = (old.created, old.flags) == (new.created, new.flags);
            *old = ExportRecord { blob: old.blob, space, ..new };
            return if same { Change::NONE } else { Change::ZONE };
        }
        let blob = self.arena.put(blob);
        let hash = self.hash(space, key.1);
        let Self { arena, seed, exports, export_index, .. } = self;
        let number = exports.put(ExportRecord { blob, space, ..new });
        export_index.insert_unique(hash, number, |&number| {
            let export = exports.get(number);
            seed.hash_one((export.space, Cursor(arena.get(export.blob)).text()))
        });
        self.counts[Kind::Exports.index()] += 1;
        Change::ZONE
    }

    /// Removes an export.
    pub(crate) fn remove_export(&mut self, number: u32) -> Change {
        let old = *self.exports.get(number);
        if old.flags & THERE == 0 {
            return Change::NONE;
        }
        let hash = self.hash(old.space, Cursor(self.arena.get(old.blob)).text());
        if let Ok(entry) = self.export_index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        self.exports.free(number);
        self.arena.free(old.blob);
        self.counts[Kind::Exports.index()] -= 1;
        self.leave(old.space);
        Change::ZONE
    }
}
