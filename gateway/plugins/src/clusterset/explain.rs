//! What `causeway explain` says of a name of the set.

use std::collections::BTreeMap;

use engine::Step;
use engine::control::Value;
use k8s::{ImportKind, ServiceKind};
use wire::{Answer, Request};

use super::Set;
use super::conflicts::compare;
use super::lookup::{Look, Outcome, RULES, namespace};
use super::member::{Member, Presence, Why, unix_time};
use crate::shared::cluster::key::Shown;
use crate::shared::cluster::name::Wanted;
use crate::shared::cluster::{Found, status};
use crate::shared::sheet::Sheet;

/// What a cluster has under a name.
#[derive(Debug)]
struct Part<'l> {
    /// The cluster.
    member: &'l Member,
    /// Whether its share counts.
    presence: Presence,
    /// What a controller has imported there.
    import: Option<ImportKind>,
    /// What it exports: how it is reached, its age in Unix seconds, its ready endpoints.
    export: Option<(ServiceKind, u64, usize)>,
    /// Whether it has a service of the name at all.
    there: bool,
    /// The resource version of what counts of them; 0 if that is not known.
    version: u64,
    /// How long ago all that answers need was heard of, in seconds; none for never.
    age: Option<u64>,
}

impl Set {
    /// Says what the plugin knows of a question that it has just taken `step` on; nothing if the name is in none of its zones.
    pub(super) fn explain(&self, request: &Request, step: Step) -> Option<Value> {
        let zone = self.zones.longest(&request.name)?;
        let look = Look { set: self, zone, name: &request.name, rtype: request.rtype };
        let mut answer = Answer::default();
        let Outcome { found, unknown, .. } = look.run(&mut Sheet::new(&mut answer, self.ttl));
        let value = Value::fields();
        let key = match Wanted::read(request.name.below(zone)?, RULES) {
            Wanted::Service { key, .. } => key,
            other => {
                let what = match (other, unknown) {
                    (_, Some(member)) => member.not_known.to_string(),
                    (Wanted::Namespace { pods: false, .. }, None) => match found {
                        Found::Nothing => "no cluster of the set has this namespace".to_owned(),
                        _ => "a namespace that a cluster of the set has".to_owned(),
                    },
                    (Wanted::Apex, None) => "the zone itself".to_owned(),
                    (Wanted::Version, None) => "the version of the specification".to_owned(),
                    (Wanted::NameServer, None) => "the zone's name server".to_owned(),
                    (_, None) if matches!(found, Found::Nothing) => {
                        "no name of this form is in a cluster set".to_owned()
                    }
                    _ => "a name that others are below".to_owned(),
                };
                return Some(value.with("why", what).with("zone", zone.to_string()));
            }
        };
        let parts = self.parts(key);
        let mut why = self.why(key, &parts);
        match (&found, unknown) {
            (Found::NotYet, Some(member)) => {
                why = format!("{why}; {}", member.not_known);
            }
            (Found::Nothing, _) if parts.iter().any(Part::counts) => {
                why.push_str("; it has no such port or ready endpoint");
            }
            (Found::Alias(target), _) => why.push_str(&format!("; it stands for {target}")),
            _ => {}
        }
        if matches!((&found, step), (Found::Nothing, Step::Next)) {
            why.push_str("; it falls through to the next plugin");
        }
        let mut conflicts = BTreeMap::new();
        compare(&self.exporters(namespace(key)), None, key, &mut conflicts);
        let conflicts: Vec<String> = conflicts.into_values().collect();
        let clusters: Vec<Value> = parts.iter().map(|part| part.value(self)).collect();
        let value = value
            .with("why", why)
            .with("zone", zone.to_string())
            .with("object", format!("Service {}", Shown(key)))
            .with("clusters", clusters);
        Some(if conflicts.is_empty() { value } else { value.with("conflicts", conflicts) })
    }

