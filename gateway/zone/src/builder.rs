//! From records in any order to a zone.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use wire::{Name, rtype};

use crate::order::{compare, depth, is_below, parent};
use crate::zone::{APEX, NONE, Node, Set, Soa, Zone, order};

/// Why records make no zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The owner is neither the zone's name nor below it.
    Outside,
    /// An SOA record that is not at the apex (RFC 1035 §5.2).
    MisplacedSoa,
    /// NSEC3 and NSEC3PARAM records: denials are proved by NSEC records alone.
    Nsec3,
    /// There is no SOA record at the apex (RFC 1035 §5.2).
    NoSoa,
    /// The data of a record is not of its type.
    Malformed,
    /// A record is to be taken away that is not there.
    Missing,
    /// The zone has more than four gibibytes of names or of data, or a name more than 65,535 types.
    TooLarge,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "the name is outside of the zone",
            Self::MisplacedSoa => "an SOA record stands below the zone's own name",
            Self::Nsec3 => "NSEC3 is not served: sign the zone with NSEC",
            Self::NoSoa => "has no SOA record for its own name",
            Self::Malformed => "the data is not of the record's type",
            Self::Missing => "a record is taken away that the zone does not have",
            Self::TooLarge => "the zone is too large",
        })
    }
}

impl std::error::Error for Unfit {}

/// A record as it was added.
#[derive(Clone, Copy, Debug)]
struct Rec {
    name: u32,
    data: u32,
    ttl: u32,
    rtype: u16,
    covered: u16,
    data_len: u16,
    name_len: u8,
}

/// Collects the records of a zone.
#[derive(Debug)]
pub struct Builder {
    apex: Name,
    /// The labels of the owners below the apex.
    names: Vec<u8>,
    data: Vec<u8>,
    records: Vec<Rec>,
}

impl Builder {
    /// A zone of this name without records.
    pub fn new(apex: Name) -> Self {
        Self { apex, names: Vec::new(), data: Vec::new(), records: Vec::new() }
    }

