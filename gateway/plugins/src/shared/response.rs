//! What kind of response an answer is: for `cache`, `log` and `errors`.

use wire::{Answer, Request, Section, opcode, rcode, rtype};

/// The kinds of responses (RFC 2308 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records were found.
    NoError,
    /// The name does not exist.
    NameError,
    /// The server failed, or does not know the operation.
    ServerError,
    /// The name exists and has no such records.
    NoData,
    /// A referral to a zone below.
    Delegation,
    /// A transfer or a notification.
    Meta,
    /// A dynamic update.
    Update,
    /// Anything else.
    OtherError,
}

/// The classes that kinds are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// [`Kind::NoError`] and [`Kind::Delegation`].
    Success,
    /// [`Kind::NameError`] and [`Kind::NoData`].
    Denial,
    /// The rest.
    Error,
}

impl Kind {
    /// The kind of `answer` to `request`.
    pub fn of(request: &Request, answer: &Answer) -> Self {
        match request.flags.opcode() {
            opcode::UPDATE => return Self::Update,
            opcode::NOTIFY => return Self::Meta,
            _ => {}
        }
        if matches!(request.rtype, rtype::AXFR | rtype::IXFR) {
            return Self::Meta;
        }
        let any = |section: Section, kind: u16| answer.section(section).any(|rr| rr.rtype == kind);
        let answers = answer.section(Section::Answer).next().is_some();
        match answer.rcode {
            rcode::NOERROR if answers => Self::NoError,
            rcode::NXDOMAIN if answers => Self::OtherError,
            rcode::NOERROR if any(Section::Authority, rtype::SOA) => Self::NoData,
            rcode::NXDOMAIN => Self::NameError,
            rcode::SERVFAIL | rcode::NOTIMP => Self::ServerError,
            rcode::NOERROR if any(Section::Authority, rtype::NS) => Self::Delegation,
            rcode::NOERROR => Self::NoError,
            _ => Self::OtherError,
        }
    }

    /// Its name, as `log` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::NameError => "NXDOMAIN",
            Self::ServerError => "SERVERERROR",
            Self::NoData => "NODATA",
            Self::Delegation => "DELEGATION",
            Self::Meta => "META",
            Self::Update => "UPDATE",
            Self::OtherError => "OTHERERROR",
        }
    }

    /// The class of this kind.
    pub fn class(self) -> Class {
        match self {
            Self::NoError | Self::Delegation => Class::Success,
            Self::NameError | Self::NoData => Class::Denial,
            _ => Class::Error,
        }
    }
}

impl Class {
    /// Its name, as `log` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Denial => "denial",
            Self::Error => "error",
        }
    }
}

/// The smallest TTL of all records, in seconds, 3600 at most; 5 where there are none or the kind is not one that lasts.
pub fn min_ttl(kind: Kind, answer: &Answer) -> u32 {
    const LEAST: u32 = 5;
    const MOST: u32 = 3600;
    if !matches!(kind, Kind::NoError | Kind::NameError | Kind::NoData) {
        return LEAST;
    }
    answer.records().iter().map(|rr| rr.ttl).min().map_or(LEAST, |ttl| ttl.min(MOST))
}
