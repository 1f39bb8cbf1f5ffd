//! Presentation format: names with their escapes (RFC 1035 §5.1), and the mnemonics of types, classes, codes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::header::{class, opcode, rcode, rtype};
use crate::name::{Name, labels};

/// A text that is no domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName;

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a domain name (labels of 1 to 63 octets, 255 octets in all)")
    }
}

impl std::error::Error for NotAName {}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        Self::parse(text).ok_or(NotAName)
    }
}

impl fmt::Display for Name {
    /// Presentation form with the last dot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(self.wire(), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(self.wire(), f)
    }
}

/// Writes an uncompressed wire name in presentation form, its case kept.
pub fn write_name(wire: &[u8], f: &mut dyn fmt::Write) -> fmt::Result {
    let mut root = true;
    for label in labels(wire) {
        root = false;
        for byte in label {
            match byte {
                b'.' | b' ' | b'\'' | b'@' | b';' | b'(' | b')' | b'"' | b'\\' => {
                    f.write_char('\\')?;
                    f.write_char(char::from(*byte))?;
                }
                0x21..=0x7e => f.write_char(char::from(*byte))?,
                _ => write!(f, "\\{byte:03}")?,
            }
        }
        f.write_char('.')?;
    }
    if root { f.write_char('.') } else { Ok(()) }
}

/// An uncompressed wire name in presentation form.
pub fn name_text(wire: &[u8]) -> String {
    let mut text = String::with_capacity(wire.len() + 8);
    // Writing to a string cannot fail.
    let _unfailing = write_name(wire, &mut text);
    text
}

/// Reads presentation form into wire form, case kept; tells the length, or none if the text is no name. An empty text and a
/// single dot are the root.
pub fn read_name(text: &str, into: &mut [u8; 256]) -> Option<usize> {
    let mut bytes = text.bytes().peekable();
    let (mut start, mut at) = (0usize, 1usize);
    if text == "." {
        bytes.next();
    }
    while let Some(byte) = bytes.next() {
        let octet = match byte {
            b'.' => {
                let len = at - start - 1;
                into[start] = u8::try_from(len).ok().filter(|n| (1..64).contains(n))?;
                start = at;
                at += 1;
                if at > 255 {
                    return None;
                }
                continue;
            }
            b'\\' => {
                let first = bytes.next()?;
                if first.is_ascii_digit() {
                    let (second, third) = (bytes.next()?, bytes.next()?);
                    let digit = |b: u8| b.is_ascii_digit().then(|| u32::from(b - b'0'));
                    let number = digit(first)? * 100 + digit(second)? * 10 + digit(third)?;
                    u8::try_from(number).ok()?
                } else {
                    first
                }
            }
            other => other,
        };
        *into.get_mut(at)? = octet;
        at += 1;
    }
    let len = at - start - 1;
    if len > 0 {
        into[start] = u8::try_from(len).ok().filter(|n| *n < 64)?;
        start = at;
        at += 1;
    }
    *into.get_mut(start)? = 0;
    (at <= 255).then_some(at)
}

