//! Queries: zone, keys, aliases, and what is said of names that are not there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{Carry, Exchange, Fault, Plugin, Step, Work};
use tokio::time::Instant;
use wire::{Answer, Name, Section, class, rcode, rtype};

use super::Etcd;
use super::find::Wrong;
use super::write::{self, Written};
use crate::shared::zone::NO_TRANSFER;
use crate::shared::{alias, glue};

/// How long all reads for a query may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long denials, and a zone's SOA record, may be kept, in seconds.
const MINIMUM: u32 = 30;
/// The labels of a zone's name server.
const NAME_SERVER: &[u8] = b"\x02ns\x03dns";
/// The label of the mailbox of a zone's keepers.
const MAILBOX: &[u8] = b"\x0ahostmaster";
/// What an answer leads to is an alias's name.
const ALIAS: Carry = Carry(u64::MAX);

/// Nothing can be had of etcd (RFC 8914 §4.24: a network error).
const NO_ETCD: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(23), why: "etcd did not answer the question" };
/// A key's value makes no sense (RFC 8914 §4.1).
const BAD_VALUE: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(0), why: "a value in etcd is no record" };
/// Too many queries wait for etcd.
const BUSY: Fault = Fault::servfail("too many queries wait for etcd");

impl Plugin for Etcd {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        if request.class != class::IN {
            return Step::Next;
        }
        let Some(zone) = self.zones.longest(&request.name) else { return Step::Next };
        match request.rtype {
            rtype::AXFR | rtype::IXFR => Step::Fail(NO_TRANSFER),
            rtype::SOA if request.name == *zone => {
                soa(zone, Section::Answer, answer);
                answer.set_authoritative(true);
                Step::Done
            }
            _ => Step::WAIT,
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(self.answer(x))
    }

    fn asked(&self, x: &mut Exchange, carry: Carry) -> Step {
        match carry {
            ALIAS => alias::asked(x),
            step => glue::asked(x, step),
        }
    }
}

impl Etcd {
    /// Answers a query by what etcd has.
    async fn answer(&self, x: &mut Exchange) -> Step {
        let Ok(_place) = self.room.try_acquire() else { return Step::Fail(BUSY) };
        let until = Instant::now() + TIMEOUT;
        let (name, rtype) = (x.request().name.clone(), x.request().rtype);
        let Some(zone) = self.zones.longest(&name) else { return Step::Next };
        let found = match self.find(&name, zone, rtype, until).await {
            Ok(found) => found,
            Err(wrong @ Wrong::Etcd(_)) => return x.fail(NO_ETCD, wrong),
            Err(wrong @ Wrong::Value(_)) => return x.fail(BAD_VALUE, wrong),
        };
        let Some(records) = found else {
            if self.fall.through(&name) {
                return Step::Next;
            }
            return deny(x.answer_mut(), zone, rcode::NXDOMAIN);
        };
        let answer = x.answer_mut();
        match write::write(&records, &self.path, &name, rtype, name == *zone, answer) {
            Err(write::NoAddress) => {
                x.fail(BAD_VALUE, format_args!("a name server of {zone} is a name and no address"))
            }
            Ok(_) if answer.section(Section::Answer).next().is_none() => {
                deny(answer, zone, rcode::NOERROR)
            }
            Ok(written) => {
                answer.set_authoritative(true);
                match written {
                    Written::Whole => Step::Done,
                    Written::Alias(target) => x.ask(&target, rtype, ALIAS),
                    Written::Targets => glue::next(x, 0),
                }
            }
        }
    }
}

/// Says that there is nothing.
fn deny(answer: &mut Answer, zone: &Name, code: u16) -> Step {
    soa(zone, Section::Authority, answer);
    answer.rcode = code;
    answer.set_authoritative(true);
    Step::Done
}

/// Writes a zone's SOA record. Nobody knows when something changed last, so the serial is the time.
fn soa(zone: &Name, section: Section, answer: &mut Answer) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let serial = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
    let numbers = [serial, 7200, 1800, 86400, MINIMUM].map(u32::to_be_bytes);
    let zone = zone.wire();
    let data = [NAME_SERVER, zone, MAILBOX, zone, numbers.as_flattened()];
    answer.push_parts(section, zone, rtype::SOA, MINIMUM, &data);
}
