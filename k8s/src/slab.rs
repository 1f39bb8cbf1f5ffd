//! Records by number, in chunks that never move, so that growth copies nothing.

/// Bits of a number that count within a chunk. Chunks of records of 32 bytes are as large as what allocators take from the system and
/// give back to it alone.
const BITS: u32 = 12;
/// Records of a chunk.
const CHUNK: usize = 1 << BITS;

/// Records by number, used again after they are freed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// The chunks, each with room for [`CHUNK`] from the start: what is not written to is not in memory.
    chunks: Vec<Vec<T>>,
    /// Numbers in use so far, freed ones included.
    len: u32,
    /// Numbers that are free.
    free: Vec<u32>,
}

impl<T: Copy + Default> Slab<T> {
    /// Makes a slab of nothing.
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), len: 0, free: Vec::new() }
    }

    /// Stores a record and gives its number.
    pub(crate) fn put(&mut self, record: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        });
        let (chunk, at) = (number as usize >> BITS, number as usize & (CHUNK - 1));
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if at == self.chunks[chunk].len() {
            self.chunks[chunk].push(record);
        } else {
            self.chunks[chunk][at] = record;
        }
        number
    }

    /// Gives a record by a number that [`Self::put`] gave.
    pub(crate) fn get(&self, number: u32) -> &T {
        &self.chunks[number as usize >> BITS][number as usize & (CHUNK - 1)]
    }

    /// Gives a record to change.
    pub(crate) fn at(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize >> BITS][number as usize & (CHUNK - 1)]
    }

    /// Frees a number; its record becomes the default.
    pub(crate) fn free(&mut self, number: u32) {
        *self.at(number) = T::default();
        self.free.push(number);
    }

    /// Makes a slab in which the same numbers are free, but for those at the end, which it lacks; its records are the default.
    pub(crate) fn blank(&self) -> Self {
        let (mut free, mut len) = (self.free.clone(), self.len);
        free.sort_unstable();
        while free.last().is_some_and(|last| last + 1 == len) {
            free.pop();
            len -= 1;
        }
        // The lowest numbers are used again first, so that those at the end become free.
        free.reverse();
        free.shrink_to_fit();
        let mut new = Self { chunks: Vec::new(), len: 0, free: Vec::new() };
        (0..len).for_each(|_| {
            new.put(T::default());
        });
        Self { free, ..new }
    }

    /// Gives one more than the highest number ever in use.
    pub(crate) const fn end(&self) -> u32 {
        self.len
    }
}
