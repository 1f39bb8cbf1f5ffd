//! What a zone says of a name (RFC 1034 §4.3.2, RFC 4592, RFC 6672).

use wire::{Answer, Name, Section, rcode, rtype};

use crate::order::{is_below, parent};
use crate::zone::{APEX, NONE, Node, Set, Zone};

/// How many other names may lead to one another.
const MAX_ALIASES: usize = 16;
/// Of how many targets of an answer the addresses are added.
const MAX_TARGETS: usize = 128;
/// The proofs of an answer: one for each wildcard on the way, and two for a name that is not there.
const MAX_PROOFS: usize = MAX_ALIASES + 3;

/// How a look-up ended. What is said of records, response code and AA stands in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one query")]
pub enum Found {
    /// There are such records.
    Records,
    /// The name is there and has no such records.
    NoData,
    /// The name has no records at all and stands above others.
    Hollow,
    /// The name is not there.
    NoName,
    /// The name belongs to a zone below, whose servers are told.
    Referral,
    /// The name is another one for this one, outside of the zone.
    Elsewhere(Name),
    /// The name that this one stands for would be too long (RFC 6672 §2.2).
    TooLong,
    /// Names that stand for one another in a circle, or too many in a row.
    Circle,
}

/// The end of a look-up.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How it ended.
    pub found: Found,
    /// The name of the zone that the one asked for led to, of which it is said how the look-up ended; none if it led nowhere.
    pub alias: Option<Name>,
    /// The node of the wildcard that the last records came from.
    wildcard: Option<u32>,
}

/// A look-up under way.
pub(crate) struct Run<'z, 'a> {
    pub(crate) zone: &'z Zone,
    pub(crate) answer: &'a mut Answer,
    rtype: u16,
    /// Whether signatures and proofs are wanted.
    pub(crate) dnssec: bool,
    /// Whether a referral has DS records: an unsigned zone has some if it is signed on its way to the client.
    secures: bool,
    aliased: bool,
    wildcard: Option<u32>,
    /// The proofs written, each once.
    pub(crate) proofs: [u32; MAX_PROOFS],
}

/// What a name leads to.
enum Next {
    /// The end.
    Done(Found),
    /// Another name.
    Alias(Name),
}

impl Zone {
    /// Looks up a name at or below the apex, and writes what there is into the cleared `answer`: the records with those that go
    /// with them, the response code, and AA. With `dnssec` a signed zone adds signatures and proofs (RFC 4035 §3.1).
    pub fn look_up(&self, name: &Name, rtype: u16, dnssec: bool, answer: &mut Answer) -> Finding {
        let mut run = Run {
            zone: self,
            answer,
            rtype,
            dnssec: dnssec && self.is_signed(),
            secures: dnssec,
            aliased: false,
            wildcard: None,
            proofs: [NONE; MAX_PROOFS],
        };
        let (found, alias) = run.all(name);
        Finding { found, alias, wildcard: run.wildcard }
    }

    /// The name of the wildcard that a look-up used last.
    pub fn wildcard(&self, finding: &Finding) -> Option<Name> {
        finding.wildcard.map(|number| self.owner(number))
    }

    /// Writes the SOA record into the authority section, with its signatures if `dnssec`.
    pub fn write_soa(&self, dnssec: bool, answer: &mut Answer) {
        self.write_apex(rtype::SOA, dnssec, answer);
    }

    /// Writes records of the apex into the authority section.
    fn write_apex(&self, kind: u16, dnssec: bool, answer: &mut Answer) {
        let owner = self.apex.wire();
        let signatures = dnssec.then(|| self.signatures(APEX, kind)).flatten();
        for set in self.set(APEX, kind).into_iter().chain(signatures) {
            self.write(set, Section::Authority, owner, answer);
        }
    }

    /// Writes a set.
    fn write(&self, set: &Set, section: Section, owner: &[u8], answer: &mut Answer) {
        for data in self.data_of(set) {
            answer.push(section, owner, set.rtype, set.ttl, data);
        }
    }

    /// The node with these labels, or else the one nearest above it (RFC 4592 §3.3.1); and whether it is the name's own.
    fn closest<'l>(&self, labels: &'l [u8]) -> (u32, &'l [u8], bool) {
        let deep = crate::order::depth(labels).saturating_sub(self.depth);
        let names = std::iter::successors(Some(labels), |run| parent(run));
        for run in names.skip(deep) {
            if let Some(number) = self.find(run) {
                return (number, run, run.len() == labels.len());
            }
        }
        (APEX, &[], labels.is_empty())
    }
}

