//! Why a name of a cluster has no records: in a line for clients, and with all that is known for `causeway explain`.

use std::fmt::{self, Display, Write as _};
use std::net::IpAddr;

use k8s::{EndpointRef, Kind, Protocol, ServiceKind};
use wire::{Answer, Name};

use super::lookup::Look;
use super::{Cluster, Pods};
use crate::shared::cluster::address::{Reverse, is_reverse, pod_address, reverse, undashed};
use crate::shared::cluster::member::{Member, Members};
use crate::shared::cluster::name::{Part, Wanted};
use crate::shared::cluster::service::Service;
use crate::shared::cluster::stale::Text;
use crate::shared::cluster::{OTHER, has_protocol, is_port, target};

/// Why a name is not there, or has no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why<'n> {
    /// No name of a cluster looks so.
    Form,
    /// The name is the server's that other stated ones take the place of.
    Servers,
    /// The objects are not known yet.
    Unsynced,
    /// The namespace is not there, or not exposed.
    NoNamespace(&'n [u8]),
    /// The namespace is there, the service is not.
    NoService(Place<'n>),
    /// No ready endpoint is behind the service, and `ignore empty_service` keeps it from view.
    Hidden(Place<'n>),
    /// The service has no port of this name and protocol.
    NoPort(Place<'n>, &'n [u8], Protocol),
    /// The service has no port of this protocol.
    NoProtocol(Place<'n>, Protocol),
    /// No ready endpoint is behind the headless service.
    NoReady(Place<'n>),
    /// The headless service has ready endpoints, but none that is called so.
    NoEndpoint(Place<'n>, &'n [u8]),
    /// The service is no headless one, so that its endpoints have no names.
    NotHeadless(Place<'n>),
    /// The service stands for another name, so that nothing is below it.
    External(Place<'n>),
    /// What the service stands for is no domain name.
    BadTarget(Place<'n>),
    /// The names of pods are turned off.
    PodsDisabled,
    /// The label is no address with dashes.
    NoAddress(&'n [u8]),
    /// No pod of the namespace has the address.
    NoPod(&'n [u8], IpAddr),
    /// Nothing in the cluster has the address.
    Unknown(IpAddr),
    /// The name is there, and has no records of the type.
    NoType,
}

/// A service's key, `\x03web\x04shop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'n>(pub(super) &'n [u8]);

impl<'n> Place<'n> {
    /// The service's name and its namespace.
    pub(super) fn parts(self) -> (&'n [u8], &'n [u8]) {
        let mut labels = Name::labels_of(self.0);
        (labels.next().unwrap_or_default(), labels.next().unwrap_or_default())
    }
}

impl Why<'_> {
    /// Whether it is the same whatever is in a cluster, so that none is to be named with it.
    fn is_of_words(self) -> bool {
        matches!(self, Why::Form | Why::Servers | Why::PodsDisabled | Why::NoAddress(_))
    }

    /// How much it tells: 0 if the name is of nothing in the cluster, 1 if it is of a namespace there, 2 if of an object.
    fn weight(self) -> u8 {
        match self {
            Why::NoNamespace(_) | Why::Unknown(_) => 0,
            Why::NoService(_) | Why::NoPod(..) => 1,
            _ => 2,
        }
    }
}

/// A reason in words, with the names of the clusters that it is of.
pub(super) struct Said<'n> {
    /// The reason.
    pub(super) why: Why<'n>,
    /// The cluster that it was found in.
    pub(super) member: &'n Member,
    /// All clusters of the block.
    pub(super) members: &'n Members,
}

impl Cluster {
    /// Says on an answer why a name is not there, in a line. Nothing is allocated for it.
    pub(super) fn say_why(&self, zone: &Name, name: &Name, rtype: u16, answer: &mut Answer) {
        self.deny(zone, name, rtype, &mut |_, said| {
            let mut text = Text::default();
            // What does not fit is cut.
            write!(text, "{said}").unwrap_or_default();
            answer.options.push_ede(OTHER, text.as_str());
        });
    }

    /// Calls `each` with the look-up and the reason of the cluster that knows most about a name that is not there.
    pub(super) fn deny(
        &self,
        zone: &Name,
        name: &Name,
        rtype: u16,
        each: &mut dyn FnMut(&Look<'_>, Said<'_>),
    ) {
        let look = |member: &Member, tell: &mut dyn FnMut(&Look<'_>)| {
            let reader = &member.store.read();
            tell(&Look { cluster: self, member, reader, zone, name, rtype });
        };
        let weight = |member: &&Member| {
            let mut weight = 0;
            look(member, &mut |look| weight = look.why().weight());
            // Of those that know as much the first one counts, and `max_by_key` gives the last.
            weight
        };
        let first = match self.members.are_several() {
            true => self.members.iter().rev().max_by_key(weight),
            false => self.members.iter().next(),
        };
        let Some(member) = first else { return };
        look(member, &mut |look| {
            each(look, Said { why: look.why(), member, members: &self.members });
        });
    }
}

/// A label as text; what is not printable is left out by whoever shows it.
struct Label<'n>(&'n [u8]);

impl Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            f.write_char(if byte.is_ascii_graphic() { char::from(*byte) } else { '?' })?;
        }
        Ok(())
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, namespace) = self.parts();
        write!(f, "service \"{}\" in namespace \"{}\"", Label(service), Label(namespace))
    }
}

/// The name of a protocol.
fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

impl Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Form => f.write_str("no name of a cluster has this form")?,
            Why::Servers => f.write_str("other name servers are stated")?,
            Why::Unsynced => return f.write_str(&self.member.not_known),
            Why::NoNamespace(name) => write!(f, "no namespace \"{}\"", Label(name))?,
            Why::NoService(place) => write!(f, "no {place}")?,
            Why::Hidden(place) => write!(f, "no ready endpoint, ignored: {place}")?,
            Why::NoPort(place, name, proto) => {
                write!(f, "no {} port \"{}\": {place}", protocol(proto), Label(name))?;
            }
            Why::NoProtocol(place, proto) => write!(f, "no {} port: {place}", protocol(proto))?,
            Why::NoReady(place) => write!(f, "no ready endpoint: {place}")?,
            Why::NoEndpoint(place, label) => {
                write!(f, "no ready endpoint \"{}\": {place}", Label(label))?;
            }
            Why::NotHeadless(place) => write!(f, "not headless: {place}")?,
            Why::External(place) => write!(f, "ExternalName: {place}")?,
            Why::BadTarget(place) => write!(f, "its externalName is no domain name: {place}")?,
            Why::PodsDisabled => f.write_str("names of pods are disabled")?,
            Why::NoAddress(label) => write!(f, "\"{}\" is no address", Label(label))?,
            Why::NoPod(namespace, ip) => {
                write!(f, "no pod with {ip} in namespace \"{}\"", Label(namespace))?;
            }
            Why::Unknown(ip) => write!(f, "nothing has {ip}")?,
            Why::NoType => f.write_str("no record of this type")?,
        }
        if self.why.is_of_words() {
            return Ok(());
        }
        match (self.why.weight() < 2 && self.members.are_several(), &*self.member.name) {
            (true, _) => {
                for (at, member) in self.members.iter().enumerate() {
                    f.write_str(if at == 0 { " of clusters " } else { ", " })?;
                    f.write_str(&member.name)?;
                }
                Ok(())
            }
            (false, "") => Ok(()),
            (false, name) => write!(f, " of cluster {name}"),
        }
    }
}

