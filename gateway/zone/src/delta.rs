//! The difference of two versions of a zone (RFC 1995).

use std::cmp::Ordering;
use std::collections::HashSet;

use wire::{Answer, Section};

use crate::order::compare;
use crate::zone::{Set, Zone};

/// What leads from one version of a zone to the next, the SOA records left out.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// The serial before.
    pub from: u32,
    /// The serial after.
    pub to: u32,
    /// The records that are no longer there, in the answer section.
    pub removed: Answer,
    /// Those that are new.
    pub added: Answer,
    /// Time to live and data of the SOA record before.
    pub soa_before: (u32, Box<[u8]>),
    /// The same after.
    pub soa_after: (u32, Box<[u8]>),
}

impl Delta {
    /// What leads from `old` to `new`, two versions of one zone.
    pub fn between(old: &Zone, new: &Zone) -> Self {
        let soa = |zone: &Zone| {
            let (ttl, data) = zone.soa_record();
            (ttl, data.into())
        };
        let mut delta = Self {
            from: old.soa().serial,
            to: new.soa().serial,
            soa_before: soa(old),
            soa_after: soa(new),
            ..Self::default()
        };
        let (mut left, mut right) = (0, 0);
        loop {
            let (one, other) = (old.node(left), new.node(right));
            let side = match (one, other) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => compare(old.labels(one), new.labels(other)),
            };
            let none: &[Set] = &[];
            let before = one.filter(|_| side.is_le()).map_or(none, |node| old.sets_of(node));
            let after = other.filter(|_| side.is_ge()).map_or(none, |node| new.sets_of(node));
            let owner = if side.is_le() { old.owner(left) } else { new.owner(right) };
            differ((old, before), (new, after), owner.wire(), &mut delta);
            left += u32::from(side.is_le());
            right += u32::from(side.is_ge());
        }
        delta.removed.shrink();
        delta.added.shrink();
        delta
    }

    /// The number of its records, the SOA records counted in.
    pub fn records(&self) -> usize {
        2 + self.removed.records().len() + self.added.records().len()
    }

    /// The octets that it takes in memory.
    pub fn footprint(&self) -> usize {
        self.removed.footprint() + self.added.footprint()
    }
}

/// Notes how the sets of a name differ, both in their order.
fn differ(old: (&Zone, &[Set]), new: (&Zone, &[Set]), owner: &[u8], delta: &mut Delta) {
    let (mut before, mut after) = (old.1.iter().peekable(), new.1.iter().peekable());
    loop {
        let side = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.key().cmp(&other.key()),
        };
        let one = before.next_if(|_| side.is_le());
        let other = after.next_if(|_| side.is_ge());
        let (gone, come) = (data(old.0, one), data(new.0, other));
        let same_ttl = one.map(|set| set.ttl) == other.map(|set| set.ttl);
        if same_ttl && gone == come {
            continue;
        }
        note(one, &gone, &come, same_ttl, owner, &mut delta.removed);
        note(other, &come, &gone, same_ttl, owner, &mut delta.added);
    }
}

/// The data of a set's records.
fn data<'z>(zone: &'z Zone, set: Option<&Set>) -> Vec<&'z [u8]> {
    set.map(|set| zone.data_of(set).collect()).unwrap_or_default()
}

/// Notes the records of a set that are not among `others`, or all if the time to live has changed.
fn note(
    set: Option<&Set>,
    own: &[&[u8]],
    others: &[&[u8]],
    same_ttl: bool,
    owner: &[u8],
    into: &mut Answer,
) {
    let Some(set) = set.filter(|set| set.rtype != wire::rtype::SOA) else { return };
    let others: HashSet<&[u8]> = others.iter().copied().collect();
    for data in own {
        if !same_ttl || !others.contains(data) {
            into.push(Section::Answer, owner, set.rtype, set.ttl, data);
        }
    }
}
