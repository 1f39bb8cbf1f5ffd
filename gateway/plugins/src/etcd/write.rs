//! From records to answers.

use std::collections::HashMap;

use wire::{Answer, Name, Section, Srv, rtype};

use super::key::Path;
use super::record::{Host, Record};
use crate::shared::sheet::Sheet;

/// The weight that a record counts as where none is stated.
const WEIGHT: u32 = 100;

/// What an answer still needs.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one query")]
pub(super) enum Written {
    /// Nothing.
    Whole,
    /// What this name stands for.
    Alias(Name),
    /// The addresses of targets that have a name.
    Targets,
}

/// A server of a zone that is a name, which nobody could ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAddress;

/// Writes the records of a type that `records` make for a name, which may be that of its zone.
///
/// # Errors
/// If a name server has no address.
pub(super) fn write(
    records: &[Record],
    path: &Path,
    name: &Name,
    rtype: u16,
    is_zone: bool,
    answer: &mut Answer,
) -> Result<Written, NoAddress> {
    let mut sheet = Sheet::new(answer, 0);
    let pen = Pen { path, name, rtype };
    match rtype {
        rtype::NS if is_zone => pen.servers(records, &mut sheet).map(|()| Written::Whole),
        rtype::SRV => Ok(pen.services(records, &mut sheet)),
        rtype::MX => Ok(pen.mail(records, &mut sheet)),
        rtype::PTR => {
            pen.pointers(records, &mut sheet);
            Ok(Written::Whole)
        }
        _ => Ok(pen.own(records, &mut sheet)),
    }
}

/// Writes the records of one name and type.
struct Pen<'w> {
    /// Where keys are.
    path: &'w Path,
    /// The name.
    name: &'w Name,
    /// The type.
    rtype: u16,
}

impl Pen<'_> {
    /// Writes addresses and texts, or what the name is an alias of if it has neither.
    fn own(&self, records: &[Record], sheet: &mut Sheet<'_>) -> Written {
        let owner = self.name.wire();
        for record in records {
            sheet.set_ttl(record.ttl);
            match (self.rtype, &record.host) {
                (rtype::A, Host::Ip(ip @ std::net::IpAddr::V4(_)))
                | (rtype::AAAA, Host::Ip(ip @ std::net::IpAddr::V6(_))) => {
                    sheet.address(Section::Answer, owner, *ip);
                }
                (rtype::TXT, _) if !record.text.is_empty() => {
                    sheet.add(Section::Answer, owner, rtype::TXT, &strings(&record.text));
                }
                _ => {}
            }
        }
        // A name that is an alias has nothing else, and one target (RFC 1034 §3.6.2, RFC 2181 §10.1).
        let mut others = records
            .iter()
            .filter(|record| !record.text.is_empty() || matches!(record.host, Host::Ip(_)));
        if sheet.is_answered() || others.next().is_some() {
            return Written::Whole;
        }
        // What leads to the name itself, or to one whose records are its own, says nothing.
        let alias = records.iter().find_map(|record| match &record.host {
            Host::Name(target) if !target.is_below(self.name) => Some((record.ttl, target)),
            _ => None,
        });
        let Some((ttl, target)) = alias else { return Written::Whole };
        sheet.set_ttl(ttl);
        sheet.add(Section::Answer, owner, rtype::CNAME, target.wire());
        match self.rtype {
            rtype::CNAME | rtype::ANY => Written::Whole,
            _ => Written::Alias(Name::clone(target)),
        }
    }

    /// Writes the names that an address has.
    fn pointers(&self, records: &[Record], sheet: &mut Sheet<'_>) {
        for record in records {
            if let Host::Name(target) = &record.host {
                sheet.set_ttl(record.ttl);
                sheet.add(Section::Answer, self.name.wire(), rtype::PTR, target.wire());
            }
        }
    }

    /// Writes SRV records; those of a priority share its weight (RFC 2782).
    fn services(&self, records: &[Record], sheet: &mut Sheet<'_>) -> Written {
        let own =
            |record: &Record| u64::from(if record.weight == 0 { WEIGHT } else { record.weight });
        let leads = |record: &&Record| record.host != Host::None;
        let mut sums: HashMap<u16, u64> = HashMap::new();
        for record in records.iter().filter(leads) {
            *sums.entry(record.priority).or_default() += own(record);
        }
        let mut named = false;
        for record in records.iter().filter(leads) {
            let Some(target) = record.target(self.path) else { continue };
            let sum = sums.get(&record.priority).copied().unwrap_or(1).max(1);
            let weight = u16::try_from(100 * own(record) / sum).unwrap_or(100).max(1);
            let numbers = Srv { priority: record.priority, weight, port: record.port };
            sheet.set_ttl(record.ttl);
            sheet.srv(self.name.wire(), numbers, target.wire());
            named |= glue(record, &target, sheet);
        }
        if named { Written::Targets } else { Written::Whole }
    }

    /// Writes MX records.
    fn mail(&self, records: &[Record], sheet: &mut Sheet<'_>) -> Written {
        let mut named = false;
        for record in records.iter().filter(|record| record.mail) {
            let Some(target) = record.target(self.path) else { continue };
            let data = [&record.priority.to_be_bytes()[..], target.wire()].concat();
            sheet.set_ttl(record.ttl);
            sheet.add(Section::Answer, self.name.wire(), rtype::MX, &data);
            named |= glue(record, &target, sheet);
        }
        if named { Written::Targets } else { Written::Whole }
    }

    /// Writes the zone's servers, which are named by their keys.
    fn servers(&self, records: &[Record], sheet: &mut Sheet<'_>) -> Result<(), NoAddress> {
        for record in records {
            let server = match &record.host {
                Host::Ip(_) => self.path.name(&record.key),
                Host::Name(_) => return Err(NoAddress),
                Host::None => None,
            };
            if let Some(server) = server {
                sheet.set_ttl(record.ttl);
                sheet.add(Section::Answer, self.name.wire(), rtype::NS, server.wire());
                glue(record, &server, sheet);
            }
        }
        Ok(())
    }
}

/// Writes a target's address; tells whether it has to be looked up instead.
fn glue(record: &Record, target: &Name, sheet: &mut Sheet<'_>) -> bool {
    match record.host {
        Host::Ip(ip) => sheet.address(Section::Additional, target.wire(), ip),
        Host::Name(_) => return true,
        Host::None => {}
    }
    false
}

/// A text as the data of a TXT record: strings of at most 255 octets (RFC 1035 §3.3.14).
fn strings(text: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(text.len() + 1 + text.len() / 255);
    for chunk in text.as_bytes().chunks(255) {
        // A chunk has 255 octets at most.
        data.push(chunk.len() as u8);
        data.extend_from_slice(chunk);
    }
    data
}
