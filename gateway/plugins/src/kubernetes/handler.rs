//! Queries: zone, look-up, aliases, and what is said of names that are not there.

use engine::control::Value;
use engine::{Carry, Exchange, Fault, Plugin, Ready, Step};
use wire::{Answer, Name, Request, Section, rcode};

use super::{Cluster, Kubernetes};
use crate::shared::alias;
use crate::shared::cluster::address::is_reverse;
use crate::shared::cluster::member::Member;
use crate::shared::cluster::name::Wanted;
use crate::shared::cluster::{Found, NOT_KNOWN, NOT_READY, Verdict, zone_of};
use crate::shared::sheet::Sheet;

/// How many aliases inside the zones may lead to one another (RFC 1034 §3.6.2 asks for an end).
const MAX_ALIASES: usize = 8;

/// Aliases that lead in a circle, or too far.
const TOO_MANY_ALIASES: Fault = Fault::servfail("too many aliases in a row");

impl Plugin for Kubernetes {
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

impl Cluster {
    /// Answers a request for a name in a zone.
    fn answer(&self, request: &Request, zone: &Name, answer: &mut Answer) -> Verdict {
        let mut sheet = Sheet::new(answer, self.ttl);
        let mut alias: Option<(Name, &Name)> = None;
        // An alias, with its zone, from a cluster that may be out of date: the answer is no fresher than that, whoever has the target.
        let mut stale: Option<(Name, &Name, &Member)> = None;
        for _ in 0..MAX_ALIASES {
            let (name, zone) =
                alias.as_ref().map_or((&request.name, zone), |(name, zone)| (name, *zone));
            let (found, member) = self.find(zone, name, request.rtype, &mut sheet);
            match found {
                Found::Name => {
                    let soa = !has_records(name, &mut sheet);
                    let from = Origin::of(&stale, zone, name, member);
                    return self.close(&mut sheet, zone, &from, rcode::NOERROR, soa);
                }
                Found::Nothing if self.fall.through(name) => {
                    let aliased = alias.map(|(name, _)| Verdict::Elsewhere(name));
                    return aliased.unwrap_or(Verdict::Pass);
                }
                Found::Nothing => {
                    // That the denial may be out of date comes first, for some read no further.
                    let from = Origin::of(&stale, zone, name, None);
                    let verdict = self.close(&mut sheet, zone, &from, rcode::NXDOMAIN, true);
                    if request.edns.present {
                        self.say_why(zone, name, request.rtype, sheet.answer());
                    }
                    return verdict;
                }
                // What is not known yet is not passed on, for a wrong denial would be kept (RFC 2308 §5). Reverse zones that
                // `fallthrough` names are others' as well, who are not to wait for this cluster.
                Found::NotYet if is_reverse(zone) && self.fall.is_named(name) => {
                    return Verdict::Pass;
                }
                Found::NotYet => {
                    let options = &mut sheet.answer().options;
                    options.push_ede(NOT_READY, member.map_or(NOT_KNOWN, |one| &*one.not_known));
                    let from = Origin { zone, name, member };
                    return self.close(&mut sheet, zone, &from, rcode::SERVFAIL, true);
                }
                Found::Alias(target) => match self.zones.longest(&target) {
                    Some(next) => {
                        let namespace = || self.namespace(zone, name);
                        let out_of_date = |one: &&Member| one.is_out_of_date(namespace);
                        if stale.is_none()
                            && let Some(member) = member.filter(out_of_date)
                        {
                            stale = Some((name.clone(), zone, member));
                        }
                        alias = Some((target, next));
                    }
                    None => {
                        sheet.answer().set_authoritative(true);
                        self.note(&Origin::of(&stale, zone, name, member), sheet.answer());
                        return Verdict::Elsewhere(target);
                    }
                },
            }
        }
        Verdict::Failed(TOO_MANY_ALIASES)
    }

    /// Completes an answer from the own data of a cluster, or a denial, which is of all, with the zone's SOA record if it is a
    /// negative one.
    fn close(
        &self,
        sheet: &mut Sheet<'_>,
        zone: &Name,
        from: &Origin<'_>,
        code: u16,
        soa: bool,
    ) -> Verdict {
        if soa {
            self.soa(zone, Section::Authority, sheet);
        }
        let answer = sheet.answer();
        answer.rcode = code;
        answer.set_authoritative(true);
        self.note(from, answer);
        Verdict::Answered
    }

    /// Says on an answer that what it comes from may be out of date, if so.
    fn note(&self, from: &Origin<'_>, answer: &mut Answer) {
        self.members.note(from.member, answer, || self.namespace(from.zone, from.name));
    }

    /// The namespace that a name is in: empty for one of a reverse zone, which may be in any, and none for one that is in none.
    pub(super) fn namespace<'n>(&self, zone: &Name, name: &'n Name) -> Option<&'n [u8]> {
        if is_reverse(zone) {
            return Some(&[]);
        }
        let namespace = Wanted::read(name.below(zone)?, self.rules(zone)).namespace();
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }
}

/// Where an answer comes from.
#[derive(Debug)]
struct Origin<'o> {
    /// The zone of the name.
    zone: &'o Name,
    /// The name.
    name: &'o Name,
    /// The cluster; none for a denial, which is of all.
    member: Option<&'o Member>,
}

impl<'o> Origin<'o> {
    /// That is where an alias came from that may be out of date, if there was one.
    fn of(
        stale: &'o Option<(Name, &'o Name, &'o Member)>,
        zone: &'o Name,
        name: &'o Name,
        member: Option<&'o Member>,
    ) -> Self {
        match stale {
            Some((name, zone, member)) => Self { zone, name, member: Some(member) },
            None => Self { zone, name, member },
        }
    }
}

/// Whether the name's records of the type, or its alias, are in the answer.
fn has_records(name: &Name, sheet: &mut Sheet<'_>) -> bool {
    let answer = sheet.answer();
    let mut records = answer.section(Section::Answer);
    records.any(|rr| answer.owner(rr).eq_ignore_ascii_case(name.wire()))
}

impl Ready for Kubernetes {
    fn ready(&self) -> bool {
        // A cluster that was never reached is not to keep the others' names from clients: its own fail until it is.
        self.0.members.any_known()
    }
}