    /// Adds a record of class IN; `owner` and the names in `data` are uncompressed. The same record twice counts once, and of
    /// several SOA records the last.
    ///
    /// # Errors
    /// [`Unfit`] for a record that the zone cannot have; nothing is added then.
    pub fn add(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Result<(), Unfit> {
        let (owner, _) = Name::read(owner).ok_or(Unfit::Malformed)?;
        let labels = owner.below(&self.apex).ok_or(Unfit::Outside)?;
        let covered = match rtype {
            rtype::SOA if !labels.is_empty() => return Err(Unfit::MisplacedSoa),
            rtype::SOA if Soa::read(data).is_none() => return Err(Unfit::Malformed),
            rtype::NSEC3 | rtype::NSEC3PARAM => return Err(Unfit::Nsec3),
            rtype::RRSIG => match data {
                [high, low, ..] => u16::from_be_bytes([*high, *low]),
                _ => return Err(Unfit::Malformed),
            },
            _ => 0,
        };
        let data_len = u16::try_from(data.len()).map_err(|_| Unfit::TooLarge)?;
        let data_at = u32::try_from(self.data.len()).map_err(|_| Unfit::TooLarge)?;
        // Records of one owner mostly come in a row.
        let last = self.records.last().map(|rec| (rec.name, rec.name_len));
        let (name, name_len) = match last.filter(|(at, len)| self.name(*at, *len) == labels) {
            Some(last) => last,
            None => {
                let at = u32::try_from(self.names.len()).map_err(|_| Unfit::TooLarge)?;
                let len = u8::try_from(labels.len()).map_err(|_| Unfit::TooLarge)?;
                self.names.extend_from_slice(labels);
                (at, len)
            }
        };
        self.data.extend_from_slice(data);
        lower(rtype, self.data.get_mut(data_at as usize..).unwrap_or_default());
        self.records.push(Rec { name, data: data_at, ttl, rtype, covered, data_len, name_len });
        Ok(())
    }

    /// The zone of the records.
    ///
    /// # Errors
    /// [`Unfit::NoSoa`], [`Unfit::TooLarge`].
    pub fn finish(mut self) -> Result<Zone, Unfit> {
        let mut records = std::mem::take(&mut self.records);
        // A stable sort: the records of a set stay in their order.
        records.sort_by(|a, b| match self.compare_owners(a, b) {
            Ordering::Equal => order(a.rtype, a.covered).cmp(&order(b.rtype, b.covered)),
            different => different,
        });
        let mut growing = Growing::new();
        growing.node(&[])?;
        for owned in records.chunk_by(|a, b| self.compare_owners(a, b) == Ordering::Equal) {
            let Some(first) = owned.first() else { continue };
            let labels = self.name(first.name, first.name_len);
            growing.path_to(labels)?;
            for set in owned.chunk_by(|a, b| (a.rtype, a.covered) == (b.rtype, b.covered)) {
                growing.set(set, &self.data)?;
            }
        }
        growing.finish(self.apex)
    }

    /// Labels of an owner.
    fn name(&self, at: u32, len: u8) -> &[u8] {
        let at = at as usize;
        self.names.get(at..at + usize::from(len)).unwrap_or_default()
    }

    /// Compares the owners of two records.
    fn compare_owners(&self, a: &Rec, b: &Rec) -> Ordering {
        if (a.name, a.name_len) == (b.name, b.name_len) {
            return Ordering::Equal;
        }
        compare(self.name(a.name, a.name_len), self.name(b.name, b.name_len))
    }
}

/// Makes the names in the data of some types lower case; others are kept as they are written.
pub(crate) fn lower(rtype: u16, data: &mut [u8]) {
    let (at, names) = match rtype {
        rtype::NS | rtype::CNAME => (0, 1),
        rtype::MX => (2, 1),
        rtype::SOA => (0, 2),
        _ => return,
    };
    let mut rest = data.get_mut(at..).unwrap_or_default();
    for _ in 0..names {
        let Some((name, tail)) =
            Name::span(rest).and_then(|len| std::mem::take(&mut rest).split_at_mut_checked(len))
        else {
            return;
        };
        name.make_ascii_lowercase();
        rest = tail;
    }
}

/// A zone as it comes into being, name by name in canonical order.
struct Growing {
    nodes: Vec<Node>,
    sets: Vec<Set>,
    names: Vec<u8>,
    data: Vec<u8>,
    /// The numbers of the last node and of those above it, the apex first.
    path: Vec<u32>,
    depth: usize,
    records: usize,
}

impl Growing {
    /// An empty one.
    fn new() -> Self {
        Self {
            nodes: Vec::new(),
            sets: Vec::new(),
            names: Vec::new(),
            data: Vec::new(),
            path: Vec::new(),
            depth: 0,
            records: 0,
        }
    }

    /// Labels of a node.
    fn labels(&self, number: u32) -> &[u8] {
        let node = self.nodes.get(number as usize);
        let range = node.map(|node| node.name as usize..node.name as usize + usize::from(node.len));
        range.and_then(|range| self.names.get(range)).unwrap_or_default()
    }

    /// Makes the node of a name, and those of names above it that have no records.
    fn path_to(&mut self, labels: &[u8]) -> Result<(), Unfit> {
        while let Some(last) = self.path.last().copied()
            && !is_below(labels, self.labels(last))
        {
            self.path.pop();
        }
        let above = self.path.last().map_or(0, |last| self.labels(*last).len());
        let mut missing: Vec<&[u8]> = std::iter::successors(Some(labels), |run| parent(run))
            .take_while(|run| run.len() > above)
            .collect();
        while let Some(next) = missing.pop() {
            self.node(next)?;
        }
        Ok(())
    }

