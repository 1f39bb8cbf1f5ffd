//! Signs answers on their way up.

use std::sync::Arc;

use engine::{Carry, End, Exchange, Plugin, Step, Work};
use smallvec::SmallVec;
use wire::{Answer, Name, Rr, Section, class, opcode, rcode, rtype};

use super::denial::{self, Place};
use super::figures::{Counts, Figures};
use super::outcome::{Outcome, is};
use super::signer::{KeySet, Signer, Wish, now};
use crate::shared::dnssec::{body, labels};

/// The time to live of a denial where there is no SOA record that has one, in seconds.
const DENIAL_TTL: u32 = 5;

/// The plugin.
#[derive(Debug)]
pub(super) struct Dnssec {
    pub(super) signer: Arc<Signer>,
    pub(super) figures: Figures,
}

/// What is to be signed of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scope {
    /// Whether it is a referral: its NS records and addresses are those of the zone below (RFC 4035 §2.2).
    refers: bool,
    /// The number of the zone that its NSEC records are of; none for the one that their names are in.
    proves: Option<usize>,
}

impl Scope {
    /// Everything.
    const ALL: Self = Self { refers: false, proves: None };

    /// As bits.
    fn carry(self) -> Carry {
        let zone = self.proves.map_or(0, |zone| zone as u64 + 1);
        Carry(zone << 1 | u64::from(self.refers))
    }

    /// From bits.
    fn of(Carry(bits): Carry) -> Self {
        let zone = usize::try_from(bits >> 1).unwrap_or_default();
        Self { refers: bits & 1 == 1, proves: zone.checked_sub(1) }
    }
}

impl Plugin for Dnssec {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN || request.flags.opcode() != opcode::QUERY {
            return Step::Next;
        }
        let Some(zone) = self.signer.zones.number(&request.name) else { return Step::Next };
        let dnssec = request.edns.dnssec_ok();
        if request.rtype == rtype::DNSKEY
            && self.signer.name(zone) == Some(&request.name)
            && self.signer.keys().signs(zone)
        {
            self.tell_keys(x, zone);
            if !dnssec {
                return Step::Done;
            }
            return match self.sign(x, Scope::ALL) {
                Step::Next => Step::Done,
                waits => waits,
            };
        }
        if !dnssec || matches!(request.rtype, rtype::AXFR | rtype::IXFR) {
            return Step::Next;
        }
        Step::WRAP
    }

    fn answer(&self, x: &mut Exchange, _carry: Carry) -> Step {
        if x.end() != Some(End::Answered) || x.is_streaming() {
            return Step::Next;
        }
        match Outcome::of(x.request(), x.answer()) {
            Outcome::Failed => Step::Next,
            Outcome::Told => self.sign(x, Scope::ALL),
            Outcome::Referred { name, cut, ttl, secure } => {
                match self.signer.zone_of(&cut, rtype::DS) {
                    // The zone's own servers are no referral.
                    Some(zone) if self.signer.name(zone) == Some(&cut) => {
                        self.denied(x, &name, None)
                    }
                    Some(zone) => {
                        if !secure {
                            self.prove(x, (&cut, zone), Place::Cut, rtype::DS, ttl);
                        }
                        self.sign(x, Scope { refers: true, proves: Some(zone) })
                    }
                    None => Step::Next,
                }
            }
            Outcome::Denied { name, soa } => self.denied(x, &name, soa.as_ref()),
        }
    }

    fn asked(&self, x: &mut Exchange, _carry: Carry) -> Step {
        let (request, sub, end) = x.sub();
        let servers = |rr: &Rr| rr.rtype == rtype::NS && is(sub.owner(rr), &request.name);
        let told = [Section::Answer, Section::Authority];
        let is_cut = end == Some(End::Answered)
            && told.iter().any(|section| sub.section(*section).any(servers));
        match Outcome::of(x.request(), x.answer()) {
            Outcome::Denied { name, soa } => {
                let place = if is_cut { Place::Cut } else { Place::Plain };
                self.deny(x, &name, soa.as_ref(), place)
            }
            _ => Step::Next,
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, carry: Carry) -> Work<'a> {
        let (keys, now) = (Arc::clone(&self.signer.keys()), now());
        let scope = Scope::of(carry);
        // A wait on the way down is for the keys, which end the way.
        let then = if x.end().is_none() { Step::Done } else { Step::Next };
        let wishes: Vec<Wish> = self
            .wishes(x.answer(), scope, &keys)
            .map(|(_, wish)| wish)
            .filter(|wish| self.signer.made(&keys, wish, now).is_none())
            .collect();
        Box::pin(async move {
            let (signer, own) = (Arc::clone(&self.signer), Arc::clone(&keys));
            let signed = tokio::task::spawn_blocking(move || {
                for wish in &wishes {
                    signer.make(&own, wish, now);
                }
            });
            if let Err(error) = signed.await {
                log::error!(target: "plugin/dnssec", "signing ended early: {error}");
            }
            self.put_signatures(x, scope, &keys, now, None);
            then
        })
    }
}

