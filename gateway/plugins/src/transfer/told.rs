//! What is told of transfers: lines of the log, and figures.

use std::net::IpAddr;

use engine::metrics::{counter, gauge};
use engine::{Exchange, Stream};
use tokio::sync::OwnedSemaphorePermit;
use wire::{Answer, Name, Section, rtype};

/// Transfers to others that came to their end, by kind.
pub(super) const TRANSFERS: &str = "causeway_transfer_sent_total";
/// Transfers to others that are under way.
pub(super) const UNDER_WAY: &str = "causeway_transfer_under_way";

/// A transfer under way, of which the log tells when it has ended. It has one of the places that there are for transfers.
pub(super) struct Told {
    /// The messages.
    inner: Box<dyn Stream>,
    /// The zone.
    zone: Name,
    /// Who gets it.
    client: IpAddr,
    /// Whether only changes were asked for.
    incremental: bool,
    /// The types of the first two records, 0 for none.
    head: [u16; 2],
    /// The records so far.
    records: usize,
    /// The zone's serial.
    serial: u32,
    /// Its place.
    _slot: OwnedSemaphorePermit,
}

impl Told {
    /// A transfer to the client of an exchange.
    pub(super) fn new(
        inner: Box<dyn Stream>,
        x: &Exchange,
        incremental: bool,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        gauge(UNDER_WAY, &[]).increment(1.0);
        Self {
            inner,
            zone: x.request().name.clone(),
            client: x.query.peer.ip(),
            incremental,
            head: [0; 2],
            records: 0,
            serial: 0,
            _slot: slot,
        }
    }

    /// Tells that it has ended.
    fn end(&self) {
        let Self { zone, client, records, serial, .. } = self;
        // RFC 1995 §4: changes begin with two SOA records, the zone with one.
        let kind = match (self.incremental, self.head) {
            (true, [_, 0]) => "noop",
            (true, [_, rtype::SOA]) => "ixfr",
            _ => "axfr",
        };
        counter(TRANSFERS, &[("kind", kind)]).increment(1);
        match kind {
            "noop" => log::info!(
                target: "plugin/transfer",
                "Outgoing noop, incremental transfer for up to date zone \"{zone}\" to {client} for {serial} SOA serial"
            ),
            "ixfr" => log::info!(
                target: "plugin/transfer",
                "Outgoing incremental transfer of {records} records of zone \"{zone}\" to {client} for {serial} SOA serial"
            ),
            _ => log::info!(
                target: "plugin/transfer",
                "Outgoing transfer of {records} records of zone \"{zone}\" to {client} for {serial} SOA serial"
            ),
        }
    }
}

impl Stream for Told {
    fn next(&mut self, answer: &mut Answer) -> bool {
        if !self.inner.next(answer) {
            self.end();
            return false;
        }
        if self.records == 0 {
            let mut records = answer.section(Section::Answer);
            let first = records.next();
            self.serial = first.and_then(|soa| soa_serial(answer.data(soa))).unwrap_or_default();
            self.head = [first, records.next()].map(|rr| rr.map_or(0, |rr| rr.rtype));
        }
        self.records += answer.records().len();
        true
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        gauge(UNDER_WAY, &[]).decrement(1.0);
    }
}

/// The serial in the data of an SOA record (RFC 1035 §3.3.13).
pub(super) fn soa_serial(data: &[u8]) -> Option<u32> {
    let names = Name::span(data)?;
    let rest = data.get(names..)?;
    let numbers = rest.get(Name::span(rest)?..)?;
    numbers.first_chunk().map(|serial| u32::from_be_bytes(*serial))
}
