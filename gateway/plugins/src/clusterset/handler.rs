//! Queries: zone, look-up, aliases, and what is said of names that are not there.

use engine::control::Value;
use engine::{Carry, Exchange, Plugin, Ready, Step};
use wire::{Answer, Name, Request, Section, rcode};

use super::lookup::{Look, Outcome};
use super::{Clusterset, Set};
use crate::shared::alias;
use crate::shared::cluster::{Found, NOT_READY, Verdict, zone_of};
use crate::shared::sheet::Sheet;

impl Plugin for Clusterset {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        match zone_of(&self.0.zones, request) {
            Ok(zone) => self.0.answer(request, zone, answer).step(x, Carry::NONE),
            Err(step) => step,
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
        if let Some((member, why)) = kept {
            why.note(answer, &member.name);
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
