//! A zone's records as the messages of a transfer (RFC 5936 §2.2).

use std::sync::Arc;

use engine::Stream;
use wire::{Answer, Section};

/// The most octets of a message before names are compressed: header, question and a signature fit above.
pub(crate) const PAGE: usize = 63_000;
/// The octets that a record has beside its names and data: type, class, time to live, length.
pub(crate) const FIXED: usize = 10;

/// Records in messages that each fit.
#[derive(Debug, Default)]
pub struct Pages {
    /// The messages.
    pages: Vec<Answer>,
    /// The octets of the last one.
    used: usize,
    /// How many records there are.
    records: usize,
}

impl Pages {
    /// No records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a record.
    pub fn push(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[&[u8]]) {
        let size = owner.len() + FIXED + data.iter().map(|part| part.len()).sum::<usize>();
        if self.used + size > PAGE || self.pages.is_empty() {
            let mut page = Answer::default();
            page.set_authoritative(true);
            self.pages.push(page);
            self.used = 0;
        }
        self.used += size;
        self.records += 1;
        if let Some(page) = self.pages.last_mut() {
            page.push_parts(Section::Answer, owner, rtype, ttl, data);
        }
    }

    /// Appends the records of an answer's answer section.
    pub fn extend(&mut self, answer: &Answer) {
        for rr in answer.section(Section::Answer) {
            self.push(answer.owner(rr), rr.rtype, rr.ttl, &[answer.data(rr)]);
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Reads them message by message; `pages` gives them out of what is shared.
    pub fn read<T: AsRef<Self> + Send + Sync + 'static>(pages: Arc<T>) -> Box<dyn Stream> {
        Box::new(Reading { pages, next: 0 })
    }
}

impl AsRef<Self> for Pages {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Pages that somebody reads.
struct Reading<T> {
    /// The pages.
    pages: Arc<T>,
    /// The one that comes next.
    next: usize,
}

impl<T: AsRef<Pages> + Send + Sync> Stream for Reading<T> {
    fn next(&mut self, answer: &mut Answer) -> bool {
        let Some(page) = (*self.pages).as_ref().pages.get(self.next) else { return false };
        self.next += 1;
        answer.copy_from(page);
        true
    }
}
