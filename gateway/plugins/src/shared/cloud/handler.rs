//! Answers from the zones of an API.

use std::sync::Arc;

use engine::{Carry, Exchange, Plugin, Provider, Ready, Step};
use wire::{Answer, Name, class, rtype};
use zone::Found;

use super::source::Source;
use crate::shared::fall::Fall;
use crate::shared::zone::{CIRCLE, NO_TRANSFER, NOT_LOADED, asked};
use crate::shared::zones::Zones;

/// The zones of one directive.
#[derive(Clone, Debug)]
pub(crate) struct Cloud(Arc<Inner>);

/// What it has.
#[derive(Debug)]
struct Inner {
    source: Arc<Source>,
    /// The names of the zones, each once.
    names: Zones,
    /// The numbers of the copies that each name has, in the order of the names.
    copies: Box<[Box<[usize]>]>,
    fall: Fall,
}

impl Cloud {
    /// Answers from these copies, and lets names that they do not have fall through.
    pub(crate) fn new(source: Arc<Source>, fall: Fall) -> Self {
        let mut names: Vec<Name> = Vec::new();
        let mut copies: Vec<Vec<usize>> = Vec::new();
        for (number, copy) in source.copies().iter().enumerate() {
            match names.iter().position(|name| name == copy.zone()) {
                Some(at) => copies[at].push(number),
                None => {
                    names.push(copy.zone().clone());
                    copies.push(vec![number]);
                }
            }
        }
        let copies = copies.into_iter().map(Into::into).collect();
        Self(Arc::new(Inner { source, names: Zones::new(names), copies, fall }))
    }

    /// The numbers of the copies that know a name; of DS records of a zone's own name those of the zone above (RFC 4035 §3.1.4.1).
    fn copies(&self, name: &Name, kind: u16) -> Option<&[usize]> {
        let names = &self.0.names;
        let mut number = names.number(name)?;
        if kind == rtype::DS && names.has_zone(name) && !name.is_root() {
            number = names.number(&name.parent()).unwrap_or(number);
        }
        self.0.copies.get(number).map(|copies| &**copies)
    }
}

impl Plugin for Cloud {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN {
            return Step::Next;
        }
        let Some(copies) = self.copies(&request.name, request.rtype) else { return Step::Next };
        if matches!(request.rtype, rtype::AXFR | rtype::IXFR) {
            return Step::Fail(NO_TRANSFER);
        }
        let (request, answer) = x.parts_mut();
        let (kind, dnssec) = (request.rtype, request.edns.dnssec_ok());
        let mut missing = false;
        for number in copies {
            answer.clear();
            let copy = self.0.source.copies().get(*number);
            let now = copy.and_then(|copy| copy.served().load());
            let Some(version) = now.as_ref().and_then(|now| now.as_ref()) else {
                missing = true;
                continue;
            };
            let finding = version.zone.look_up(&request.name, kind, dnssec, answer);
            match finding.found {
                Found::Elsewhere(target) => return x.ask(&target, kind, Carry(*number as u64)),
                Found::Circle => return Step::Fail(CIRCLE),
                // Nothing of the name itself: another copy may have it.
                Found::NoName | Found::Hollow | Found::Referral if finding.alias.is_none() => {}
                _ => return Step::Done,
            }
        }
        if missing {
            // It may be the one that has the name.
            return Step::Fail(NOT_LOADED);
        }
        if self.0.fall.through(&request.name) {
            answer.clear();
            return Step::Next;
        }
        Step::Done
    }

    fn asked(&self, x: &mut Exchange, Carry(number): Carry) -> Step {
        let copies = self.0.source.copies();
        let copy = usize::try_from(number).ok().and_then(|number| copies.get(number));
        let now = copy.and_then(|copy| copy.served().load());
        asked(now.as_ref().and_then(|now| now.as_ref()).map(|version| &version.zone), x)
    }
}

impl Provider for Cloud {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        if label != "wildcard" {
            return None;
        }
        let request = x.request();
        let mut scratch = Answer::default();
        for number in self.copies(&request.name, request.rtype)? {
            let now = self.0.source.copies().get(*number)?.served().load()?;
            let zone = &now.as_ref()?.zone;
            scratch.clear();
            let finding = zone.look_up(&request.name, request.rtype, false, &mut scratch);
            if matches!(finding.found, Found::NoName | Found::Hollow | Found::Referral) {
                continue;
            }
            out.push_str(&zone.wildcard(&finding)?.to_string());
            return Some(());
        }
        None
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("wildcard");
    }
}

impl Ready for Cloud {
    fn ready(&self) -> bool {
        self.0.source.is_loaded()
    }
}
