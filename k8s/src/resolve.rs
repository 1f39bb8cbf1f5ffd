//! From documents to the events of a whole cluster: what a cluster's controllers would have made is made here.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    document::{self, ClusterIp, Metadata, TargetPort},
    object::{
        Endpoint, Event, Export, Import, ImportKind, Kind, Meta, Object, Place, Pod, Port,
        Protocol, Service, ServiceKind, Slice,
    },
    selector::Selector,
    yaml::Document,
};

/// The label that says which service a slice belongs to.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that says which imported service a slice belongs to.
pub(crate) const IMPORT_NAME: &str = "multicluster.kubernetes.io/service-name";
/// The label that says which cluster an imported slice comes from.
pub(crate) const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// The annotation that says when the change behind a slice's last change happened.
pub(crate) const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label that every namespace has with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The name of the property that tells a cluster's own name.
const CLUSTER_PROPERTY: &str = "cluster.clusterset.k8s.io";
/// A cluster's name where no property tells it.
const LOCAL: &str = "local";

/// Which documents count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// What labels of namespaces must fulfil.
    pub(crate) namespaces: Option<Selector>,
    /// What labels of services, slices, imports and pods must fulfil.
    pub(crate) objects: Option<Selector>,
    /// Whether exports are read as such, so that no imports are made of them.
    pub(crate) exports: bool,
}

/// Gives the events that make a store hold what the documents say, and nothing else.
pub(crate) fn events(documents: &[Document], filter: &Filter) -> Vec<Event<'static>> {
    let mut objects: [Vec<Object<'static>>; Kind::COUNT] = Default::default();
    let mut put = |object: Object<'static>| objects[object.kind().index()].push(object);
    namespaces(documents, filter).into_iter().for_each(&mut put);

    let passes = |metadata: &Metadata| passes(filter.objects.as_ref(), &metadata.labels, None);
    let services: Vec<_> = documents
        .iter()
        .filter_map(|document| match document {
            Document::Service(service) => Some(&**service),
            _ => None,
        })
        .collect();
    let pods: Vec<_> = documents
        .iter()
        .filter_map(|document| match document {
            Document::Pod(pod) if runs(pod) => Some(&**pod),
            _ => None,
        })
        .collect();
    let mut slices: Vec<(&Metadata, Slice<'static>)> = Vec::new();
    let mut imported: BTreeSet<(String, String)> = BTreeSet::new();
    for document in documents {
        match document {
            Document::Slice(doc) => {
                if doc.metadata.labels.contains_key(SERVICE_NAME) {
                    slices.push((&doc.metadata, slice(doc, SERVICE_NAME)));
                }
                if doc.metadata.labels.contains_key(IMPORT_NAME) && passes(&doc.metadata) {
                    put(Object::ImportSlice(slice(doc, IMPORT_NAME)));
                }
            }
            Document::Import(doc) => {
                imported.insert((namespace(&doc.metadata).to_owned(), doc.metadata.name.clone()));
                if passes(&doc.metadata) {
                    put(Object::Import(import(doc)));
                }
            }
            Document::Export(doc) => put(Object::Export(export(doc))),
            _ => {}
        }
    }
    let given: BTreeSet<(String, String)> = slices
        .iter()
        .map(|(metadata, slice)| (namespace(metadata).to_owned(), slice.service.to_string()))
        .collect();
    for service in &services {
        if !given
            .contains(&(namespace(&service.metadata).to_owned(), service.metadata.name.clone()))
        {
            slices.extend(
                selected(service, &pods).into_iter().map(|slice| (&service.metadata, slice)),
            );
        }
    }
    let made = addresses(&services);
    let made: Vec<_> = services.iter().map(|doc| service(doc, &made)).collect();
    if !filter.exports {
        exports(documents, &made, &slices, &imported).into_iter().for_each(&mut put);
    }
    for (doc, service) in services.iter().zip(made) {
        if passes(&doc.metadata) {
            put(Object::Service(service));
        }
    }
    for (metadata, slice) in slices {
        if passes(metadata) {
            put(Object::Slice(slice));
        }
    }
    for doc in pods {
        if passes(&doc.metadata) {
            put(Object::Pod(pod(doc)));
        }
    }
    let lists = Kind::ALL.into_iter().zip(objects).flat_map(|(kind, objects)| {
        let objects = objects.into_iter().map(Event::Apply);
        [Event::Restart(kind)].into_iter().chain(objects).chain([Event::Synced(kind)])
    });
    lists.collect()
}

/// Gives the namespaces that are declared, and those that documents are in.
fn namespaces(documents: &[Document], filter: &Filter) -> Vec<Object<'static>> {
    let mut all: BTreeMap<&str, Option<&Metadata>> = BTreeMap::new();
    for document in documents {
        match document {
            Document::Namespace(plain) => {
                all.insert(&plain.metadata.name, Some(&plain.metadata));
            }
            Document::Property(_) => {}
            Document::Service(doc) => drop(all.entry(namespace(&doc.metadata)).or_default()),
            Document::Slice(doc) => drop(all.entry(namespace(&doc.metadata)).or_default()),
            Document::Pod(doc) => drop(all.entry(namespace(&doc.metadata)).or_default()),
            Document::Import(doc) => drop(all.entry(namespace(&doc.metadata)).or_default()),
            Document::Export(doc) => drop(all.entry(namespace(&doc.metadata)).or_default()),
        }
    }
    let none = BTreeMap::new();
    all.into_iter()
        .filter(|(name, metadata)| {
            let labels = metadata.map_or(&none, |metadata| &metadata.labels);
            passes(filter.namespaces.as_ref(), labels, Some((NAMESPACE_NAME, name)))
        })
        .map(|(name, _)| {
            Object::Namespace(Meta { name: name.to_owned().into(), ..Meta::default() })
        })
        .collect()
}

