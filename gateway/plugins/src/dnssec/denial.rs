//! Proofs that something is not there, made for each question: the name exists and lacks the type ("black lies").

use smallvec::SmallVec;
use wire::{Name, rtype};
use zone::write_types;

// Types that nothing else here deals with (IANA, DNS parameters).
/// A place on earth.
const LOC: u16 = 29;
/// A certificate.
const CERT: u16 = 37;
/// Fingerprints of SSH keys.
const SSHFP: u16 = 44;
/// What a TLS server shows.
const TLSA: u16 = 52;
/// Host identities.
const HIP: u16 = 55;
/// An OpenPGP key.
const OPENPGPKEY: u16 = 61;
/// Who may send mail, of old.
const SPF: u16 = 99;
/// Address prefixes.
const APL: u16 = 42;
/// Keys of IPsec.
const IPSECKEY: u16 = 45;
/// Who has an address by DHCP.
const DHCID: u16 = 49;
/// What a TLS server shows for mail.
const SMIMEA: u16 = 53;
/// A child's DS.
const CDS: u16 = 59;
/// A child's DNSKEY.
const CDNSKEY: u16 = 60;
/// What a parent is to copy.
const CSYNC: u16 = 62;
/// A zone's digest.
const ZONEMD: u16 = 63;
/// A URI.
const URI: u16 = 256;
/// Who may issue certificates.
const CAA: u16 = 257;

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The zone's own.
    Apex,
    /// A zone's below.
    Cut,
    /// Any other that is there.
    Plain,
    /// None at all.
    Nowhere,
}

/// The types that a name is said to have that is not there.
const PLAIN: &[u16] = &[
    rtype::A,
    rtype::HINFO,
    rtype::TXT,
    rtype::AAAA,
    LOC,
    rtype::SRV,
    CERT,
    SSHFP,
    rtype::RRSIG,
    rtype::NSEC,
    TLSA,
    HIP,
    OPENPGPKEY,
    SPF,
];

/// Those that a name which is there may have beside them: a resolver takes what is left out for denied (RFC 8198 §5.2).
const MORE: &[u16] = &[
    rtype::PTR,
    rtype::MX,
    rtype::RP,
    rtype::AFSDB,
    rtype::NAPTR,
    rtype::KX,
    APL,
    IPSECKEY,
    DHCID,
    SMIMEA,
    rtype::SVCB,
    rtype::HTTPS,
    URI,
    CAA,
];

/// Those that the apex has beside them.
const APEX: &[u16] = &[rtype::NS, rtype::SOA, rtype::DNSKEY, CDS, CDNSKEY, CSYNC, ZONEMD];

/// The data of the NSEC record of a name that lacks `missing`.
pub(super) fn nsec(name: &Name, apex: &Name, place: Place, missing: u16) -> SmallVec<[u8; 512]> {
    let more: [&[u16]; 2] = match place {
        Place::Apex => [MORE, APEX],
        Place::Cut => [&[rtype::NS], &[]],
        Place::Plain => [MORE, &[]],
        Place::Nowhere => [&[], &[]],
    };
    let [more, own] = more;
    let all = [PLAIN, more, own].into_iter().flatten().copied();
    // The record itself is there, whatever was asked for (RFC 4034 §4.1.2).
    let mut types: SmallVec<[u16; 64]> =
        all.filter(|kind| *kind != missing || missing == rtype::NSEC).collect();
    types.sort_unstable();
    let mut data = SmallVec::from_slice(next(name, apex).wire());
    write_types(types, &mut data);
    data
}

/// The first name behind another in canonical order (RFC 4034 §6.1): with a label of one zero octet in front, or, where that is too long,
/// the least change that makes it greater (RFC 4471 §2.1); if there is none in the zone, the zone's own.
fn next(name: &Name, apex: &Name) -> Name {
    if let Some(child) = name.child(&[0]) {
        return child;
    }
    let mut at = name.clone();
    while at != *apex {
        let above = at.parent();
        if let Some(label) = at.each_label().next() {
            if let Some(longer) = above.child(&[label, &[0]].concat()) {
                return longer;
            }
            // An octet of 255 has none behind it: the one before it grows.
            let last = label.iter().rposition(|octet| *octet != u8::MAX);
            let grown = last.and_then(|last| {
                let mut label = label.get(..=last)?.to_vec();
                let octet = label.last_mut()?;
                // Capital letters are small ones, which come later.
                *octet = if *octet == b'@' { b'[' } else { octet.checked_add(1)? };
                above.child(&label)
            });
            if let Some(grown) = grown {
                return grown;
            }
        }
        at = above;
    }
    apex.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_name_is_the_first_one_behind() {
        let apex = Name::parse("o.").unwrap();
        let long = |first: &str| {
            let label = "x".repeat(63);
            // The rest has 3 * 64 octets, the root and the apex 3.
            Name::parse(&format!("{first}.{label}.{label}.{label}.o.")).unwrap()
        };
        let tail = |first: &[u8]| {
            let label = "x".repeat(63);
            let above = Name::parse(&format!("{label}.{label}.{label}.o.")).unwrap();
            above.child(first).unwrap()
        };
        for (name, want) in [
            (Name::parse("a.o.").unwrap(), Name::parse("\\000.a.o.").unwrap()),
            (apex.clone(), Name::parse("\\000.o.").unwrap()),
            // 254 octets: one more fits.
            (long(&"a".repeat(58)), tail(&[&b"a".repeat(58)[..], &[0]].concat())),
            // 255 octets: none does.
            (long(&"a".repeat(59)), tail(&[&b"a".repeat(58)[..], b"b"].concat())),
            (
                tail(&[&b"a".repeat(58)[..], b"@"].concat()),
                tail(&[&b"a".repeat(58)[..], b"["].concat()),
            ),
            (
                tail(&[&b"a".repeat(57)[..], b"b", &[255]].concat()),
                tail(&[&b"a".repeat(57)[..], b"c"].concat()),
            ),
        ] {
            let next = next(&name, &apex);
            assert_eq!(next, want, "{name}");
            assert!(next > name, "{name}");
        }
        // The last name of all is followed by the first.
        assert_eq!(next(&tail(&[255; 59]), &tail(&[255; 59])), tail(&[255; 59]));
    }
}
