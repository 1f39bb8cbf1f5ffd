//! Answers from a zone, and from whoever knows the names outside that its names lead to.

use engine::{Carry, End, Exchange, Fault, Step};
use wire::{Answer, Section, rcode, rtype};
use zone::{Found, Zone};

use super::Served;
use crate::shared::fall::Fall;

/// Zones are handed out by `transfer` only.
pub const NO_TRANSFER: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(18), why: "zone transfers are not offered here" };
/// Zones of files are changed by their files.
pub const NO_NOTICE: Fault =
    Fault { rcode: rcode::REFUSED, ede: None, why: "this server is the zone's primary" };
/// The zone is not there yet (RFC 8914 §4.15).
pub const NOT_LOADED: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(14), why: "the zone is not loaded" };
/// The zone could not be renewed for too long (RFC 8914 §4.25).
const EXPIRED: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(24), why: "the zone has expired" };
/// Names that lead in a circle, or too far.
pub const CIRCLE: Fault = Fault::servfail("too many names lead to one another");

/// Answers the query in hand from a zone that its name is in. A target outside is asked for; the plugin's `asked` gets `carry` and
/// calls [`asked`].
pub fn answer(served: &Served, fall: &Fall, x: &mut Exchange, carry: Carry) -> Step {
    let (request, answer) = x.parts_mut();
    if matches!(request.rtype, rtype::AXFR | rtype::IXFR) {
        return Step::Fail(NO_TRANSFER);
    }
    let Some(now) = served.load() else {
        return Step::Fail(if served.is_expired() { EXPIRED } else { NOT_LOADED });
    };
    let Some(version) = &*now else { return Step::Fail(NOT_LOADED) };
    let dnssec = request.edns.dnssec_ok();
    let finding = version.zone.look_up(&request.name, request.rtype, dnssec, answer);
    match finding.found {
        Found::NoName | Found::Hollow
            if fall.through(finding.alias.as_ref().unwrap_or(&request.name)) =>
        {
            let Some(target) = finding.alias else {
                answer.clear();
                return Step::Next;
            };
            // The alias stands, and the next plugins may know what it stands for.
            answer.rcode = rcode::NOERROR;
            answer.retain(|rr| rr.section == Section::Answer);
            let kind = request.rtype;
            x.ask(&target, kind, carry)
        }
        Found::Circle => Step::Fail(CIRCLE),
        Found::Elsewhere(target) => {
            let kind = request.rtype;
            x.ask(&target, kind, carry)
        }
        Found::Records
        | Found::NoData
        | Found::Hollow
        | Found::NoName
        | Found::Referral
        | Found::TooLong => Step::Done,
    }
}

/// Completes an answer with what was found for a name outside of `zone`. The response code is that of the last name (RFC 6604 §2.1).
pub fn asked(zone: Option<&Zone>, x: &mut Exchange) -> Step {
    let (request, target, end) = x.sub();
    let code = match end {
        Some(End::Answered) => target.rcode,
        // Nobody here is asked for such names: whoever asked has the alias, and may go on from there.
        Some(End::Failed(Fault::UNANSWERED)) => rcode::REFUSED,
        Some(End::Failed(fault)) => fault.rcode,
        Some(End::Silent) | None => rcode::SERVFAIL,
    };
    if code == rcode::REFUSED {
        return Step::Done;
    }
    if !matches!(code, rcode::NOERROR | rcode::NXDOMAIN) {
        // The alias is known, what it stands for is not.
        x.answer_mut().rcode = code;
        return Step::Done;
    }
    let dnssec = request.edns.dnssec_ok();
    let has = |section, kind| target.section(section).any(|rr| rr.rtype == kind);
    let positive = code == rcode::NOERROR && has(Section::Answer, request.rtype);
    let (soa, servers) = (has(Section::Authority, rtype::SOA), has(Section::Authority, rtype::NS));
    let refers = !positive && !soa && servers && !target.is_authoritative();
    x.graft();
    x.answer_mut().rcode = code;
    if positive {
        // What proves that a wildcard was right belongs to the answer.
        x.graft_from(Section::Authority, |rr, covered| {
            matches!(rr.rtype, rtype::NSEC | rtype::NSEC3)
                || matches!(covered, Some(rtype::NSEC | rtype::NSEC3))
        });
        return Step::Done;
    }
    // A denial is of the zone of the last name (RFC 2308 §2.1), and so is a referral.
    x.answer_mut().retain(|rr| rr.section != Section::Authority);
    if soa || refers {
        x.graft_from(Section::Authority, |_, _| true);
    } else if let Some(zone) = zone {
        zone.write_soa(dnssec, x.answer_mut());
    }
    if refers {
        x.graft_from(Section::Additional, |_, _| true);
    }
    Step::Done
}

/// What the client gets for a name that a plugin of zones has left to those behind it: nobody there is none of this server's zones.
pub fn outcome(x: &Exchange) -> Step {
    match x.end() {
        Some(End::Failed(Fault::UNANSWERED)) => Step::Fail(Fault::NO_ZONE),
        _ => Step::Next,
    }
}

/// Writes the name of the wildcard that the answer to the query in hand comes from.
pub fn wildcard(served: &Served, x: &Exchange, out: &mut String) -> Option<()> {
    let (request, now) = (x.request(), served.load()?);
    let zone = &now.as_ref()?.zone;
    let mut scratch = Answer::default();
    let finding = zone.look_up(&request.name, request.rtype, false, &mut scratch);
    out.push_str(&zone.wildcard(&finding)?.to_string());
    Some(())
}
