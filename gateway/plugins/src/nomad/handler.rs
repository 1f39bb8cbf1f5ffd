//! Queries: service and namespace of a name, and their instances.

use std::time::Duration;

use engine::{Carry, Exchange, Fault, Plugin, Step, Work};
use tokio::time::Instant;
use wire::{Answer, Name, Section, Srv, class, rcode, rtype};

use super::Nomad;
use super::agent::Instance;
use crate::shared::sheet::Sheet;
use crate::shared::zone::NO_TRANSFER;

/// How long Nomad may take for a query.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long denials may be kept, in seconds.
const MINIMUM: u32 = 30;
/// What SRV records have for priority and weight.
const EVEN: u16 = 10;
/// The label of a zone's name server.
const NAME_SERVER: &[u8] = b"\x03ns1";
/// The label of the mailbox of a zone's keepers.
const MAILBOX: &[u8] = b"\x0ahostmaster";

/// Nothing can be had of Nomad (RFC 8914 §4.24: a network error).
const NO_NOMAD: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(23), why: "Nomad did not answer the question" };
/// Too many queries wait for Nomad.
const BUSY: Fault = Fault::servfail("too many queries wait for Nomad");

impl Plugin for Nomad {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN || self.wanted(&request.name).is_none() {
            return Step::Next;
        }
        match request.rtype {
            rtype::AXFR | rtype::IXFR => Step::Fail(NO_TRANSFER),
            _ => Step::WAIT,
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(self.answer(x))
    }
}

impl Nomad {
    /// The service and the namespace that a name means: its first two labels. None if it is not of the zone, or shorter.
    fn wanted<'n>(&self, name: &'n Name) -> Option<(&'n [u8], &'n [u8])> {
        let mut labels = Name::labels_of(name.below(&self.zone)?);
        Some((labels.next()?, labels.next()?))
    }

    /// Answers a query by what Nomad knows.
    async fn answer(&self, x: &mut Exchange) -> Step {
        let Ok(_place) = self.room.try_acquire() else { return Step::Fail(BUSY) };
        let until = Instant::now() + TIMEOUT;
        let (name, rtype) = (x.request().name.clone(), x.request().rtype);
        let Some((service, namespace)) = self.wanted(&name) else { return Step::Next };
        let [service, namespace] = [service, namespace].map(std::str::from_utf8);
        let (Ok(service), Ok(namespace)) = (service, namespace) else {
            // Names in Nomad are letters, digits and dashes.
            return self.deny(x.answer_mut(), rcode::NXDOMAIN);
        };
        let found = self.agents.service(service, namespace, until).await;
        self.figures.count(x, namespace, found.as_ref().is_ok_and(|found| !found.is_empty()));
        match found {
            Err(failure) => x.fail(NO_NOMAD, failure),
            Ok(found) if found.is_empty() => self.deny(x.answer_mut(), rcode::NXDOMAIN),
            Ok(found) => {
                let answer = x.answer_mut();
                self.write(&found, &name, rtype, answer);
                if answer.section(Section::Answer).next().is_none() {
                    return self.deny(answer, rcode::NOERROR);
                }
                answer.set_authoritative(true);
                Step::Done
            }
        }
    }

    /// Writes where the instances are.
    fn write(&self, found: &[Instance], name: &Name, rtype: u16, answer: &mut Answer) {
        let mut sheet = Sheet::new(answer, self.ttl);
        for instance in found {
            let own = if instance.ip.is_ipv4() { rtype::A } else { rtype::AAAA };
            if rtype == own {
                sheet.address(Section::Answer, name.wire(), instance.ip);
            } else if rtype == rtype::SRV {
                let numbers = Srv { priority: EVEN, weight: EVEN, port: instance.port };
                sheet.srv(name.wire(), numbers, name.wire());
                sheet.address(Section::Additional, name.wire(), instance.ip);
            }
        }
    }

    /// Says that there is nothing.
    fn deny(&self, answer: &mut Answer, code: u16) -> Step {
        let numbers = [0, 3600, 600, 86400, MINIMUM].map(u32::to_be_bytes);
        let zone = self.zone.wire();
        let data = [NAME_SERVER, zone, MAILBOX, zone, numbers.as_flattened()];
        answer.push_parts(Section::Authority, zone, rtype::SOA, self.ttl.min(MINIMUM), &data);
        answer.rcode = code;
        answer.set_authoritative(true);
        Step::Done
    }
}
