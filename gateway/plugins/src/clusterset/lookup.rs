//! From a name and a type to records: the specification of DNS-based multicluster service discovery, version 1.0.0 (KEP-1645).

use k8s::{Reader, ServiceKind};
use smallvec::SmallVec;
use wire::{Name, Section, class, rtype};

use super::Set;
use super::member::{Exports, Member, Presence, Present, Share, Why};
use super::records::Place;
use crate::shared::cluster::member::FEW;
use crate::shared::cluster::name::{Rules, Wanted};
use crate::shared::cluster::reach::Ways;
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Found, NAME_SERVER, SOA_TTL, Soa};
use crate::shared::sheet::Sheet;

/// The version of the specification that is served.
const VERSION: &[u8] = b"1.0.0";
/// How long that may be kept, in seconds.
const VERSION_TTL: u32 = 28800;
/// How often exports are looked at for one query, at most: what was there may be gone when its records are written.
const LOOKS: usize = 2;
/// What names there are.
pub(super) const RULES: Rules = Rules { zonal: false, multicluster: true };

/// One look-up.
#[derive(Debug)]
pub(super) struct Look<'l> {
    /// Whose zones these are.
    pub(super) set: &'l Set,
    /// The zone that the name is in.
    pub(super) zone: &'l Name,
    /// The name.
    pub(super) name: &'l Name,
    /// The type that is asked for.
    pub(super) rtype: u16,
}

/// What a look-up came to.
#[derive(Debug)]
pub(super) struct Outcome<'l> {
    /// What was found.
    pub(super) found: Found,
    /// A cluster whose share is not its present one, if that made a difference.
    pub(super) kept: Option<(&'l Member, Why)>,
    /// A cluster that is not known yet, if that made a difference.
    pub(super) unknown: Option<&'l Member>,
}

impl Outcome<'_> {
    /// What does not depend on clusters.
    const fn sure(found: Found) -> Self {
        Self { found, kept: None, unknown: None }
    }
}

/// What the clusters export under a name.
#[derive(Debug, Default)]
pub(super) struct Survey<'l> {
    /// How the eldest export is reached, and its age in Unix seconds; none if there is no export.
    pub(super) eldest: Option<(u64, ServiceKind)>,
    /// The addresses that there are of it.
    pub(super) ways: Ways,
    /// The first cluster whose share counts though it is away.
    pub(super) kept: Option<(&'l Member, Why)>,
    /// The clusters that have an export.
    pub(super) exporters: Exporters<'l>,
}

/// Clusters whose exports count.
#[derive(Debug, Default)]
pub(super) struct Exporters<'l>(SmallVec<[(&'l Member, &'l Exports); FEW]>);

impl<'l> Exporters<'l> {
    /// Calls `each` with every cluster's share of a name. Locks one store at a time.
    pub(super) fn shares(&self, key: &[u8], mut each: impl FnMut(&'l Member, &Share<'_>)) {
        for (member, exports) in &self.0 {
            if let Some(share) = exports.share(&exports.store().read(), key) {
                each(member, &share);
            }
        }
    }
}

/// What the clusters say of something that none of them has.
#[derive(Debug, Default)]
struct Silence<'l> {
    /// The first that is away.
    kept: Option<(&'l Member, Why)>,
    /// The first that is not known yet.
    unknown: Option<&'l Member>,
    /// The first that has been away for too long.
    gone: Option<&'l Member>,
    /// Whether any has a share at all.
    heard: bool,
}

impl<'l> Look<'l> {
    /// Finds the name and writes its records.
    pub(super) fn run(&self, sheet: &mut Sheet<'_>) -> Outcome<'l> {
        let Some(head) = self.name.below(self.zone) else {
            return Outcome::sure(Found::Nothing);
        };
        match Wanted::read(head, RULES) {
            Wanted::Apex => Outcome::sure(self.apex(sheet)),
            Wanted::Version => {
                if self.rtype == rtype::TXT {
                    sheet.answer().txt(self.name, class::IN, VERSION_TTL, VERSION);
                }
                Outcome::sure(Found::Name)
            }
            Wanted::NameServer => {
                self.set.own.iter().for_each(|ip| self.pen().address(sheet, *ip));
                Outcome::sure(Found::Name)
            }
            // There are no names of pods.
            Wanted::Branch if head == b"\x03pod" => Outcome::sure(Found::Nothing),
            Wanted::Branch => Outcome::sure(Found::Name),
            Wanted::Nothing | Wanted::Pod { .. } | Wanted::Namespace { pods: true, .. } => {
                Outcome::sure(Found::Nothing)
            }
            Wanted::Namespace { name, pods: false } => self.namespace(name),
            Wanted::Service { key, at, part } => {
                // The end of the name from the service on is the service's own name.
                let own = self.name.wire().get(at..).unwrap_or_default();
                self.service(&Place { key, own, part }, sheet)
            }
        }
    }

    /// The zone's own records.
    fn apex(&self, sheet: &mut Sheet<'_>) -> Found {
        let zone = self.zone.wire();
        match (self.rtype, Name::join(NAME_SERVER, zone)) {
            (rtype::SOA, _) => self.set.soa(self.zone, Section::Answer, sheet),
            (rtype::NS, Some(server)) => {
                sheet.add(Section::Answer, zone, rtype::NS, server.wire());
                for ip in &self.set.own {
                    sheet.address(Section::Additional, server.wire(), *ip);
                }
            }
            _ => {}
        }
        Found::Name
    }

    /// A namespace, which is the same in all clusters: one that has it is enough.
    fn namespace(&self, name: &[u8]) -> Outcome<'l> {
        let mut silence = Silence::default();
        for member in &self.set.members {
            let Some(store) = member.store() else { continue };
            if !silence.hears(member, member.presence(store, Some(name), self.set.keep)) {
                continue;
            }
            let reader = store.read();
            if reader.namespace(name) {
                return Outcome::sure(Found::Name);
            }
            silence.misses(member, &reader, Some(name));
        }
        silence.outcome()
    }

