//! What the data of each record type is made of.

use wire::rtype;

/// A field of a record's data, as text and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
    /// A time in seconds, units allowed, in 32 bits.
    Seconds,
    /// A time as `YYYYMMDDHHmmSS` or in seconds since 1970, in 32 bits (RFC 4034 §3.2).
    Time,
    /// A record type in 16 bits.
    Type,
    /// The type of a certificate, a number or a mnemonic, in 16 bits.
    CertType,
    /// A DNSSEC algorithm, a number or a mnemonic, in 8 bits.
    Algorithm,
    /// A domain name.
    Name,
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
    /// A string with its length in front.
    Text,
    /// The same; may be missing.
    MaybeText,
    /// All words that are left, each a string; at least one.
    Texts,
    /// One word, taken as it is to the end of the data.
    Rest,
    /// All words that are left, joined: hexadecimal digits.
    Hex,
    /// One word of hexadecimal digits with its length in front; a dash is none.
    HexWord,
    /// All words that are left, joined: Base 64.
    Base64,
    /// One word of Base 32 (with the extended alphabet) with its length in front.
    Base32,
    /// All words that are left: types, as a bit map (RFC 4034 §4.1.2).
    Types,
    /// So many octets as hexadecimal digits with dashes.
    Dashed(usize),
    /// 64 bits as four groups of hexadecimal digits with colons.
    Colons,
    /// All words that are left: parameters of a service binding (RFC 9460 §2.1).
    Parameters,
}

/// The fields of a type; none if it has no text form of its own.
pub(super) fn of(kind: u16) -> Option<&'static [Field]> {
    use Field::*;
    Some(match kind {
        rtype::A => &[V4],
        rtype::AAAA => &[V6],
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => &[Name],
        rtype::MD | rtype::MF | rtype::MB | rtype::MG | rtype::MR => &[Name],
        NSAP_PTR => &[Name],
        rtype::MX | rtype::RT | rtype::AFSDB | rtype::KX | LP => &[U16, Name],
        rtype::SOA => &[Name, Name, U32, Seconds, Seconds, Seconds, Seconds],
        rtype::MINFO | rtype::RP | TALINK => &[Name, Name],
        rtype::PX => &[U16, Name, Name],
        rtype::SRV => &[U16, U16, U16, Name],
        rtype::NAPTR => &[U16, U16, Text, Text, Text, Name],
        rtype::TXT | SPF | NINFO | AVC => &[Texts],
        rtype::HINFO => &[Text, Text],
        ISDN => &[Text, MaybeText],
        X25 => &[Text],
        GPOS => &[Text, Text, Text],
        URI => &[U16, U16, Rest],
        CAA => &[U8, Text, Rest],
        TLSA | SMIMEA => &[U8, U8, U8, Hex],
        SSHFP => &[Algorithm, U8, Hex],
        rtype::DS | CDS | TA | DLV => &[U16, Algorithm, U8, Hex],
        rtype::DNSKEY | CDNSKEY | KEY | RKEY => &[U16, U8, Algorithm, Base64],
        rtype::RRSIG | rtype::SIG => &[Type, Algorithm, U8, U32, Time, Time, U16, Name, Base64],
        rtype::NSEC => &[Name, Types],
        rtype::NSEC3 => &[U8, U8, U16, HexWord, Base32, Types],
        rtype::NSEC3PARAM => &[U8, U8, U16, HexWord],
        CSYNC => &[U32, U16, Types],
        ZONEMD => &[U32, U8, U8, Hex],
        CERT => &[CertType, U16, Algorithm, Base64],
        OPENPGPKEY | DHCID => &[Base64],
        EUI48 => &[Dashed(6)],
        EUI64 => &[Dashed(8)],
        NID | L64 => &[U16, Colons],
        L32 => &[U16, V4],
        rtype::SVCB | rtype::HTTPS => &[U16, Name, Parameters],
        _ => return None,
    })
}

/// Types that `wire` has no names for.
mod numbers {
    pub(super) const X25: u16 = 19;
    pub(super) const ISDN: u16 = 20;
    pub(super) const NSAP_PTR: u16 = 23;
    pub(super) const KEY: u16 = 25;
    pub(super) const GPOS: u16 = 27;
    pub(super) const CERT: u16 = 37;
    pub(super) const SSHFP: u16 = 44;
    pub(super) const DHCID: u16 = 49;
    pub(super) const TLSA: u16 = 52;
    pub(super) const SMIMEA: u16 = 53;
    pub(super) const NINFO: u16 = 56;
    pub(super) const RKEY: u16 = 57;
    pub(super) const TALINK: u16 = 58;
    pub(super) const CDS: u16 = 59;
    pub(super) const CDNSKEY: u16 = 60;
    pub(super) const OPENPGPKEY: u16 = 61;
    pub(super) const CSYNC: u16 = 62;
    pub(super) const ZONEMD: u16 = 63;
    pub(super) const SPF: u16 = 99;
    pub(super) const NID: u16 = 104;
    pub(super) const L32: u16 = 105;
    pub(super) const L64: u16 = 106;
    pub(super) const LP: u16 = 107;
    pub(super) const EUI48: u16 = 108;
    pub(super) const EUI64: u16 = 109;
    pub(super) const URI: u16 = 256;
    pub(super) const CAA: u16 = 257;
    pub(super) const AVC: u16 = 258;
    pub(super) const TA: u16 = 32768;
    pub(super) const DLV: u16 = 32769;
}
use numbers::*;
