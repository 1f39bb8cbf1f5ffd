//! An answer under construction.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::edns::Options;
use crate::header::{Flags, class, rtype};
use crate::name::Name;

/// The section a record stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Records which answer the question.
    Answer,
    /// The authority section.
    Authority,
    /// The additional section.
    Additional,
}

/// Where a run of bytes lies in an [`Answer`]'s arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    at: u32,
    len: u16,
}

/// One record of an [`Answer`]: numbers inline, names and data in the arena.
#[derive(Clone, Copy, Debug)]
pub struct Rr {
    /// The section it stands in.
    pub section: Section,
    /// Its type.
    pub rtype: u16,
    /// Its class.
    pub class: u16,
    /// Its time to live, in seconds.
    pub ttl: u32,
    pub(crate) owner: Span,
    pub(crate) data: Span,
}

/// An answer under construction: a record index over one arena of uncompressed bytes.
///
/// Reordering, dropping and ageing records touch only the index, so response-phase plugins copy nothing. Clearing
/// keeps the capacity, so a reused answer allocates nothing. Owners keep the case they were given; comparisons
/// ignore ASCII case (RFC 4343). The OPT record is no record here: [`crate::encode`] makes it from `options`.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The response code, 12 bits (RFC 6891 §6.1.3).
    pub rcode: u16,
    /// AA, TC, RD, RA, AD and CD of the reply; QR and the opcode are the encoder's.
    pub flags: Flags,
    /// Options for the reply's OPT record, which it has if the query had one.
    pub options: Options,
    /// Whether this was read from a message with an OPT record; not copied with the answer.
    pub edns: bool,
    index: Vec<Rr>,
    arena: Vec<u8>,
}

impl Answer {
    /// Forgets every record, option and flag but RD and CD, which echo the query's, and keeps the memory.
    pub fn clear(&mut self) {
        self.rcode = 0;
        self.flags = self.flags.only(Flags::RD.with(Flags::CD));
        self.options.clear();
        self.edns = false;
        self.clear_records();
    }

    /// Forgets every record and nothing else.
    pub fn clear_records(&mut self) {
        self.index.clear();
        self.arena.clear();
    }

    /// Whether the AA bit is set.
    pub fn is_authoritative(&self) -> bool {
        self.flags.has(Flags::AA)
    }

    /// Sets or clears the AA bit.
    pub fn set_authoritative(&mut self, on: bool) {
        self.flags.set(Flags::AA, on);
    }

    /// Adds an `A` record to the answer section.
    pub fn a(&mut self, owner: &Name, ttl: u32, addr: Ipv4Addr) {
        self.push(Section::Answer, owner.wire(), rtype::A, ttl, &addr.octets());
    }

    /// Adds an `AAAA` record to the answer section.
    pub fn aaaa(&mut self, owner: &Name, ttl: u32, addr: Ipv6Addr) {
        self.push(Section::Answer, owner.wire(), rtype::AAAA, ttl, &addr.octets());
    }

    /// Adds an `A` or `AAAA` record to `section`.
    pub fn address(&mut self, section: Section, owner: &[u8], ttl: u32, addr: IpAddr) {
        match addr {
            IpAddr::V4(addr) => self.push(section, owner, rtype::A, ttl, &addr.octets()),
            IpAddr::V6(addr) => self.push(section, owner, rtype::AAAA, ttl, &addr.octets()),
        }
    }

    /// Adds a record of class IN. Records of one owner in a row share its bytes.
    pub fn push(&mut self, section: Section, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) {
        self.push_class(section, owner, class::IN, rtype, ttl, &[data]);
    }

    /// Adds a record of class IN whose data is given in pieces, so that nobody has to join them.
    pub fn push_parts(
        &mut self,
        section: Section,
        owner: &[u8],
        rtype: u16,
        ttl: u32,
        data: &[&[u8]],
    ) {
        self.push_class(section, owner, class::IN, rtype, ttl, data);
    }

    /// Adds a record of any class. Data over 65,535 octets leaves the record out.
    pub fn push_class(
        &mut self,
        section: Section,
        owner: &[u8],
        class: u16,
        rtype: u16,
        ttl: u32,
        data: &[&[u8]],
    ) {
        let parts = |arena: &mut Vec<u8>| {
            data.iter().for_each(|part| arena.extend_from_slice(part));
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = self.push_with(section, owner, class, rtype, ttl, parts);
    }

    /// Adds a record whose data `fill` appends, and nothing if that fails. Data over 65,535 octets leaves the record out.
    pub(crate) fn push_with<E>(
        &mut self,
        section: Section,
        owner: &[u8],
        class: u16,
        rtype: u16,
        ttl: u32,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.arena.len();
        let last = self.index.last().map(|rr| rr.owner);
        let owner = match last {
            Some(span) if self.bytes(span) == owner => span,
            _ => self.store(owner),
        };
        let at = self.arena.len();
        let filled = fill(&mut self.arena);
        let len = u16::try_from(self.arena.len() - at);
        match (&filled, u32::try_from(at), len) {
            (Ok(()), Ok(at), Ok(len)) => {
                self.index.push(Rr { section, rtype, class, ttl, owner, data: Span { at, len } });
            }
            _ => self.arena.truncate(before),
        }
        filled
    }

    /// Adds an `SRV` record (RFC 2782).
    pub fn srv(&mut self, owner: &Name, ttl: u32, numbers: Srv, target: &[u8]) {
        let numbers = [numbers.priority, numbers.weight, numbers.port].map(u16::to_be_bytes);
        self.push_parts(
            Section::Answer,
            owner.wire(),
            rtype::SRV,
            ttl,
            &[numbers.as_flattened(), target],
        );
    }

    /// Adds an `SOA` record to `section` (RFC 1035 §3.3.13); the last parameter is serial, refresh, retry, expire
    /// and minimum.
    pub fn soa(
        &mut self,
        section: Section,
        owner: &[u8],
        ttl: u32,
        mname: &[u8],
        rname: &[u8],
        numbers: [u32; 5],
    ) {
        let numbers = numbers.map(u32::to_be_bytes);
        self.push_parts(section, owner, rtype::SOA, ttl, &[mname, rname, numbers.as_flattened()]);
    }

    /// Adds a `TXT` record to the answer section, split into strings of at most 255 octets (RFC 1035 §3.3.14).
    pub fn txt(&mut self, owner: &Name, class: u16, ttl: u32, text: &[u8]) {
        let mut data = [0u8; 1024];
        let mut len = 0;
        let mut put = |chunk: &[u8]| {
            if let (Ok(n), Some(slot)) =
                (u8::try_from(chunk.len()), data.get_mut(len..=len + chunk.len()))
            {
                slot[0] = n;
                slot[1..].copy_from_slice(chunk);
                len += 1 + chunk.len();
            }
        };
        if text.is_empty() {
            put(&[]);
        }
        text.chunks(255).for_each(put);
        self.push_class(Section::Answer, owner.wire(), class, rtype::TXT, ttl, &[&data[..len]]);
    }

    /// Gives the records owned by `from` to `to`, in all sections.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        let target = self.store(to);
        for at in 0..self.index.len() {
            if self.bytes(self.index[at].owner).eq_ignore_ascii_case(from) {
                self.index[at].owner = target;
            }
        }
    }

