//! Queries: zone, look-up, aliases, and what is said of names that are not there.

use engine::{Carry, Exchange, Fault, Plugin, Ready, Step};
use wire::{Answer, Name, Request, Section, class, rcode, rtype};

use super::lookup::Look;
use super::{Cluster, Kubernetes};
use crate::shared::alias;
use crate::shared::cluster::address::is_reverse;
use crate::shared::cluster::{Found, NOT_KNOWN, NOT_READY, stale};
use crate::shared::sheet::Sheet;
use crate::shared::zone::NO_TRANSFER;

/// How many aliases inside the zones may lead to one another (RFC 1034 §3.6.2 asks for an end).
const MAX_ALIASES: usize = 8;

/// Aliases that lead in a circle, or too far.
const TOO_MANY_ALIASES: Fault = Fault::servfail("too many aliases in a row");

/// What becomes of a query.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one query")]
enum Verdict {
    /// The answer is written.
    Answered,
    /// The next plugin may know.
    Pass,
    /// The name is an alias of one that somebody else knows.
    Elsewhere(Name),
    /// It fails.
    Failed(Fault),
}

impl Plugin for Kubernetes {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        if request.class != class::IN {
            return Step::Next;
        }
        let Some(zone) = self.0.zones.longest(&request.name) else { return Step::Next };
        let asked = request.rtype;
        if matches!(asked, rtype::AXFR | rtype::IXFR) {
            return Step::Fail(NO_TRANSFER);
        }
        match self.0.answer(request, zone, answer) {
            Verdict::Answered => Step::Done,
            Verdict::Pass => Step::Next,
            Verdict::Elsewhere(target) => x.ask(&target, asked, Carry::NONE),
            Verdict::Failed(fault) => Step::Fail(fault),
        }
    }

    fn asked(&self, x: &mut Exchange, _carry: Carry) -> Step {
        alias::asked(x)
    }
}

impl Cluster {
    /// Answers a request for a name in a zone.
    fn answer(&self, request: &Request, zone: &Name, answer: &mut Answer) -> Verdict {
        let reader = self.store.read();
        let mut sheet = Sheet::new(answer, self.ttl);
        let mut alias: Option<(Name, &Name)> = None;
        for _ in 0..MAX_ALIASES {
            let (name, zone) =
                alias.as_ref().map_or((&request.name, zone), |(name, zone)| (name, *zone));
            let look = Look { cluster: self, reader: &reader, zone, name, rtype: request.rtype };
            match look.run(&mut sheet) {
                Found::Name => {
                    let soa = !look.has_records(&mut sheet);
                    return self.close(&mut sheet, zone, rcode::NOERROR, soa);
                }
                Found::Nothing if self.fall.through(name) => {
                    let aliased = alias.map(|(name, _)| Verdict::Elsewhere(name));
                    return aliased.unwrap_or(Verdict::Pass);
                }
                Found::Nothing => return self.close(&mut sheet, zone, rcode::NXDOMAIN, true),
                // What is not known yet is not passed on, for a wrong denial would be kept (RFC 2308 §5). Reverse zones that
                // `fallthrough` names are others' as well, who are not to wait for this cluster.
                Found::NotYet if is_reverse(zone) && self.fall.is_named(name) => {
                    return Verdict::Pass;
                }
                Found::NotYet => {
                    let options = &mut sheet.answer().options;
                    options.push_ede(NOT_READY, NOT_KNOWN);
                    return self.close(&mut sheet, zone, rcode::SERVFAIL, true);
                }
                Found::Alias(target) => match self.zones.longest(&target) {
                    Some(zone) => alias = Some((target, zone)),
                    None => {
                        sheet.answer().set_authoritative(true);
                        stale::note(sheet.answer(), "", self.store.standing());
                        return Verdict::Elsewhere(target);
                    }
                },
            }
        }
        Verdict::Failed(TOO_MANY_ALIASES)
    }

    /// Completes an answer from the cluster's own data, with the zone's SOA record if it is a negative one.
    fn close(&self, sheet: &mut Sheet<'_>, zone: &Name, code: u16, soa: bool) -> Verdict {
        if soa {
            self.soa(zone, Section::Authority, sheet);
        }
        let answer = sheet.answer();
        answer.rcode = code;
        answer.set_authoritative(true);
        stale::note(answer, "", self.store.standing());
        Verdict::Answered
    }
}

impl Look<'_> {
    /// Whether the name's records of the type, or its alias, are in the answer.
    fn has_records(&self, sheet: &mut Sheet<'_>) -> bool {
        let answer = sheet.answer();
        let mut records = answer.section(Section::Answer);
        records.any(|rr| answer.owner(rr).eq_ignore_ascii_case(self.name.wire()))
    }
}

impl Ready for Kubernetes {
    fn ready(&self) -> bool {
        self.0.store.synced()
    }
}
