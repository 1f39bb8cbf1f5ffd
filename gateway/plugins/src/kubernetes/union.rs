//! Several clusters under one zone: each name is answered for by the first that has what it is of, and nothing is mixed.

use std::net::IpAddr;

use k8s::{Kind, Reader};
use wire::{Name, rtype};

use super::lookup::Look;
use super::{Cluster, Pods};
use crate::shared::cluster::Found;
use crate::shared::cluster::address::pod_address;
use crate::shared::cluster::member::Member;
use crate::shared::cluster::name::Wanted;
use crate::shared::cluster::pointers::Names;
use crate::shared::cluster::service::Service;
use crate::shared::sheet::Sheet;

impl Cluster {
    /// Finds a name and writes its records; gives the cluster that says so.
    pub(super) fn find(
        &self,
        zone: &Name,
        name: &Name,
        rtype: u16,
        sheet: &mut Sheet<'_>,
    ) -> (Found, Option<&Member>) {
        let of_all = self.members.pointers(self, self.pointers, zone, (name, rtype), sheet);
        if let Some(found) = of_all {
            return found;
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

    /// Whether a cluster has a service, and shows it.
    pub(super) fn shows(&self, reader: &Reader<'_>, key: &[u8]) -> bool {
        Service::find(reader, key, false).is_some_and(|service| !self.hides(&service))
    }
}

impl Names for Cluster {
    fn names_of(&self, reader: &Reader<'_>, ip: IpAddr, each: &mut dyn FnMut(&[u8])) {
        Self::names_of(self, reader, ip, each);
    }

    fn has(&self, reader: &Reader<'_>, name: &[u8]) -> bool {
        let len = name.len().saturating_sub(self.primary.wire().len());
        let head = name.get(..len).unwrap_or_default();
        match Wanted::read(head, self.rules(&self.primary)) {
            Wanted::Service { key, .. } => self.shows(reader, key),
            _ => false,
        }
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
            _ if !self.member.store.answers() || self.reader.awaits(wanted.namespace()) => true,
            Wanted::Pod { address, namespace } if self.cluster.pods == Pods::Verified => {
                !self.knows_pods(namespace)
                    || pod_address(address).is_some_and(|ip| self.reader.pod_in(namespace, ip))
            }
            Wanted::Namespace { name, .. } | Wanted::Pod { namespace: name, .. } => {
                self.reader.namespace(name) || self.reader.doubts(name)
            }
            Wanted::Service { key, part, .. } => {
                (rules.multicluster && !self.knows(Kind::Imports))
                    || Service::find(self.reader, key, rules.multicluster).is_some_and(|service| {
                        self.lacks_endpoints(&service, part) || !self.cluster.hides(&service)
                    })
            }
        }
    }
}