impl Run<'_, '_> {
    /// Looks a name up, and those that it leads to; gives the last of these.
    fn all(&mut self, name: &Name) -> (Found, Option<Name>) {
        let mut target: Option<Name> = None;
        for _ in 0..=MAX_ALIASES {
            let here = target.as_ref().unwrap_or(name);
            let Some(labels) = here.below(&self.zone.apex) else { break };
            match self.step(here, labels) {
                Next::Done(found) => return (found, target),
                Next::Alias(next) if next == *here => break,
                Next::Alias(next) => {
                    self.aliased = true;
                    if !next.is_below(&self.zone.apex) {
                        self.close();
                        return (Found::Elsewhere(next), target);
                    }
                    target = Some(next);
                }
            }
        }
        (Found::Circle, None)
    }

    /// What a name has or leads to. `labels` are those below the apex.
    fn step(&mut self, name: &Name, labels: &[u8]) -> Next {
        let zone = self.zone;
        let (number, run, exact) = zone.closest(labels);
        let Some(node) = zone.node(number) else { return Next::Done(Found::NoName) };
        if let Some(cover) = zone.node(node.cover) {
            let at_cut = exact && node.cover == number;
            if !cover.has(Node::CUT) {
                return self.redirect(name, node.cover);
            }
            // The DS records of a zone are its parent's (RFC 4035 §3.1.4.1), and so is the NSEC record there.
            if !(at_cut && self.rtype == rtype::DS) {
                return Next::Done(self.referral(node.cover));
            }
            return self.own(number, name, false, labels);
        }
        if exact {
            return self.own(number, name, false, labels);
        }
        if node.has(Node::DNAME) {
            return self.redirect(name, number);
        }
        if let Some(wild) = node.has(Node::WILD).then(|| self.wildcard_of(run)).flatten() {
            self.wildcard = Some(wild);
            return self.own(wild, name, true, labels);
        }
        self.answer.set_authoritative(true);
        self.answer.rcode = rcode::NXDOMAIN;
        zone.write_soa(self.dnssec, self.answer);
        self.prove_absence(labels);
        self.prove_no_wildcard(run);
        Next::Done(Found::NoName)
    }

    /// The node of the wildcard right below a name.
    fn wildcard_of(&self, run: &[u8]) -> Option<u32> {
        let mut labels = [0; 256];
        let len = crate::proof::wildcard(run, &mut labels)?;
        self.zone.find(labels.get(..len)?)
    }

    /// What a node has for `name`, which is its own or one that its wildcard stands for.
    fn own(&mut self, number: u32, name: &Name, wild: bool, labels: &[u8]) -> Next {
        let zone = self.zone;
        let answer = &mut *self.answer;
        answer.set_authoritative(true);
        let Some(node) = zone.node(number) else { return Next::Done(Found::NoName) };
        let at_apex = number == APEX && matches!(self.rtype, rtype::SOA | rtype::NS);
        let asks_alias =
            matches!(self.rtype, rtype::CNAME | rtype::NSEC | rtype::RRSIG | rtype::ANY);
        let alias = zone.set(number, rtype::CNAME).filter(|_| !at_apex && !asks_alias);
        if let Some(set) = alias
            && let Some(data) = zone.data_of(set).next()
            && let Some((target, _)) = Name::read(data)
        {
            answer.push(Section::Answer, name.wire(), rtype::CNAME, set.ttl, data);
            self.sign(number, rtype::CNAME, Section::Answer, name.wire());
            if wild {
                self.prove_absence(labels);
            }
            return Next::Alias(target);
        }
        let sets = zone.sets_of(node);
        let written = match self.rtype {
            // One set is enough, and a small one does not amplify (RFC 8482 §4.1).
            rtype::ANY => {
                let own =
                    sets.iter().filter(|set| !matches!(set.rtype, rtype::RRSIG | rtype::NSEC));
                own.min_by_key(|set| zone.data_of(set).map(|data| data.len() + 12).sum::<usize>())
            }
            rtype::RRSIG => {
                let mut signatures = sets.iter().filter(|set| set.rtype == rtype::RRSIG);
                let first = signatures.next();
                for set in signatures {
                    zone.write(set, Section::Answer, name.wire(), answer);
                }
                first
            }
            wanted => sets.iter().find(|set| set.rtype == wanted),
        };
        let Some(set) = written else {
            zone.write_soa(self.dnssec, answer);
            if wild {
                self.prove_absence(labels);
            }
            self.prove_no_data(number);
            let hollow = node.count == 0;
            return Next::Done(if hollow { Found::Hollow } else { Found::NoData });
        };
        zone.write(set, Section::Answer, name.wire(), answer);
        self.sign(number, set.rtype, Section::Answer, name.wire());
        if self.rtype != rtype::ANY {
            if !(number == APEX && self.rtype == rtype::NS) {
                self.close();
            }
            self.add_addresses(set, name);
        }
        if wild {
            self.prove_absence(labels);
        }
        Next::Done(Found::Records)
    }