    /// What each cluster has under a name.
    fn parts(&self, key: &[u8]) -> Vec<Part<'_>> {
        let part = |member| {
            let mut part = Part {
                member,
                presence: Presence::Unknown,
                import: None,
                export: None,
                there: false,
                version: 0,
                age: None,
            };
            let present = member.present(namespace(key), self.keep);
            if let Some((store, presence)) = present.imports {
                part.presence = presence;
                part.age = status::age(store, unix_time());
                let reader = store.read();
                let (import, service) = (reader.import(key), reader.service(key));
                part.import = import.map(|import| import.kind());
                part.there = service.is_some();
                let own = || service.map_or(0, |service| service.version());
                part.version = import.map_or_else(own, |import| import.version());
            }
            if let Some((exports, presence)) = present.exports {
                part.presence = presence;
                part.age = status::age(exports.store(), unix_time());
                let reader = exports.store().read();
                let service = reader.service(key);
                part.there = part.there || service.is_some();
                if part.import.is_none() {
                    part.version = service.map_or(part.version, |service| service.version());
                }
                part.export = exports.share(&reader, key).map(|share| {
                    let ready = share.service.endpoints().filter(k8s::EndpointRef::ready);
                    (share.service.kind(), share.since, ready.count())
                });
            }
            part
        };
        self.members.iter().map(part).collect()
    }

    /// Where the answer of a name comes from, in a sentence.
    fn why(&self, key: &[u8], parts: &[Part<'_>]) -> String {
        let present = |live: bool| {
            let mut parts = parts.iter().filter(|part| part.counts());
            parts.find(|part| part.import.is_some() && (part.presence == Presence::Live) == live)
        };
        if let Some(part) = present(true).or_else(|| present(false)) {
            let kind = match part.import {
                Some(ImportKind::Headless) => "headless",
                _ => "with an address of the set",
            };
            return format!(
                "a controller has imported {} in {}, {kind}",
                Shown(key),
                part.member.name
            );
        }
        let exports = parts.iter().filter(|part| part.counts());
        let exports: Vec<_> =
            exports.filter_map(|part| Some((&*part.member.name, part.export?))).collect();
        let Some((eldest, (kind, ..))) = exports.iter().min_by_key(|(_, (_, since, _))| *since)
        else {
            let mut there = parts.iter().filter(|part| part.there);
            return match there.next() {
                Some(Part { member, presence: Presence::Gone(why), .. }) => {
                    let is = match why {
                        Why::Standing(_) => "has been away",
                        Why::Rights { .. } => "has kept its namespace from us",
                    };
                    let (key, name) = (Shown(key), &member.name);
                    format!("no cluster that is there exports {key}; {name} {is} for too long")
                }
                Some(part) => format!(
                    "no cluster exports {}; {} has such a service",
                    Shown(key),
                    part.member.name
                ),
                None => format!("no cluster exports {}", Shown(key)),
            };
        };
        let names: Vec<&str> = exports.iter().map(|(name, _)| *name).collect();
        let is = match kind {
            ServiceKind::Headless => "headless",
            _ => "not headless",
        };
        let decides = if names.len() > 1 {
            format!(", as the eldest export has it, that of {eldest}")
        } else {
            String::new()
        };
        format!("{} exported by {}; {is}{decides}", Shown(key), names.join(", "))
    }
}

impl Part<'_> {
    /// Whether the cluster's share counts, and there is anything in it.
    const fn counts(&self) -> bool {
        self.presence.counts() && (self.import.is_some() || self.export.is_some())
    }

    /// The same in fields.
    fn value(&self, set: &Set) -> Value {
        let share = match self.presence {
            Presence::Live => "live",
            Presence::Kept(_) => "kept",
            Presence::Gone(_) => "gone",
            Presence::Unknown => "unknown",
        };
        let version = Some(self.version).filter(|version| *version != 0);
        let value = Value::fields()
            .with("cluster", &*self.member.name)
            .with("share", share)
            .with("age_seconds", self.age)
            .with("resource_version", version.map(|version| version.to_string()));
        let value = match self.presence {
            Presence::Kept(why) => {
                let age = why.since().map(|since| unix_time().saturating_sub(since));
                let value = match why {
                    Why::Standing(_) => value.with("away_seconds", age),
                    Why::Rights { .. } => {
                        value.with("rights_missing", true).with("known_from_seconds_ago", age)
                    }
                };
                value.with("kept_for_seconds", set.keep.as_secs())
            }
            _ => value,
        };
        let value = match self.import {
            Some(ImportKind::Headless) => value.with("imported", "Headless"),
            Some(ImportKind::ClusterSetIp) => value.with("imported", "ClusterSetIP"),
            None => value,
        };
        match self.export {
            Some((kind, since, ready)) => value
                .with(
                    "exported",
                    if kind == ServiceKind::Headless { "headless" } else { "ClusterIP" },
                )
                .with("exported_at", Some(since).filter(|since| *since != u64::MAX))
                .with("ready_endpoints", ready),
            None => value.with("service", self.there),
        }
    }
}
