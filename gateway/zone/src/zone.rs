//! A zone in memory: names in canonical order, a hash table over them, and the data in one piece.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use wire::{Name, rtype};

/// A node has no other node above it that takes its queries.
pub(crate) const NONE: u32 = u32::MAX;
/// The number of the node of the apex.
pub(crate) const APEX: u32 = 0;

/// A name of the zone: one that has records, or one above such a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Where its labels below the apex lie.
    pub(crate) name: u32,
    /// The first of its sets.
    pub(crate) sets: u32,
    /// The node that answers for it: the topmost zone cut at or above it, or the DNAME record above it; [`NONE`] for its own.
    pub(crate) cover: u32,
    /// How many sets it has.
    pub(crate) count: u16,
    /// The octets of its labels.
    pub(crate) len: u8,
    /// [`Node::CUT`] and the like.
    pub(crate) flags: u8,
}

impl Node {
    /// The name belongs to a zone below (RFC 1034 §4.2.1).
    pub(crate) const CUT: u8 = 1;
    /// Names below are other names for those below another (RFC 6672).
    pub(crate) const DNAME: u8 = 2;
    /// There is a wildcard right below.
    pub(crate) const WILD: u8 = 4;

    /// Whether it has one of these flags.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The records of one name and type; of signatures, those of one type that is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) rtype: u16,
    /// The type that these signatures are of; 0 for other types.
    pub(crate) covered: u16,
    pub(crate) ttl: u32,
    /// Where the data begins: of each record its length in two octets, and itself.
    pub(crate) data: u32,
    /// The number of records.
    pub(crate) count: u32,
}

impl Set {
    /// What sets of a node are ordered by: signatures follow what they sign.
    pub(crate) fn key(&self) -> (u16, u16) {
        order(self.rtype, self.covered)
    }
}

/// What sets of a node are ordered by.
pub(crate) fn order(rtype: u16, covered: u16) -> (u16, u16) {
    match rtype {
        rtype::RRSIG => (covered, 1),
        other => (other, 0),
    }
}

/// The times of an SOA record, in seconds (RFC 1035 §3.3.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Soa {
    /// The version of the zone.
    pub serial: u32,
    /// How often secondaries look for a new version.
    pub refresh: u32,
    /// How soon after a failure.
    pub retry: u32,
    /// When secondaries give up.
    pub expire: u32,
    /// How long negative answers are kept.
    pub minimum: u32,
}

impl Soa {
    /// Reads the data of an SOA record.
    pub fn read(data: &[u8]) -> Option<Self> {
        let rest = data.get(Name::span(data)?..)?;
        let numbers = rest.get(Name::span(rest)?..)?;
        let (chunks, []) = numbers.as_chunks::<4>() else { return None };
        let [serial, refresh, retry, expire, minimum] =
            <[[u8; 4]; 5]>::try_from(chunks).ok()?.map(u32::from_be_bytes);
        Some(Self { serial, refresh, retry, expire, minimum })
    }
}

/// A zone. Nothing changes it once it is built; see [`crate::Builder`].
pub struct Zone {
    pub(crate) apex: Name,
    /// In canonical order (RFC 4034 §6.1), the apex first.
    pub(crate) nodes: Box<[Node]>,
    pub(crate) sets: Box<[Set]>,
    /// The labels of the nodes, in lower case.
    pub(crate) names: Box<[u8]>,
    pub(crate) data: Box<[u8]>,
    /// Numbers of nodes by the hash of their labels; [`NONE`] where there is none. The length is a power of two.
    pub(crate) table: Box<[u32]>,
    pub(crate) hasher: RandomState,
    /// The nodes that have NSEC records, in order.
    pub(crate) chain: Box<[u32]>,
    /// The most labels that a name of the zone has below the apex.
    pub(crate) depth: usize,
    pub(crate) records: usize,
    pub(crate) soa: Soa,
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (serial, records) = (self.soa.serial, self.records);
        write!(f, "Zone({} serial {serial}, {records} records)", self.apex)
    }
}

impl Zone {
    /// The name of the zone.
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// The times of its SOA record.
    pub fn soa(&self) -> Soa {
        self.soa
    }

    /// How many records it has.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Whether it has NSEC records, so that denials have proofs.
    pub fn is_signed(&self) -> bool {
        !self.chain.is_empty()
    }

