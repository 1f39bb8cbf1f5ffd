//! Queries: zone, look-up, aliases, and what is said of names that are not there.

use engine::control::Value;
use engine::{Carry, Exchange, Plugin, Ready, Step};
use wire::{Answer, Name, Request, Section, class, rcode, rtype};

use super::lookup::{Look, Outcome};
use super::{Clusterset, Set};
use crate::shared::alias;
use crate::shared::cluster::{Found, NOT_READY, stale};
use crate::shared::sheet::Sheet;
use crate::shared::zone::NO_TRANSFER;

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
}

impl Plugin for Clusterset {
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
        }
    }

    fn asked(&self, x: &mut Exchange, _carry: Carry) -> Step {
        alias::asked(x)
    }

    fn explain(&self, x: &Exchange, step: Step) -> Option<Value> {
        self.0.explain(x.request(), step)
    }
}

impl Set {
    /// Answers a request for a name in a zone.
    fn answer(&self, request: &Request, zone: &Name, answer: &mut Answer) -> Verdict {
        let mut sheet = Sheet::new(answer, self.ttl);
        let look = Look { set: self, zone, name: &request.name, rtype: request.rtype };
        let Outcome { found, kept, unknown } = look.run(&mut sheet);
        let code = match &found {
            Found::Name | Found::Alias(_) => rcode::NOERROR,
            Found::Nothing if self.fall.through(&request.name) => return Verdict::Pass,
            Found::Nothing => rcode::NXDOMAIN,
            // What is not known yet is not passed on, for a wrong denial would be kept (RFC 2308 §5).
            Found::NotYet => rcode::SERVFAIL,
        };
        let is_alias = matches!(found, Found::Alias(_));
        if !is_alias && !sheet.is_answered() {
            self.soa(zone, Section::Authority, &mut sheet);
        }
        let answer = sheet.answer();
        answer.rcode = code;
        answer.set_authoritative(true);
        if let (Found::NotYet, Some(member)) = (&found, unknown) {
            answer.options.push_ede(NOT_READY, &member.not_known);
        }
        if let Some((member, standing)) = kept {
            stale::note(answer, &member.name, standing);
        }
        match found {
            Found::Alias(target) => Verdict::Elsewhere(target),
            _ => Verdict::Answered,
        }
    }
}

impl Ready for Clusterset {
    /// One cluster that is known is enough: the others may be away for long, and each was waited for at the start.
    fn ready(&self) -> bool {
        self.0.members.iter().any(|member| member.store().is_some_and(k8s::Store::synced))
    }
}
