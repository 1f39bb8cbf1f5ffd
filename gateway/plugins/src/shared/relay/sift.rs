//! What of a reply belongs to its question (RFC 2181 §5.4.1, RFC 5452 §6).
//!
//! A server that is asked for one zone must not be able to say anything about another: neither in passing nor at the end of
//! a chain that leads to a zone of our own.

use smallvec::SmallVec;
use wire::{Answer, Flags, Name, Request, Section, rcode, rtype};

use crate::shared::zones::Zones;

/// How many names a chain of CNAME and DNAME records may have.
const MAX_CHAIN: usize = 16;

/// Takes out of a reply what does not belong to the question: of the answer section what is neither about the name that was
/// asked for nor about one that a CNAME or DNAME record leads to from there, of the others what is outside of the zone
/// `from`, for which the server is asked. What any has in a zone of `own` goes as well, and so do records of DNSSEC that nobody
/// asked for.
///
/// # Errors
/// Why it cannot be passed on: it refers to other servers instead of answering, or its chain of names is too long.
pub(crate) fn sift(
    request: &Request,
    from: &Name,
    own: &Zones,
    answer: &mut Answer,
) -> Result<(), &'static str> {
    if request.flags.has(Flags::RD) && is_referral(&request.name, answer) {
        return Err("the upstream only refers to other servers");
    }
    let everywhere = from.is_root() && own.iter().next().is_none();
    let suits = |owner: &Name| owner.is_below(from) && !is_ours(request, own, owner);
    // RFC 4035 §3.2.1: such records are for those who ask for them.
    let secure = request.edns.dnssec_ok() || request.rtype == rtype::ANY;
    let is_wanted = |rr: &wire::Rr| {
        secure
            || rr.rtype == request.rtype
            || !matches!(rr.rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3)
    };
    let is_plain = |rr: &wire::Rr| match rr.section {
        _ if !is_wanted(rr) => false,
        Section::Answer => {
            let leads = matches!(rr.rtype, rtype::CNAME | rtype::DNAME);
            !leads && answer.owner(rr).eq_ignore_ascii_case(request.name.wire())
        }
        Section::Authority | Section::Additional => {
            everywhere || Name::read(answer.owner(rr)).is_some_and(|(owner, _)| suits(&owner))
        }
    };
    if answer.records().iter().all(is_plain) {
        return Ok(());
    }
    let chain = chain(request, answer).ok_or("the reply's chain of CNAME records is too long")?;
    let home = chain.iter().position(|name| is_ours(request, own, name));
    let known = &chain[..home.unwrap_or(chain.len())];
    let keeps = answer.records().iter().map(|rr| {
        let Some((owner, _)) = Name::read(answer.owner(rr)) else { return false };
        if !is_wanted(rr) {
            return false;
        }
        if rr.section != Section::Answer {
            return suits(&owner);
        }
        // A DNAME, and its signature, stand above the names that it is about.
        let above = matches!(rr.rtype, rtype::DNAME | rtype::RRSIG);
        known.contains(&owner) || above && known.iter().any(|name| name.is_below(&owner))
    });
    let keeps: SmallVec<[bool; 64]> = keeps.collect();
    let mut keeps = keeps.into_iter();
    answer.retain(|_| keeps.next().unwrap_or(false));
    Ok(())
}

/// The name in a zone of `own` that an answer's chain has led to, if it has.
pub(crate) fn home(request: &Request, own: &Zones, answer: &Answer) -> Option<Name> {
    chain(request, answer)?.into_iter().find(|name| is_ours(request, own, name))
}

/// Whether a name is in a zone of `own` that the question is not in.
fn is_ours(request: &Request, own: &Zones, name: &Name) -> bool {
    own.longest(name).is_some_and(|zone| !zone.is_root() && !request.name.is_below(zone))
}

/// Whether an answer sends its reader to other servers: nothing is answered, and there are the name servers of a zone that the
/// name is in, without the SOA record of a negative answer (RFC 2308 §2.2).
fn is_referral(asked: &Name, answer: &Answer) -> bool {
    let refers = |rr: &wire::Rr| rr.rtype == rtype::NS && is_above(answer.owner(rr), asked);
    answer.rcode == rcode::NOERROR
        && !answer.flags.has(Flags::AA)
        && !answer.flags.has(Flags::TC)
        && answer.section(Section::Answer).next().is_none()
        && answer.section(Section::Authority).any(refers)
        && !answer.section(Section::Authority).any(|rr| rr.rtype == rtype::SOA)
}

/// Whether an uncompressed name is `below` or above it.
fn is_above(name: &[u8], below: &Name) -> bool {
    Name::read(name).is_some_and(|(name, _)| below.is_below(&name))
}

/// The names that CNAME and DNAME records lead to from the one that was asked for, which is the first; none if there are too
/// many.
fn chain(request: &Request, answer: &Answer) -> Option<SmallVec<[Name; 4]>> {
    let mut chain: SmallVec<[Name; 4]> = SmallVec::new();
    chain.push(request.name.clone());
    let mut at = 0;
    while let Some(name) = chain.get(at).cloned() {
        at += 1;
        for rr in answer.section(Section::Answer) {
            let target = match rr.rtype {
                rtype::CNAME if answer.owner(rr).eq_ignore_ascii_case(name.wire()) => {
                    Name::read(answer.data(rr)).map(|(target, _)| target)
                }
                rtype::DNAME => led(&name, answer.owner(rr), answer.data(rr)),
                _ => None,
            };
            let Some(target) = target.filter(|target| !chain.contains(target)) else { continue };
            if chain.len() == MAX_CHAIN {
                return None;
            }
            chain.push(target);
        }
    }
    Some(chain)
}

/// Where a DNAME record leads from a name below its owner (RFC 6672 §2.2).
fn led(name: &Name, owner: &[u8], target: &[u8]) -> Option<Name> {
    let (owner, _) = Name::read(owner)?;
    let head = name.below(&owner).filter(|head| !head.is_empty())?;
    Name::join(head, target)
}