    /// Completes a positive answer with the zone's servers.
    fn close(&mut self) {
        self.zone.write_apex(rtype::NS, self.dnssec, self.answer);
    }

    /// Writes the signatures of a node's records of a type, if they are wanted.
    pub(crate) fn sign(&mut self, number: u32, covered: u16, section: Section, owner: &[u8]) {
        if let Some(set) = self.dnssec.then(|| self.zone.signatures(number, covered)).flatten() {
            self.zone.write(set, section, owner, self.answer);
        }
    }

    /// Tells the servers of the zone below (RFC 1034 §4.2.1).
    fn referral(&mut self, cut: u32) -> Found {
        let zone = self.zone;
        let owner = zone.owner(cut);
        // What led here is the zone's own.
        self.answer.set_authoritative(self.aliased);
        let Some(servers) = zone.set(cut, rtype::NS) else { return Found::NoName };
        zone.write(servers, Section::Authority, owner.wire(), self.answer);
        if let Some(keys) = zone.set(cut, rtype::DS).filter(|_| self.secures) {
            zone.write(keys, Section::Authority, owner.wire(), self.answer);
            self.sign(cut, rtype::DS, Section::Authority, owner.wire());
        } else {
            self.prove_no_data(cut);
        }
        let cut_labels = zone.node(cut).map(|node| zone.labels(node)).unwrap_or_default();
        for data in zone.data_of(servers).take(MAX_TARGETS) {
            let Some((target, _)) = Name::read(data) else { continue };
            let labels = target.below(&zone.apex).filter(|labels| is_below(labels, cut_labels));
            if let Some(number) = labels.and_then(|labels| zone.find(labels)) {
                self.write_addresses(number, &target);
            }
        }
        Found::Referral
    }

    /// Leads from a name below a DNAME record to the one it stands for (RFC 6672 §3.2).
    fn redirect(&mut self, name: &Name, number: u32) -> Next {
        let zone = self.zone;
        let owner = zone.owner(number);
        self.answer.set_authoritative(true);
        let set = zone.set(number, rtype::DNAME);
        let Some((set, data)) = set.and_then(|set| Some((set, zone.data_of(set).next()?))) else {
            return Next::Done(Found::NoName);
        };
        let (Some((target, _)), Some(head)) = (Name::read(data), name.below(&owner)) else {
            return Next::Done(Found::NoName);
        };
        let made = Name::join(head, target.wire());
        self.answer.push(Section::Answer, owner.wire(), rtype::DNAME, set.ttl, data);
        self.sign(number, rtype::DNAME, Section::Answer, owner.wire());
        let Some(made) = made else {
            self.answer.rcode = rcode::YXDOMAIN;
            return Next::Done(Found::TooLong);
        };
        self.answer.push(Section::Answer, name.wire(), rtype::CNAME, set.ttl, made.wire());
        if self.rtype == rtype::CNAME && made != *name {
            self.close();
            return Next::Done(Found::Records);
        }
        Next::Alias(made)
    }

    /// Adds the addresses of the names that records lead to.
    fn add_addresses(&mut self, set: &Set, owner: &Name) {
        let zone = self.zone;
        let before = match set.rtype {
            rtype::NS => 0,
            rtype::MX | rtype::SVCB | rtype::HTTPS => 2,
            rtype::SRV => 6,
            _ => return,
        };
        // The nodes whose addresses are there: a name may come more than once.
        let mut written = [NONE; MAX_TARGETS];
        for (index, data) in zone.data_of(set).take(MAX_TARGETS).enumerate() {
            let Some((mut name, _)) = data.get(before..).and_then(Name::read) else { continue };
            // The owner itself, unless the record only leads elsewhere (RFC 9460 §2.5).
            if name.is_root() && before == 2 && set.rtype != rtype::MX && !data.starts_with(&[0, 0])
            {
                name.clone_from(owner);
            }
            let Some(number) = name.below(&zone.apex).and_then(|labels| zone.find(labels)) else {
                continue;
            };
            if written.iter().take(index).any(|known| *known == number) {
                continue;
            }
            if let Some(slot) = written.get_mut(index) {
                *slot = number;
            }
            // Addresses below a cut are not this zone's, but for those of its own servers.
            let covered = zone.node(number).is_none_or(|node| node.cover != NONE);
            if !covered || set.rtype == rtype::NS {
                self.write_addresses(number, &name);
            }
        }
    }

    /// Writes a node's addresses into the additional section.
    fn write_addresses(&mut self, number: u32, name: &Name) {
        for kind in [rtype::A, rtype::AAAA] {
            if let Some(set) = self.zone.set(number, kind) {
                self.zone.write(set, Section::Additional, name.wire(), self.answer);
                self.sign(number, kind, Section::Additional, name.wire());
            }
        }
    }
}
