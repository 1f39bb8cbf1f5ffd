//! Memory for many short byte strings: chunks that never move, cut into blocks that are used again.

/// Bytes of a unit, the measure of every block.
const UNIT: usize = 8;
/// Bits of a block's address that count units within a chunk.
const UNIT_BITS: u32 = 22;
/// Units of an ordinary chunk: 32 MiB, which allocators take from the system and give back to it alone, and whose pages are not in
/// memory before they are written to.
const CHUNK_UNITS: usize = 1 << UNIT_BITS;
/// Units of the first two chunks, which are small because many stores are.
const FIRST_UNITS: [usize; 2] = [512, 32 << 10];
/// Sizes up to this many units have a class each; above, eight classes share a doubling.
const EXACT: usize = 64;
/// Classes of block sizes: the exact ones and eight for each doubling up to a chunk.
const CLASSES: usize = EXACT + 1 + 8 * (UNIT_BITS as usize - 6);

/// A byte string's place in an [`Arena`]. The default is the empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Blob {
    /// Chunk number above [`UNIT_BITS`], unit within the chunk below.
    at: u32,
    /// Length in bytes.
    len: u32,
}

/// Chunks and the free blocks in them. Nothing is given back to the allocator but blocks larger than a chunk: a store that shrinks is
/// copied into another one.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The chunks; an unused one of a former large block is empty.
    chunks: Vec<Box<[u8]>>,
    /// The chunk that new blocks are cut from, and its first unused unit.
    current: (usize, usize),
    /// Addresses of free blocks by class.
    free: Vec<Vec<u32>>,
    /// Numbers of chunks whose large block is gone.
    spare: Vec<usize>,
    /// Bytes of all blocks.
    cut: usize,
    /// Bytes of the blocks that are not free.
    used: usize,
}

impl Arena {
    /// Makes an arena that holds nothing.
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            current: (0, 0),
            free: vec![Vec::new(); CLASSES],
            spare: Vec::new(),
            cut: 0,
            used: 0,
        }
    }

    /// Gives the bytes of all blocks.
    pub(crate) const fn held(&self) -> usize {
        self.cut
    }

    /// Gives the bytes of the blocks that are not free.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Gives the bytes of a blob of this arena.
    pub(crate) fn get(&self, blob: Blob) -> &[u8] {
        let (chunk, start) = split(blob.at);
        // A blob of length 0 has no block; the default one may name a chunk that does not exist.
        self.chunks
            .get(chunk)
            .and_then(|chunk| chunk.get(start..start + blob.len as usize))
            .unwrap_or_default()
    }

    /// Stores bytes, at most 4 GiB.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Blob {
        if bytes.is_empty() {
            return Blob::default();
        }
        let at = self.block(bytes.len());
        let (chunk, start) = split(at);
        self.chunks[chunk][start..start + bytes.len()].copy_from_slice(bytes);
        Blob { at, len: bytes.len() as u32 }
    }

    /// Puts other bytes in the place of a blob, in its block if that fits.
    pub(crate) fn replace(&mut self, blob: Blob, bytes: &[u8]) -> Blob {
        if bytes.len() <= CHUNK_UNITS * UNIT
            && blob.len > 0
            && class(blob.len as usize) == class(bytes.len())
        {
            let (chunk, start) = split(blob.at);
            self.chunks[chunk][start..start + bytes.len()].copy_from_slice(bytes);
            return Blob { at: blob.at, len: bytes.len() as u32 };
        }
        self.free(blob);
        self.put(bytes)
    }

    /// Makes the block of a blob free for others.
    pub(crate) fn free(&mut self, blob: Blob) {
        match class(blob.len as usize) {
            Some(0) => {}
            Some(class) => {
                self.used -= units(class) * UNIT;
                self.free[class].push(blob.at);
            }
            None => {
                let (chunk, _) = split(blob.at);
                self.used -= self.chunks[chunk].len();
                self.cut -= self.chunks[chunk].len();
                self.chunks[chunk] = Box::default();
                self.spare.push(chunk);
            }
        }
    }

    /// Finds or cuts a block for so many bytes.
    fn block(&mut self, len: usize) -> u32 {
        let Some(class) = class(len) else {
            let chunk: Box<[u8]> = vec![0; len.next_multiple_of(UNIT)].into();
            self.used += chunk.len();
            self.cut += chunk.len();
            let number = match self.spare.pop() {
                Some(number) => {
                    self.chunks[number] = chunk;
                    number
                }
                None => {
                    self.chunks.push(chunk);
                    self.chunks.len() - 1
                }
            };
            return address(number, 0);
        };
        let units = units(class);
        self.used += units * UNIT;
        if let Some(at) = self.free[class].pop() {
            return at;
        }
        self.cut += units * UNIT;
        let (chunk, start) = self.current;
        if self.chunks.get(chunk).is_some_and(|chunk| (start + units) * UNIT <= chunk.len()) {
            self.current.1 += units;
            return address(chunk, start);
        }
        let size = FIRST_UNITS.get(self.chunks.len()).map_or(CHUNK_UNITS, |size| units.max(*size));
        self.chunks.push(vec![0; size * UNIT].into());
        self.current = (self.chunks.len() - 1, units);
        address(self.chunks.len() - 1, 0)
    }
}

