//! Names and addresses, packed: a line takes its name and some thirty octets, and a look-up allocates nothing.

use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::FixedState;
use wire::Name;

/// The number of a name: its place among all.
type Id = u32;

/// A slot without a name.
const FREE: Id = Id::MAX;

/// The entries of a hosts file, complete.
pub(super) struct Table {
    index: Index,
    four: Family<Ipv4Addr>,
    six: Family<Ipv6Addr>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("names", &self.index.len()).finish_non_exhaustive()
    }
}

impl Table {
    /// The number of a name, in wire form and lower case.
    pub(super) fn find(&self, name: &[u8]) -> Option<Id> {
        self.index.find(name)
    }

    /// The IPv4 addresses of a name, in the order of the file.
    pub(super) fn four(&self, id: Id) -> &[Ipv4Addr] {
        self.four.of_name(id)
    }

    /// The IPv6 addresses of a name, in the order of the file.
    pub(super) fn six(&self, id: Id) -> &[Ipv6Addr] {
        self.six.of_name(id)
    }

    /// The names of an address, in wire form, in the order of the file.
    pub(super) fn names(&self, addr: IpAddr) -> impl Iterator<Item = &[u8]> {
        let (four, six) = match addr {
            IpAddr::V4(addr) => (self.four.of_address(&addr), &[][..]),
            IpAddr::V6(addr) => (&[][..], self.six.of_address(&addr)),
        };
        let ids = four.iter().map(|(_, id)| *id).chain(six.iter().map(|(_, id)| *id));
        ids.map(|id| self.index.name(id))
    }

    /// How many entries there are, in both directions.
    pub(super) fn entries(&self) -> usize {
        self.four.entries() + self.six.entries()
    }
}

/// A table in the making.
pub(super) struct Builder {
    index: Index,
    four: Vec<(Id, Ipv4Addr)>,
    six: Vec<(Id, Ipv6Addr)>,
}

impl Builder {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self { index: Index::new(), four: Vec::new(), six: Vec::new() }
    }

    /// Adds an address of a name. Names beyond four thousand million octets in all are left out.
    pub(super) fn add(&mut self, name: &Name, addr: IpAddr) {
        let Some(id) = self.index.insert(name.wire()) else { return };
        match addr {
            IpAddr::V4(addr) => self.four.push((id, addr)),
            IpAddr::V6(addr) => self.six.push((id, addr)),
        }
    }

    /// The table; `reverse` says whether addresses have names.
    pub(super) fn finish(mut self, reverse: bool) -> Table {
        let names = self.index.len();
        self.index.shrink();
        let has_name = |id: Id| reverse && !self.index.name(id).starts_with(b"\x01*");
        let four = Family::new(self.four, names, has_name);
        let six = Family::new(self.six, names, has_name);
        Table { index: self.index, four, six }
    }
}

/// Names by number, and numbers by name: open addressing over one arena.
struct Index {
    /// All names in wire form, one behind the other.
    arena: Vec<u8>,
    /// Where each begins, and where the last one ends.
    starts: Vec<u32>,
    /// The numbers by hash; as many slots as a power of two.
    slots: Vec<Id>,
}

impl Index {
    /// An empty one.
    fn new() -> Self {
        Self { arena: Vec::new(), starts: vec![0], slots: vec![FREE; 16] }
    }

    /// How many names there are.
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The name of a number; the root for a number that there is not.
    fn name(&self, id: Id) -> &[u8] {
        let at = |index: usize| self.starts.get(index).map(|at| *at as usize);
        let span = at(id as usize).zip(at(id as usize + 1));
        span.and_then(|(from, to)| self.arena.get(from..to)).unwrap_or(&[0])
    }

    /// The slot of `name`: the one that has it, or the free one where it belongs.
    fn slot(&self, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = FixedState::default().hash_one(name) as usize & mask;
        // A third of the slots are free, so the search ends.
        while self.slots[at] != FREE && self.name(self.slots[at]) != name {
            at = (at + 1) & mask;
        }
        at
    }

    /// The number of `name`.
    fn find(&self, name: &[u8]) -> Option<Id> {
        let id = self.slots[self.slot(name)];
        (id != FREE).then_some(id)
    }

    /// The number of `name`, which gets one if it has none; none if there is no room.
    fn insert(&mut self, name: &[u8]) -> Option<Id> {
        let at = self.slot(name);
        if self.slots[at] != FREE {
            return Some(self.slots[at]);
        }
        let id = Id::try_from(self.len()).ok().filter(|id| *id != FREE)?;
        let end = u32::try_from(self.arena.len() + name.len()).ok()?;
        self.arena.extend_from_slice(name);
        self.starts.push(end);
        self.slots[at] = id;
        if self.len() * 3 > self.slots.len() * 2 {
            self.grow();
        }
        Some(id)
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        self.slots = vec![FREE; self.slots.len() * 2];
        for id in 0..self.len() {
            let at = self.slot(self.name(id as Id));
            self.slots[at] = id as Id;
        }
    }

    /// Gives back the memory kept for more.
    fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        self.starts.shrink_to_fit();
    }
}

/// The addresses of one family, by name and the other way round.
struct Family<A> {
    /// Where each name's addresses begin, and where the last one's end.
    starts: Box<[u32]>,
    /// The addresses, those of one name together.
    addresses: Box<[A]>,
    /// Each address with its name's number, by address.
    names: Box<[(A, Id)]>,
}

impl<A: Copy + Ord> Family<A> {
    /// Packs `pairs`, whose order is kept for each name and each address; of equal ones the first is kept (RFC 2181
    /// §5). `has_name` says which names are told of their addresses.
    fn new(mut pairs: Vec<(Id, A)>, names: usize, has_name: impl Fn(Id) -> bool) -> Self {
        let mut ordered: Vec<(A, Id, u32)> =
            pairs.iter().zip(0..).map(|((id, addr), order)| (*addr, *id, order)).collect();
        ordered.sort_unstable();
        for pair in ordered.windows(2) {
            if let [first, second] = pair
                && (first.0, first.1) == (second.0, second.1)
            {
                pairs[second.2 as usize].0 = FREE;
            }
        }
        ordered.retain(|(_, id, order)| pairs[*order as usize].0 != FREE && has_name(*id));
        ordered.sort_unstable_by_key(|(addr, _, order)| (*addr, *order));
        pairs.retain(|(id, _)| *id != FREE);
        let mut starts = vec![0u32; names + 1];
        for (id, _) in &pairs {
            starts[*id as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        // Stable, so the order of the file is that of each name's addresses.
        pairs.sort_by_key(|(id, _)| *id);
        Self {
            starts: starts.into(),
            addresses: pairs.iter().map(|(_, addr)| *addr).collect(),
            names: ordered.iter().map(|(addr, id, _)| (*addr, *id)).collect(),
        }
    }

    /// The addresses of a name.
    fn of_name(&self, id: Id) -> &[A] {
        let at = |index: usize| self.starts.get(index).map(|at| *at as usize);
        let span = at(id as usize).zip(at(id as usize + 1));
        span.and_then(|(from, to)| self.addresses.get(from..to)).unwrap_or_default()
    }

    /// The names of an address.
    fn of_address(&self, addr: &A) -> &[(A, Id)] {
        let from = self.names.partition_point(|(own, _)| own < addr);
        let rest = &self.names[from..];
        &rest[..rest.partition_point(|(own, _)| own == addr)]
    }

    /// How many entries there are, in both directions.
    fn entries(&self) -> usize {
        self.addresses.len() + self.names.len()
    }
}