impl Dnssec {
    /// Answers with the keys of a zone.
    fn tell_keys(&self, x: &mut Exchange, zone: usize) {
        let keys = self.signer.keys();
        let (request, answer) = x.parts_mut();
        answer.set_authoritative(true);
        for key in keys.of_zone(zone) {
            let (owner, ttl) = (request.name.wire(), key.ttl());
            answer.push(Section::Answer, owner, rtype::DNSKEY, ttl, key.data());
        }
    }

    /// Proves that a name has no records of the type that was asked for; of DS records it is to be found out first what the name is.
    fn denied(&self, x: &mut Exchange, name: &Name, soa: Option<&(Name, u32)>) -> Step {
        let kind = x.request().rtype;
        let zone = self.signer.zone_of(name, kind);
        let is_apex = zone.and_then(|zone| self.signer.name(zone)) == Some(name);
        if kind == rtype::DS
            && x.answer().rcode == rcode::NOERROR
            && zone.is_some_and(|zone| self.signer.keys().signs(zone))
            && !is_apex
        {
            // It may be another zone's or none's: its NS records tell.
            return x.ask(name, rtype::NS, Carry::NONE);
        }
        let place = match x.answer().rcode {
            _ if is_apex => Place::Apex,
            rcode::NXDOMAIN => Place::Nowhere,
            _ => Place::Plain,
        };
        self.deny(x, name, soa, place)
    }

    /// Proves that a name has no records of the type that was asked for, and signs.
    fn deny(&self, x: &mut Exchange, name: &Name, soa: Option<&(Name, u32)>, place: Place) -> Step {
        // The zone is the one whose SOA record it is.
        let kind = x.request().rtype;
        let told = soa.and_then(|(owner, _)| self.signer.zones.number(owner));
        let fits = |zone: &usize| self.signer.name(*zone).is_some_and(|zone| name.is_below(zone));
        let zone = told.filter(fits).or_else(|| self.signer.zone_of(name, kind));
        let Some(zone) = zone.filter(|zone| self.signer.keys().signs(*zone)) else {
            return self.sign(x, Scope::ALL);
        };
        let ttl = soa.map_or(DENIAL_TTL, |(_, ttl)| *ttl);
        if soa.is_none()
            && let Some(apex) = self.signer.name(zone)
        {
            // Resolvers take no denial without one (RFC 2308 §2).
            let numbers = [1, 7200, 1800, 86_400, DENIAL_TTL];
            let (apex, answer) = (apex.wire(), x.answer_mut());
            answer.soa(Section::Authority, apex, DENIAL_TTL, apex, apex, numbers);
        }
        self.prove(x, (name, zone), place, kind, ttl);
        // What is proved is that the name is there and has no such records.
        x.answer_mut().rcode = rcode::NOERROR;
        self.sign(x, Scope { refers: false, proves: Some(zone) })
    }

    /// Writes the record that proves that a name has no records of a type; it is the answer if it was asked for.
    fn prove(
        &self,
        x: &mut Exchange,
        (name, zone): (&Name, usize),
        place: Place,
        missing: u16,
        ttl: u32,
    ) {
        let Some(apex) = self.signer.name(zone).filter(|_| self.signer.keys().signs(zone)) else {
            return;
        };
        let data = denial::nsec(name, apex, place, missing);
        let answer = x.answer_mut();
        let section = if missing == rtype::NSEC {
            answer.retain(|rr| rr.section == Section::Answer);
            Section::Answer
        } else {
            Section::Authority
        };
        answer.push(section, name.wire(), rtype::NSEC, ttl, &data);
    }