    /// The names that have records beside a CNAME record, which nobody is told of (RFC 1034 §3.6.2).
    pub fn clashes(&self) -> impl Iterator<Item = Name> {
        (0..).zip(&*self.nodes).filter_map(|(number, node)| {
            let others = |set: &Set| match set.rtype {
                rtype::CNAME | rtype::RRSIG | rtype::NSEC => false,
                rtype::SOA | rtype::NS => number != APEX,
                _ => true,
            };
            let aliased = node.count > 1 && self.set(number, rtype::CNAME).is_some();
            (aliased && self.sets_of(node).iter().any(others)).then(|| self.owner(number))
        })
    }

    /// The octets that it takes in memory.
    pub fn footprint(&self) -> usize {
        size_of_val(&*self.nodes)
            + size_of_val(&*self.sets)
            + self.names.len()
            + self.data.len()
            + size_of_val(&*self.table)
            + size_of_val(&*self.chain)
    }

    /// Its SOA record: time to live and data.
    pub fn soa_record(&self) -> (u32, &[u8]) {
        let set = self.set(APEX, rtype::SOA);
        let data = set.and_then(|set| self.data_of(set).next());
        (set.map_or(0, |set| set.ttl), data.unwrap_or_default())
    }

    /// Calls `take` with the records from `at` on in canonical order, without the SOA record and its signatures, until it returns
    /// false; the record that it refused is the next one.
    pub fn walk(&self, at: &mut Cursor, mut take: impl FnMut(&Name, u16, u32, &[u8]) -> bool) {
        while let Some(node) = self.node(at.node) {
            let owner = self.owner(at.node);
            for set in self.sets_of(node).iter().skip(at.set) {
                if set.rtype != rtype::SOA {
                    for data in self.data_of(set).skip(at.record) {
                        if !take(&owner, set.rtype, set.ttl, data) {
                            return;
                        }
                        at.record += 1;
                    }
                }
                (at.set, at.record) = (at.set + 1, 0);
            }
            *at = Cursor { node: at.node + 1, set: 0, record: 0 };
        }
    }

    /// The node of this number.
    pub(crate) fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number as usize)
    }

    /// The labels of a node.
    pub(crate) fn labels(&self, node: &Node) -> &[u8] {
        let at = node.name as usize;
        self.names.get(at..at + usize::from(node.len)).unwrap_or_default()
    }

    /// The name of a node.
    pub(crate) fn owner(&self, number: u32) -> Name {
        let labels = self.node(number).map(|node| self.labels(node)).unwrap_or_default();
        // Nodes were made of names of the zone, so the two fit.
        Name::join(labels, self.apex.wire()).unwrap_or_default()
    }

    /// The sets of a node.
    pub(crate) fn sets_of(&self, node: &Node) -> &[Set] {
        let at = node.sets as usize;
        self.sets.get(at..at + usize::from(node.count)).unwrap_or_default()
    }

    /// A node's records of a type.
    pub(crate) fn set(&self, number: u32, rtype: u16) -> Option<&Set> {
        self.sets_of(self.node(number)?).iter().find(|set| set.rtype == rtype)
    }

    /// The signatures of a node's records of a type.
    pub(crate) fn signatures(&self, number: u32, covered: u16) -> Option<&Set> {
        let mut sets = self.sets_of(self.node(number)?).iter();
        sets.find(|set| set.rtype == rtype::RRSIG && set.covered == covered)
    }

    /// The data of a set's records.
    pub(crate) fn data_of(&self, set: &Set) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.data.get(set.data as usize..).unwrap_or_default();
        (0..set.count).map_while(move |_| {
            let ([high, low], tail) = rest.split_first_chunk()?;
            let (data, tail) = tail.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
            rest = tail;
            Some(data)
        })
    }

    /// The node with these labels.
    pub(crate) fn find(&self, labels: &[u8]) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = self.hasher.hash_one(labels) as usize & mask;
        // The table is never full, so the walk ends.
        loop {
            let number = *self.table.get(at)?;
            let node = self.node(number)?;
            if self.labels(node) == labels {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }
}

/// A place among a zone's records, see [`Zone::walk`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    node: u32,
    set: usize,
    record: usize,
}
