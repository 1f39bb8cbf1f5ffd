//! Queries: zone, look-up, aliases, and what is said of names that are not there.

use engine::{Carry, Exchange, Fault, Plugin, Step};
use wire::{Answer, Name, Request, Section, rcode, rtype};

use super::name::Wanted;
use super::{External, Outside};
use crate::shared::cluster::address::is_reverse;
use crate::shared::cluster::{Found, NOT_KNOWN, NOT_READY, Verdict, View, zone_of};
use crate::shared::sheet::Sheet;
use crate::shared::{alias, glue};

/// The block has no cluster, which its set-up refuses.
const NO_CLUSTER: Fault = Fault::servfail("the server block has no kubernetes");
/// What an answer leads to is an alias's name.
const ALIAS: Carry = Carry(u64::MAX);

impl Plugin for External {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        let zone = match zone_of(&self.0.zones, request) {
            Ok(zone) => zone,
            Err(step) => return step,
        };
        let Some(view) = self.0.view.get() else { return Step::Fail(NO_CLUSTER) };
        let services = request.rtype == rtype::SRV;
        match self.0.answer(view, request, zone, answer) {
            Verdict::Answered if services => glue::next(x, 0),
            verdict => verdict.step(x, ALIAS),
        }
    }

    fn asked(&self, x: &mut Exchange, carry: Carry) -> Step {
        match carry {
            ALIAS => alias::asked(x),
            step => glue::asked(x, step),
        }
    }
}

impl Outside {
    /// Answers a request for a name in a zone.
    fn answer(&self, view: &View, request: &Request, zone: &Name, answer: &mut Answer) -> Verdict {
        let mut sheet = Sheet::new(answer, self.ttl);
        let (name, rtype) = (&request.name, request.rtype);
        let (found, member) = self.find(view, zone, name, rtype, &mut sheet);
        let (code, soa) = match found {
            Found::Name => (rcode::NOERROR, !sheet.is_answered()),
            Found::Nothing if self.fall.through(name) => return Verdict::Pass,
            Found::Nothing => (rcode::NXDOMAIN, true),
            // What is not known yet is not passed on, for a wrong denial would be kept (RFC 2308 §5).
            Found::NotYet => {
                let why = member.map_or(NOT_KNOWN, |one| &*one.not_known);
                sheet.answer().options.push_ede(NOT_READY, why);
                (rcode::SERVFAIL, true)
            }
            Found::Alias(target) => {
                sheet.answer().set_authoritative(true);
                view.members.note(member, sheet.answer(), || self.namespace(zone, name));
                return Verdict::Elsewhere(target);
            }
        };
        if soa {
            self.soa(view, zone, Section::Authority, &mut sheet);
        }
        let answer = sheet.answer();
        answer.rcode = code;
        answer.set_authoritative(true);
        let from = member.filter(|_| code == rcode::NOERROR);
        view.members.note(from, answer, || self.namespace(zone, name));
        Verdict::Answered
    }

    /// The namespace that a name is in: empty for one of a reverse zone, which may be in any, and none for one that is in none.
    fn namespace<'n>(&self, zone: &Name, name: &'n Name) -> Option<&'n [u8]> {
        if is_reverse(zone) {
            return Some(&[]);
        }
        match Wanted::read(name.below(zone)?, &self.apex) {
            Wanted::Namespace(name) => Some(name),
            Wanted::Service { key, .. } => Name::labels_of(key).nth(1),
            Wanted::Apex | Wanted::Branch | Wanted::NameServer | Wanted::Nothing => None,
        }
    }
}