impl<'l> Look<'l> {
    /// Why the look-up finds nothing, or nothing of the type. To be asked where it does.
    pub(super) fn why(&self) -> Why<'l> {
        let Some(head) = self.name.below(self.zone) else { return Why::Form };
        match Wanted::read(head, self.cluster.rules(self.zone)) {
            Wanted::NameServer if self.cluster.servers.any() => Why::Servers,
            Wanted::Apex | Wanted::Version | Wanted::NameServer => Why::NoType,
            Wanted::Branch if head == b"\x03dns" => Why::NoType,
            _ if is_reverse(self.zone) => match reverse(self.name) {
                Reverse::Address(ip) if self.has_names(ip) => Why::NoType,
                Reverse::Address(ip) => Why::Unknown(ip),
                Reverse::Part => Why::NoType,
                Reverse::Nothing => Why::Form,
            },
            Wanted::Branch => Why::NoType,
            Wanted::Nothing => Why::Form,
            Wanted::Namespace { pods: true, .. } if self.cluster.pods == Pods::Disabled => {
                Why::PodsDisabled
            }
            Wanted::Namespace { name, .. } if !self.has_namespace(name) => Why::NoNamespace(name),
            Wanted::Namespace { .. } => Why::NoType,
            Wanted::Pod { address, namespace } => self.why_pod(address, namespace),
            Wanted::Service { key, part, .. } => self.why_service(key, part),
        }
    }

    /// Whether an address has names.
    fn has_names(&self, ip: IpAddr) -> bool {
        let mut any = false;
        self.cluster.names_of(self.reader, ip, &mut |_| any = true);
        any
    }

    /// Whether a namespace is there, as far as is known.
    fn has_namespace(&self, name: &[u8]) -> bool {
        self.reader.namespace(name) || self.reader.doubts(name)
    }

    /// Why a pod's name has no records.
    fn why_pod(&self, label: &'l [u8], namespace: &'l [u8]) -> Why<'l> {
        match pod_address(label) {
            _ if self.cluster.pods == Pods::Disabled => Why::PodsDisabled,
            _ if !self.has_namespace(namespace) => Why::NoNamespace(namespace),
            None => Why::NoAddress(label),
            Some(ip) if self.cluster.pods == Pods::Verified => {
                if !self.knows_pods(namespace) {
                    Why::Unsynced
                } else if self.reader.pod_in(namespace, ip) {
                    Why::NoType
                } else {
                    Why::NoPod(namespace, ip)
                }
            }
            Some(_) => Why::NoType,
        }
    }

    /// Why a service's name, or one below it, has no records.
    fn why_service(&self, key: &'l [u8], part: Part<'l>) -> Why<'l> {
        let (place, imported) = (Place(key), self.cluster.rules(self.zone).multicluster);
        if imported && !self.knows(Kind::Imports) {
            return Why::Unsynced;
        }
        let Some(service) = Service::find(self.reader, key, imported) else {
            let (_, namespace) = place.parts();
            return match self.has_namespace(namespace) {
                true => Why::NoService(place),
                false => Why::NoNamespace(namespace),
            };
        };
        if self.cluster.hides(&service) {
            return Why::Hidden(place);
        }
        let ready = |one: &EndpointRef<'_>| one.ready();
        // Whether names give what its endpoints have, not what it has itself.
        let ends = self.cluster.reach.by_endpoints(&service);
        let none = !service.endpoints.clone().any(|one| ready(&one));
        match (service.kind, part) {
            (ServiceKind::ExternalName, Part::Whole) if target(service.external()).is_none() => {
                Why::BadTarget(place)
            }
            (ServiceKind::ExternalName, Part::Whole) => Why::NoType,
            (ServiceKind::ExternalName, _) => Why::External(place),
            (ServiceKind::Headless, Part::Zones) => Why::NoType,
            (_, Part::Zones | Part::Zone { .. }) if service.kind == ServiceKind::ClusterIp => {
                Why::NotHeadless(place)
            }
            (_, Part::Whole | Part::Port { .. } | Part::Ports(_)) if ends && none => {
                Why::NoReady(place)
            }
            (_, Part::Port { name, protocol }) => {
                let is = |port: &k8s::PortRef<'_>| is_port(port, name, protocol);
                let there = match ends {
                    true => {
                        service.endpoints.filter(ready).any(|one| one.ports().any(|port| is(&port)))
                    }
                    false => service.ports.clone().any(|port| is(&port)),
                };
                if there { Why::NoType } else { Why::NoPort(place, name, protocol) }
            }
            (_, Part::Ports(protocol)) => {
                let there = match ends {
                    true => service
                        .endpoints
                        .filter(ready)
                        .any(|one| has_protocol(one.ports(), protocol)),
                    false => has_protocol(service.ports, protocol),
                };
                if there { Why::NoType } else { Why::NoProtocol(place, protocol) }
            }
            (_, Part::Endpoint { .. } | Part::Cluster(_)) if none => Why::NoReady(place),
            (_, Part::Cluster(label)) => {
                let mut all = service.endpoints.filter(ready);
                match all.any(|one| one.cluster() == label) {
                    true => Why::NoType,
                    false => Why::NoEndpoint(place, label),
                }
            }
            (_, Part::Endpoint { label, cluster }) => {
                let address = undashed(label);
                let mut all = service.endpoints.filter(ready);
                let calls = self.cluster.calls;
                match all.any(|one| one.cluster() == cluster && calls.is(&one, label, address)) {
                    true => Why::NoType,
                    false => Why::NoEndpoint(place, label),
                }
            }
            _ => Why::NoType,
        }
    }
}
