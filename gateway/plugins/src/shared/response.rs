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

#[cfg(test)]
mod tests {
    use wire::{Answer, Flags, Request, Section, opcode, rcode, rtype};

    use super::{Class, Kind, min_ttl};

    /// Records of these types and TTLs, with a section's letter each.
    fn answer(rcode: u16, records: &[(char, u16, u32)]) -> Answer {
        let mut answer = Answer::default();
        answer.rcode = rcode;
        for (section, kind, ttl) in records {
            let section = match section {
                'a' => Section::Answer,
                'n' => Section::Authority,
                _ => Section::Additional,
            };
            answer.push(section, &[0], *kind, *ttl, &[0; 22]);
        }
        answer
    }

    #[test]
    fn answers_are_of_a_kind_and_a_class() {
        let (soa, ns, a) = (('n', rtype::SOA, 1), ('n', rtype::NS, 1), ('a', rtype::A, 1));
        for (code, rcode, records, kind, class) in [
            (opcode::QUERY, rcode::NOERROR, &[a][..], Kind::NoError, Class::Success),
            (opcode::QUERY, rcode::NOERROR, &[a, soa], Kind::NoError, Class::Success),
            (opcode::QUERY, rcode::NXDOMAIN, &[a, soa], Kind::OtherError, Class::Error),
            (opcode::QUERY, rcode::NOERROR, &[soa], Kind::NoData, Class::Denial),
            (opcode::QUERY, rcode::NOERROR, &[soa, ns], Kind::NoData, Class::Denial),
            (opcode::QUERY, rcode::NXDOMAIN, &[soa], Kind::NameError, Class::Denial),
            (opcode::QUERY, rcode::NXDOMAIN, &[], Kind::NameError, Class::Denial),
            (opcode::QUERY, rcode::SERVFAIL, &[], Kind::ServerError, Class::Error),
            (opcode::QUERY, rcode::NOTIMP, &[], Kind::ServerError, Class::Error),
            (opcode::QUERY, rcode::NOERROR, &[ns], Kind::Delegation, Class::Success),
            (opcode::QUERY, rcode::NOERROR, &[], Kind::NoError, Class::Success),
            (opcode::QUERY, rcode::REFUSED, &[], Kind::OtherError, Class::Error),
            (opcode::UPDATE, rcode::NOERROR, &[a], Kind::Update, Class::Error),
            (opcode::NOTIFY, rcode::NOERROR, &[a], Kind::Meta, Class::Error),
        ] {
            let request = Request {
                flags: Flags(u16::from(code) << 11),
                rtype: rtype::A,
                ..Request::default()
            };
            let found = Kind::of(&request, &answer(rcode, records));
            assert_eq!((found, found.class()), (kind, class), "{code} {rcode} {records:?}");
        }
        for rtype in [rtype::AXFR, rtype::IXFR] {
            let request = Request { rtype, ..Request::default() };
            assert_eq!(Kind::of(&request, &answer(rcode::NOERROR, &[a])), Kind::Meta);
        }
    }

    #[test]
    fn the_shortest_time_counts_where_an_answer_lasts() {
        let all = [('a', rtype::A, 300), ('n', rtype::NS, 40), ('x', rtype::A, 20)];
        for (kind, records, want) in [
            (Kind::NoError, &all[..], 20),
            (Kind::NoError, &all[..1], 300),
            (Kind::NoError, &[('a', rtype::A, 9999)], 3600),
            (Kind::NoError, &[], 5),
            (Kind::NameError, &[('n', rtype::SOA, 77)], 77),
            (Kind::NoData, &[('n', rtype::SOA, 77)], 77),
            (Kind::Delegation, &all, 5),
            (Kind::ServerError, &all, 5),
            (Kind::OtherError, &all, 5),
        ] {
            assert_eq!(
                min_ttl(kind, &answer(rcode::NOERROR, records)),
                want,
                "{kind:?} {records:?}"
            );
        }
    }
}
