//! AAAA records of A records (RFC 6147).

use engine::metrics::{Counter, Table, counter, describe};
use engine::{Carry, End, Exchange, Plugin, Routes, Step};
use smallvec::SmallVec;
use wire::{Answer, Flags, Section, class, option, rcode, rtype};

use super::prefix::Prefix;

/// Replies with records that were made.
const TRANSLATED: &str = "coredns_dns64_requests_translated_total";

/// The longest that a made record lives if no SOA record came with the empty answer, in seconds (RFC 6147 §5.1.7).
const WITHOUT_SOA: u32 = 600;

/// What the directives say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// What goes in front of IPv4 addresses.
    pub(super) prefix: Prefix,
    /// Whether names with AAAA records get others.
    pub(super) translate_all: bool,
    /// Whether clients that ask over IPv4 get made records.
    pub(super) allow_ipv4: bool,
}

/// Makes the records.
#[derive(Debug)]
pub(super) struct Dns64 {
    rules: Rules,
    routes: Routes,
    translated: Table<Counter>,
}

impl Dns64 {
    /// By these rules.
    pub(super) fn new(rules: Rules, routes: Routes) -> Self {
        describe(TRANSLATED, "Counter of DNS requests translated by dns64.");
        Self { rules, routes, translated: Table::new(256) }
    }

    /// Counts a translated reply.
    fn count(&self, x: &Exchange) {
        let make = || {
            let server = self.routes.of(x).map(|route| &*route.server).unwrap_or_default();
            counter(TRANSLATED, &[("server", server)])
        };
        if let Some(translated) = self.translated.get(x.route(), make) {
            translated.increment(1);
        }
    }

    /// Makes AAAA records of the answer section's A records, which live `most` seconds at most; how many.
    fn translate(&self, answer: &mut Answer, most: u32) -> usize {
        let mut made = 0;
        for index in 0..answer.records().len() {
            let Some(rr) = answer.records().get(index) else { continue };
            if rr.section != Section::Answer || rr.rtype != rtype::A || rr.class != class::IN {
                continue;
            }
            let Ok(v4) = <[u8; 4]>::try_from(answer.data(rr)) else { continue };
            answer.set_data(index, &self.rules.prefix.embed(v4));
            if let Some(rr) = answer.records_mut().get_mut(index) {
                rr.rtype = rtype::AAAA;
                rr.ttl = rr.ttl.min(most);
                made += 1;
            }
        }
        made
    }
}

impl Plugin for Dns64 {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        let is_v4 = x.query.peer.ip().to_canonical().is_ipv4();
        // "If the CD bit is set and the DO bit is set, […] the vDNS64 MUST NOT perform synthesis" (RFC 6147 §5.5).
        let checks = request.edns.dnssec_ok() && request.flags.has(Flags::CD);
        if request.rtype != rtype::AAAA
            || request.class != class::IN
            || checks
            || is_v4 && !self.rules.allow_ipv4
        {
            return Step::Next;
        }
        Step::WRAP
    }

    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        let answer = x.answer();
        let has = |rtype: u16| answer.section(Section::Answer).any(|rr| rr.rtype == rtype);
        match x.end() {
            // A name that does not exist has no A records either (RFC 6147 §5.1.2).
            Some(End::Answered) if answer.rcode == rcode::NXDOMAIN => return Step::Next,
            Some(End::Answered) if has(rtype::AAAA) && !self.rules.translate_all => {
                return Step::Next;
            }
            // Any other code is as an empty answer, for many servers fail at AAAA alone (RFC 6147 §5.1.2, §5.1.3).
            Some(End::Answered | End::Failed(_)) => {}
            Some(End::Silent) | None => return Step::Next,
        }
        let name = x.request().name.clone();
        x.ask(&name, rtype::A, Carry::NONE)
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        let (_, found, end) = x.sub();
        let (code, truncated) = (found.rcode, found.flags.has(Flags::TC));
        match end {
            Some(End::Answered) => {}
            Some(End::Failed(fault)) => return Step::Fail(fault),
            Some(End::Silent) | None => return Step::Next,
        }
        let failed = !matches!(code, rcode::NOERROR | rcode::NXDOMAIN);
        let why = found.options.get(option::EDE).filter(|_| failed);
        let why: Option<SmallVec<[u8; 64]>> = why.map(SmallVec::from_slice);
        let soa = x.answer().section(Section::Authority).find(|rr| rr.rtype == rtype::SOA);
        let most = soa.map_or(WITHOUT_SOA, |rr| rr.ttl);
        x.answer_mut().clear();
        // Signatures of A records are none of what is made of them.
        x.graft_from(Section::Answer, |rr, covered| {
            rr.rtype != rtype::AAAA && covered != Some(rtype::A)
        });
        x.graft_from(Section::Authority, |_, _| true);
        x.graft_from(Section::Additional, |_, _| true);
        let answer = x.answer_mut();
        answer.rcode = code;
        answer.flags.set(Flags::TC, truncated);
        if let Some(why) = why {
            answer.options.push(option::EDE, &why);
        }
        if self.translate(answer, most) > 0 {
            self.count(x);
        }
        Step::Done
    }
}
