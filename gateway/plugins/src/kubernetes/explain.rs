//! What `causeway explain` says of a name in a cluster.

use engine::Step;
use engine::control::Value;
use k8s::{Kind, Reader, ServiceKind, State};
use wire::{Name, Request, rtype};

use super::lookup::Look;
use super::why::{Place, Why};
use super::{Cluster, Pods};
use crate::shared::cluster::address::{Reverse, is_reverse, pod_address, reverse};
use crate::shared::cluster::name::Wanted;
use crate::shared::cluster::service::Service;
use crate::shared::cluster::{Found, TOO_LONG, status};
use crate::shared::sheet::Sheet;

/// The most endpoints, ports or addresses that are listed.
const MOST: usize = 20;

impl Cluster {
    /// Says what the plugin knows of a question that it has just taken `step` on; nothing if the name is in none of its zones.
    pub(super) fn explain(&self, request: &Request, step: Step) -> Option<Value> {
        let (name, rtype) = (&request.name, request.rtype);
        let zone = self.zones.longest(name)?;
        let mut answer = wire::Answer::default();
        let mut sheet = Sheet::new(&mut answer, self.ttl);
        let (found, member) = self.find(zone, name, rtype, &mut sheet);
        let answered = sheet.is_answered();
        let mut value = Value::fields();
        let mut tell = |look: &Look<'_>, why: String| {
            let empty = Value::Fields(Vec::new());
            value = look.told(std::mem::replace(&mut value, empty).with("why", why));
        };
        let mut end = match step {
            Step::Next => "; it falls through to the next plugin".to_owned(),
            _ => String::new(),
        };
        match &found {
            Found::Nothing => self.deny(zone, name, rtype, &mut |look, said| {
                let near = look.near().map(|near| format!(" (there is \"{near}\")"));
                tell(look, format!("{said}{}{end}", near.unwrap_or_default()));
            }),
            Found::NotYet => {
                let member = member?;
                let reader = &member.store.read();
                let look = Look { cluster: self, member, reader, zone, name, rtype };
                tell(&look, format!("{}{end}", member.not_known));
            }
            Found::Name | Found::Alias(_) => {
                let member = member?;
                let reader = &member.store.read();
                let look = Look { cluster: self, member, reader, zone, name, rtype };
                if let Found::Alias(target) = &found {
                    end = format!("; it stands for {target}");
                } else if !answered {
                    let long = look.service_of().is_some_and(|(_, one)| look.is_too_long(&one));
                    end = match long {
                        true => format!(": there, but {TOO_LONG}"),
                        false => ": there, and without records of this type".to_owned(),
                    };
                }
                tell(&look, format!("{}{end}", look.what()));
            }
        }
        let answering = match value.field("cluster") {
            Some(Value::Text(name)) => &**name,
            _ => "",
        };
        match self.also_in(zone, name, answering) {
            others if others.is_empty() => Some(value),
            others => Some(value.with("also_in", others)),
        }
    }

    /// The clusters of a union beside the one that answers that have what a name is of.
    fn also_in(&self, zone: &Name, name: &Name, answering: &str) -> Vec<String> {
        let others = self.members.iter().filter(|member| *member.name != *answering);
        let having = others.filter(|member| {
            let reader = &member.store.read();
            Look { cluster: self, member, reader, zone, name, rtype: rtype::A }.has()
        });
        having.map(|member| member.name.to_string()).collect()
    }
}

