//! Addresses of the names that SRV and MX records lead to, asked of the whole server (RFC 2782, RFC 1035 §3.3.9).

use engine::{Carry, End, Exchange, Step};
use wire::{Answer, Name, Rr, Section, rtype};

/// Of how many names the addresses are looked up: whoever asks can look up the others.
const MAX_TARGETS: u64 = 8;

/// Asks for the next addresses that are missing in the additional section; done once there are no more. `from` is 0 at first, and
/// then what `asked` is given. A step of the exchange, which allocates nothing of its own.
pub(crate) fn next(x: &mut Exchange, from: u64) -> Step {
    let mut at = from;
    while at < 2 * MAX_TARGETS {
        let answer = x.answer();
        let Some(target) = target(answer, at / 2) else { return Step::Done };
        if at % 2 == 1 {
            return x.ask(&target, rtype::AAAA, Carry(at + 1));
        }
        if !has_addresses(answer, &target) {
            return x.ask(&target, rtype::A, Carry(at + 1));
        }
        at += 2;
    }
    Step::Done
}

/// Takes the addresses that were found over, and asks on. What was not found is left out: the records themselves are good.
pub(crate) fn asked(x: &mut Exchange, carry: Carry) -> Step {
    let (request, _, end) = x.sub();
    let wanted = request.rtype;
    if end == Some(End::Answered) {
        // Aliases come with the first of two replies.
        x.graft_glue(|rr| rr.rtype == wanted || (wanted == rtype::A && rr.rtype == rtype::CNAME));
    }
    next(x, carry.0)
}

/// The name that the record `number` leads to, of those that lead somewhere, each name once.
fn target(answer: &Answer, number: u64) -> Option<Name> {
    let number = usize::try_from(number).ok()?;
    let records = || answer.section(Section::Answer).filter_map(|rr| leads_to(answer, rr));
    let first = |(at, name): &(usize, &[u8])| {
        !records().take(*at).any(|other| other.eq_ignore_ascii_case(name))
    };
    let name = records().enumerate().filter(first).nth(number)?.1;
    Name::read(name).map(|(name, _)| name).filter(|name| !name.is_root())
}

/// The name in the data of an SRV or MX record.
fn leads_to<'a>(answer: &'a Answer, rr: &Rr) -> Option<&'a [u8]> {
    match rr.rtype {
        rtype::SRV => answer.data(rr).get(6..),
        rtype::MX => answer.data(rr).get(2..),
        _ => None,
    }
}

/// Whether the additional section says where a name is.
fn has_addresses(answer: &Answer, name: &Name) -> bool {
    let mut all = answer.section(Section::Additional);
    all.any(|rr| answer.owner(rr).eq_ignore_ascii_case(name.wire()))
}
