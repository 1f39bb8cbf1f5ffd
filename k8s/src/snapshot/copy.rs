//! A store written down while it goes on changing.

use std::io::{self, Write};

use super::format::{Blocks, Head, put_bytes, put_number, put_space};
use crate::{
    content::{Content, IMPORTED, THERE},
    object::Kind,
    pack::Cursor,
    store::Store,
};

/// Objects that are copied under one lock; writers have their turn in between.
const STEP: u32 = 256;
/// Bytes of a block, not counting what its last object adds: far fewer than one may have that is to be read.
const BLOCK: usize = 64 << 10;

/// Writes all objects of a store, and calls `rest` after each block. Gives what was written to, and the number of bytes.
///
/// The lock is given up between steps, and only a block of the copy is in memory. Every object is written as it was at some
/// moment in between; one that is taken away and comes back under the same name meanwhile may be missing.
///
/// # Errors
/// Those of writing.
pub(crate) fn write<W: Write>(
    store: &Store,
    head: &Head,
    out: W,
    rest: &mut dyn FnMut(),
) -> io::Result<(W, u64)> {
    let mut blocks = Blocks::new(out, head)?;
    let mut step = Step { bytes: Vec::with_capacity(2 * BLOCK), ..Step::default() };
    for kind in head.listed.iter().copied() {
        let mut from = 0;
        loop {
            let reader = store.read();
            let end = reader.content.end(kind);
            let to = end.min(from + STEP);
            while from < to && step.bytes.len() < BLOCK {
                step.add(&reader.content, kind, from);
                from += 1;
            }
            let more = from < end;
            drop(reader);
            if step.bytes.len() >= BLOCK {
                blocks.block(&step.bytes)?;
                step.bytes.clear();
                rest();
            }
            if !more {
                break;
            }
        }
    }
    if !step.bytes.is_empty() {
        blocks.block(&step.bytes)?;
    }
    blocks.end(&step.counts)
}

/// The block at hand.
#[derive(Debug, Default)]
struct Step {
    /// Its bytes.
    bytes: Vec<u8>,
    /// The namespace that records are in.
    space: Vec<u8>,
    /// Objects so far, by kind.
    counts: [u64; Kind::COUNT],
}

impl Step {
    /// Adds the object of a kind and number, if there is one.
    fn add(&mut self, content: &Content, kind: Kind, number: u32) {
        match kind {
            Kind::Namespaces => {
                if !content.space[number as usize].there {
                    return;
                }
                self.begin(kind);
                put_bytes(&mut self.bytes, content.spaces.get(number));
            }
            Kind::Services | Kind::Imports => {
                let record = content.family(kind == Kind::Imports).records.get(number);
                if record.flags & THERE == 0 {
                    return;
                }
                self.enter(content.spaces.get(record.space));
                self.begin(kind);
                self.bytes.push(record.flags);
                put_number(&mut self.bytes, record.version);
                put_bytes(&mut self.bytes, content.arena.get(record.blob));
                put_bytes(&mut self.bytes, content.ports.get(record.ports));
            }
            Kind::Slices | Kind::ImportSlices => {
                let bundle = content.bundles.get(number);
                let imported = bundle.flags & IMPORTED != 0;
                if bundle.flags & THERE == 0 || imported != (kind == Kind::ImportSlices) {
                    return;
                }
                let record = content.family(imported).records.get(bundle.record);
                self.enter(content.spaces.get(record.space));
                self.begin(kind);
                self.bytes.push(bundle.flags);
                put_bytes(&mut self.bytes, Cursor(content.arena.get(record.blob)).text());
                put_bytes(&mut self.bytes, content.clusters.get(bundle.cluster));
                put_bytes(&mut self.bytes, content.arena.get(bundle.blob));
                put_bytes(&mut self.bytes, content.ports.get(bundle.ports));
            }
            Kind::Pods => {
                let pod = content.pods.get(number);
                if pod.flags & THERE == 0 {
                    return;
                }
                self.enter(content.spaces.get(pod.space));
                self.begin(kind);
                put_bytes(&mut self.bytes, content.arena.get(pod.blob));
            }
            Kind::Exports => {
                let export = content.exports.get(number);
                if export.flags & THERE == 0 {
                    return;
                }
                self.enter(content.spaces.get(export.space));
                self.begin(kind);
                self.bytes.push(export.flags);
                put_number(&mut self.bytes, export.created);
                put_bytes(&mut self.bytes, content.arena.get(export.blob));
            }
        }
    }

    /// Begins a record.
    fn begin(&mut self, kind: Kind) {
        self.counts[kind.index()] += 1;
        self.bytes.push(kind.index() as u8);
    }

    /// Names the namespace of the next record, unless the last one was in it too.
    fn enter(&mut self, name: &[u8]) {
        if self.space != name {
            self.space.clear();
            self.space.extend_from_slice(name);
            put_space(&mut self.bytes, name);
        }
    }
}