/// Makes the two directions of a table of mnemonics.
macro_rules! mnemonics {
    ($(#[$doc:meta])* $to:ident, $(#[$back:meta])* $from:ident, $prefix:literal, $int:ty, [$($name:literal = $number:expr),* $(,)?]) => {
        $(#[$doc])*
        pub fn $to(number: $int) -> Cow<'static, str> {
            match number {
                $(n if n == $number => Cow::Borrowed($name),)*
                n => Cow::Owned(format!(concat!($prefix, "{}"), n)),
            }
        }

        $(#[$back])*
        pub fn $from(text: &str) -> Option<$int> {
            let upper = text.to_ascii_uppercase();
            match &*upper {
                $($name => Some($number),)*
                other => other.strip_prefix($prefix)?.parse().ok(),
            }
        }
    };
}

mnemonics! {
    /// The mnemonic of a record type, `TYPE123` if it has none (RFC 3597 §5).
    type_name,
    /// The type of a mnemonic, in any case.
    type_number, "TYPE", u16, [
        "A" = rtype::A, "NS" = rtype::NS, "MD" = rtype::MD, "MF" = rtype::MF, "CNAME" = rtype::CNAME,
        "SOA" = rtype::SOA, "MB" = rtype::MB, "MG" = rtype::MG, "MR" = rtype::MR, "NULL" = rtype::NULL,
        "WKS" = 11, "PTR" = rtype::PTR, "HINFO" = rtype::HINFO, "MINFO" = rtype::MINFO, "MX" = rtype::MX,
        "TXT" = rtype::TXT, "RP" = rtype::RP, "AFSDB" = rtype::AFSDB, "X25" = 19, "ISDN" = 20, "RT" = rtype::RT,
        "NSAP-PTR" = 23, "SIG" = rtype::SIG, "KEY" = 25, "PX" = rtype::PX, "GPOS" = 27, "AAAA" = rtype::AAAA,
        "LOC" = 29, "NXT" = rtype::NXT, "EID" = 31, "NIMLOC" = 32, "SRV" = rtype::SRV, "ATMA" = 34,
        "NAPTR" = rtype::NAPTR, "KX" = rtype::KX, "CERT" = 37, "DNAME" = rtype::DNAME, "OPT" = rtype::OPT,
        "APL" = 42, "DS" = rtype::DS, "SSHFP" = 44, "IPSECKEY" = 45, "RRSIG" = rtype::RRSIG,
        "NSEC" = rtype::NSEC, "DNSKEY" = rtype::DNSKEY, "DHCID" = 49, "NSEC3" = rtype::NSEC3,
        "NSEC3PARAM" = rtype::NSEC3PARAM, "TLSA" = 52, "SMIMEA" = 53, "HIP" = 55, "NINFO" = 56, "RKEY" = 57,
        "TALINK" = 58, "CDS" = 59, "CDNSKEY" = 60, "OPENPGPKEY" = 61, "CSYNC" = 62, "ZONEMD" = 63,
        "SVCB" = rtype::SVCB, "HTTPS" = rtype::HTTPS, "SPF" = 99, "UINFO" = 100, "UID" = 101, "GID" = 102,
        "UNSPEC" = 103, "NID" = 104, "L32" = 105, "L64" = 106, "LP" = 107, "EUI48" = 108, "EUI64" = 109,
        "TKEY" = rtype::TKEY, "TSIG" = rtype::TSIG, "IXFR" = rtype::IXFR, "AXFR" = rtype::AXFR,
        "MAILB" = rtype::MAILB, "MAILA" = rtype::MAILA, "ANY" = rtype::ANY, "URI" = 256, "CAA" = 257,
        "AVC" = 258, "AMTRELAY" = 260, "TA" = 32768, "DLV" = 32769,
    ]
}

mnemonics! {
    /// The mnemonic of a class, `CLASS123` if it has none (RFC 3597 §5).
    class_name,
    /// The class of a mnemonic, in any case.
    class_number, "CLASS", u16, [
        "IN" = class::IN, "CS" = 2, "CH" = class::CH, "HS" = class::HS, "NONE" = class::NONE, "ANY" = class::ANY,
    ]
}

mnemonics! {
    /// The mnemonic of a response code, `RCODE123` if it has none.
    rcode_name,
    /// The response code of a mnemonic, in any case.
    rcode_number, "RCODE", u16, [
        "NOERROR" = rcode::NOERROR, "FORMERR" = rcode::FORMERR, "SERVFAIL" = rcode::SERVFAIL,
        "NXDOMAIN" = rcode::NXDOMAIN, "NOTIMP" = rcode::NOTIMP, "REFUSED" = rcode::REFUSED,
        "YXDOMAIN" = rcode::YXDOMAIN, "YXRRSET" = rcode::YXRRSET, "NXRRSET" = rcode::NXRRSET,
        "NOTAUTH" = rcode::NOTAUTH, "NOTZONE" = rcode::NOTZONE, "DSOTYPENI" = 11, "BADVERS" = rcode::BADVERS,
        "BADKEY" = rcode::BADKEY, "BADTIME" = rcode::BADTIME, "BADMODE" = rcode::BADMODE,
        "BADNAME" = rcode::BADNAME, "BADALG" = rcode::BADALG, "BADTRUNC" = rcode::BADTRUNC,
        "BADCOOKIE" = rcode::BADCOOKIE,
    ]
}

mnemonics! {
    /// The mnemonic of an opcode, `OPCODE123` if it has none.
    opcode_name,
    /// The opcode of a mnemonic, in any case.
    opcode_number, "OPCODE", u8, [
        "QUERY" = opcode::QUERY, "IQUERY" = opcode::IQUERY, "STATUS" = opcode::STATUS, "NOTIFY" = opcode::NOTIFY,
        "UPDATE" = opcode::UPDATE, "DSO" = 6,
    ]
}
