//! Proofs that names and records are not there, by the zone's NSEC records (RFC 4035 §3.1.3).

use std::cmp::Ordering;

use wire::{Section, rtype};

use crate::lookup::Run;
use crate::order::compare;
use crate::zone::{NONE, Zone};

/// Writes the labels of the wildcard right below a name; tells their length.
pub(crate) fn wildcard(labels: &[u8], into: &mut [u8; 256]) -> Option<usize> {
    let len = 2 + labels.len();
    into.get_mut(..2)?.copy_from_slice(b"\x01*");
    into.get_mut(2..len)?.copy_from_slice(labels);
    Some(len)
}

impl Zone {
    /// The node whose NSEC record spans the place of a name that has none itself.
    fn spanning(&self, labels: &[u8]) -> Option<u32> {
        let own = |number: &u32| self.node(*number).map(|node| self.labels(node));
        let after = self.chain.partition_point(|number| {
            own(number).is_some_and(|own| compare(own, labels) != Ordering::Greater)
        });
        // The last one spans what is before the first.
        let at = after.checked_sub(1).or_else(|| self.chain.len().checked_sub(1))?;
        self.chain.get(at).copied()
    }
}

impl Run<'_, '_> {
    /// Proves that there is no name with these labels; or, where it has none of its own, which types it has.
    pub(crate) fn prove_absence(&mut self, labels: &[u8]) {
        if let Some(number) = self.dnssec.then(|| self.zone.spanning(labels)).flatten() {
            self.write_proof(number);
        }
    }

    /// Proves that there is no wildcard right below a name.
    pub(crate) fn prove_no_wildcard(&mut self, labels: &[u8]) {
        let mut wild = [0; 256];
        if let Some(len) = wildcard(labels, &mut wild) {
            self.prove_absence(wild.get(..len).unwrap_or_default());
        }
    }

    /// Proves which types a node has.
    pub(crate) fn prove_no_data(&mut self, number: u32) {
        let zone = self.zone;
        if let Some(node) = zone.node(number) {
            // Of a node without its own it is the one that spans its place.
            self.prove_absence(zone.labels(node));
        }
    }

    /// Writes a node's NSEC record with its signatures, if it is not there yet.
    fn write_proof(&mut self, number: u32) {
        let Some(free) = self.proofs.iter().position(|known| [NONE, number].contains(known)) else {
            return;
        };
        if self.proofs.get(free) == Some(&number) {
            return;
        }
        if let Some(slot) = self.proofs.get_mut(free) {
            *slot = number;
        }
        let owner = self.zone.owner(number);
        if let Some(set) = self.zone.set(number, rtype::NSEC) {
            for data in self.zone.data_of(set) {
                self.answer.push(Section::Authority, owner.wire(), rtype::NSEC, set.ttl, data);
            }
            self.sign(number, rtype::NSEC, Section::Authority, owner.wire());
        }
    }
}
