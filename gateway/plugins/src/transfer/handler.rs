//! Queries for whole zones: who may have them, and from which plugin they come.

use std::net::IpAddr;
use std::sync::Arc;

use engine::{Carry, Exchange, Fault, Plugin, Role, Step, Stream, Transport, Work};
use wire::{Answer, Name, Section, class, rcode, rtype, scan};

use super::{Transfer, longest};

/// Whether answers may be many messages over this transport (RFC 5936 §4.2, RFC 9250 §4.2).
fn has_streams(transport: Transport) -> bool {
    matches!(transport, Transport::Tcp | Transport::Tls | Transport::Quic)
}

/// A zone fits only into a stream of messages (RFC 5936 §4.2, RFC 8484 §6).
const NO_STREAM: Fault = Fault {
    rcode: rcode::REFUSED,
    ede: Some(18),
    why: "zones are handed out over TCP and TLS only",
};
/// RFC 9103 §7.1: transfers over TLS "MUST only negotiate TLS 1.3 or later".
const OLD_TLS: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(18), why: "zones are handed out over TLS 1.3 only" };
/// The client is none of those who may.
const PROHIBITED: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(18), why: "the client may not copy this zone" };
/// An IXFR query states its serial in one SOA record (RFC 1995 §3).
const NO_SERIAL: Fault =
    Fault::servfail("an IXFR query needs one SOA record in its authority section");
/// The thread that copied the zone ended early.
const COPY_FAILED: Fault = Fault::servfail("the zone could not be copied");
/// What is carried for an incremental transfer, above the serial.
const INCREMENTAL: u64 = 1 << 32;

impl Plugin for Transfer {
    fn query(&self, x: &mut Exchange) -> Step {
        let (kind, request) = (x.request().rtype, x.request());
        if !matches!(kind, rtype::AXFR | rtype::IXFR) || request.class != class::IN {
            return Step::Next;
        }
        if x.is_nested() || !has_streams(x.query.transport) {
            return Step::Fail(NO_STREAM);
        }
        if x.query.session.as_ref().is_some_and(|session| session.version == "TLSv1.2") {
            return Step::Fail(OLD_TLS);
        }
        let Some(stanza) = longest(&self.stanzas, &request.name) else { return Step::Next };
        if !stanza.admits(x.query.peer.ip()) {
            return Step::Fail(PROHIBITED);
        }
        if kind == rtype::AXFR {
            return Step::WAIT;
        }
        match serial(&x.query.wire) {
            Some(serial) => Step::Wait(Carry(INCREMENTAL | u64::from(serial))),
            None => Step::Fail(NO_SERIAL),
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, Carry(bits): Carry) -> Work<'a> {
        Box::pin(async move {
            let incremental = bits & INCREMENTAL != 0;
            // The lower half is the serial; 0 is what those say who have none yet.
            let serial = incremental.then_some(bits as u32).filter(|serial| *serial != 0);
            for (_, role) in self.roles.iter() {
                let Role::Transfer(source) = role else { continue };
                let (source, zone) = (Arc::clone(source), x.request().name.clone());
                let copied =
                    tokio::task::spawn_blocking(move || source.transfer(&zone, serial)).await;
                match copied {
                    Ok(None) => {}
                    Ok(Some(Ok(inner))) => {
                        let zone = x.request().name.clone();
                        let told = Told {
                            inner,
                            zone,
                            client: x.query.peer.ip(),
                            incremental,
                            records: 0,
                            serial: 0,
                        };
                        return x.stream(Box::new(told));
                    }
                    Ok(Some(Err(fault))) => return Step::Fail(fault),
                    Err(error) => return x.fail(COPY_FAILED, error),
                }
            }
            Step::Next
        })
    }
}

/// The serial that an IXFR query states.
fn serial(query: &[u8]) -> Option<u32> {
    let mut answer = Answer::default();
    scan::read(query, &mut answer).ok()?;
    let mut authority = answer.section(Section::Authority);
    let soa = authority.next().filter(|rr| rr.rtype == rtype::SOA)?;
    if authority.next().is_some() {
        return None;
    }
    soa_serial(answer.data(soa))
}

/// The serial in the data of an SOA record (RFC 1035 §3.3.13).
fn soa_serial(data: &[u8]) -> Option<u32> {
    let names = Name::span(data)?;
    let rest = data.get(names..)?;
    let numbers = rest.get(Name::span(rest)?..)?;
    numbers.first_chunk().map(|serial| u32::from_be_bytes(*serial))
}

/// A stream of which the log tells when it has ended.
struct Told {
    /// The messages.
    inner: Box<dyn Stream>,
    /// The zone.
    zone: Name,
    /// Who gets it.
    client: IpAddr,
    /// Whether only changes were asked for.
    incremental: bool,
    /// The records so far.
    records: usize,
    /// The zone's serial.
    serial: u32,
}

impl Stream for Told {
    fn next(&mut self, answer: &mut Answer) -> bool {
        if self.inner.next(answer) {
            if self.records == 0 {
                let first = answer.section(Section::Answer).next();
                self.serial =
                    first.and_then(|soa| soa_serial(answer.data(soa))).unwrap_or_default();
            }
            self.records += answer.records().len();
            return true;
        }
        let Self { zone, client, records, serial, .. } = self;
        if self.incremental && *records == 1 {
            log::info!(
                target: "plugin/transfer",
                "Outgoing noop, incremental transfer for up to date zone \"{zone}\" to {client} for {serial} SOA serial"
            );
        } else {
            log::info!(
                target: "plugin/transfer",
                "Outgoing transfer of {records} records of zone \"{zone}\" to {client} for {serial} SOA serial"
            );
        }
        false
    }
}
