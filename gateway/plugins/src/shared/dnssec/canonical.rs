//! The canonical form of record sets (RFC 4034 §6).

use smallvec::SmallVec;
use wire::{Name, class, rtype};

/// A set of records in canonical form, owner and all: what a signature covers beside the fields of its own record (RFC 4034 §3.1.8.1).
pub type Body = SmallVec<[u8; 1024]>;

/// The canonical form of the records of one owner and type, whose times to live are `ttl` seconds. The order of the records and the case
/// of names make no difference (RFC 4034 §6.2, §6.3).
pub fn body<'a>(
    owner: &[u8],
    rtype: u16,
    ttl: u32,
    records: impl Iterator<Item = &'a [u8]>,
) -> Body {
    let mut data = Body::new();
    let mut places = SmallVec::<[(usize, usize); 16]>::new();
    for record in records {
        let at = data.len();
        data.extend_from_slice(record);
        lower(rtype, data.get_mut(at..).unwrap_or_default());
        places.push((at, data.len()));
    }
    let record = |(from, to): (usize, usize)| data.get(from..to).unwrap_or_default();
    places.sort_unstable_by(|a, b| record(*a).cmp(record(*b)));
    // A record that comes twice is one.
    places.dedup_by(|a, b| record(*a) == record(*b));
    let mut body = Body::new();
    for place in places {
        let at = body.len();
        body.extend_from_slice(owner);
        body.get_mut(at..).unwrap_or_default().make_ascii_lowercase();
        body.extend_from_slice(&rtype.to_be_bytes());
        body.extend_from_slice(&class::IN.to_be_bytes());
        body.extend_from_slice(&ttl.to_be_bytes());
        let data = record(place);
        // The data of a record is never longer.
        let len = u16::try_from(data.len()).unwrap_or(u16::MAX);
        body.extend_from_slice(&len.to_be_bytes());
        body.extend_from_slice(data);
    }
    body
}

/// How many labels of a name count in its signatures: not the root, and not the asterisk of a wildcard (RFC 4034 §3.1.3).
pub fn labels(owner: &[u8]) -> u8 {
    let Some((name, _)) = Name::read(owner) else { return 0 };
    let wild = usize::from(name.wire().starts_with(b"\x01*"));
    // A name has 127 labels at most.
    u8::try_from(name.labels() - wild).unwrap_or(u8::MAX)
}

/// Makes the names in data lower case where that is the canonical form (RFC 4034 §6.2, without NSEC: RFC 6840 §5.1).
fn lower(rtype: u16, data: &mut [u8]) {
    let (before, texts, names) = match rtype {
        rtype::NS | rtype::MD | rtype::MF | rtype::CNAME | rtype::MB | rtype::MG | rtype::MR => {
            (0, 0, 1)
        }
        rtype::PTR | rtype::DNAME | rtype::NXT => (0, 0, 1),
        rtype::SOA | rtype::MINFO | rtype::RP => (0, 0, 2),
        rtype::MX | rtype::AFSDB | rtype::RT | rtype::KX => (2, 0, 1),
        rtype::PX => (2, 0, 2),
        rtype::SRV => (6, 0, 1),
        rtype::NAPTR => (4, 3, 1),
        rtype::SIG | rtype::RRSIG => (18, 0, 1),
        _ => return,
    };
    let mut rest = data.get_mut(before..).unwrap_or_default();
    for _ in 0..texts {
        let len = rest.first().map_or(0, |len| usize::from(*len) + 1);
        rest = rest.get_mut(len..).unwrap_or_default();
    }
    for _ in 0..names {
        let Some(len) = Name::span(rest) else { return };
        let Some((name, behind)) = rest.split_at_mut_checked(len) else { return };
        name.make_ascii_lowercase();
        rest = behind;
    }
}
