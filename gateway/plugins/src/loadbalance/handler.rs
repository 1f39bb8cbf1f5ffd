//! The order of an answer's records.

use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use config::value::Network;
use engine::{Carry, End, Exchange, Plugin, Step};
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use wire::{Answer, Rr, Section, rcode, rtype};

use super::weights::{Weights, weight};

/// Puts the records of positive replies into another order.
#[derive(Debug)]
pub(super) enum LoadBalance {
    /// Any order is as likely as any other, but that addresses in earlier networks come first.
    RoundRobin {
        /// The networks.
        prefer: Box<[Network]>,
    },
    /// The first address is drawn by weight.
    Weighted(Arc<Weights>),
}

/// Where a record belongs: section, rank in it, set in that, place in that.
type Place = (Section, usize, u32, u32);

/// The records of an answer with their places; 32 without allocation.
type Placed = SmallVec<[(Place, Rr); 32]>;

impl Plugin for LoadBalance {
    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        if x.end() != Some(End::Answered) || x.is_streaming() {
            return Step::Next;
        }
        let mut dice = Dice(x.random());
        let (request, answer) = x.parts_mut();
        let is_transfer = matches!(request.rtype, rtype::AXFR | rtype::IXFR);
        if answer.rcode != rcode::NOERROR || answer.records().len() < 2 || is_transfer {
            return Step::Next;
        }
        match self {
            Self::RoundRobin { prefer } => round_robin(answer, prefer, &mut dice),
            Self::Weighted(weights) => {
                if matches!(request.rtype, rtype::A | rtype::AAAA | rtype::SRV) {
                    weighted(answer, weights, &mut dice);
                }
            }
        }
        Step::Next
    }
}

/// Shuffles addresses and mail exchangers. Records of one set stay together in the additional section, where a reply
/// that is too long loses whole sets (RFC 2181 §9).
fn round_robin(answer: &mut Answer, prefer: &[Network], dice: &mut Dice) {
    let hash = FixedState::with_seed(dice.next());
    let placed = place(answer, |answer, index, rr| {
        let ranks = ranks(rr.section, prefer.len());
        match address(answer, rr) {
            Some(addr) => {
                let bounds = rr.section != Section::Authority;
                let near = prefer.iter().position(|net| bounds && net.contains(addr));
                let set = match rr.section {
                    Section::Additional => set(&hash, answer, rr),
                    _ => 0,
                };
                (ranks.addresses + near.unwrap_or(prefer.len()), set, dice.roll())
            }
            None if rr.rtype == rtype::MX => (ranks.exchangers, 0, dice.roll()),
            None if rr.rtype == rtype::CNAME => (0, 0, index),
            None => (ranks.rest, 0, index),
        }
    });
    put_back(answer, placed);
}

/// Draws one address of the answer and one of the additional section by weight, and puts it first; all others keep
/// their order.
fn weighted(answer: &mut Answer, weights: &Weights, dice: &mut Dice) {
    let table = weights.table();
    // Of all seen so far each is the chosen one with its share of their weights.
    let chosen = [Section::Answer, Section::Additional].map(|section| {
        let (mut sum, mut found) = (0u64, None);
        for (rr, index) in answer.records().iter().zip(0u32..) {
            if let Some(addr) = address(answer, rr).filter(|_| rr.section == section) {
                let own = u64::from(weight(&table, answer.owner(rr), addr));
                sum += own;
                if dice.below(sum) < own {
                    found = Some((index, *rr));
                }
            }
        }
        found
    });
    if chosen.iter().all(Option::is_none) {
        return;
    }
    let placed = place(answer, |answer, index, rr| {
        let first = match rr.section {
            Section::Answer => &chosen[0],
            Section::Additional => &chosen[1],
            Section::Authority => return (0, 0, index),
        };
        let Some((first, like)) = first else { return (0, 0, index) };
        let ranks = ranks(rr.section, 0);
        let same =
            || rr.rtype == like.rtype && answer.owner(rr).eq_ignore_ascii_case(answer.owner(like));
        match rr.rtype {
            rtype::CNAME => (0, 0, index),
            rtype::MX => (ranks.exchangers, 0, index),
            // The set of the chosen one comes first as well, so that it stays together.
            rtype::A | rtype::AAAA if index == *first => (ranks.addresses, 0, 0),
            rtype::A | rtype::AAAA if same() => (ranks.addresses, 0, index + 1),
            rtype::A | rtype::AAAA => (ranks.addresses, 1, index),
            _ => (ranks.rest, 0, index),
        }
    });
    put_back(answer, placed);
}

/// The ranks in a section, behind that of CNAME, which is 0.
struct Ranks {
    /// That of the first preferred network.
    addresses: usize,
    /// That of mail exchangers.
    exchangers: usize,
    /// That of all other types.
    rest: usize,
}

/// The ranks of a section with so many preferred networks: with some the addresses come before all other types.
fn ranks(section: Section, preferred: usize) -> Ranks {
    if preferred == 0 || section == Section::Authority {
        return Ranks { rest: 1, addresses: 2, exchangers: 3 + preferred };
    }
    Ranks { addresses: 1, exchangers: 2 + preferred, rest: 3 + preferred }
}

/// The address of an A or AAAA record.
fn address(answer: &Answer, rr: &Rr) -> Option<IpAddr> {
    let data = answer.data(rr);
    match rr.rtype {
        rtype::A => <[u8; 4]>::try_from(data).ok().map(|octets| Ipv4Addr::from(octets).into()),
        rtype::AAAA => <[u8; 16]>::try_from(data).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// A number that the records of one owner and type have in common.
fn set(hash: &FixedState, answer: &Answer, rr: &Rr) -> u32 {
    let mut hasher = hash.build_hasher();
    (answer.owner(rr), rr.rtype).hash(&mut hasher);
    std::hash::Hasher::finish(&hasher) as u32
}

/// The records with their places; `rank` gives a record's rank, set and place from its number.
fn place(answer: &Answer, mut rank: impl FnMut(&Answer, u32, &Rr) -> (usize, u32, u32)) -> Placed {
    let records = answer.records().iter().zip(0u32..);
    let placed = records.map(|(rr, index)| {
        let (rank, set, place) = rank(answer, index, rr);
        ((rr.section, rank, set, place), *rr)
    });
    placed.collect()
}

/// Puts the records back in the order of their places.
fn put_back(answer: &mut Answer, mut placed: Placed) {
    placed.sort_unstable_by_key(|(place, _)| *place);
    let slots = answer.records_mut().iter_mut();
    slots.zip(placed).for_each(|(slot, (_, rr))| *slot = rr);
}

/// A source of numbers for one reply (SplitMix64).
struct Dice(u64);

impl Dice {
    /// The next number.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    /// The next number of 32 bits.
    fn roll(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number below `limit`, which must not be 0.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}
