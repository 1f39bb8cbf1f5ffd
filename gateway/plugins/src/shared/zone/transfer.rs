//! Zones as the messages of transfers (RFC 5936, RFC 1995).

use std::sync::Arc;

use engine::{Fault, Stream};
use wire::{Answer, Name, Section, rtype};
use zone::Cursor;

use super::answer::NOT_LOADED;
use super::served::{Served, Version};
use crate::shared::transfer::{FIXED, PAGE, Pages};

impl Served {
    /// The zone from SOA to SOA; for a client that has `serial` what has changed since, if that is known; the SOA record alone if
    /// that is not older than the zone (RFC 1995 §2).
    ///
    /// # Errors
    /// If there is no zone.
    pub fn transfer(&self, serial: Option<u32>) -> Result<Box<dyn Stream>, Fault> {
        let version = self.load().and_then(|now| (*now).clone()).ok_or(NOT_LOADED)?;
        let soa = |pages: &mut Pages, (ttl, data): (u32, &[u8])| {
            pages.push(self.name().wire(), rtype::SOA, ttl, &[data]);
        };
        let mut pages = Pages::new();
        let now = version.zone.soa_record();
        let Some(theirs) = serial else { return Ok(Box::new(Whole::new(version))) };
        if theirs.wrapping_sub(version.zone.soa().serial) < 1 << 31 {
            soa(&mut pages, now);
            return Ok(Pages::read(Arc::new(pages)));
        }
        let Some(first) = version.changes.iter().position(|change| change.from == theirs) else {
            return Ok(Box::new(Whole::new(version)));
        };
        soa(&mut pages, now);
        for change in version.changes.iter().skip(first) {
            soa(&mut pages, (change.soa_before.0, &change.soa_before.1));
            pages.extend(&change.removed);
            soa(&mut pages, (change.soa_after.0, &change.soa_after.1));
            pages.extend(&change.added);
        }
        soa(&mut pages, now);
        Ok(Pages::read(Arc::new(pages)))
    }
}

/// A whole zone, copied message by message as it is asked for.
struct Whole {
    version: Arc<Version>,
    at: Cursor,
    step: Step,
}

/// How far the copy has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first SOA record is next.
    First,
    /// Records are.
    Records,
    /// Nothing is.
    End,
}

impl Whole {
    /// The whole of a version.
    fn new(version: Arc<Version>) -> Self {
        Self { version, at: Cursor::default(), step: Step::First }
    }
}

impl Stream for Whole {
    fn next(&mut self, answer: &mut Answer) -> bool {
        if self.step == Step::End {
            return false;
        }
        answer.set_authoritative(true);
        let zone = &self.version.zone;
        let (ttl, data) = zone.soa_record();
        let apex = zone.apex().wire();
        let mut used = 0;
        let mut fits = |owner: &Name, data: &[u8]| {
            used += owner.wire().len() + FIXED + data.len();
            used <= PAGE
        };
        if self.step == Step::First {
            fits(zone.apex(), data);
            answer.push(Section::Answer, apex, rtype::SOA, ttl, data);
            self.step = Step::Records;
        }
        let mut full = false;
        let mut alone = answer.records().is_empty();
        zone.walk(&mut self.at, |owner, kind, ttl, data| {
            // A record that is larger than a page has one of its own.
            full = !fits(owner, data) && !std::mem::take(&mut alone);
            if !full {
                alone = false;
                answer.push(Section::Answer, owner.wire(), kind, ttl, data);
            }
            !full
        });
        if !full && fits(zone.apex(), data) {
            answer.push(Section::Answer, apex, rtype::SOA, ttl, data);
            self.step = Step::End;
        }
        true
    }
}
