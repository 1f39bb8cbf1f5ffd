//! The header's bits, and the numbers that RFC 1035, RFC 6895 and their successors assign.

/// The header's second 16 bits without the response code: QR, opcode and the flag bits (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The message is a response.
    pub const QR: Self = Self(0x8000);
    /// The answer is authoritative.
    pub const AA: Self = Self(0x0400);
    /// The message was cut.
    pub const TC: Self = Self(0x0200);
    /// Recursion is desired.
    pub const RD: Self = Self(0x0100);
    /// Recursion is available.
    pub const RA: Self = Self(0x0080);
    /// Reserved, always zero (RFC 1035 §4.1.1).
    pub const Z: Self = Self(0x0040);
    /// The data is authentic (RFC 4035 §3.1.6).
    pub const AD: Self = Self(0x0020);
    /// Checking is disabled (RFC 4035 §3.2.2).
    pub const CD: Self = Self(0x0010);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets the bits of `other`, or clears them.
    pub fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }

    /// These bits and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Only the bits that `other` has too.
    #[must_use]
    pub fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The opcode (RFC 6895 §2.2), see [`opcode`].
    pub fn opcode(self) -> u8 {
        (self.0 >> 11) as u8 & 0xf
    }
}

/// Opcodes.
#[allow(missing_docs)]
pub mod opcode {
    pub const QUERY: u8 = 0;
    pub const IQUERY: u8 = 1;
    pub const STATUS: u8 = 2;
    pub const NOTIFY: u8 = 4;
    pub const UPDATE: u8 = 5;
}

/// Response codes; those above 15 need EDNS.
#[allow(missing_docs)]
pub mod rcode {
    pub const NOERROR: u16 = 0;
    pub const FORMERR: u16 = 1;
    pub const SERVFAIL: u16 = 2;
    pub const NXDOMAIN: u16 = 3;
    pub const NOTIMP: u16 = 4;
    pub const REFUSED: u16 = 5;
    pub const YXDOMAIN: u16 = 6;
    pub const YXRRSET: u16 = 7;
    pub const NXRRSET: u16 = 8;
    pub const NOTAUTH: u16 = 9;
    pub const NOTZONE: u16 = 10;
    pub const BADVERS: u16 = 16;
    pub const BADSIG: u16 = 16;
    pub const BADKEY: u16 = 17;
    pub const BADTIME: u16 = 18;
    pub const BADMODE: u16 = 19;
    pub const BADNAME: u16 = 20;
    pub const BADALG: u16 = 21;
    pub const BADTRUNC: u16 = 22;
    pub const BADCOOKIE: u16 = 23;
}

/// Classes.
#[allow(missing_docs)]
pub mod class {
    pub const IN: u16 = 1;
    pub const CH: u16 = 3;
    pub const HS: u16 = 4;
    pub const NONE: u16 = 254;
    pub const ANY: u16 = 255;
}

/// Record types.
#[allow(missing_docs)]
pub mod rtype {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const MD: u16 = 3;
    pub const MF: u16 = 4;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const MB: u16 = 7;
    pub const MG: u16 = 8;
    pub const MR: u16 = 9;
    pub const NULL: u16 = 10;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const MINFO: u16 = 14;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const RP: u16 = 17;
    pub const AFSDB: u16 = 18;
    pub const RT: u16 = 21;
    pub const SIG: u16 = 24;
    pub const PX: u16 = 26;
    pub const AAAA: u16 = 28;
    pub const NXT: u16 = 30;
    pub const SRV: u16 = 33;
    pub const NAPTR: u16 = 35;
    pub const KX: u16 = 36;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const RRSIG: u16 = 46;
    pub const NSEC: u16 = 47;
    pub const DNSKEY: u16 = 48;
    pub const NSEC3: u16 = 50;
    pub const NSEC3PARAM: u16 = 51;
    pub const SVCB: u16 = 64;
    pub const HTTPS: u16 = 65;
    pub const TKEY: u16 = 249;
    pub const TSIG: u16 = 250;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const MAILB: u16 = 253;
    pub const MAILA: u16 = 254;
    pub const ANY: u16 = 255;
}
