//! What kind of entry an answer makes, and for how long.

use wire::{Answer, Flags, Request, Section, option, rcode, rtype};

use crate::shared::response::Kind;

/// How long an answer without records is kept, and one that is neither found nor denied, in seconds.
const SHORT: u32 = 5;

/// The longest that anything is kept, in seconds: a week (RFC 8767 §4).
const LONGEST: u32 = 604_800;

/// What kind of entry an answer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// None.
    Nothing,
    /// One without error; `answers` says whether the records that were asked for are there.
    Success {
        /// Whether they are.
        answers: bool,
    },
    /// The name or the type does not exist (RFC 2308).
    Denial,
    /// The server failed (RFC 9520).
    Failure,
}

impl Entry {
    /// What `answer` to `request` makes. Nothing that could mislead is kept: what was cut, what is for some clients only
    /// (RFC 7871 §7.3), a denial without SOA (RFC 2308 §5), and an answer that does not answer.
    pub(super) fn of(request: &Request, answer: &Answer) -> Self {
        let is_for_some = answer
            .options
            .get(option::SUBNET)
            .is_some_and(|data| data.get(3).is_some_and(|scope| *scope != 0));
        if answer.flags.has(Flags::TC) || is_for_some {
            return Self::Nothing;
        }
        let has_soa = soa(answer).is_some();
        let denied = if has_soa { Self::Denial } else { Self::Nothing };
        match Kind::of(request, answer) {
            Kind::ServerError => Self::Failure,
            Kind::NoData | Kind::NameError => denied,
            Kind::Delegation => Self::Success { answers: false },
            Kind::NoError if answer.section(Section::Answer).next().is_none() => {
                Self::Success { answers: false }
            }
            Kind::NoError if reaches(request, answer) => Self::Success { answers: true },
            Kind::NoError => denied,
            // A name may be denied behind a CNAME (RFC 2308 §2.1).
            Kind::OtherError if answer.rcode == rcode::NXDOMAIN => denied,
            Kind::OtherError | Kind::Meta | Kind::Update => Self::Nothing,
        }
    }

    /// The time to live of an answer, in seconds, before its bounds are applied: the shortest of its records, of a denial
    /// the SOA's minimum as well (RFC 2308 §5).
    pub(super) fn ttl(request: &Request, answer: &Answer) -> u32 {
        let kind = Kind::of(request, answer);
        let lasts = matches!(kind, Kind::NoError | Kind::NameError | Kind::NoData)
            || answer.rcode == rcode::NXDOMAIN;
        let shortest = answer.records().iter().map(|rr| rr.ttl).min().filter(|_| lasts);
        let Some(shortest) = shortest else { return SHORT };
        let is_denial = matches!(kind, Kind::NameError | Kind::NoData)
            || answer.rcode == rcode::NXDOMAIN
            || !reaches(request, answer);
        let minimum = soa(answer).filter(|_| is_denial).and_then(|data| data.last_chunk::<4>());
        let minimum = minimum.map_or(u32::MAX, |minimum| u32::from_be_bytes(*minimum));
        shortest.min(minimum).min(LONGEST)
    }
}

/// The data of the SOA record in the authority section.
fn soa(answer: &Answer) -> Option<&[u8]> {
    let mut authority = answer.section(Section::Authority);
    authority.find(|rr| rr.rtype == rtype::SOA).map(|rr| answer.data(rr))
}

/// Whether the answer section leads from the name that was asked, by CNAME records, to the type and class that were asked. Two CNAME
/// records of a name, or a loop, lead nowhere.
fn reaches(request: &Request, answer: &Answer) -> bool {
    let mut name = request.name.wire();
    let count = answer.section(Section::Answer).count();
    for _ in 0..=count {
        let own = || {
            let all = answer.section(Section::Answer);
            all.filter(|rr| {
                rr.class == request.class && answer.owner(rr).eq_ignore_ascii_case(name)
            })
        };
        if own().any(|rr| rr.rtype == request.rtype || request.rtype == rtype::ANY) {
            return true;
        }
        let mut aliases = own().filter(|rr| rr.rtype == rtype::CNAME);
        match (aliases.next(), aliases.next()) {
            (Some(alias), None) => name = answer.data(alias),
            _ => return false,
        }
    }
    false
}
