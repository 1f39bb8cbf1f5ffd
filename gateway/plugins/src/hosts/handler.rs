//! Answers from the table.

use std::sync::Arc;

use engine::{Exchange, Plugin, Step};
use wire::{Answer, Name, Section, class, rcode, rtype};

use super::source::Source;
use super::table::Table;
use crate::shared::fall::Fall;
use crate::shared::reverse;
use crate::shared::zones::Zones;

/// Answers A, AAAA and PTR from a hosts file.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) source: Arc<Source>,
    /// The zones of the names.
    pub(super) zones: Zones,
    /// Which unknown names go on.
    pub(super) fall: Fall,
    /// Whether other types of known names go on with them.
    pub(super) unsupported: bool,
    /// The time to live of the answers, in seconds.
    pub(super) ttl: u32,
}

impl Plugin for Hosts {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        let (name, kind) = (&request.name, request.rtype);
        if request.class != class::IN {
            return Step::Next;
        }
        let table = self.source.table();
        // The names of addresses may lie outside the zones.
        if kind == rtype::PTR && self.pointers(&table, name, answer) {
            answer.set_authoritative(true);
            return Step::Done;
        }
        if !self.zones.has(name) {
            return Step::Next;
        }
        let Some(id) = find(&table, name) else {
            if kind == rtype::PTR || self.fall.through(name) {
                return Step::Next;
            }
            // A denial needs an SOA record, which a hosts file does not have.
            answer.rcode = rcode::SERVFAIL;
            return Step::Done;
        };
        match kind {
            rtype::A => table.four(id).iter().for_each(|addr| answer.a(name, self.ttl, *addr)),
            rtype::AAAA => table.six(id).iter().for_each(|addr| answer.aaaa(name, self.ttl, *addr)),
            rtype::PTR => {}
            _ if self.unsupported && self.fall.through(name) => return Step::Next,
            _ => {}
        }
        answer.set_authoritative(true);
        Step::Done
    }
}

impl Hosts {
    /// Writes the names of the address that `name` stands for; whether there are any.
    fn pointers(&self, table: &Table, name: &Name, answer: &mut Answer) -> bool {
        let Some(addr) = reverse::address(name) else { return false };
        for target in table.names(addr) {
            answer.push(Section::Answer, name.wire(), rtype::PTR, self.ttl, target);
        }
        !answer.records().is_empty()
    }
}

/// The entry of a name: its own, or that of the wildcard beside it.
fn find(table: &Table, name: &Name) -> Option<u32> {
    table.find(name.wire()).or_else(|| {
        let parent = name.suffixes().nth(1)?;
        table.find(Name::join(b"\x01*", parent)?.wire())
    })
}
