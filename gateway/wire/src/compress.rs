//! Name compression (RFC 1035 §4.1.4) at a cost linear in the message: a small table of suffixes seen.

/// How many suffixes are remembered; past that names are spelled out.
const SLOTS: usize = 512;

/// The suffixes of one message written so far, by hash. Offsets count from the message's own start, so that several
/// messages can stand in one buffer.
pub(crate) struct Compressor {
    /// Offsets by hash, linear probing; 0 is free (a header stands there).
    slots: [u16; SLOTS],
    /// How many are taken.
    taken: usize,
    /// Where the message starts in the buffer.
    base: usize,
}

impl Compressor {
    /// A compressor for the message that starts at `base` of the buffer.
    pub(crate) fn new(base: usize) -> Self {
        Self { slots: [0; SLOTS], taken: 0, base }
    }

    /// Remembers the suffixes of the name that stands uncompressed at `at` (from the message's start).
    pub(crate) fn seed(&mut self, out: &[u8], mut at: usize) {
        let message = out.get(self.base..).unwrap_or_default();
        let start = at;
        while let Some(len) = message.get(at).copied().filter(|len| *len != 0) {
            at += 1 + usize::from(len);
        }
        let Some(name) = message.get(start..=at) else { return };
        let mut rest = name;
        while let [len, ..] = *rest
            && len != 0
        {
            let offset = start + name.len() - rest.len();
            if let Probe::Free(slot) = self.probe(out, rest) {
                self.remember(slot, offset);
            }
            rest = rest.get(1 + usize::from(len)..).unwrap_or_default();
        }
    }

    /// Appends `name` (uncompressed wire form) to `out`, its longest known suffix as a pointer.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, name: &[u8]) {
        let mut rest = name;
        while let [len, ..] = *rest
            && len != 0
        {
            match self.probe(out, rest) {
                Probe::Known(offset) => {
                    out.extend_from_slice(&(0xc000 | offset).to_be_bytes());
                    return;
                }
                Probe::Free(slot) => self.remember(slot, out.len() - self.base),
                Probe::Full => {}
            }
            let (label, tail) = rest.split_at_checked(1 + usize::from(len)).unwrap_or((rest, &[]));
            out.extend_from_slice(label);
            rest = tail;
        }
        out.push(0);
    }

    /// Forgets what stands at or after `at` (from the message's start): a record that did not fit was taken back.
    pub(crate) fn forget(&mut self, at: usize) {
        // A cleared slot in the middle of a run only hides entries behind it, which costs compression, not truth.
        for slot in self.slots.iter_mut().filter(|slot| usize::from(**slot) >= at) {
            *slot = 0;
            self.taken -= 1;
        }
    }

    /// Keeps `offset` in a free slot if a pointer can reach it and the table is not too full.
    fn remember(&mut self, slot: usize, offset: usize) {
        if let Ok(offset) = u16::try_from(offset)
            && offset < 0x4000
            && self.taken < SLOTS / 2
        {
            self.slots[slot] = offset;
            self.taken += 1;
        }
    }

    /// Looks a suffix up.
    fn probe(&self, out: &[u8], suffix: &[u8]) -> Probe {
        let message = out.get(self.base..).unwrap_or_default();
        let mut at = hash(suffix) % SLOTS;
        for _ in 0..8 {
            match self.slots[at] {
                0 => return Probe::Free(at),
                offset if same(message, usize::from(offset), suffix) => {
                    return Probe::Known(offset);
                }
                _ => at = (at + 1) % SLOTS,
            }
        }
        Probe::Full
    }
}

/// What a look-up of a suffix gave.
enum Probe {
    /// It stands at this offset.
    Known(u16),
    /// It is not known, and this slot is free for it.
    Free(usize),
    /// It is not known, and there is no room near its place.
    Full,
}

/// FNV-1a over the lower-case octets; the table is small and short-lived, so quality does not matter much.
fn hash(bytes: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 20) as usize
}

/// Whether the name at `at` of `message`, which may end in a pointer, equals `suffix` but for ASCII case.
fn same(message: &[u8], mut at: usize, mut suffix: &[u8]) -> bool {
    loop {
        let Some(len) = message.get(at).copied() else { return false };
        if len >= 0xc0 {
            // Pointers written here always lead backwards, so this ends.
            let Some(low) = message.get(at + 1) else { return false };
            let to = usize::from(len & 0x3f) << 8 | usize::from(*low);
            if to >= at {
                return false;
            }
            at = to;
            continue;
        }
        let len = usize::from(len) + 1;
        let (Some(own), Some((other, rest))) =
            (message.get(at..at + len), suffix.split_at_checked(len))
        else {
            return false;
        };
        if !own.eq_ignore_ascii_case(other) {
            return false;
        }
        if len == 1 {
            return rest.is_empty();
        }
        at += len;
        suffix = rest;
    }
}
