//! The records of one part of a zone, packed: what a journal keeps of a zone has to be small.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use wire::{Answer, Name, Section, rtype};

/// Two names that the records of a unit mostly end in, which is left out of them.
pub(crate) type Stems = [Name; 2];

/// A unit's key and its records, each once, in an order of their own. Two that have one key are one to a set.
#[derive(Clone, Debug)]
pub(crate) struct Unit(Arc<[u8]>);

impl Unit {
    /// The records of an answer's answer section, under a key of at most 255 octets.
    pub(crate) fn pack(key: &[u8], stems: &Stems, answer: &Answer) -> Self {
        let mut records: Vec<Vec<u8>> = Vec::new();
        for rr in answer.section(Section::Answer) {
            let mut record = Vec::new();
            put(&mut record, stems, (answer.owner(rr), rr.rtype, rr.ttl, answer.data(rr)));
            records.push(record);
        }
        records.sort_unstable();
        records.dedup();
        Self::of(key, &records.concat())
    }

    /// A unit without records.
    pub(crate) fn empty(key: &[u8]) -> Self {
        Self::of(key, &[])
    }

    /// A key and packed records.
    fn of(key: &[u8], records: &[u8]) -> Self {
        // Keys are two labels or an address.
        let len = key.len().min(usize::from(u8::MAX));
        let key = key.get(..len).unwrap_or_default();
        Self([&[len as u8], key, records].concat().into())
    }

    /// Its key.
    pub(crate) fn key(&self) -> &[u8] {
        self.split().0
    }

    /// Its records.
    pub(crate) fn records(&self) -> Records<'_> {
        Records(self.split().1)
    }

    /// Its records from the one on that begins at `offset`, and where each ends.
    pub(crate) fn records_from(&self, offset: usize) -> Records<'_> {
        Records(self.split().1.get(offset..).unwrap_or_default())
    }

    /// How many records it has.
    pub(crate) fn len(&self) -> usize {
        self.records().count()
    }

    /// Whether it has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.split().1.is_empty()
    }

    /// Whether both have the same records.
    pub(crate) fn has_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// The records that it has and `other` has not; both are in order.
    pub(crate) fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Record<'a>> {
        let mut others = other.records().peekable();
        self.records().filter(move |own| {
            while others.next_if(|one| one.whole < own.whole).is_some() {}
            others.peek().is_none_or(|one| one.whole != own.whole)
        })
    }

    /// The key and the packed records.
    fn split(&self) -> (&[u8], &[u8]) {
        let (len, rest) = self.0.split_first().unwrap_or((&0, &[]));
        rest.split_at_checked(usize::from(*len)).unwrap_or_default()
    }
}

impl PartialEq for Unit {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Unit {}

impl Hash for Unit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Borrow<[u8]> for Unit {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

/// A packed record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'u> {
    /// All of it.
    whole: &'u [u8],
    /// Its type.
    pub(crate) rtype: u16,
    /// Its time to live, in seconds.
    pub(crate) ttl: u32,
    /// Which stems owner and data end in.
    ends: u8,
    /// The owner, without the stem.
    owner: &'u [u8],
    /// The data, without the stem.
    data: &'u [u8],
}

impl Record<'_> {
    /// The octets that it takes packed.
    pub(crate) fn packed_len(&self) -> usize {
        self.whole.len()
    }

    /// Gives owner and data to `push`.
    pub(crate) fn with<T>(
        &self,
        stems: &Stems,
        owner: &mut Vec<u8>,
        push: impl FnOnce(&[u8], &[&[u8]]) -> T,
    ) -> T {
        owner.clear();
        owner.extend_from_slice(self.owner);
        owner.extend_from_slice(stem(stems, self.ends & 0xf));
        push(owner, &[self.data, stem(stems, self.ends >> 4)])
    }
}

/// Goes through packed records.
#[derive(Clone, Debug)]
pub(crate) struct Records<'u>(&'u [u8]);

impl<'u> Iterator for Records<'u> {
    type Item = Record<'u>;

    fn next(&mut self) -> Option<Record<'u>> {
        let all = self.0;
        let (fixed, rest) = all.split_first_chunk::<8>()?;
        let [kind @ .., ends, owner_len] = fixed;
        let (rtype, ttl) = kind.split_first_chunk::<2>()?;
        let (owner, rest) = rest.split_at_checked(usize::from(*owner_len))?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.0 = rest;
        Some(Record {
            whole: all.get(..all.len() - rest.len())?,
            rtype: u16::from_be_bytes(*rtype),
            ttl: u32::from_be_bytes(*ttl.first_chunk()?),
            ends: *ends,
            owner,
            data,
        })
    }
}

/// Packs a record.
fn put(out: &mut Vec<u8>, stems: &Stems, record: (&[u8], u16, u32, &[u8])) {
    let (owner, rtype, ttl, data) = record;
    let (owner_end, owner) = cut(stems, owner);
    // Where a name begins with which the data ends.
    let at = match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR => 0,
        rtype::SRV => 6,
        _ => data.len(),
    };
    let (head, name) = data.split_at_checked(at).unwrap_or((data, &[]));
    let (data_end, name) = cut(stems, name);
    out.extend_from_slice(&rtype.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    // Names have at most 255 octets, and data that was read from an answer at most 65,535.
    out.extend_from_slice(&[owner_end | data_end << 4, owner.len() as u8]);
    out.extend_from_slice(owner);
    out.extend_from_slice(&((head.len() + name.len()) as u16).to_be_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(name);
}

/// Cuts the first stem that a name in wire form ends in: its number, counted from 1, and the labels before it.
fn cut<'n>(stems: &Stems, name: &'n [u8]) -> (u8, &'n [u8]) {
    for (stem, number) in stems.iter().zip(1u8..) {
        let mut at = 0;
        while let Some(rest) = name.get(at..).filter(|rest| rest.len() >= stem.wire().len()) {
            if rest == stem.wire() {
                return (number, name.get(..at).unwrap_or_default());
            }
            at += 1 + usize::from(rest.first().copied().unwrap_or_default());
        }
    }
    (0, name)
}

/// The stem of a number.
fn stem(stems: &Stems, number: u8) -> &[u8] {
    let found = usize::from(number).checked_sub(1).and_then(|index| stems.get(index));
    found.map_or(&[], Name::wire)
}
