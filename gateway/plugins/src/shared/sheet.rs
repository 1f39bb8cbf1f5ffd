//! Records written straight into an answer, each once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wire::{Answer, Rr, Section, Srv, rtype};

/// Up to so many records are compared one by one, which is faster than hashing them.
const FEW: usize = 16;

thread_local! {
    /// The records of the answer at hand by their hash. Its memory stays with the thread, so that large answers allocate
    /// nothing either.
    static SEEN: RefCell<HashMap<u64, u32, RandomState>> = RefCell::default();
}

/// An answer to which records are added once each: a set of records has no duplicates (RFC 2181 §5).
#[derive(Debug)]
pub(crate) struct Sheet<'a> {
    /// The answer.
    answer: &'a mut Answer,
    /// The time to live of the records, in seconds.
    ttl: u32,
}

impl<'a> Sheet<'a> {
    /// Writes to `answer`, whose records count.
    pub(crate) fn new(answer: &'a mut Answer, ttl: u32) -> Self {
        Self { answer, ttl }
    }

    /// The answer.
    pub(crate) fn answer(&mut self) -> &mut Answer {
        self.answer
    }

    /// Whether the answer section has a record.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.section(Section::Answer).next().is_some()
    }

    /// Adds an address record.
    pub(crate) fn address(&mut self, section: Section, owner: &[u8], address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(section, owner, rtype::A, &address.octets()),
            IpAddr::V6(address) => self.add(section, owner, rtype::AAAA, &address.octets()),
        }
    }

    /// Has the records to come live so many seconds.
    pub(crate) fn set_ttl(&mut self, ttl: u32) {
        self.ttl = ttl;
    }

    /// Adds an SRV record (RFC 2782); a target that is too long for a name leaves it out.
    pub(crate) fn srv(&mut self, owner: &[u8], numbers: Srv, target: &[u8]) {
        let mut data = [0u8; 6 + 255];
        data[..2].copy_from_slice(&numbers.priority.to_be_bytes());
        data[2..4].copy_from_slice(&numbers.weight.to_be_bytes());
        data[4..6].copy_from_slice(&numbers.port.to_be_bytes());
        let len = 6 + target.len();
        if let Some(room) = data.get_mut(6..len) {
            room.copy_from_slice(target);
            self.add(Section::Answer, owner, rtype::SRV, &data[..len]);
        }
    }

    /// Adds a record unless it is there.
    pub(crate) fn add(&mut self, section: Section, owner: &[u8], rtype: u16, data: &[u8]) {
        let answer = &*self.answer;
        let same = |rr: &Rr| {
            rr.section == section
                && rr.rtype == rtype
                && answer.data(rr) == data
                && answer.owner(rr).eq_ignore_ascii_case(owner)
        };
        let records = answer.records();
        let known = if records.len() < FEW {
            records.iter().any(same)
        } else {
            SEEN.with_borrow_mut(|seen| seen_before(seen, answer, (section, owner, rtype, data)))
        };
        if !known {
            self.answer.push(section, owner, rtype, self.ttl, data);
        }
    }
}

/// What makes a record itself.
type Identity<'r> = (Section, &'r [u8], u16, &'r [u8]);

/// Whether a large answer has a record; notes that it will have it.
fn seen_before(
    seen: &mut HashMap<u64, u32, RandomState>,
    answer: &Answer,
    new: Identity<'_>,
) -> bool {
    let records = answer.records();
    let identity = |rr: &'_ Rr| (rr.section, answer.owner(rr), rr.rtype, answer.data(rr));
    if records.len() == FEW {
        seen.clear();
        for (rr, index) in records.iter().zip(0..) {
            let hash = hash(seen, identity(rr));
            seen.insert(hash, index);
        }
    }
    let hash = hash(seen, new);
    let Ok(next) = u32::try_from(records.len()) else { return false };
    // Should two records have one hash, the second may come twice, which is untidy and harmless.
    let first = *seen.entry(hash).or_insert(next);
    records.get(first as usize).is_some_and(|rr| identity(rr) == new)
}

/// Hashes a record.
fn hash(seen: &HashMap<u64, u32, RandomState>, (section, owner, rtype, data): Identity<'_>) -> u64 {
    seen.hasher().hash_one((section as u8, owner, rtype, data))
}