impl Look<'_> {
    /// Whether the cluster has what the name is of.
    fn has(&self) -> bool {
        if is_reverse(self.zone) {
            let mut any = false;
            if let Reverse::Address(ip) = reverse(self.name) {
                self.cluster.names_of(self.reader, ip, &mut |_| any = true);
            }
            return any;
        }
        match self.wanted() {
            Some(Wanted::Namespace { name, .. }) => self.reader.namespace(name),
            Some(Wanted::Pod { namespace, address }) => {
                pod_address(address).is_some_and(|ip| self.reader.pod_in(namespace, ip))
            }
            Some(Wanted::Service { .. }) => {
                self.service_of().is_some_and(|(_, service)| !self.cluster.hides(&service))
            }
            _ => false,
        }
    }

    /// Adds what is known of the name's object and of its cluster.
    fn told(&self, value: Value) -> Value {
        let store = &self.member.store;
        let cluster = Some(&*self.member.name).filter(|name| !name.is_empty());
        let (object, version) = self.object().unzip();
        let version = version.filter(|version| *version != 0);
        let value = value
            .with("zone", self.zone.to_string())
            .with("cluster", cluster)
            .with("object", object)
            .with("resource_version", version.map(|version| version.to_string()))
            .with("standing", status::word(store.standing()))
            .with("age_seconds", status::age(store, status::now()))
            .with("changes", store.version());
        let refused = self.member.refused_since(|| self.cluster.namespace(self.zone, self.name));
        let value = match refused.map(|since| status::now().saturating_sub(since)) {
            Some(age) => value.with("rights_missing", true).with("known_from_seconds_ago", age),
            None => value,
        };
        let facts = self.facts().into_iter();
        let value = facts.fold(value, |value, (name, fact)| value.with(name, fact));
        let kinds = store.freshness().filter(|kind| kind.state != State::Watching);
        let odd = kinds.map(|kind| format!("{} are {}", kind.kind.word(), kind.state.word()));
        match odd.collect::<Vec<String>>() {
            odd if odd.is_empty() => value,
            odd => value.with("watches", odd),
        }
    }
}

