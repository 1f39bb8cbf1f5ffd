//! A whole zone as the messages of a transfer (RFC 5936 §2.2).

use std::sync::Arc;

use engine::Stream;
use wire::{Answer, Name, Section};

use super::{Book, Unit};
use crate::shared::transfer::{FIXED, PAGE};

/// A published state of a zone, unpacked message by message as it is asked for.
pub(super) struct Whole {
    /// Says what names end in.
    book: Arc<dyn Book>,
    /// The zone.
    zone: Name,
    /// Its SOA record.
    soa: Answer,
    /// Its units.
    units: Vec<Unit>,
    /// The unit that comes next.
    at: usize,
    /// Where in it.
    offset: usize,
    /// Whether the first SOA record is written.
    begun: bool,
    /// Whether the last one is.
    ended: bool,
}

impl Whole {
    /// A state of a zone; the units come in order, the zone's own records first.
    pub(super) fn new(book: Arc<dyn Book>, zone: Name, soa: Answer, mut units: Vec<Unit>) -> Self {
        units.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        Self { book, zone, soa, units, at: 0, offset: 0, begun: false, ended: false }
    }

    /// Writes the SOA record if it fits.
    fn soa(&self, page: &mut Page<'_>) -> bool {
        self.soa
            .section(Section::Answer)
            .all(|rr| page.push(self.soa.owner(rr), rr.rtype, rr.ttl, &[self.soa.data(rr)]))
    }

    /// Writes the records that come next; says whether all fit.
    fn records(&mut self, page: &mut Page<'_>) -> bool {
        let mut buffer = Vec::new();
        while let Some(unit) = self.units.get(self.at) {
            let stems = self.book.stems(&self.zone, unit.key());
            for record in unit.records_from(self.offset) {
                let fits = record.with(&stems, &mut buffer, |owner, data| {
                    page.push(owner, record.rtype, record.ttl, data)
                });
                if !fits {
                    return false;
                }
                self.offset += record.packed_len();
            }
            (self.at, self.offset) = (self.at + 1, 0);
        }
        true
    }
}

impl Stream for Whole {
    fn next(&mut self, answer: &mut Answer) -> bool {
        if self.ended {
            return false;
        }
        answer.set_authoritative(true);
        let mut page = Page { answer, used: 0 };
        if !self.begun {
            self.begun = self.soa(&mut page);
        }
        self.ended = self.records(&mut page) && self.soa(&mut page);
        true
    }
}

/// A message under construction.
struct Page<'a> {
    /// Its records.
    answer: &'a mut Answer,
    /// Their octets.
    used: usize,
}

impl Page<'_> {
    /// Appends a record if it fits; the first one always does.
    fn push(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[&[u8]]) -> bool {
        let size = owner.len() + FIXED + data.iter().map(|part| part.len()).sum::<usize>();
        if self.used > 0 && self.used + size > PAGE {
            return false;
        }
        self.used += size;
        self.answer.push_parts(Section::Answer, owner, rtype, ttl, data);
        true
    }
}
