#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop};
use engine::metrics::{Counter, counter, describe};
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::{Answer, Name, Section, class, rcode, rtype};

use crate::shared::once;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "local", readme: include_str!("README.md"), setup };

/// The time to live of all answers, in seconds: a week (RFC 1912 §4.1).
const TTL: u32 = 604_800;

/// The name of the loopback host, in wire form.
const LOCALHOST: &[u8] = b"\x09localhost\0";

/// The zones that are served, in wire form: loopback, this network, and broadcast (RFC 1912 §4.1, RFC 6761 §6.3).
const ZONES: [&[u8]; 4] = [
    LOCALHOST,
    b"\x010\x07in-addr\x04arpa\0",
    b"\x03127\x07in-addr\x04arpa\0",
    b"\x03255\x07in-addr\x04arpa\0",
];

/// The name of 127.0.0.1, in wire form; the names between it and its zone exist without records.
const LOOPBACK: &[u8] = b"\x011\x010\x010\x03127\x07in-addr\x04arpa\0";

/// Answers what must not leave the machine.
#[derive(Debug)]
struct Local {
    /// Whether names that begin with `localhost.` are loopback too.
    prefix: bool,
    /// Queries for names below `localhost.` or with that prefix.
    hits: Counter,
}

/// The properties of the block.
static PROPS: &[Prop<bool>] = &[Prop {
    name: "localhost_prefix",
    words: "on|off",
    set: |prefix, words| words.choice(&[("on", true), ("off", false)]).map(|on| *prefix = on),
}];

/// Reads the block.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    const HITS: &str = "coredns_local_localhost_requests_total";
    let directive = once::first(setup);
    directive.no_words()?;
    let mut prefix = true;
    directive.read_block(PROPS, &mut prefix)?;
    describe(HITS, "Counter of localhost.<domain> requests.");
    setup.install(Local { prefix, hits: counter(HITS, &[]) });
    Ok(())
}

impl Plugin for Local {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        if request.class != class::IN {
            return Step::Next;
        }
        let name = &request.name;
        if self.is_loopback(name) {
            self.hits.increment(1);
            loopback(name, request.rtype, answer);
            return Step::Done;
        }
        let Some(zone) = ZONES.into_iter().find(|zone| name.below_wire(zone).is_some()) else {
            return Step::Next;
        };
        let own = name.wire();
        match request.rtype {
            _ if own == LOCALHOST && is_address(request.rtype) => {
                loopback(name, request.rtype, answer);
            }
            rtype::SOA if own == zone => soa(Section::Answer, zone, answer),
            rtype::NS if own == zone => {
                answer.push(Section::Answer, own, rtype::NS, TTL, LOCALHOST);
            }
            rtype::PTR if own == LOOPBACK => {
                answer.push(Section::Answer, own, rtype::PTR, TTL, LOCALHOST);
            }
            _ => {
                // A name with names below it exists, if without records (RFC 8020 §2).
                let exists = own == zone || LOOPBACK.ends_with(own);
                answer.rcode = if exists { rcode::NOERROR } else { rcode::NXDOMAIN };
                soa(Section::Authority, zone, answer);
            }
        }
        Step::Done
    }
}

impl Local {
    /// Whether `name` is a loopback name below `localhost.` or beginning with it, and not `localhost.` itself.
    fn is_loopback(&self, name: &Name) -> bool {
        let own = name.wire();
        own.len() > LOCALHOST.len()
            && (name.below_wire(LOCALHOST).is_some()
                || self.prefix && own.starts_with(&LOCALHOST[..10]))
    }
}

/// Whether `kind` is a type of addresses.
fn is_address(kind: u16) -> bool {
    matches!(kind, rtype::A | rtype::AAAA)
}

/// Writes the loopback address of type `kind`, or that there is none of that type.
fn loopback(name: &Name, kind: u16, answer: &mut Answer) {
    match kind {
        rtype::A => answer.a(name, TTL, std::net::Ipv4Addr::LOCALHOST),
        rtype::AAAA => answer.aaaa(name, TTL, std::net::Ipv6Addr::LOCALHOST),
        _ => soa(Section::Authority, name.wire(), answer),
    }
}

/// Writes the SOA record of `zone`.
fn soa(section: Section, zone: &[u8], answer: &mut Answer) {
    const RNAME: &[u8] = b"\x04root\x09localhost\0";
    answer.soa(section, zone, TTL, LOCALHOST, RNAME, [1, 0, 0, 0, TTL]);
}

#[cfg(test)]
mod tests;