    /// Gives the record at `index` another owner.
    pub fn set_owner(&mut self, index: usize, owner: &[u8]) {
        let span = self.store(owner);
        if let Some(rr) = self.index.get_mut(index) {
            rr.owner = span;
        }
    }

    /// Gives the record at `index` other data; over 65,535 octets nothing changes.
    pub fn set_data(&mut self, index: usize, data: &[u8]) {
        if u16::try_from(data.len()).is_err() {
            return;
        }
        let span = self.store(data);
        if let Some(rr) = self.index.get_mut(index) {
            rr.data = span;
        }
    }

    /// Replaces this answer by a copy of `other`, within the memory already held; RD and CD stay those of the
    /// query.
    pub fn copy_from(&mut self, other: &Self) {
        let echoed = Flags::RD.with(Flags::CD);
        self.rcode = other.rcode;
        self.flags = Flags(other.flags.0 & !echoed.0 | self.flags.0 & echoed.0);
        self.options.copy_from(&other.options);
        self.edns = false;
        self.index.clear();
        self.index.extend_from_slice(&other.index);
        self.arena.clear();
        self.arena.extend_from_slice(&other.arena);
    }

    /// Appends the records of `other`'s section `from` to this answer's section `to`.
    pub fn graft(&mut self, other: &Self, from: Section, to: Section) {
        for rr in other.index.iter().filter(|rr| rr.section == from) {
            let (owner, data) = (other.bytes(rr.owner), other.bytes(rr.data));
            self.push_class(to, owner, rr.class, rr.rtype, rr.ttl, &[data]);
        }
    }

    /// The record index.
    pub fn records(&self) -> &[Rr] {
        &self.index
    }

    /// The records of one section.
    pub fn section(&self, section: Section) -> impl Iterator<Item = &Rr> {
        self.index.iter().filter(move |rr| rr.section == section)
    }

    /// The record index, to reorder or to age.
    pub fn records_mut(&mut self) -> &mut [Rr] {
        &mut self.index
    }

    /// Keeps the records `keep` says yes to.
    pub fn retain(&mut self, keep: impl FnMut(&Rr) -> bool) {
        self.index.retain(keep);
    }

    /// The owner of a record of this answer, as an uncompressed wire name.
    pub fn owner(&self, rr: &Rr) -> &[u8] {
        self.bytes(rr.owner)
    }

    /// The data of a record of this answer, names in it uncompressed.
    pub fn data(&self, rr: &Rr) -> &[u8] {
        self.bytes(rr.data)
    }

    /// The octets of a message with these records and a question of `question_len` octets, names uncompressed and nothing
    /// left out. An OPT record counts if there are options for it or the answer was read with one.
    pub fn message_len(&self, question_len: usize) -> usize {
        let records = self.index.iter();
        let records = records.map(|rr| usize::from(rr.owner.len) + 10 + usize::from(rr.data.len));
        let opt = if self.edns || !self.options.is_empty() { 11 } else { 0 };
        12 + question_len + records.sum::<usize>() + opt + self.options.wire().len()
    }

    /// The octets that the records and their names take in memory: what a cached copy costs.
    pub fn footprint(&self) -> usize {
        self.arena.len() + self.index.len() * size_of::<Rr>() + self.options.wire().len()
    }

    /// Gives back memory that is not used: before an answer is kept.
    pub fn shrink(&mut self) {
        self.index.shrink_to_fit();
        self.arena.shrink_to_fit();
    }

    /// Keeps `bytes` in the arena; more than 65,535 are cut, which names and checked data never are.
    fn store(&mut self, bytes: &[u8]) -> Span {
        let at = u32::try_from(self.arena.len()).unwrap_or(u32::MAX);
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.arena.extend_from_slice(&bytes[..usize::from(len)]);
        Span { at, len }
    }

    /// The bytes of a span.
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        self.arena
            .get(span.at as usize..)
            .and_then(|rest| rest.get(..usize::from(span.len)))
            .unwrap_or_default()
    }
}

/// The numbers of an SRV record (RFC 2782).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Srv {
    /// The priority; lower is tried first.
    pub priority: u16,
    /// The weight among equals.
    pub weight: u16,
    /// The port.
    pub port: u16,
}