/// Says whether labels, and one more, fulfil a selector.
fn passes(
    selector: Option<&Selector>,
    labels: &BTreeMap<String, String>,
    own: Option<(&str, &str)>,
) -> bool {
    selector.is_none_or(|selector| {
        selector.matches(|key| {
            labels
                .get(key)
                .map(String::as_str)
                .or_else(|| own.filter(|own| own.0 == key).map(|own| own.1))
        })
    })
}

/// Gives the namespace that a document is in.
fn namespace(metadata: &Metadata) -> &str {
    metadata.namespace.as_deref().unwrap_or("default")
}

/// Says whether a pod is in none of the phases in which it has no address of its own any more.
fn runs(pod: &document::Pod) -> bool {
    !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown"))
}

/// Gives name and version.
pub(crate) fn meta(metadata: &Metadata) -> Meta<'static> {
    Meta {
        namespace: namespace(metadata).to_owned().into(),
        name: metadata.name.clone().into(),
        version: metadata
            .resource_version
            .as_deref()
            .and_then(|version| version.parse().ok())
            .unwrap_or_default(),
    }
}

/// Gives the name and version of a namespace.
pub(crate) fn namespace_meta(metadata: &Metadata) -> Meta<'static> {
    Meta { namespace: Cow::default(), ..meta(metadata) }
}

/// Gives a protocol.
const fn protocol(protocol: Option<document::Protocol>) -> Protocol {
    match protocol {
        None | Some(document::Protocol::Tcp) => Protocol::Tcp,
        Some(document::Protocol::Udp) => Protocol::Udp,
        Some(document::Protocol::Sctp) => Protocol::Sctp,
    }
}

/// Gives an optional text.
fn text(text: Option<&str>) -> Cow<'static, str> {
    text.unwrap_or_default().to_owned().into()
}

