//! Answers about the server that is asked.

use std::net::IpAddr;
use std::sync::OnceLock;

use engine::{Exchange, Layout, Listening, Plugin, Step, Transport};
use wire::{Answer, Flags, Name, Section, class, rcode, rtype};

use super::binding::Binding;
use super::offer::{Wish, path, protocol};
use crate::shared::empty;

/// The name that means the server that is asked (RFC 9462 §4), in wire form.
pub(super) const RESOLVER: &[u8] = b"\x08resolver\x04arpa\0";

/// The name of its service bindings, in wire form.
const DNS_RESOLVER: &[u8] = b"\x04_dns\x08resolver\x04arpa\0";

/// The name that Firefox asks for before it goes elsewhere by itself, in wire form.
const CANARY: &[u8] = b"\x13use-application-dns\x03net\0";

/// The type of resolver information (RFC 9606).
const RESINFO: u16 = 261;

/// One name of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Title {
    /// The name.
    pub(super) name: Name,
    /// The same as certificates have it.
    pub(super) text: String,
    /// The name of its service bindings: `_dns` before it (RFC 9461 §3).
    pub(super) bindings: Name,
}

impl Title {
    /// The title of a server; none if the name is the root, or has no room for `_dns`.
    pub(super) fn new(name: Name) -> Option<Self> {
        let text = name.to_string().trim_end_matches('.').to_owned();
        let bindings = name.child(b"_dns").filter(|_| !name.is_root())?;
        Some(Self { name, text, bindings })
    }
}

/// What is told of the server.
#[derive(Debug)]
pub(super) struct Ddr {
    /// Its names; the first that a certificate is for is the target.
    pub(super) titles: OnceLock<Box<[Title]>>,
    /// Its addresses; empty for those that are asked.
    pub(super) addresses: Vec<IpAddr>,
    /// The transports that are told, the preferred ones first.
    pub(super) transports: Vec<Transport>,
    /// The time to live of what is told, in seconds.
    pub(super) ttl: u32,
    /// Whether private addresses need no certificate.
    pub(super) opportunistic: bool,
    /// The data of the resolver information; empty for none.
    pub(super) info: Vec<u8>,
    /// Whether Firefox is asked to stay.
    pub(super) canary: bool,
    pub(super) layout: Layout,
}

impl Plugin for Ddr {
    fn query(&self, x: &mut Exchange) -> Step {
        let (name, kind) = (&x.request().name, x.request().rtype);
        if x.request().class != class::IN {
            return Step::Next;
        }
        if name.below_wire(RESOLVER).is_some() {
            let own = name.wire();
            let (is_apex, is_bindings) = (own == RESOLVER, own == DNS_RESOLVER);
            match kind {
                rtype::SVCB if is_bindings => self.tell(x, None),
                RESINFO if is_apex => self.inform(x),
                _ => {}
            }
            return end(x, RESOLVER.len());
        }
        if let Some(title) = self.titles().iter().find(|title| name.is_below(&title.bindings)) {
            if kind == rtype::SVCB && *name == title.bindings {
                self.tell(x, Some(title));
            }
            return end(x, title.bindings.wire().len());
        }
        if kind == RESINFO && self.titles().iter().any(|title| title.name == *name) {
            self.inform(x);
            return end(x, x.request().name.wire().len());
        }
        let in_clear = matches!(x.query.transport, Transport::Udp | Transport::Tcp);
        if self.canary && in_clear && name.wire() == CANARY {
            x.answer_mut().rcode = rcode::NXDOMAIN;
            empty::soa(Section::Authority, CANARY, x.answer_mut());
            return Step::Done;
        }
        Step::Next
    }
}

impl Ddr {
    /// Writes the ways to reach the server, with its addresses: by the address that the client asks, or by a name that it knows.
    fn tell(&self, x: &mut Exchange, known: Option<&Title>) {
        let asked = Some(x.query.local.ip().to_canonical()).filter(|ip| !ip.is_unspecified());
        let (request, answer) = x.parts_mut();
        let titles = known.map_or_else(|| self.titles(), std::slice::from_ref);
        let mut priority = 0;
        for listening in self.listeners() {
            let granted = titles.iter().find_map(|title| {
                let addresses = self.wish(title, asked, known.is_none()).grant(listening).ok()?;
                Some((title, addresses))
            });
            let (Some((title, addresses)), Some((alpn, port))) =
                (granted, protocol(listening.key.transport))
            else {
                continue;
            };
            priority += 1;
            let is_doh = matches!(listening.key.transport, Transport::Https | Transport::Https3);
            let binding = Binding {
                priority,
                target: &title.name,
                alpn,
                port: Some(listening.key.port).filter(|own| *own != port),
                addresses: &addresses,
                path: path(listening).filter(|_| is_doh),
            };
            let data = binding.data();
            answer.push(Section::Answer, request.name.wire(), rtype::SVCB, self.ttl, &data);
            for addr in addresses {
                add_address(answer, &title.name, self.ttl, addr);
            }
        }
    }

    /// Its names.
    pub(super) fn titles(&self) -> &[Title] {
        self.titles.get().map(|all| &**all).unwrap_or_default()
    }

    /// The listeners that may be told, the preferred ones first.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &Listening> {
        let of = |transport: &Transport| {
            let transport = *transport;
            let all = self.layout.listeners().iter();
            all.filter(move |listening| listening.key.transport == transport)
        };
        self.transports.iter().flat_map(of)
    }

    /// What is asked of a listener.
    pub(super) fn wish<'a>(
        &'a self,
        title: &'a Title,
        asked: Option<IpAddr>,
        by_address: bool,
    ) -> Wish<'a> {
        Wish {
            name: &title.text,
            told: &self.addresses,
            asked,
            by_address,
            opportunistic: self.opportunistic,
        }
    }

    /// Writes the resolver information, if there is any.
    fn inform(&self, x: &mut Exchange) {
        if !self.info.is_empty() {
            let (request, answer) = x.parts_mut();
            answer.push(Section::Answer, request.name.wire(), RESINFO, self.ttl, &self.info);
        }
    }
}

/// Ends an answer of ours: what has no records is there without any, whatever its name, as far as `resolver.arpa.` goes (RFC 9462
/// §6.4). `len` is the length of the zone.
fn end(x: &mut Exchange, len: usize) -> Step {
    let (request, answer) = x.parts_mut();
    if answer.records().is_empty() {
        let own = request.name.wire();
        let zone = own.len().checked_sub(len).and_then(|at| own.get(at..)).unwrap_or(own);
        empty::answer(zone, zone == RESOLVER, request, answer);
    }
    answer.flags.set(Flags::AA, true);
    Step::Done
}

/// Adds an address of the server to the additional section, once.
fn add_address(answer: &mut Answer, name: &Name, ttl: u32, addr: IpAddr) {
    let octets: smallvec::SmallVec<[u8; 16]> = match addr {
        IpAddr::V4(addr) => addr.octets().as_slice().into(),
        IpAddr::V6(addr) => addr.octets().as_slice().into(),
    };
    let is_same = |rr: &wire::Rr| answer.data(rr) == &*octets && answer.owner(rr) == name.wire();
    if !answer.section(Section::Additional).any(is_same) {
        answer.address(Section::Additional, name.wire(), ttl, addr);
    }
}
