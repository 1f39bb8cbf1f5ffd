//! Reverse names that several clusters may have.

use std::net::IpAddr;

use k8s::Reader;
use wire::{Name, Section, rtype};

use super::address::{Reverse, is_reverse, reverse};
use super::member::{Member, Members, Readers};
use super::{Found, OTHER, at_apex, found};
use crate::shared::sheet::Sheet;

/// What is said with an address that several clusters have.
const SHARED: &str = "several clusters have this address";

/// What a reverse zone says of an address that several clusters have under different names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pointers {
    /// Nothing: which of them a client reaches is not known.
    #[default]
    One,
    /// All its names, in the clusters' order.
    All,
}

/// What gives addresses names by the objects of a cluster.
pub(crate) trait Names {
    /// Calls `each` with the names of an address.
    fn names_of(&self, reader: &Reader<'_>, ip: IpAddr, each: &mut dyn FnMut(&[u8]));

    /// Whether a cluster answers for a name, so that it is not that of an object of a cluster behind it.
    fn has(&self, reader: &Reader<'_>, name: &[u8]) -> bool;
}

impl Members {
    /// Writes the names of an address if `name` is that of one in a union's reverse zone, whose names are those of all clusters;
    /// gives the cluster that says so.
    pub(crate) fn pointers(
        &self,
        names: &dyn Names,
        pointers: Pointers,
        zone: &Name,
        (name, rtype): (&Name, u16),
        sheet: &mut Sheet<'_>,
    ) -> Option<(Found, Option<&Member>)> {
        // The apex of a zone of one address has the zone's records beside those of the address.
        let apex = name == zone;
        if !self.are_several() || !is_reverse(zone) || (apex && rtype != rtype::PTR) {
            return None;
        }
        let Reverse::Address(ip) = reverse(name) else { return None };
        let (found, member) = self.of_address(names, pointers, (name, rtype), ip, sheet);
        Some((if apex { at_apex(found) } else { found }, member))
    }

    /// Writes the names of an address.
    fn of_address(
        &self,
        names: &dyn Names,
        pointers: Pointers,
        (name, rtype): (&Name, u16),
        ip: IpAddr,
        sheet: &mut Sheet<'_>,
    ) -> (Found, Option<&Member>) {
        let readers = self.read_all();
        let mut holder: Option<&Member> = None;
        let mut several = false;
        for (index, member) in self.iter().enumerate() {
            if !member.store.answers() {
                // It may have the address; a cluster that is known to have it does not wait for one behind it.
                match holder {
                    None => return (Found::NotYet, Some(member)),
                    Some(_) => continue,
                }
            }
            let mut any = false;
            names_in(names, &readers, index, ip, &mut |_| any = true);
            if any {
                several |= holder.is_some();
                holder.get_or_insert(member);
            } else if holder.is_none() {
                let awaited = readers.of(index).is_some_and(Reader::awaits_any);
                if awaited || !member.store.knows_endpoints(false) {
                    return (Found::NotYet, Some(member));
                }
            }
        }
        if several && pointers == Pointers::One {
            sheet.answer().options.push_ede(OTHER, SHARED);
        } else if rtype == rtype::PTR && holder.is_some() {
            for index in 0..self.iter().len() {
                names_in(names, &readers, index, ip, &mut |target| {
                    sheet.add(Section::Answer, name.wire(), rtype::PTR, target);
                });
            }
        }
        (found(holder.is_some()), holder)
    }
}

/// Calls `each` with the names of an address in the cluster at `index`, but for those that a cluster before it answers for.
fn names_in(
    names: &dyn Names,
    readers: &Readers<'_>,
    index: usize,
    ip: IpAddr,
    each: &mut dyn FnMut(&[u8]),
) {
    let Some(reader) = readers.of(index) else { return };
    names.names_of(reader, ip, &mut |target| {
        let mut before = (0..index).filter_map(|one| readers.of(one));
        if !before.any(|one| names.has(one, target)) {
            each(target);
        }
    });
}
