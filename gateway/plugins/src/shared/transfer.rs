//! A zone's records as the messages of a transfer (RFC 5936 §2.2).

use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::Stream;
use wire::{Answer, Name, Section};

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

/// A zone's records at one time, shared by those who read them at the same time.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The version of what they were copied from, before that.
    version: u64,
    /// The records.
    pages: Pages,
}

impl AsRef<Pages> for Copied {
    fn as_ref(&self) -> &Pages {
        &self.pages
    }
}

/// The zones' last copies, as long as somebody reads them.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<Vec<(Name, Weak<Copied>)>>);

impl Copies {
    /// A zone's records: those that somebody reads already if nothing has changed since, else what `write` writes.
    pub(crate) fn of(
        &self,
        zone: &Name,
        version: u64,
        write: impl FnOnce(&mut Pages),
    ) -> Arc<Copied> {
        let mut copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|(_, copy)| copy.strong_count() > 0);
        let known = copies.iter().find(|(own, _)| own == zone).and_then(|(_, copy)| copy.upgrade());
        if let Some(known) = known.filter(|copy| copy.version == version) {
            return known;
        }
        let mut pages = Pages::new();
        write(&mut pages);
        let copy = Arc::new(Copied { version, pages });
        copies.retain(|(own, _)| own != zone);
        copies.push((zone.clone(), Arc::downgrade(&copy)));
        copy
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