/// Gives the ports of a service.
fn ports(ports: &[document::ServicePort]) -> Vec<Port<'static>> {
    ports
        .iter()
        .map(|port| Port {
            name: text(port.name.as_deref()),
            protocol: protocol(port.protocol),
            number: port.port,
        })
        .collect()
}

/// Gives a service; `made` has the addresses of those that state none.
pub(crate) fn service(
    doc: &document::Service,
    made: &BTreeMap<(&str, &str), Vec<IpAddr>>,
) -> Service<'static> {
    let (kind, given) = reached(doc);
    let key = (namespace(&doc.metadata), &*doc.metadata.name);
    let ingress = &doc.status.load_balancer.ingress;
    Service {
        meta: meta(&doc.metadata),
        kind,
        selector: !doc.spec.selector.is_empty(),
        cluster_ips: if given.is_empty() {
            made.get(&key).cloned().unwrap_or_default()
        } else {
            given
        },
        external_name: match kind {
            ServiceKind::ExternalName => text(doc.spec.external_name.as_deref()),
            ServiceKind::ClusterIp | ServiceKind::Headless => Cow::default(),
        },
        external_ips: doc.spec.external_ips.clone(),
        balancer_ips: ingress.iter().filter_map(|ingress| ingress.ip).collect(),
        balancer_names: ingress
            .iter()
            .filter_map(|ingress| ingress.hostname.clone().map(Cow::Owned))
            .collect(),
        ports: ports(&doc.spec.ports),
    }
}

/// Says how a service is reached, and by which addresses that it states.
fn reached(doc: &document::Service) -> (ServiceKind, Vec<IpAddr>) {
    if doc.spec.kind.as_deref() == Some("ExternalName") {
        return (ServiceKind::ExternalName, Vec::new());
    }
    let first = if doc.spec.cluster_ips.is_empty() { doc.spec.cluster_ip.as_ref() } else { None };
    let stated: Vec<_> = doc.spec.cluster_ips.iter().chain(first).collect();
    if stated.contains(&&ClusterIp::Headless) {
        return (ServiceKind::Headless, Vec::new());
    }
    let ips = stated.into_iter().filter_map(|ip| match ip {
        ClusterIp::Ip(ip) => Some(*ip),
        ClusterIp::Headless | ClusterIp::Open => None,
    });
    (ServiceKind::ClusterIp, ips.collect())
}

/// Chooses addresses for the services that state none: from the ranges that Kubernetes has by default, by the
/// service's name, the next free one if that is taken. The same documents always give the same addresses.
fn addresses<'d>(services: &[&'d document::Service]) -> BTreeMap<(&'d str, &'d str), Vec<IpAddr>> {
    let mut taken: BTreeSet<IpAddr> = BTreeSet::new();
    let mut open: BTreeMap<(&str, &str), &document::Service> = BTreeMap::new();
    for doc in services {
        let (kind, given) = reached(doc);
        if kind == ServiceKind::ClusterIp && given.is_empty() {
            open.insert((namespace(&doc.metadata), &doc.metadata.name), doc);
        }
        taken.extend(given);
    }
    let mut made = BTreeMap::new();
    for (key, doc) in open {
        let families: Vec<_> = doc.spec.ip_families.iter().map(String::as_str).collect();
        let dual = doc
            .spec
            .ip_family_policy
            .as_deref()
            .is_some_and(|policy| policy.ends_with("DualStack"));
        let v6 = families.contains(&"IPv6") || dual;
        let v4 = families.contains(&"IPv4") || dual || !v6;
        let start = foldhash::fast::FixedState::with_seed(0).hash_one(key) as u16;
        let mut choose = |address: fn(u16) -> IpAddr| {
            // Some 65,000 are enough: a folder with more services than that gets none for the rest.
            let ip = (0..=u16::MAX)
                .map(|step| start.wrapping_add(step))
                .filter(|number| !matches!(number & 0xff, 0 | 255))
                .map(address)
                .find(|ip| !taken.contains(ip))?;
            taken.insert(ip);
            Some(ip)
        };
        let v4 = if v4 {
            choose(|number| Ipv4Addr::from(0x0a60_0000 | u32::from(number)).into())
        } else {
            None
        };
        let v6 = if v6 {
            choose(|number| Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, number).into())
        } else {
            None
        };
        made.insert(key, v4.into_iter().chain(v6).collect());
    }
    made
}