impl<'l> Look<'l> {
    /// What the name means.
    fn wanted(&self) -> Option<Wanted<'l>> {
        let head = self.name.below(self.zone)?;
        Some(Wanted::read(head, self.cluster.rules(self.zone)))
    }

    /// The service that the name is of, with its key.
    fn service_of(&self) -> Option<(Place<'l>, Service<'l>)> {
        let Some(Wanted::Service { key, .. }) = self.wanted() else { return None };
        let imported = self.cluster.rules(self.zone).multicluster;
        Some((Place(key), Service::find(self.reader, key, imported)?))
    }

    /// What the name is, in words.
    fn what(&self) -> String {
        match self.wanted() {
            Some(Wanted::Apex) => "the zone itself".to_owned(),
            Some(Wanted::Version) => "the version of the specification".to_owned(),
            Some(Wanted::NameServer) => "the zone's name server".to_owned(),
            _ if is_reverse(self.zone) => "the names of an address in the cluster".to_owned(),
            Some(Wanted::Pod { .. }) if self.cluster.pods == Pods::Insecure => {
                "the address in the name, whether a pod has it or not (pods insecure)".to_owned()
            }
            Some(Wanted::Pod { .. }) => "a pod of the namespace has the address".to_owned(),
            Some(Wanted::Service { .. }) => match self.service_of() {
                Some((place, service)) => format!("the {} {place}", kind(service.kind)),
                None => String::new(),
            },
            _ => "a name that others are below".to_owned(),
        }
    }

    /// The object that the name is of: its kind, namespace and name; and its resource version, 0 if that is not kept.
    fn object(&self) -> Option<(String, u64)> {
        if is_reverse(self.zone) {
            let Reverse::Address(ip) = reverse(self.name) else { return None };
            let outside = self.reader.services_by_external_ip(ip);
            let ends = self.reader.endpoints_by_ip(ip).map(|(service, _)| service);
            let all = self.reader.services_by_ip(ip).chain(outside);
            return all.chain(ends).next().map(|service| {
                let (namespace, name) = (text(service.namespace()), text(service.name()));
                (format!("Service {namespace}/{name}"), service.version())
            });
        }
        match self.wanted()? {
            Wanted::Namespace { name, .. } if self.reader.namespace(name) => {
                Some((format!("Namespace {}", text(name)), 0))
            }
            Wanted::Pod { namespace, address } => {
                let ip = pod_address(address)?;
                let mut pods = self.reader.pods_by_ip(ip);
                let pod = pods.find(|pod| pod.namespace() == namespace)?;
                Some((format!("Pod {}/{}", text(pod.namespace()), text(pod.name())), 0))
            }
            Wanted::Service { .. } => {
                let (place, _) = self.service_of()?;
                let (service, namespace) = place.parts();
                let (kind, version) = match self.cluster.rules(self.zone).multicluster {
                    true => ("ServiceImport", self.reader.import(place.0).map(|one| one.version())),
                    false => ("Service", self.reader.service(place.0).map(|one| one.version())),
                };
                let object = format!("{kind} {}/{}", text(namespace), text(service));
                Some((object, version.unwrap_or_default()))
            }
            _ => None,
        }
    }

    /// What there is about the service of the name.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        let Some((_, service)) = self.service_of() else { return Vec::new() };
        let ips: Vec<String> = service.ips.map(|ip| ip.to_string()).take(MOST).collect();
        let ports = service.ports.take(MOST);
        let ports: Vec<String> = ports
            .map(|port| format!("{}/{} {}", port.number, port.protocol.word(), text(port.name)))
            .map(|port| port.trim_end().to_owned())
            .collect();
        let all = service.endpoints.clone().count();
        let ready = service.endpoints.clone().filter(|one| one.ready()).count();
        let mut facts: Vec<(&'static str, Value)> =
            vec![("service_type", kind(service.kind).into())];
        if let Some(way) = self.cluster.reach.way(&service) {
            facts.push(("reached_by", way.word().into()));
        }
        if !service.external().is_empty() {
            facts.push(("external_name", text(service.external()).into()));
        }
        if !ips.is_empty() {
            facts.push(("addresses", ips.into()));
        }
        if !ports.is_empty() {
            facts.push(("ports", ports.into()));
        }
        if self.member.store.keep().holds(Kind::Slices) {
            facts.push(("endpoints", all.into()));
            facts.push(("ready_endpoints", ready.into()));
        }
        facts
    }

    /// A name that is there and nearly the one that is missing.
    fn near(&self) -> Option<String> {
        match self.why() {
            Why::NoNamespace(name) => {
                let names: Vec<String> = self.reader.namespaces().map(text).collect();
                nearest(&text(name), &names)
            }
            Why::NoService(place) => {
                let (service, namespace) = place.parts();
                let names =
                    names_in(self.reader, namespace, self.cluster.rules(self.zone).multicluster);
                nearest(&text(service), &names)
            }
            Why::NoPort(_, name, _) => {
                let (_, service) = self.service_of()?;
                let names: Vec<String> = match service.kind {
                    ServiceKind::Headless => {
                        let ports = service.endpoints.flat_map(|one| one.ports());
                        ports.map(|port| text(port.name)).take(MOST).collect()
                    }
                    _ => service.ports.map(|port| text(port.name)).collect(),
                };
                nearest(&text(name), &names)
            }
            Why::NoEndpoint(_, label) => {
                let (_, service) = self.service_of()?;
                let labels = service
                    .endpoints
                    .filter(|one| one.ready())
                    .filter_map(|one| Some(text(self.cluster.calls.label(&one)?.bytes())));
                let labels: Vec<String> = labels.collect();
                nearest(&text(label), &labels)
            }
            _ => None,
        }
    }
}

/// A label as text.
fn text(label: &[u8]) -> String {
    String::from_utf8_lossy(label).into_owned()
}

/// The services of a namespace.
fn names_in(reader: &Reader<'_>, namespace: &[u8], imported: bool) -> Vec<String> {
    match imported {
        true => {
            let all = reader.imports().into_iter().filter(|one| one.namespace() == namespace);
            all.map(|one| text(one.name())).collect()
        }
        false => {
            let all = reader.services().into_iter().filter(|one| one.namespace() == namespace);
            all.map(|one| text(one.name())).collect()
        }
    }
}

/// The name that is nearest, if one is near.
fn nearest(name: &str, names: &[String]) -> Option<String> {
    config::value::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The type of a service, in its own word.
fn kind(kind: ServiceKind) -> &'static str {
    match kind {
        ServiceKind::ClusterIp => "ClusterIP",
        ServiceKind::Headless => "headless",
        ServiceKind::ExternalName => "ExternalName",
    }
}
