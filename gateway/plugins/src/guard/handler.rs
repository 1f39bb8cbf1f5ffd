//! What stands before a plugin that asks others.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use engine::metrics::Counter;
use engine::{Carry, End, Exchange, Fault, Plugin, Reach, Routes, Step};
use smallvec::SmallVec;
use wire::{Flags, Options, Section, class, option, rcode, rtype};

use super::address;
use super::zones::{Reason, Rule, Zones, is_arpa};
use crate::shared::empty;

/// The client's subnet was taken off.
const SUBNET: Carry = Carry(1);

/// The answer's addresses have to be looked at.
const ADDRESSES: Carry = Carry(2);

/// A public name with a private address (EDE 15, Blocked).
const REBINDING: Fault = Fault {
    rcode: rcode::REFUSED,
    ede: Some(15),
    why: "a public name has a private address, which is refused against DNS rebinding",
};

/// What a denial of a private name says to people (EDE 0, Other Error).
const PRIVATE: &str = "the name is private, and is not looked up outside";

/// The name of the loopback host, in wire form.
const LOCALHOST: &[u8] = b"\x09localhost\0";

/// The name that means the server that is asked, in wire form.
const RESOLVER: &[u8] = b"\x08resolver\x04arpa\0";

/// What a block's guard does.
#[derive(Debug)]
pub(super) struct Duty {
    /// The zones with a rule; there from the first query on.
    pub(super) zones: OnceLock<Zones>,
    /// Whether the client's subnet is taken off.
    pub(super) subnet: bool,
    /// Whether private addresses are refused.
    pub(super) addresses: bool,
    pub(super) counts: Counts,
}

/// What was kept in, by reason.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) name: Counter,
    pub(super) own: Counter,
    pub(super) reverse: Counter,
    pub(super) address: Counter,
    pub(super) additional: Counter,
    pub(super) subnet: Counter,
}

/// Stands before one plugin that asks others for all names.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) duty: Arc<Duty>,
    pub(super) reach: Reach,
    pub(super) routes: Routes,
}

impl Plugin for Guard {
    fn query(&self, x: &mut Exchange) -> Step {
        if !self.meets(x) {
            return Step::Next;
        }
        let zones = self.duty.zones.get();
        let found = zones.and_then(|zones| zones.find(&x.request().name));
        let kept = match found {
            Some((zone, Rule::Keep(reason))) if !is_for_parent(x, zone) => {
                Some((zone.len(), reason))
            }
            _ => None,
        };
        let is_public = found.is_none();
        if let Some((len, reason)) = kept {
            return self.keep(x, len, reason);
        }
        let mut carry = 0;
        if self.duty.subnet && has_subnet(x) {
            self.take_off_subnet(x);
            carry |= SUBNET.0;
        }
        if self.duty.addresses && is_public {
            carry |= ADDRESSES.0;
        }
        if carry == 0 { Step::Next } else { Step::Wrap(Carry(carry)) }
    }

    fn answer(&self, x: &mut Exchange, Carry(carry): Carry) -> Step {
        if carry & SUBNET.0 != 0 {
            x.put_back();
            // Nobody was told of the subnet, so no answer is for it (RFC 7871 §7.2.1).
            x.answer_mut().options.remove(option::SUBNET);
        }
        if carry & ADDRESSES.0 == 0 || x.end() != Some(End::Answered) {
            return Step::Next;
        }
        if let Some((rr, addr)) = address::private(x.answer(), Section::Answer) {
            self.duty.counts.address.increment(1);
            let owner = wire::text::name_text(x.answer().owner(rr));
            return x.fail(REBINDING, format_args!("{owner} has the private address {addr}"));
        }
        if address::private(x.answer(), Section::Additional).is_some() {
            self.duty.counts.additional.increment(1);
            x.answer_mut().retain(|rr| rr.section != Section::Additional);
        }
        Step::Next
    }
}

impl Guard {
    /// Whether the query is about to leave for all the world: by a plugin that takes its name, in a block that takes all names.
    /// A block or a plugin for one zone is a stub zone, and where its names go is written there.
    fn meets(&self, x: &Exchange) -> bool {
        self.reach.takes(&x.request().name)
            && self.routes.of(x).is_some_and(|route| route.zone == ".")
    }

    /// Answers for a name that stays here; `len` is the length of its zone.
    fn keep(&self, x: &mut Exchange, len: usize, reason: Reason) -> Step {
        let counts = &self.duty.counts;
        match reason {
            Reason::Name => &counts.name,
            Reason::Own => &counts.own,
            Reason::Reverse => &counts.reverse,
        }
        .increment(1);
        let (request, answer) = x.parts_mut();
        if request.class != class::IN {
            return Step::Fail(Fault::CLASS);
        }
        let own = request.name.wire();
        let zone = own.len().checked_sub(len).and_then(|at| own.get(at..)).unwrap_or(own);
        // The answers stand for those of an upstream.
        answer.flags.set(Flags::RA, true);
        match request.rtype {
            rtype::A if zone == LOCALHOST => {
                answer.a(&request.name, empty::TTL, Ipv4Addr::LOCALHOST);
            }
            rtype::AAAA if zone == LOCALHOST => {
                answer.aaaa(&request.name, empty::TTL, Ipv6Addr::LOCALHOST);
            }
            _ => {
                let is_full = zone == LOCALHOST || zone == RESOLVER;
                empty::answer(zone, is_full, request, answer);
                if answer.rcode == rcode::NXDOMAIN {
                    answer.options.push_ede(0, PRIVATE);
                }
            }
        }
        Step::Done
    }

    /// Takes the client's own subnet off the query; one that a plugin has put in its place goes on.
    fn take_off_subnet(&self, x: &mut Exchange) {
        self.duty.counts.subnet.increment(1);
        x.keep();
        let mut clients: SmallVec<[SmallVec<[u8; 20]>; 1]> =
            subnets(x.client_options()).map(SmallVec::from_slice).collect();
        // A message has room for ten thousand.
        clients.sort_unstable();
        x.request_mut().edns.options.retain(|code, data| {
            code != option::SUBNET || clients.binary_search_by(|own| (**own).cmp(data)).is_err()
        });
    }
}

/// The data of the subnet options in a list.
fn subnets(options: &[u8]) -> impl Iterator<Item = &[u8]> {
    Options::each(options).filter(|(code, _)| *code == option::SUBNET).map(|(_, data)| data)
}

/// Whether the query has a subnet that the client itself has sent.
fn has_subnet(x: &Exchange) -> bool {
    let own = x.request().edns.options.wire();
    subnets(own).any(|data| subnets(x.client_options()).any(|clients| clients == data))
}

/// Whether the query is for what the zone above says of a zone: that it is not signed (RFC 8375 §4, RFC 6303 §5). It tells nothing
/// of the names below.
fn is_for_parent(x: &Exchange, zone: &[u8]) -> bool {
    let request = x.request();
    request.rtype == rtype::DS
        && request.name.wire() == zone
        && zone != RESOLVER
        && is_arpa(&request.name)
}
