//! Chains of names that lead from an upstream's zone to one of our own.

use engine::{Carry, End, Exchange, Step};
use wire::{Flags, Section, rtype};

use super::fault::UNUSABLE;
use super::sift;
use crate::shared::zones::Zones;

/// Asks ourselves for the rest of a chain that has led to a zone of `own`: the upstream's copy of it does not count.
pub(crate) fn come(x: &mut Exchange, own: &Zones) -> Step {
    let kind = x.request().rtype;
    let leads = |rr: &wire::Rr| matches!(rr.rtype, rtype::CNAME | rtype::DNAME);
    let nowhere = kind == rtype::CNAME || own.iter().next().is_none();
    if nowhere || !x.answer().section(Section::Answer).any(leads) {
        return Step::Done;
    }
    match sift::home(x.request(), own, x.answer()) {
        Some(name) => x.ask(&name, kind, Carry(0)),
        None => Step::Done,
    }
}

/// Appends what we have said.
pub(crate) fn came(x: &mut Exchange) -> Step {
    let (_, answer, end) = x.sub();
    let (rcode, flags) = (answer.rcode, answer.flags);
    match end {
        Some(End::Answered) => {
            x.graft();
            let answer = x.answer_mut();
            answer.rcode = rcode;
            answer.flags.set(Flags::TC, flags.has(Flags::TC));
            answer.flags.set(Flags::AD, false);
            Step::Done
        }
        Some(End::Failed(fault)) => Step::Fail(fault),
        Some(End::Silent) | None => Step::Fail(UNUSABLE),
    }
}
