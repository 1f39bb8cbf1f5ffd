//! Chains of names that lead from an upstream's zone to one of our own.

use engine::{Carry, End, Exchange, Step};
use wire::{Flags, Name, Section, rtype};

use super::fault::UNUSABLE;
use super::sift::{Sifted, sift};

/// Asks ourselves for the rest of a chain that has led to a zone of `own`: the upstream's copy of it does not count.
pub(crate) fn come(x: &mut Exchange, from: &Name, own: &[Name]) -> Step {
    let leads = |rr: &wire::Rr| matches!(rr.rtype, rtype::CNAME | rtype::DNAME);
    if own.is_empty() || !x.answer().section(Section::Answer).any(leads) {
        return Step::Done;
    }
    let (request, answer) = x.parts_mut();
    let (kind, sifted) = (request.rtype, sift(request, from, own, answer));
    match sifted {
        Sifted::Home(name) if kind != rtype::CNAME => x.ask(&name, kind, Carry(0)),
        _ => Step::Done,
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