/// Gives a slice that belongs to the service which this label names.
pub(crate) fn slice(doc: &document::Slice, label: &str) -> Slice<'static> {
    let labels = &doc.metadata.labels;
    let value = |key: &str| text(labels.get(key).map(String::as_str));
    let named = doc.address_type.as_deref() == Some("FQDN");
    let endpoints = doc.endpoints.iter().filter_map(|endpoint| {
        let address = endpoint.addresses.first()?;
        let place = if named {
            Place::Name(address.clone().into())
        } else {
            Place::Ip(address.parse().ok()?)
        };
        let pod =
            endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
        Some(Endpoint {
            place,
            ready: endpoint.conditions.ready.unwrap_or(true),
            hostname: text(endpoint.hostname.as_deref()),
            pod: text(pod.and_then(|target| target.name.as_deref())),
            zone: text(endpoint.zone.as_deref()),
        })
    });
    let ports = doc.ports.iter().filter_map(|port| {
        Some(Port {
            name: text(port.name.as_deref()),
            protocol: protocol(port.protocol),
            number: port.port?,
        })
    });
    Slice {
        meta: meta(&doc.metadata),
        service: value(label),
        cluster: if label == IMPORT_NAME { value(SOURCE_CLUSTER) } else { Cow::default() },
        ports: ports.collect(),
        endpoints: endpoints.collect(),
        triggered: text(doc.metadata.annotations.get(TRIGGERED).map(String::as_str)),
    }
}

/// Gives an imported service.
pub(crate) fn import(doc: &document::Import) -> Import<'static> {
    Import {
        meta: meta(&doc.metadata),
        kind: match doc.spec.kind.as_deref() {
            Some("Headless") => ImportKind::Headless,
            _ => ImportKind::ClusterSetIp,
        },
        ips: doc.spec.ips.clone(),
        ports: ports(&doc.spec.ports),
    }
}

/// Gives an export.
pub(crate) fn export(doc: &document::Export) -> Export<'static> {
    let created = doc.metadata.creation_timestamp.as_deref().unwrap_or_default();
    let says = |kind: &str, status: &str| {
        let conditions = &doc.status.conditions;
        conditions.iter().any(|condition| condition.kind == kind && condition.status == status)
    };
    Export {
        meta: meta(&doc.metadata),
        created: created
            .parse::<k8s_openapi::jiff::Timestamp>()
            .ok()
            .and_then(|time| u64::try_from(time.as_second()).ok())
            .unwrap_or_default(),
        invalid: says("Valid", "False"),
        conflict: says("Conflict", "True"),
    }
}

/// Gives a pod.
pub(crate) fn pod(doc: &document::Pod) -> Pod<'static> {
    let labels = doc.metadata.labels.iter();
    Pod {
        meta: meta(&doc.metadata),
        ips: pod_ips(doc),
        labels: labels.map(|(key, value)| (key.clone().into(), value.clone().into())).collect(),
        terminating: doc.metadata.deletion_timestamp.is_some(),
    }
}

/// Gives a pod's addresses.
fn pod_ips(doc: &document::Pod) -> Vec<IpAddr> {
    let ips: Vec<_> = doc.status.pod_ips.iter().map(|ip| ip.ip).collect();
    if ips.is_empty() { doc.status.pod_ip.into_iter().collect() } else { ips }
}