    /// Makes a node below the last one of the path.
    fn node(&mut self, labels: &[u8]) -> Result<(), Unfit> {
        let large = |_| Unfit::TooLarge;
        let number = u32::try_from(self.nodes.len()).map_err(large)?;
        let name = u32::try_from(self.names.len()).map_err(large)?;
        let sets = u32::try_from(self.sets.len()).map_err(large)?;
        let len = u8::try_from(labels.len()).map_err(large)?;
        self.names.extend_from_slice(labels);
        self.depth = self.depth.max(depth(labels));
        let mut cover = NONE;
        if let Some(above) = self.path.last().copied()
            && let Some(node) = self.nodes.get_mut(above as usize)
        {
            cover = match node.cover {
                NONE if node.has(Node::DNAME) => above,
                cover => cover,
            };
            if labels.starts_with(b"\x01*") {
                node.flags |= Node::WILD;
            }
        }
        self.nodes.push(Node { name, sets, cover, count: 0, len, flags: 0 });
        self.path.push(number);
        Ok(())
    }

    /// Gives the last node a set.
    fn set(&mut self, mut records: &[Rec], source: &[u8]) -> Result<(), Unfit> {
        if let Some(last) = records.last().filter(|rec| rec.rtype == rtype::SOA) {
            records = std::slice::from_ref(last);
        }
        let data = u32::try_from(self.data.len()).map_err(|_| Unfit::TooLarge)?;
        let mut seen = HashSet::new();
        let (mut count, mut ttl) = (0, u32::MAX);
        for rec in records {
            let at = rec.data as usize;
            let bytes = source.get(at..at + usize::from(rec.data_len)).unwrap_or_default();
            if records.len() > 1 && !seen.insert(bytes) {
                continue;
            }
            self.data.extend_from_slice(&rec.data_len.to_be_bytes());
            self.data.extend_from_slice(bytes);
            count += 1;
            // A set has one time to live (RFC 2181 §5.2).
            ttl = ttl.min(rec.ttl);
        }
        let Some(Rec { rtype, covered, .. }) = records.first().copied() else { return Ok(()) };
        self.records += count as usize;
        self.sets.push(Set { rtype, covered, ttl, data, count });
        let number = self.path.last().copied().unwrap_or(APEX);
        if let Some(node) = self.nodes.get_mut(number as usize) {
            node.count = node.count.checked_add(1).ok_or(Unfit::TooLarge)?;
            match rtype {
                rtype::DNAME => node.flags |= Node::DNAME,
                rtype::NS if number != APEX => {
                    node.flags |= Node::CUT;
                    if node.cover == NONE {
                        node.cover = number;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Completes the zone.
    fn finish(self, apex: Name) -> Result<Zone, Unfit> {
        let hasher = RandomState::new();
        // At most half full.
        let mut table = vec![NONE; (self.nodes.len() * 2).next_power_of_two()];
        let mask = table.len() - 1;
        let mut chain = Vec::new();
        for number in 0..u32::try_from(self.nodes.len()).map_err(|_| Unfit::TooLarge)? {
            let mut at = hasher.hash_one(self.labels(number)) as usize & mask;
            while table.get(at).is_some_and(|slot| *slot != NONE) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = table.get_mut(at) {
                *slot = number;
            }
        }
        let mut zone = Zone {
            apex,
            nodes: self.nodes.into(),
            sets: self.sets.into(),
            names: self.names.into(),
            data: self.data.into(),
            table: table.into(),
            hasher,
            chain: Box::default(),
            depth: self.depth,
            records: self.records,
            soa: Soa::default(),
        };
        for number in 0..zone.nodes.len() as u32 {
            if zone.set(number, rtype::NSEC).is_some() {
                chain.push(number);
            }
        }
        zone.chain = chain.into();
        zone.soa = Soa::read(zone.soa_record().1).ok_or(Unfit::NoSoa)?;
        Ok(zone)
    }
}
