//! Answers from the zones, their transfers, and notices of their changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use engine::{Carry, Exchange, Fault, Plugin, Provider, Step, Stream, Transfer, Wanted};
use wire::{Name, class, opcode, rcode, rtype};

use super::book::Book;
use crate::shared::zone::{answer, asked, outcome, wildcard};

/// A notice of something else than a zone that is here (RFC 1996 §3.10).
const NO_SUCH_ZONE: Fault =
    Fault { rcode: rcode::NOTAUTH, ede: None, why: "no zone of this name is copied here" };

/// The plugin.
#[derive(Clone, Debug)]
pub(super) struct Secondary {
    /// The zones.
    pub(super) book: Arc<Book>,
    /// When a notice that was dropped was last logged.
    pub(super) dropped: Arc<Dropped>,
}

/// Lets one line a second through: strangers must not fill the log.
#[derive(Debug)]
pub(super) struct Dropped {
    begun: Instant,
    last: AtomicU64,
}

impl Dropped {
    /// Nothing was dropped yet; `now` is where its clock begins.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, last: AtomicU64::new(u64::MAX) }
    }

    /// Whether this one is to be logged.
    fn is_told(&self, now: Instant) -> bool {
        let second = now.saturating_duration_since(self.begun).as_secs();
        self.last.swap(second, Ordering::Relaxed) != second
    }
}

impl Secondary {
    /// Answers a notice that a zone has changed (RFC 1996 §3.7, §3.10).
    fn noticed(&self, x: &mut Exchange) -> Step {
        let (request, from) = (x.request(), x.query.peer);
        let zones = self.book.zones();
        let Some((held, _)) = zones.of(&request.name).filter(|_| request.rtype == rtype::SOA)
        else {
            return Step::Fail(NO_SUCH_ZONE);
        };
        if !held.primaries.has(from.ip()) {
            // "It should ignore the request and produce an error message in its operations log."
            if self.dropped.is_told(x.now()) {
                let name = held.name();
                log::info!(target: "plugin/secondary", "Dropping notify from {from} for {name}");
            }
            return Step::Drop;
        }
        held.notify(from.ip());
        x.answer_mut().set_authoritative(true);
        Step::Done
    }
}

impl Plugin for Secondary {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN {
            return Step::Next;
        }
        let zones = self.book.zones();
        let Some((held, fall)) = zones.find(&request.name, request.rtype) else {
            return Step::WRAP;
        };
        if request.flags.opcode() == opcode::NOTIFY {
            return self.noticed(x);
        }
        answer(&held.served, fall, x, Carry::NONE)
    }

    fn answer(&self, x: &mut Exchange, _carry: Carry) -> Step {
        outcome(x)
    }

    fn asked(&self, x: &mut Exchange, _carry: Carry) -> Step {
        let zones = self.book.zones();
        let held = zones.find(&x.request().name, x.request().rtype);
        let now = held.and_then(|(held, _)| held.served.load());
        asked(now.as_ref().and_then(|now| now.as_ref()).map(|version| &version.zone), x)
    }
}

impl Transfer for Secondary {
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>> {
        let served = Arc::clone(&self.book.zones().of(zone)?.0.served);
        Some(served.transfer(wanted.serial()))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        for (zone, (held, _)) in self.book.zones().iter() {
            if let Some(serial) = held.served.serial().filter(|_| !held.served.is_expired()) {
                each(zone, serial);
            }
        }
    }
}

impl Provider for Secondary {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let (request, zones) = (x.request(), self.book.zones());
        let (held, _) = zones.find(&request.name, request.rtype)?;
        if label == "wildcard" { wildcard(&held.served, x, out) } else { None }
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("wildcard");
    }
}