    /// Puts signatures beside all records that need them; waits for those that take long to make.
    fn sign(&self, x: &mut Exchange, scope: Scope) -> Step {
        let (keys, now) = (self.signer.keys(), now());
        let counts = self.figures.of(x);
        if keys.is_slow {
            let mut missing = 0;
            for (_, wish) in self.wishes(x.answer(), scope, &keys) {
                let made = self.signer.made(&keys, &wish, now).is_some();
                missing += u64::from(!made);
                counts.into_iter().for_each(|counts| counts.count(made));
            }
            if missing > 0 {
                return Step::Wait(scope.carry());
            }
        }
        let counts = counts.filter(|_| !keys.is_slow);
        self.put_signatures(x, scope, &keys, now, counts);
        Step::Next
    }

    /// Puts the signatures into the answer; those that are not kept are made. A set that a key fails for stays as it is.
    fn put_signatures(
        &self,
        x: &mut Exchange,
        scope: Scope,
        keys: &KeySet,
        now: u64,
        counts: Option<&Counts>,
    ) {
        let total = x.answer().records().len();
        for at in 0..total {
            let Some(wish) = self.wish(x.answer(), total, at, scope, keys) else { continue };
            let made = self.signer.made(keys, &wish, now);
            counts.into_iter().for_each(|counts| counts.count(made.is_some()));
            let Some(entry) = made.or_else(|| self.signer.make(keys, &wish, now)) else { continue };
            let answer = x.answer_mut();
            let Some(rr) = answer.records().get(at).copied() else { continue };
            let owner: SmallVec<[u8; 256]> = answer.owner(&rr).into();
            for data in &entry.signatures {
                answer.push(rr.section, &owner, rtype::RRSIG, rr.ttl, data);
            }
        }
        if let Some(counts) = self.figures.of(x) {
            counts.entries.set(self.signer.cache.count() as f64);
        }
    }

    /// All sets of an answer that are to be signed, each with the index of its first record.
    fn wishes<'a>(
        &'a self,
        answer: &'a Answer,
        scope: Scope,
        keys: &'a KeySet,
    ) -> impl Iterator<Item = (usize, Wish)> + 'a {
        let total = answer.records().len();
        (0..total).filter_map(move |at| Some((at, self.wish(answer, total, at, scope, keys)?)))
    }

    /// The set whose first record is at `at` among the first `total`, if it is to be signed.
    fn wish(
        &self,
        answer: &Answer,
        total: usize,
        at: usize,
        scope: Scope,
        keys: &KeySet,
    ) -> Option<Wish> {
        let all = answer.records().get(..total)?;
        let rr = all.get(at)?;
        if rr.class != class::IN || matches!(rr.rtype, rtype::RRSIG | rtype::OPT | rtype::TSIG) {
            return None;
        }
        let wire = answer.owner(rr);
        let same = |other: &&Rr| {
            other.section == rr.section
                && other.rtype == rr.rtype
                && answer.owner(other).eq_ignore_ascii_case(wire)
        };
        if all.get(..at)?.iter().any(|other| same(&other)) {
            return None;
        }
        if scope.refers
            && (rr.section == Section::Additional
                || rr.section == Section::Authority && rr.rtype == rtype::NS)
        {
            return None;
        }
        let (owner, _) = Name::read(wire)?;
        let zone = match scope.proves.filter(|_| rr.rtype == rtype::NSEC) {
            Some(zone) => zone,
            None => self.signer.zone_of(&owner, rr.rtype)?,
        };
        if !keys.signs(zone) || is_made(answer, all, rr, &owner) {
            return None;
        }
        let is_signed = all.iter().any(|other| {
            other.rtype == rtype::RRSIG
                && other.section == rr.section
                && answer.data(other).starts_with(&rr.rtype.to_be_bytes())
                && answer.owner(other).eq_ignore_ascii_case(wire)
        });
        if is_signed {
            return None;
        }
        let data = all.iter().filter(same).map(|rr| answer.data(rr));
        let body = body(wire, rr.rtype, super::signer::ORIGINAL_TTL, data);
        Some(Wish { zone, rtype: rr.rtype, labels: labels(wire), body })
    }
}

/// Whether a record is the CNAME record that a DNAME record stands for: whoever validates makes it again (RFC 6672 §5.3.1).
fn is_made(answer: &Answer, all: &[Rr], rr: &Rr, owner: &Name) -> bool {
    let is_above = |other: &Rr| {
        let above = Name::read(answer.owner(other)).map(|(name, _)| name);
        above.is_some_and(|above| owner.is_below(&above) && *owner != above)
    };
    rr.rtype == rtype::CNAME
        && all.iter().any(|other| {
            other.rtype == rtype::DNAME && other.section == rr.section && is_above(other)
        })
}