    /// A service of the set, its ports and its endpoints.
    fn service(&self, place: &Place<'_>, sheet: &mut Sheet<'_>) -> Outcome<'l> {
        let mut silence = Silence::default();
        let members = self.set.members.iter();
        let all: SmallVec<[Present<'l>; FEW]> =
            members.map(|member| member.present(namespace(place.key), self.set.keep)).collect();
        if let Some(outcome) = self.imported(&all, place, sheet, &mut silence) {
            return outcome;
        }
        let mut outcome = Outcome::sure(Found::Name);
        for _ in 0..LOOKS {
            let survey = self.survey(&all, place.key, &mut silence);
            if survey.eldest.is_none() {
                return silence.outcome();
            }
            outcome.kept = survey.kept;
            if let Some(found) = self.exported(place, &survey, sheet) {
                outcome.found = found;
                break;
            }
        }
        match outcome.found {
            // What one of those that are silent exports may be this.
            Found::Nothing => silence.outcome(),
            _ => outcome,
        }
    }

    /// What a controller has imported; none if it has not. Clusters that are there come before those that are away, for a
    /// controller keeps what all export in each.
    fn imported(
        &self,
        all: &[Present<'l>],
        place: &Place<'_>,
        sheet: &mut Sheet<'_>,
        silence: &mut Silence<'l>,
    ) -> Option<Outcome<'l>> {
        for live in [true, false] {
            for Present { member, imports, .. } in all {
                let (member, Some((store, presence))) = (*member, *imports) else { continue };
                if !silence.hears(member, presence) || (presence == Presence::Live) != live {
                    continue;
                }
                let reader = store.read();
                let Some(import) = reader.import(place.key) else {
                    silence.misses(member, &reader, namespace(place.key));
                    continue;
                };
                let found = self.import(place, &import, sheet);
                let kept = match presence {
                    Presence::Kept(why) => Some((member, why)),
                    _ => None,
                };
                return Some(Outcome { found, kept, unknown: None });
            }
        }
        None
    }

    /// Looks at what all clusters export under a name.
    fn survey(&self, all: &[Present<'l>], key: &[u8], silence: &mut Silence<'l>) -> Survey<'l> {
        let mut survey = Survey::default();
        for Present { member, exports, .. } in all {
            let (member, Some((exports, presence))) = (*member, *exports) else { continue };
            if !silence.hears(member, presence) {
                continue;
            }
            let reader = exports.store().read();
            let Some(Share { service, since }) = exports.share(&reader, key) else {
                silence.misses(member, &reader, namespace(key));
                continue;
            };
            if survey.eldest.is_none_or(|(other, _)| since < other) {
                survey.eldest = Some((since, service.kind()));
            }
            survey.exporters.0.push((member, exports));
            self.set.reach.note(&Service::of(service), &mut survey.ways);
            if let (Presence::Kept(why), None) = (presence, survey.kept) {
                survey.kept = Some((member, why));
            }
        }
        survey
    }
}

/// The namespace of `\x03web\x04shop`.
pub(super) fn namespace(key: &[u8]) -> Option<&[u8]> {
    Name::labels_of(key).nth(1)
}

impl Set {
    /// The clusters whose exports from a namespace count.
    pub(super) fn exporters(&self, namespace: Option<&[u8]>) -> Exporters<'_> {
        let all = self.members.iter().filter_map(|member| {
            let (exports, presence) = member.present(namespace, self.keep).exports?;
            presence.counts().then_some((member, exports))
        });
        Exporters(all.collect())
    }

    /// Writes the zone's SOA record. Its serial is the time of the last change in any of the clusters.
    pub(super) fn soa(&self, zone: &Name, section: Section, sheet: &mut Sheet<'_>) {
        let stores = self.members.iter().flat_map(Member::stores);
        let serial = stores.map(|store| store.serial().max(store.external_serial())).max();
        let server = [NAME_SERVER, zone.wire(), b""];
        let serial = serial.unwrap_or(0);
        let soa = Soa { zone, server, below: b"", serial, minimum: self.ttl };
        soa.write(self.ttl.min(SOA_TTL), section, sheet);
    }
}

impl<'l> Silence<'l> {
    /// Notes a cluster whose share is not its present one; says whether it has a share at all.
    fn hears(&mut self, member: &'l Member, presence: Presence) -> bool {
        match presence {
            Presence::Live => {
                self.heard = true;
                true
            }
            Presence::Kept(why) => {
                self.heard = true;
                self.kept = self.kept.or(Some((member, why)));
                true
            }
            Presence::Gone(_) => {
                self.gone = self.gone.or(Some(member));
                false
            }
            Presence::Unknown => {
                self.unknown = self.unknown.or(Some(member));
                false
            }
        }
    }

    /// Notes a cluster whose objects of the namespace are not known yet, or not to these credentials: that it lacks a name says
    /// nothing.
    fn misses(&mut self, member: &'l Member, reader: &Reader<'_>, namespace: Option<&[u8]>) {
        if namespace.is_some_and(|namespace| reader.awaits(namespace)) {
            self.unknown = self.unknown.or(Some(member));
        }
    }

    /// That nothing was found, or that it can not be said.
    fn outcome(self) -> Outcome<'l> {
        // If all have been away for too long there is nobody left who could deny a name.
        let unknown = self.unknown.or_else(|| self.gone.filter(|_| !self.heard));
        let found = if unknown.is_some() { Found::NotYet } else { Found::Nothing };
        Outcome { found, kept: self.kept, unknown }
    }
}
