//! The forms that the data of known types have.

use crate::header::{class, rtype};

/// A piece of a record's data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// So many octets.
    Octets(usize),
    /// A character string.
    Text,
    /// Character strings up to the end, at least one.
    Texts,
    /// A name that may come compressed (RFC 3597 §4).
    Name,
    /// A name that may not.
    Plain,
    /// Which types are there, in windows (RFC 4034 §4.1.2).
    Types,
    /// Keys, lengths and values up to the end (RFC 9460 §2.2).
    Params,
    /// Address prefixes up to the end (RFC 3123 §4).
    Prefixes,
    /// Whatever is left.
    Rest,
}

/// The whole form of a type's data; of one that is not known, anything (RFC 3597 §3).
pub(crate) fn form(rtype: u16, class: u16) -> &'static [Part] {
    use Part::{Name, Octets, Params, Plain, Prefixes, Rest, Text, Texts, Types};
    match rtype {
        // What asks for, or takes away, whole record sets (RFC 2136 §2.4): there is no data.
        _ if class == class::ANY => &[Rest],
        // Other classes have other forms of these (RFC 1035 §3.4).
        rtype::A | rtype::AAAA | WKS | APL if class != class::IN => &[Rest],
        rtype::A => &[Octets(4)],
        rtype::AAAA => &[Octets(16)],
        rtype::NS | rtype::MD | rtype::MF | rtype::CNAME | rtype::MB | rtype::MG | rtype::MR => {
            &[Name]
        }
        rtype::PTR | rtype::DNAME => &[Name],
        rtype::SOA => &[Name, Name, Octets(20)],
        WKS => &[Octets(5), Rest],
        rtype::HINFO => &[Text, Text],
        rtype::MINFO | rtype::RP => &[Name, Name],
        rtype::MX | rtype::AFSDB | rtype::RT | rtype::KX => &[Octets(2), Name],
        rtype::PX => &[Octets(2), Name, Name],
        rtype::TXT | ISDN | SPF => &[Texts],
        X25 => &[Text],
        rtype::SIG | rtype::RRSIG => &[Octets(18), Name, Rest],
        KEY | rtype::DNSKEY | CDNSKEY | rtype::DS | CDS => &[Octets(4), Rest],
        GPOS => &[Text, Text, Text],
        LOC => &[Octets(16)],
        rtype::NXT => &[Name, Rest],
        rtype::SRV => &[Octets(6), Name],
        rtype::NAPTR => &[Octets(4), Text, Text, Text, Name],
        CERT => &[Octets(5), Rest],
        APL => &[Prefixes],
        SSHFP => &[Octets(2), Rest],
        IPSECKEY | TLSA | SMIMEA => &[Octets(3), Rest],
        rtype::NSEC => &[Name, Types],
        rtype::NSEC3 => &[Octets(4), Text, Text, Types],
        rtype::NSEC3PARAM => &[Octets(4), Text],
        CSYNC => &[Octets(6), Types],
        ZONEMD => &[Octets(6), Rest],
        rtype::SVCB | rtype::HTTPS => &[Octets(2), Plain, Params],
        NID | L64 => &[Octets(10)],
        L32 | EUI48 => &[Octets(6)],
        LP => &[Octets(2), Plain],
        EUI64 => &[Octets(8)],
        URI => &[Octets(4), Rest],
        CAA => &[Octets(1), Text, Rest],
        _ => &[Rest],
    }
}

// Types that nothing else here deals with (IANA, DNS parameters).
/// Well-known services.
const WKS: u16 = 11;
/// An X.25 address.
const X25: u16 = 19;
/// An ISDN address.
const ISDN: u16 = 20;
/// A key of old.
const KEY: u16 = 25;
/// A place on earth.
const GPOS: u16 = 27;
/// The same, to the centimetre.
const LOC: u16 = 29;
/// A certificate.
const CERT: u16 = 37;
/// Address prefixes.
const APL: u16 = 42;
/// Fingerprints of SSH keys.
const SSHFP: u16 = 44;
/// Keys of IPsec.
const IPSECKEY: u16 = 45;
/// What a TLS server shows.
const TLSA: u16 = 52;
/// The same for mail.
const SMIMEA: u16 = 53;
/// A child's DS.
const CDS: u16 = 59;
/// A child's DNSKEY.
const CDNSKEY: u16 = 60;
/// What a parent is to copy.
const CSYNC: u16 = 62;
/// A zone's digest.
const ZONEMD: u16 = 63;
/// Who may send mail, of old.
const SPF: u16 = 99;
/// A node.
const NID: u16 = 104;
/// A locator of 32 bits.
const L32: u16 = 105;
/// One of 64 bits.
const L64: u16 = 106;
/// One by name.
const LP: u16 = 107;
/// A hardware address of 48 bits.
const EUI48: u16 = 108;
/// One of 64 bits.
const EUI64: u16 = 109;
/// A URI.
const URI: u16 = 256;
/// Who may issue certificates.
const CAA: u16 = 257;

/// Whether `data` is a list of windows with the types that are there (RFC 4034 §4.1.2); an empty one is.
pub(crate) fn is_types(mut data: &[u8]) -> bool {
    let mut before = None;
    while let Some(([window, len], rest)) = data.split_first_chunk::<2>() {
        let len = usize::from(*len);
        if !(1..=32).contains(&len) || rest.len() < len || before.is_some_and(|b| b >= *window) {
            return false;
        }
        before = Some(*window);
        data = &rest[len..];
    }
    data.is_empty()
}

/// Whether `data` is a list of keys, lengths and values (RFC 9460 §2.2).
pub(crate) fn is_params(mut data: &[u8]) -> bool {
    while let Some(([_, _, high, low], rest)) = data.split_first_chunk::<4>() {
        let Some(rest) = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..) else {
            return false;
        };
        data = rest;
    }
    data.is_empty()
}

/// Whether `data` is a list of address prefixes (RFC 3123 §4).
pub(crate) fn is_prefixes(mut data: &[u8]) -> bool {
    while let Some(([_, _, _, len], rest)) = data.split_first_chunk::<4>() {
        let Some(rest) = rest.get(usize::from(len & 0x7f)..) else { return false };
        data = rest;
    }
    data.is_empty()
}

/// Whether `data` is a list of character strings, at least one.
pub(crate) fn is_texts(data: &[u8]) -> bool {
    let mut left = data;
    while let Some((len, rest)) = left.split_first() {
        let Some(rest) = rest.get(usize::from(*len)..) else { return false };
        left = rest;
    }
    !data.is_empty()
}
