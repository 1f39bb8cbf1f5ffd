//! The clusters that a block answers from, in their order.

use std::net::IpAddr;
use std::slice;
use std::sync::Arc;

use k8s::{Reader, Store};
use smallvec::SmallVec;
use wire::{Answer, Name};

use super::source::Source;
use super::{NOT_KNOWN, stale};

/// A cluster of a block.
#[derive(Debug)]
pub(crate) struct Member {
    /// The name that it is declared by; empty for one that the block itself states.
    pub(crate) name: Box<str>,
    /// What it calls itself; none if nobody says.
    pub(crate) domain: Option<Name>,
    /// Its objects.
    pub(crate) store: Store,
    /// What is said of it as long as they are not known.
    pub(crate) not_known: Box<str>,
    /// What fills the store; none in tests.
    #[expect(dead_code, reason = "held, since the watches end with it")]
    source: Option<Arc<Source>>,
}

impl Member {
    /// When a namespace was last heard of that is kept from us now, in Unix seconds. Which one is asked for only if there is any such.
    pub(crate) fn refused_since<'n>(
        &self,
        namespace: impl Fn() -> Option<&'n [u8]>,
    ) -> Option<u64> {
        self.store.refused_since(&[])?;
        self.store.refused_since(namespace()?)
    }

    /// Whether what is known of a namespace may be out of date.
    pub(crate) fn is_out_of_date<'n>(&self, namespace: impl Fn() -> Option<&'n [u8]>) -> bool {
        self.store.standing().stale_since().is_some() || self.refused_since(namespace).is_some()
    }

    /// A cluster by its watches.
    pub(crate) fn of(source: &Arc<Source>) -> Self {
        let domain = source.domain().cloned();
        let (name, store) = (source.name(), source.store().clone());
        Self { source: Some(Arc::clone(source)), ..Self::bare(name, domain, store) }
    }

    /// A cluster by its objects, which somebody else keeps true.
    pub(crate) fn bare(name: &str, domain: Option<Name>, store: Store) -> Self {
        let not_known = match name {
            "" => NOT_KNOWN.into(),
            name => format!("cluster {name}: its objects are not known yet").into(),
        };
        Self { name: name.into(), domain, store, not_known, source: None }
    }
}

/// All clusters of a block, the first one first. A service is answered for by the first that has it.
#[derive(Debug)]
pub(crate) struct Members {
    /// The clusters.
    all: Box<[Member]>,
    /// In which order several of their stores are read at once, by index.
    order: Box<[usize]>,
}

/// So many clusters are looked at without memory being taken for it; more take some for each query that is about all of them.
pub(crate) const FEW: usize = 16;

/// All stores under their read locks.
pub(crate) struct Readers<'m>(SmallVec<[(usize, Reader<'m>); FEW]>);

impl<'m> Readers<'m> {
    /// The store of the cluster at `index`.
    pub(crate) fn of(&self, index: usize) -> Option<&Reader<'m>> {
        self.0.iter().find(|(one, _)| *one == index).map(|(_, reader)| reader)
    }
}

impl Members {
    /// These clusters, of which there is at least one.
    pub(crate) fn new(all: Vec<Member>) -> Self {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|index| all.get(*index).map(|member| member.store.id()));
        Self { all: all.into(), order: order.into() }
    }

    /// Takes all read locks, in an order that is the same in all blocks: whoever holds one may wait for a writer, who waits for
    /// another reader, who would wait for the lock that is held.
    pub(crate) fn read_all(&self) -> Readers<'_> {
        let read = |index: &usize| Some((*index, self.all.get(*index)?.store.read()));
        Readers(self.order.iter().filter_map(read).collect())
    }

    /// The clusters.
    pub(crate) fn iter(&self) -> slice::Iter<'_, Member> {
        self.all.iter()
    }

    /// Whether they are several.
    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The last cluster, and those before it.
    pub(crate) fn split_last(&self) -> Option<(&Member, &[Member])> {
        self.all.split_last()
    }

    /// Whether a cluster before the one at `index` has a service, shown or not.
    pub(crate) fn had_before(&self, index: usize, key: &[u8]) -> bool {
        self.all.iter().take(index).any(|member| member.store.read().service(key).is_some())
    }

    /// What others can be told from these clusters by.
    pub(crate) fn text(&self) -> String {
        let text =
            |member: &Member| format!("{} {:?} {};", member.name, member.domain, member.store.id());
        self.all.iter().map(text).collect()
    }

    /// The only cluster that has a pod of this address.
    pub(crate) fn with_pod(&self, ip: IpAddr) -> Option<&Member> {
        if !self.are_several() {
            return self.all.first();
        }
        let mut having = self.all.iter().filter(|one| one.store.read().pod_by_ip(ip).is_some());
        having.next().filter(|_| having.next().is_none())
    }

    /// Whether one of them at least is known, so that there is something to answer from.
    pub(crate) fn any_known(&self) -> bool {
        self.all.iter().any(|member| member.store.synced())
    }

    /// Whether all are known.
    pub(crate) fn all_known(&self) -> bool {
        self.all.iter().all(|member| member.store.synced())
    }

    /// The time of the last change of any, as a zone's serial tells it.
    pub(crate) fn serial(&self) -> u32 {
        self.all.iter().map(|member| member.store.serial()).max().unwrap_or_default()
    }

    /// The time of the last change of external addresses of any.
    pub(crate) fn external_serial(&self) -> u32 {
        self.all.iter().map(|member| member.store.external_serial()).max().unwrap_or_default()
    }

    /// Says on an answer from a cluster that its objects may be out of date, if so. A denial is from none: it says of all that
    /// they lack the name. `namespace` tells whose objects these are, empty if they may be any one's, none if they are of none.
    pub(crate) fn note<'n>(
        &self,
        from: Option<&Member>,
        answer: &mut Answer,
        namespace: impl Fn() -> Option<&'n [u8]>,
    ) {
        let of = from.map_or(&*self.all, slice::from_ref);
        let mut standings = of.iter().map(|member| (member, member.store.standing()));
        if let Some((member, standing)) =
            standings.find(|(_, standing)| standing.stale_since().is_some())
        {
            stale::note(answer, &member.name, standing);
            return;
        }
        let mut refused = of.iter().map(|member| (member, member.refused_since(&namespace)));
        if let Some((member, Some(since))) = refused.find(|(_, since)| since.is_some()) {
            stale::note_refused(answer, &member.name, since);
        }
    }
}