/// Gives the class of a size in bytes, or nothing for a block with a chunk of its own. Class 0 is empty.
const fn class(len: usize) -> Option<usize> {
    let units = len.div_ceil(UNIT);
    if units <= EXACT {
        return Some(units);
    }
    if units > CHUNK_UNITS {
        return None;
    }
    // Above 64 units: `doubling` is 0 for 65..=128, and each doubling has steps of an eighth.
    let doubling = (units - 1).ilog2() as usize - 6;
    let step = 8usize << doubling;
    Some(EXACT + 8 * doubling + (units - (EXACT << doubling)).div_ceil(step))
}

/// Gives the units of a class's blocks.
const fn units(class: usize) -> usize {
    if class <= EXACT {
        return class;
    }
    let (doubling, step) = ((class - EXACT - 1) / 8, (class - EXACT - 1) % 8 + 1);
    (EXACT << doubling) + step * (8 << doubling)
}

/// Makes an address. Ten bits of chunk number reach 32 GiB, more than a cluster's names can fill.
const fn address(chunk: usize, unit: usize) -> u32 {
    ((chunk as u32) << UNIT_BITS) | unit as u32
}

/// Splits an address into a chunk number and a byte offset within the chunk.
const fn split(at: u32) -> (usize, usize) {
    ((at >> UNIT_BITS) as usize, (at & (CHUNK_UNITS as u32 - 1)) as usize * UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size_without_gaps() {
        for len in (1..100_000).chain((100_000..=CHUNK_UNITS * UNIT).step_by(991)) {
            let class = class(len).unwrap();
            assert!(class < CLASSES, "{len}");
            assert!(units(class) * UNIT >= len, "{len}");
            assert!(units(class) * UNIT <= len.max(UNIT) * 9 / 8 + UNIT, "{len}: {}", units(class));
        }
        assert_eq!(class(CHUNK_UNITS * UNIT + 1), None);
    }

    #[test]
    fn blobs_keep_their_bytes_while_others_come_and_go() {
        let mut arena = Arena::new();
        let mut kept: Vec<(Blob, Vec<u8>)> = Vec::new();
        let mut seed = 7u64;
        for round in 0..20_000u64 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let pick = (seed >> 33) as usize;
            let len = match pick % 5003 {
                0 => CHUNK_UNITS * UNIT + 1 + pick % 9_000,
                1..5 => 70_000 + pick % 9_000,
                _ => pick % 700,
            };
            let bytes = vec![round as u8; len];
            match pick % 3 {
                0 if !kept.is_empty() => {
                    let (blob, _) = kept.swap_remove(pick % kept.len());
                    arena.free(blob);
                }
                1 if !kept.is_empty() => {
                    let at = pick % kept.len();
                    kept[at] = (arena.replace(kept[at].0, &bytes), bytes);
                }
                _ => kept.push((arena.put(&bytes), bytes)),
            }
        }
        for (blob, bytes) in &kept {
            assert_eq!(arena.get(*blob), bytes);
        }
        assert!(arena.used() > 0 && arena.used() <= arena.held());
        kept.into_iter().for_each(|(blob, _)| arena.free(blob));
        assert_eq!(arena.used(), 0);
    }
}
