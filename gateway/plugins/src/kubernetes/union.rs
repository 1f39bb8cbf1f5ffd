//! Several clusters under one zone: each name is answered for by the first that has what it is of, and nothing is mixed.

use std::net::IpAddr;

use k8s::{Kind, Reader};
use wire::{Name, Section, rtype};

use super::lookup::Look;
use super::{Cluster, Pods};
use crate::shared::cluster::address::{Reverse, is_reverse, pod_address, reverse};
use crate::shared::cluster::member::{Member, Readers};
use crate::shared::cluster::name::Wanted;
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Found, found};
use crate::shared::sheet::Sheet;

/// RFC 8914 §4.1: an error that has no number.
const OTHER: u16 = 0;
/// What is said with an address that several clusters have.
const SHARED: &str = "several clusters have this address";

/// What a reverse zone says of an address that several clusters have under different names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pointers {
    /// Nothing: which of them a client reaches is not known.
    #[default]
    One,
    /// All its names, in the clusters' order.
    All,
}

impl Cluster {
    /// Finds a name and writes its records; gives the cluster that says so.
    pub(super) fn find(
        &self,
        zone: &Name,
        name: &Name,
        rtype: u16,
        sheet: &mut Sheet<'_>,
    ) -> (Found, Option<&Member>) {
        if self.members.are_several()
            && is_reverse(zone)
            && let Reverse::Address(ip) = reverse(name)
        {
            return self.names_in_all(name, ip, rtype, sheet);
        }
        let Some((last, others)) = self.members.split_last() else {
            return (Found::Nothing, None);
        };
        for member in others {
            let reader = member.store.read();
            let look = Look { cluster: self, member, reader: &reader, zone, name, rtype };
            if look.decides() {
                return (look.run(sheet), Some(member));
            }
        }
        let reader = last.store.read();
        let look = Look { cluster: self, member: last, reader: &reader, zone, name, rtype };
        (look.run(sheet), Some(last))
    }

    /// The cluster that answers for a name.
    pub(super) fn decider(&self, zone: &Name, name: &Name) -> Option<&Member> {
        let (last, others) = self.members.split_last()?;
        let mut others = others.iter();
        let decider = others.find(|member| {
            let reader = &member.store.read();
            Look { cluster: self, member, reader, zone, name, rtype: rtype::A }.decides()
        });
        Some(decider.unwrap_or(last))
    }

    /// Writes the names of an address in a union's reverse zone.
    fn names_in_all(
        &self,
        name: &Name,
        ip: IpAddr,
        rtype: u16,
        sheet: &mut Sheet<'_>,
    ) -> (Found, Option<&Member>) {
        let readers = self.members.read_all();
        let mut holder: Option<&Member> = None;
        let mut several = false;
        for (index, member) in self.members.iter().enumerate() {
            if !member.store.synced() {
                // It may have the address; a cluster that is known to have it does not wait for one behind it.
                match holder {
                    None => return (Found::NotYet, Some(member)),
                    Some(_) => continue,
                }
            }
            let mut any = false;
            self.names_in(&readers, index, ip, &mut |_| any = true);
            if any {
                several |= holder.is_some();
                holder.get_or_insert(member);
            }
        }
        if several && self.pointers == Pointers::One {
            sheet.answer().options.push_ede(OTHER, SHARED);
        } else if rtype == rtype::PTR && holder.is_some() {
            for index in 0..self.members.iter().len() {
                self.names_in(&readers, index, ip, &mut |target| {
                    sheet.add(Section::Answer, name.wire(), rtype::PTR, target);
                });
            }
        }
        (found(holder.is_some()), holder)
    }

    /// Calls `each` with the names of an address in the cluster at `index`, but for those that a cluster before it answers for.
    fn names_in(
        &self,
        readers: &Readers<'_>,
        index: usize,
        ip: IpAddr,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let Some(reader) = readers.of(index) else { return };
        self.names_of(reader, ip, &mut |target| {
            let mut before = (0..index).filter_map(|one| readers.of(one));
            if !before.any(|one| self.has(one, target)) {
                each(target);
            }
        });
    }

    /// Whether a cluster has the service that a name in the primary zone is of.
    fn has(&self, reader: &Reader<'_>, target: &[u8]) -> bool {
        let len = target.len().saturating_sub(self.primary.wire().len());
        let Wanted::Service { key, .. } =
            Wanted::read(target.get(..len).unwrap_or_default(), self.rules(&self.primary))
        else {
            return false;
        };
        self.shows(reader, key)
    }

    /// Whether a cluster has a service, and shows it.
    pub(super) fn shows(&self, reader: &Reader<'_>, key: &[u8]) -> bool {
        Service::find(reader, key, false).is_some_and(|service| !self.hides(&service))
    }
}

impl Look<'_> {
    /// Whether this cluster answers for the name, and not one behind it: it has what the name is of, or that is not known yet.
    fn decides(&self) -> bool {
        let Some(head) = self.name.below(self.zone) else { return true };
        let rules = self.cluster.rules(self.zone);
        let wanted = Wanted::read(head, rules);
        match wanted {
            Wanted::Apex | Wanted::NameServer => {
                let mut own = self.cluster.own.iter();
                own.any(|ip| self.reader.endpoints_by_ip(*ip).next().is_some())
            }
            Wanted::Version | Wanted::Branch | Wanted::Nothing => true,
            _ if !self.member.store.synced() || self.reader.awaits(wanted.namespace()) => true,
            Wanted::Pod { address, namespace } if self.cluster.pods == Pods::Verified => {
                !self.knows(Kind::Pods)
                    || pod_address(address).is_some_and(|ip| self.reader.pod_in(namespace, ip))
            }
            Wanted::Namespace { name, .. } | Wanted::Pod { namespace: name, .. } => {
                self.reader.namespace(name)
            }
            Wanted::Service { key, .. } => {
                (rules.multicluster && !self.knows(Kind::Imports))
                    || Service::find(self.reader, key, rules.multicluster)
                        .is_some_and(|service| !self.cluster.hides(&service))
            }
        }
    }
}
