//! Zones that are served locally and have nothing in them (RFC 6303 §3).

use wire::{Answer, Flags, Request, Section, rcode, rtype};

/// The time to live of all records, and of denials, in seconds.
pub const TTL: u32 = 10_800;

/// Answers `request` from the empty zone of `zone`, a lower-case wire name: its SOA and NS records, and nothing else. Names below
/// it do not exist, unless `is_full` says that all of them do, without records.
pub fn answer(zone: &[u8], is_full: bool, request: &Request, answer: &mut Answer) {
    let own = request.name.wire();
    answer.flags.set(Flags::AA, true);
    match request.rtype {
        rtype::SOA if own == zone => soa(Section::Answer, zone, answer),
        rtype::NS if own == zone => answer.push(Section::Answer, zone, rtype::NS, TTL, zone),
        _ => {
            if own != zone && !is_full {
                answer.rcode = rcode::NXDOMAIN;
            }
            soa(Section::Authority, zone, answer);
        }
    }
}

/// Writes the SOA record of such a zone.
pub fn soa(section: Section, zone: &[u8], answer: &mut Answer) {
    const RNAME: &[u8] = b"\x06nobody\x07invalid\0";
    answer.soa(section, zone, TTL, zone, RNAME, [1, 3600, 1200, 604_800, TTL]);
}
