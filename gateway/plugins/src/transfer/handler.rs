//! Queries for whole zones: who may have them, and from which plugin they come.

use std::sync::Arc;
use std::time::Duration;

use engine::{Carry, Exchange, Fault, Plugin, Role, Step, Stream, Transport, Wanted, Work};
use tokio::time::timeout;
use wire::{Answer, Section, class, rcode, rtype, scan};

use super::told::{Told, soa_serial};
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
/// All transfers that may be under way are, and none has ended for some time.
const BUSY: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(0), why: "too many transfers are under way" };
/// How long a transfer waits for others to end.
const PATIENCE: Duration = Duration::from_secs(5);
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
        // RFC 1995 §2: changes may be asked for by UDP.
        let by_datagram = kind == rtype::IXFR && x.query.transport == Transport::Udp;
        if x.is_nested() || !(by_datagram || has_streams(x.query.transport)) {
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
            let is_datagram = x.query.transport.is_datagram();
            // The lower half is the serial; 0 is what those say who have none yet.
            let wanted = match (bits as u32, incremental) {
                (serial, true) if is_datagram => Wanted::Changes(serial),
                (1.., true) => Wanted::Since(bits as u32),
                _ => Wanted::Whole,
            };
            let slots = Arc::clone(&self.slots);
            let slot = if is_datagram {
                // Whoever sends many in another's name keeps nobody waiting who has a connection.
                slots.try_acquire_owned().ok()
            } else {
                timeout(PATIENCE, slots.acquire_owned()).await.ok().and_then(Result::ok)
            };
            let Some(slot) = slot else { return Step::Fail(BUSY) };
            for (_, role) in self.roles.iter() {
                let Role::Transfer(source) = role else { continue };
                let (source, zone) = (Arc::clone(source), x.request().name.clone());
                let copied =
                    tokio::task::spawn_blocking(move || source.transfer(&zone, wanted)).await;
                match copied {
                    Ok(None) => {}
                    Ok(Some(Ok(inner))) => {
                        let told = Told::new(inner, x, incremental, slot);
                        if is_datagram {
                            return datagram(x, told);
                        }
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

/// Answers with changes in one datagram; with the SOA record alone if they do not fit, so that the client comes back by TCP
/// (RFC 1995 §2).
fn datagram(x: &mut Exchange, mut stream: Told) -> Step {
    let mut page = Answer::default();
    stream.next(&mut page);
    let are_changes = page.records().get(1).is_none_or(|rr| rr.rtype == rtype::SOA);
    let room = x.limit(usize::from(u16::MAX));
    let fits = are_changes
        && page.message_len(x.query.parts.question_len) <= room
        && !stream.next(&mut Answer::default());
    if !fits {
        let mut first = true;
        page.retain(|_| std::mem::take(&mut first));
    }
    let answer = x.answer_mut();
    answer.graft(&page, Section::Answer, Section::Answer);
    answer.set_authoritative(true);
    Step::Done
}