/// Makes the slices of a service with a selector, as the endpoint slice controller does: one a family.
fn selected(service: &document::Service, pods: &[&document::Pod]) -> Vec<Slice<'static>> {
    let selector = &service.spec.selector;
    if selector.is_empty() || service.spec.kind.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let mut slices: BTreeMap<(bool, Vec<u16>), Slice<'static>> = BTreeMap::new();
    for pod in pods {
        let chosen = namespace(&pod.metadata) == namespace(&service.metadata)
            && selector.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
        if !chosen {
            continue;
        }
        let ports: Vec<_> =
            service.spec.ports.iter().filter_map(|port| target(port, pod)).collect();
        let ready = service.spec.publish_not_ready_addresses == Some(true)
            || !pod
                .status
                .conditions
                .iter()
                .any(|condition| condition.kind == "Ready" && condition.status != "True");
        let hostname = pod
            .spec
            .hostname
            .as_deref()
            .filter(|_| pod.spec.subdomain.as_ref() == Some(&service.metadata.name));
        for ip in pod_ips(pod) {
            let numbers = ports.iter().map(|port| port.number).collect();
            let count = slices.len();
            let slice = slices.entry((ip.is_ipv6(), numbers)).or_insert_with(|| Slice {
                meta: Meta {
                    namespace: namespace(&service.metadata).to_owned().into(),
                    name: format!("{}-pods-{count}", service.metadata.name).into(),
                    version: 0,
                },
                service: service.metadata.name.clone().into(),
                ports: ports.clone(),
                ..Slice::default()
            });
            slice.endpoints.push(Endpoint {
                place: Place::Ip(ip),
                ready,
                hostname: text(hostname),
                pod: pod.metadata.name.clone().into(),
                zone: Cow::default(),
            });
        }
    }
    slices.into_values().collect()
}

/// Finds a service's port at a pod; none if the pod has no port of that name.
fn target(port: &document::ServicePort, pod: &document::Pod) -> Option<Port<'static>> {
    let number = match &port.target_port {
        None => port.port,
        Some(TargetPort::Number(number)) => *number,
        Some(TargetPort::Name(name)) => {
            let mut ports = pod.spec.containers.iter().flat_map(|container| &container.ports);
            ports.find(|other| other.name.as_ref() == Some(name))?.container_port
        }
    };
    Some(Port { name: text(port.name.as_deref()), protocol: protocol(port.protocol), number })
}

/// Makes imports of exported services that no document imports, as a multi-cluster controller does (KEP-1645).
fn exports(
    documents: &[Document],
    services: &[Service<'static>],
    slices: &[(&Metadata, Slice<'static>)],
    imported: &BTreeSet<(String, String)>,
) -> Vec<Object<'static>> {
    let cluster = documents
        .iter()
        .find_map(|document| match document {
            Document::Property(property) if property.metadata.name == CLUSTER_PROPERTY => {
                Some(&*property.spec.value)
            }
            _ => None,
        })
        .unwrap_or(LOCAL);
    let mut objects = Vec::new();
    for document in documents {
        let Document::Export(export) = document else { continue };
        let key = (namespace(&export.metadata).to_owned(), export.metadata.name.clone());
        let same = |service: &&Service<'_>| {
            *service.meta.namespace == key.0 && *service.meta.name == key.1
        };
        let Some(service) = services.iter().find(same) else { continue };
        // KEP-1645: services of the type ExternalName are not exported.
        let kind = match service.kind {
            ServiceKind::ClusterIp => ImportKind::ClusterSetIp,
            ServiceKind::Headless => ImportKind::Headless,
            ServiceKind::ExternalName => continue,
        };
        if imported.contains(&key) {
            continue;
        }
        objects.push(Object::Import(Import {
            meta: service.meta.clone(),
            kind,
            ips: service.cluster_ips.clone(),
            ports: service.ports.clone(),
        }));
        for (_, slice) in slices {
            if *slice.meta.namespace == key.0 && *slice.service == key.1 {
                objects.push(Object::ImportSlice(Slice {
                    cluster: cluster.to_owned().into(),
                    ..slice.clone()
                }));
            }
        }
    }
    objects
}
