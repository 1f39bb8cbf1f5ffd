//! What rules do to the records of a reply.

use smallvec::SmallVec;
use wire::{Answer, Flags, Name, Section, rtype};

use super::names::Rename;

/// Gives the owners that `rename` means their new names, in all sections.
pub(super) fn rename_owners(answer: &mut Answer, rename: &Rename) {
    for index in 0..answer.records().len() {
        let Some(rr) = answer.records().get(index) else { continue };
        let Some((owner, _)) = Name::read(answer.owner(rr)) else { continue };
        if let Some(Ok(name)) = rename.of(&owner) {
            answer.set_owner(index, name.wire());
        }
    }
}

/// Does the same with the names in the records' data.
pub(super) fn rename_values(answer: &mut Answer, rename: &Rename) {
    for index in 0..answer.records().len() {
        let Some(rr) = answer.records().get(index) else { continue };
        let data = answer.data(rr);
        let Some((before, name, after)) = value(rr.rtype, data) else { continue };
        let Some(Ok(name)) = rename.of(&name) else { continue };
        let mut changed: SmallVec<[u8; 512]> = SmallVec::from_slice(before);
        changed.extend_from_slice(name.wire());
        changed.extend_from_slice(after);
        answer.set_data(index, &changed);
    }
}

/// Brings the records' times to live into a range.
pub(super) fn clamp_ttl(answer: &mut Answer, least: u32, most: u32) {
    for rr in answer.records_mut() {
        rr.ttl = rr.ttl.clamp(least, most);
    }
}

/// The first alias of the answer section whose target `rename` means, and the new target.
pub(super) fn alias(answer: &Answer, rename: &Rename) -> Option<(usize, Name)> {
    answer.records().iter().enumerate().find_map(|(index, rr)| {
        if rr.section != Section::Answer || rr.rtype != rtype::CNAME {
            return None;
        }
        let (target, _) = Name::read(answer.data(rr))?;
        Some((index, rename.of(&target)?.ok()?))
    })
}

/// Leaves of the answer section the aliases up to the one at `index`, gives that another target, and takes TC from the
/// look-up of it, whose records are then appended.
pub(super) fn redirect(answer: &mut Answer, index: usize, target: &Name, truncated: bool) {
    answer.set_data(index, target.wire());
    let mut at = 0;
    answer.retain(|rr| {
        let kept = rr.section != Section::Answer || (at <= index && rr.rtype == rtype::CNAME);
        at += 1;
        kept
    });
    answer.flags.set(Flags::TC, truncated);
}

/// The name in a record's data that rules change, and what stands before and behind it.
fn value(kind: u16, data: &[u8]) -> Option<(&[u8], Name, &[u8])> {
    let at = match kind {
        rtype::CNAME | rtype::NS | rtype::PTR | rtype::DNAME | rtype::SOA => 0,
        rtype::MX => 2,
        rtype::SRV => 6,
        rtype::NAPTR => naptr_replacement(data)?,
        _ => return None,
    };
    let (before, rest) = data.split_at_checked(at)?;
    let (name, len) = Name::read(rest)?;
    Some((before, name, rest.get(len..)?))
}

/// Where the replacement of a NAPTR record stands: behind two numbers and three strings (RFC 3403 §4.1).
fn naptr_replacement(data: &[u8]) -> Option<usize> {
    (0..3).try_fold(4, |at: usize, _| Some(at + 1 + usize::from(*data.get(at)?)))
}
