//! SOA records of zones that a cluster's objects fill.

use wire::{Name, Section, rtype};

use crate::shared::sheet::Sheet;

/// The labels of the name server of zones that are laid out as the specification has it.
pub(crate) const NAME_SERVER: &[u8] = b"\x02ns\x03dns";
/// The longest that the SOA records of such zones may be kept, in seconds.
pub(crate) const SOA_TTL: u32 = 300;
/// The label of the mailbox of a zone's keepers.
const MAILBOX: &[u8] = b"\x0ahostmaster";
/// How often others look whether a zone has changed, how soon they try again, and how long they keep it without an answer, in
/// seconds.
const REFRESH: [u32; 3] = [7200, 1800, 86400];

/// What of a zone's SOA record is not the same for all zones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soa<'l> {
    /// The zone.
    pub(crate) zone: &'l Name,
    /// The name of its first server, in pieces.
    pub(crate) server: [&'l [u8]; 3],
    /// The labels between the mailbox and the zone, in wire form.
    pub(crate) below: &'l [u8],
    /// The serial.
    pub(crate) serial: u32,
    /// How long denials may be kept, in seconds.
    pub(crate) minimum: u32,
}

impl Soa<'_> {
    /// Writes the record, which may be kept for so many seconds.
    pub(crate) fn write(&self, ttl: u32, section: Section, sheet: &mut Sheet<'_>) {
        let [refresh, retry, expire] = REFRESH;
        let numbers = [self.serial, refresh, retry, expire, self.minimum].map(u32::to_be_bytes);
        let ([a, b, c], zone) = (self.server, self.zone.wire());
        let data = [a, b, c, MAILBOX, self.below, zone, numbers.as_flattened()];
        sheet.answer().push_parts(section, zone, rtype::SOA, ttl, &data);
    }
}
