//! What an answer says, as far as its signatures depend on it.

use wire::{Answer, Name, Request, Section, rcode, rtype};

/// How many aliases are followed.
const MOST_ALIASES: usize = 32;

/// What an answer says of the last name that the one asked for leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has such records, or what it says of it needs no proof here.
    Told,
    /// It has no such records, or is not there; with the owner and the time to live in seconds of the zone's SOA record, if that is there.
    Denied {
        /// The last name.
        name: Name,
        /// The SOA record.
        soa: Option<(Name, u32)>,
    },
    /// It is of another zone, below this one.
    Referred {
        /// The last name.
        name: Name,
        /// The name of that zone.
        cut: Name,
        /// The time to live of the NS records, in seconds.
        ttl: u32,
        /// Whether there are DS records.
        secure: bool,
    },
    /// It failed: there is nothing to sign.
    Failed,
}

impl Outcome {
    /// What an answer to a request says.
    pub(super) fn of(request: &Request, answer: &Answer) -> Self {
        match answer.rcode {
            rcode::NOERROR | rcode::NXDOMAIN => {}
            // The DNAME record that led too far is there (RFC 6672 §2.2).
            rcode::YXDOMAIN => return Self::Told,
            _ => return Self::Failed,
        }
        let name = last(request, answer);
        let kind = request.rtype;
        let has = |section, kind| answer.section(section).any(|rr| rr.rtype == kind);
        let found = answer
            .section(Section::Answer)
            .any(|rr| (rr.rtype == kind || kind == rtype::ANY) && is(answer.owner(rr), &name));
        if found || [rtype::NSEC, rtype::NSEC3].iter().any(|kind| has(Section::Authority, *kind)) {
            return Self::Told;
        }
        let first = |kind| {
            let rr = answer.section(Section::Authority).find(|rr| rr.rtype == kind)?;
            let (owner, _) = Name::read(answer.owner(rr))?;
            Some((owner, rr.ttl))
        };
        let soa = first(rtype::SOA);
        if soa.is_none()
            && answer.rcode == rcode::NOERROR
            && let Some((cut, ttl)) = first(rtype::NS)
            && name.is_below(&cut)
            && (!answer.is_authoritative() || name != request.name)
        {
            return Self::Referred { name, cut, ttl, secure: has(Section::Authority, rtype::DS) };
        }
        // An alias alone is no denial of what it stands for: whoever asked goes on from there.
        if soa.is_none() && name != request.name {
            return Self::Told;
        }
        Self::Denied { name, soa }
    }
}

/// Whether a wire name in any case is this one.
pub(super) fn is(owner: &[u8], name: &Name) -> bool {
    owner.eq_ignore_ascii_case(name.wire())
}

/// The last name that the one asked for leads to by aliases.
fn last(request: &Request, answer: &Answer) -> Name {
    let mut name = request.name.clone();
    if matches!(request.rtype, rtype::CNAME | rtype::ANY) {
        return name;
    }
    for _ in 0..MOST_ALIASES {
        let mut aliases = answer.section(Section::Answer).filter(|rr| rr.rtype == rtype::CNAME);
        let alias = aliases.find(|rr| is(answer.owner(rr), &name));
        match alias.and_then(|rr| Name::read(answer.data(rr))) {
            Some((target, _)) => name = target,
            None => break,
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use wire::text::type_number;

    use super::*;

    /// What an answer with these records says to a question; each record as section, owner, type and target.
    fn outcome(
        question: (&str, u16),
        code: u16,
        records: &[(Section, &str, &str, &str)],
    ) -> Outcome {
        let name = |text| Name::parse(text).unwrap();
        let mut request = Request::default();
        (request.name, request.rtype) = (name(question.0), question.1);
        let mut answer = Answer::default();
        answer.rcode = code;
        for (section, owner, kind, target) in records {
            let kind = type_number(kind).unwrap();
            answer.push(*section, name(owner).wire(), kind, 60, name(target).wire());
        }
        Outcome::of(&request, &answer)
    }

    #[test]
    fn the_last_name_decides() {
        use Section::{Answer, Authority};
        let name = |text| Name::parse(text).unwrap();
        let alias = (Answer, "a.o", "CNAME", "b.o");
        let soa = (Authority, "o", "SOA", "o");
        let denied = |text| Outcome::Denied { name: name(text), soa: Some((name("o"), 60)) };
        let referred =
            |text, secure| Outcome::Referred { name: name(text), cut: name("o"), ttl: 60, secure };
        let servers = (Authority, "o", "NS", "o");
        for (question, code, records, want) in [
            (("a.o", rtype::A), rcode::NOERROR, &[(Answer, "a.o", "A", "o")][..], Outcome::Told),
            (("a.o", rtype::A), rcode::SERVFAIL, &[alias], Outcome::Failed),
            (("a.o", rtype::A), rcode::YXDOMAIN, &[], Outcome::Told),
            (("a.o", rtype::A), rcode::NXDOMAIN, &[soa], denied("a.o")),
            (
                ("a.o", rtype::A),
                rcode::NOERROR,
                &[],
                Outcome::Denied { name: name("a.o"), soa: None },
            ),
            // An alias alone denies nothing.
            (("a.o", rtype::A), rcode::NOERROR, &[alias], Outcome::Told),
            (("a.o", rtype::A), rcode::NXDOMAIN, &[alias, soa], denied("b.o")),
            (("a.o", rtype::CNAME), rcode::NOERROR, &[alias], Outcome::Told),
            (("a.o", rtype::ANY), rcode::NOERROR, &[alias], Outcome::Told),
            (("a.o", rtype::CNAME), rcode::NOERROR, &[soa], denied("a.o")),
            // What is proved already stays so.
            (
                ("a.o", rtype::A),
                rcode::NXDOMAIN,
                &[soa, (Authority, "o", "NSEC", "o")],
                Outcome::Told,
            ),
            (("a.o", rtype::A), rcode::NOERROR, &[servers], referred("a.o", false)),
            (("a.o", rtype::A), rcode::NOERROR, &[alias, servers], referred("b.o", false)),
            (
                ("a.o", rtype::A),
                rcode::NOERROR,
                &[servers, (Authority, "o", "DS", "o")],
                referred("a.o", true),
            ),
            // Names in a circle.
            (
                ("a.o", rtype::A),
                rcode::NOERROR,
                &[(Answer, "a.o", "CNAME", "a.o"), soa],
                denied("a.o"),
            ),
        ] {
            assert_eq!(outcome(question, code, records), want, "{question:?} {records:?}");
        }
    }
}
