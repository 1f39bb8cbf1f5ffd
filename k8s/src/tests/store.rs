//! The store against a simple model, and what its readers see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use crate::{
    Address, Endpoint, Event, Export, Import, ImportKind, Keep, Key, Kind, Meta, Object, Place,
    Pod, Port, Protocol, Quiet, Service, ServiceKind, Slice, Store, Writer,
};

/// Keeps everything.
pub(super) fn all() -> Keep {
    Keep {
        namespaces: Vec::new(),
        endpoints: true,
        pods: true,
        multicluster: true,
        pod_names: true,
        pod_labels: true,
        zones: true,
        exports: true,
    }
}

/// A small generator with a seed, so that a failure can be repeated.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Throws a number below `below`.
    pub(super) fn throw(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Throws an address out of few.
    fn ip(&mut self) -> IpAddr {
        let last = self.throw(12) as u16;
        if self.throw(3) == 0 {
            IpAddr::V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into())
        } else {
            Ipv4Addr::new(198, 51, 100, last as u8).into()
        }
    }

    /// Throws a list of at most `most`.
    fn list<T>(&mut self, most: u64, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.throw(most + 1)).map(|_| item(self)).collect()
    }

    /// Throws ports.
    fn ports(&mut self) -> Vec<Port<'static>> {
        self.list(2, |dice| Port {
            name: ["", "http", "dns"][dice.throw(3) as usize].into(),
            protocol: [Protocol::Tcp, Protocol::Udp, Protocol::Sctp][dice.throw(3) as usize],
            number: 80 + dice.throw(3) as u16,
        })
    }

    /// Throws the name of an object of a kind.
    pub(super) fn key(&mut self, kind: Kind) -> Key<'static> {
        let namespace = ["shop", "edge", "lab"][self.throw(3) as usize];
        match kind {
            Kind::Namespaces => Key { kind, namespace: "".into(), name: namespace.into() },
            Kind::Slices | Kind::ImportSlices => {
                let name = ["web-a1", "web-b2", "db-c3", "web", "mirror"][self.throw(5) as usize];
                Key { kind, namespace: namespace.into(), name: name.into() }
            }
            _ => {
                let name = ["web", "db", "web-a"][self.throw(3) as usize];
                Key { kind, namespace: namespace.into(), name: name.into() }
            }
        }
    }

    /// Throws a slice.
    fn slice(&mut self, meta: Meta<'static>, cluster: &'static str) -> Slice<'static> {
        let endpoints = self.list(4, |dice| Endpoint {
            place: if dice.throw(9) == 0 {
                Place::Name("node.example.org".into())
            } else {
                Place::Ip(dice.ip())
            },
            ready: dice.throw(4) > 0,
            hostname: ["", "db-0"][dice.throw(2) as usize].into(),
            pod: ["", "pod-1.x"][dice.throw(2) as usize].into(),
            zone: ["", "Zone-A", "zone.b"][dice.throw(3) as usize].into(),
        });
        Slice {
            meta,
            service: ["web", "db", "web-a", ""][self.throw(4) as usize].into(),
            cluster: cluster.into(),
            ports: self.ports(),
            endpoints,
            triggered: "".into(),
        }
    }

    /// Throws an object.
    pub(super) fn object(&mut self, kind: Kind) -> Object<'static> {
        let Key { namespace, name, .. } = self.key(kind);
        let meta = Meta { namespace, name, version: self.throw(1000) };
        match kind {
            Kind::Namespaces => Object::Namespace(meta),
            Kind::Services => {
                let kinds =
                    [ServiceKind::ClusterIp, ServiceKind::Headless, ServiceKind::ExternalName];
                let more = self.throw(2) as usize;
                Object::Service(Service {
                    meta,
                    kind: kinds[self.throw(3) as usize],
                    selector: self.throw(2) == 0,
                    cluster_ips: self.list(2, Self::ip),
                    external_name: ["", "db.example.org"][more].into(),
                    external_ips: self.list(2, Self::ip),
                    balancer_ips: self.list(1, Self::ip),
                    balancer_names: self.list(1, |_| "lb.example.org".into()),
                    ports: self.ports(),
                })
            }
            Kind::Imports => Object::Import(Import {
                meta,
                kind: [ImportKind::ClusterSetIp, ImportKind::Headless][self.throw(2) as usize],
                ips: self.list(2, Self::ip),
                ports: self.ports(),
            }),
            Kind::Slices => Object::Slice(self.slice(meta, "")),
            Kind::ImportSlices => {
                let cluster = ["c1", "c2"][self.throw(2) as usize];
                Object::ImportSlice(self.slice(meta, cluster))
            }
            Kind::Pods => Object::Pod(Pod {
                meta,
                ips: self.list(2, Self::ip),
                labels: self
                    .list(2, |dice| ("app".into(), ["web", "db"][dice.throw(2) as usize].into())),
                terminating: self.throw(5) == 0,
            }),
            Kind::Exports => Object::Export(Export {
                meta,
                created: self.throw(3),
                invalid: self.throw(3) == 0,
                conflict: self.throw(3) == 0,
            }),
        }
    }
}

/// What names an object in the model.
type Name = (Kind, String, String);

/// What a store has to agree with: objects by name, and those that the lists under way have named.
#[derive(Default)]
struct Model {
    objects: BTreeMap<Name, Object<'static>>,
    named: BTreeMap<Kind, BTreeSet<Name>>,
}

impl Model {
    fn apply(&mut self, event: &Event<'static>) {
        match event {
            Event::Restart(kind) => drop(self.named.insert(*kind, BTreeSet::new())),
            Event::Synced(kind) => {
                let named = self.named.remove(kind).unwrap_or_default();
                self.objects.retain(|name, _| name.0 != *kind || named.contains(name));
            }
            // This store follows the whole cluster.
            Event::RestartIn(..) | Event::SyncedIn(..) | Event::Refused(..) => {}
            Event::Delete(key) => {
                self.objects.remove(&(key.kind, key.namespace.to_string(), key.name.to_string()));
            }
            Event::Apply(object) => {
                let (kind, meta) = (object.kind(), object.meta());
                let name = (kind, meta.namespace.to_string(), meta.name.to_string());
                self.named.entry(kind).or_default().insert(name.clone());
                if matches!(object, Object::Pod(pod) if pod.terminating) {
                    return;
                }
                match object {
                    Object::Slice(slice) | Object::ImportSlice(slice)
                        if slice.service.is_empty() =>
                    {
                        self.objects.remove(&name);
                    }
                    _ => drop(self.objects.insert(name, object.clone())),
                }
            }
        }
    }
}

/// Makes the key of a name in a namespace.
fn key(name: &[u8], namespace: &[u8]) -> Vec<u8> {
    let mut key = vec![name.len() as u8];
    key.extend(name);
    key.push(namespace.len() as u8);
    key.extend(namespace);
    key
}

/// Writes down everything that readers can learn of a store.
pub(super) fn dump(store: &Store) -> String {
    let reader = store.read();
    let mut out = String::new();
    let mut spaces: Vec<_> =
        reader.namespaces().map(|name| name.escape_ascii().to_string()).collect();
    spaces.sort();
    writeln!(out, "{spaces:?}").unwrap();
    for service in reader.services() {
        let ports: Vec<_> = service.ports().collect();
        let ips: Vec<_> = service
            .cluster_ips()
            .chain(service.external_ips())
            .chain(service.load_balancer().ips())
            .collect();
        let names: Vec<_> = service.load_balancer().hostnames().map(<[u8]>::to_vec).collect();
        let mut endpoints: Vec<_> = service
            .endpoints()
            .map(|endpoint| format!("{endpoint:?} {:?}", endpoint.ports().collect::<Vec<_>>()))
            .collect();
        endpoints.sort();
        writeln!(
            out,
            "{service:?} {:?} {} {} {ips:?} {:?} {names:?} {ports:?} {endpoints:?}",
            service.kind(),
            service.version(),
            service.has_selector(),
            service.external_name().escape_ascii().to_string()
        )
        .unwrap();
        let key = key(service.name(), service.namespace());
        assert_eq!(reader.service(&key).unwrap().name(), service.name());
    }
    for import in reader.imports() {
        let ports: Vec<_> = import.ports().collect();
        let ips: Vec<_> = import.ips().collect();
        let mut endpoints: Vec<_> = import
            .endpoints()
            .map(|endpoint| {
                format!(
                    "{} {endpoint:?} {:?}",
                    endpoint.cluster().escape_ascii(),
                    endpoint.ports().collect::<Vec<_>>()
                )
            })
            .collect();
        endpoints.sort();
        writeln!(out, "import {import:?} {:?} {ips:?} {ports:?} {endpoints:?}", import.kind())
            .unwrap();
        let key = key(import.name(), import.namespace());
        assert_eq!(reader.import(&key).unwrap().name(), import.name());
    }
    let mut exports: Vec<_> = reader
        .exports()
        .map(|export| {
            let key = [
                &[export.name().len() as u8],
                export.name(),
                &[export.namespace().len() as u8],
                export.namespace(),
            ]
            .concat();
            assert_eq!(reader.export(&key).unwrap().created(), export.created());
            format!(
                "export {export:?} {} {} {} {:?}",
                export.created(),
                export.invalid(),
                export.conflict(),
                export.service()
            )
        })
        .collect();
    exports.sort();
    writeln!(out, "{exports:?}").unwrap();
    let v4 = (0..12).map(|last| IpAddr::from([198, 51, 100, last]));
    let v6 = (0..12).map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
    for ip in v4.chain(v6) {
        let mut found: Vec<_> =
            reader.services_by_ip(ip).map(|service| format!("ip {service:?}")).collect();
        found.extend(
            reader.services_by_external_ip(ip).map(|service| format!("external {service:?}")),
        );
        found.extend(
            reader
                .endpoints_by_ip(ip)
                .map(|(service, endpoint)| format!("endpoint {service:?} {endpoint:?}")),
        );
        found.extend(
            reader
                .pods_by_ip(ip)
                .map(|pod| format!("pod {pod:?} {:?}", pod.labels().collect::<Vec<_>>())),
        );
        found.sort();
        let within = ["shop", "edge", "lab"].map(|space| reader.pod_in(space.as_bytes(), ip));
        writeln!(out, "{ip} {found:?} {within:?} {}", reader.pod_by_ip(ip).is_some()).unwrap();
    }
    drop(reader);
    let counts: Vec<_> = store.freshness().map(|kind| (kind.kind, kind.objects)).collect();
    writeln!(out, "{counts:?}").unwrap();
    out
}

#[test]
fn any_order_of_events_gives_what_a_fresh_list_gives() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
        let mut model = Model::default();
        let mut listing = [false; Kind::COUNT];
        for _ in 0..dice.throw(400) {
            let kind = Kind::ALL[dice.throw(Kind::COUNT as u64) as usize];
            let event = match dice.throw(12) {
                0 => {
                    listing[kind.index()] = true;
                    Event::Restart(kind)
                }
                1 if listing[kind.index()] => {
                    listing[kind.index()] = false;
                    Event::Synced(kind)
                }
                2..=4 => Event::Delete(dice.key(kind)),
                _ => Event::Apply(dice.object(kind)),
            };
            // A list that has begun names again what it saw; until its end nothing else is removed.
            writer.apply(&event);
            model.apply(&event);
        }
        let (mut fresh, expected) = Writer::new(all(), Arc::new(Quiet));
        for object in model.objects.values() {
            fresh.apply(&Event::Apply(object.clone()));
        }
        assert_eq!(dump(&store), dump(&expected), "seed {seed}");

        for name in model.objects.keys() {
            let (kind, namespace, name) = name.clone();
            writer.apply(&Event::Delete(Key {
                kind,
                namespace: namespace.into(),
                name: name.into(),
            }));
        }
        let content = store.shared.content.read().unwrap();
        assert_eq!(content.counts, [0; Kind::COUNT], "seed {seed}");
        assert!(
            content.services.index.is_empty() && content.imports.index.is_empty(),
            "seed {seed}"
        );
        assert!(content.bundle_index.is_empty() && content.pod_index.is_empty(), "seed {seed}");
        assert!(content.export_index.is_empty(), "seed {seed}");
        assert!(content.by_ip.is_empty() && content.by_external.is_empty(), "seed {seed}");
        assert!(content.by_endpoint.is_empty() && content.by_pod.is_empty(), "seed {seed}");
        for name in [&b"shop"[..], b"edge", b"lab"] {
            assert_eq!(content.spaces.find(name), None, "seed {seed}");
        }
    }
}

#[test]
fn lists_beyond_the_counter_still_remove_what_they_do_not_name() {
    let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
    let object = |name: &'static str| {
        Event::Apply(Object::Namespace(Meta { name: name.into(), ..Meta::default() }))
    };
    writer.apply(&object("gone"));
    for _ in 0..255 {
        writer.apply(&Event::Restart(Kind::Namespaces));
        writer.apply(&object("stays"));
    }
    writer.apply(&Event::Restart(Kind::Namespaces));
    writer.apply(&object("stays"));
    writer.apply(&Event::Synced(Kind::Namespaces));
    assert!(store.read().namespace(b"stays"));
    assert!(!store.read().namespace(b"gone"));
}

#[test]
fn a_store_is_synced_when_the_required_kinds_are_listed() {
    let keep = Keep { endpoints: true, pods: true, multicluster: true, ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    for kind in [Kind::Namespaces, Kind::Services, Kind::Slices] {
        assert!(!store.synced());
        writer.apply(&Event::Restart(kind));
        writer.apply(&Event::Synced(kind));
        assert!(store.listed(kind));
    }
    assert!(!store.synced());
    store.set_state(Kind::Pods, crate::State::Forbidden);
    store.set_state(Kind::Imports, crate::State::Absent);
    writer.apply(&Event::Synced(Kind::ImportSlices));
    assert!(store.synced());
    assert!(!store.listed(Kind::Pods));
    store.set_state(Kind::Services, crate::State::Forbidden);
    assert!(store.synced(), "what was listed once stays listed");
}

#[test]
fn some_answers_need_no_more_than_services() {
    for kind in [Kind::Namespaces, Kind::Services, Kind::Slices] {
        let keep = Keep { endpoints: true, ..Keep::default() };
        let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
        let others =
            [Kind::Namespaces, Kind::Services, Kind::Slices].into_iter().filter(|k| *k != kind);
        others.for_each(|other| writer.apply(&Event::Synced(other)));
        assert!(!store.answers(), "{kind} may still come");
        writer.apply(&Event::Refused(kind, "".into()));
        assert_eq!(store.answers(), kind != Kind::Services);
        assert!(!store.synced());
        assert_eq!(store.knows_endpoints(false), kind != Kind::Slices);
        writer.apply(&Event::Synced(kind));
        assert!(store.answers() && store.synced() && store.knows_endpoints(false));
        writer.apply(&Event::Refused(kind, "".into()));
        assert!(store.answers() && store.synced() && store.knows_endpoints(false));
        assert!(!store.read().doubts(b"shop"), "what was listed is known");
    }
}

#[test]
fn namespaces_that_are_kept_from_us_are_there_if_something_is_in_them() {
    let service = |namespace: &'static str| {
        let meta = Meta { name: "web".into(), namespace: namespace.into(), version: 1 };
        Event::Apply(Object::Service(Service { meta, ..Service::default() }))
    };
    let many: Vec<String> = (0..65).map(|number| format!("n{number}")).collect();
    for (namespaces, chosen) in [(Vec::new(), false), (many, false), (Vec::new(), true)] {
        let exposed = namespaces.is_empty();
        let (mut writer, store) =
            Writer::new(Keep { namespaces, ..Keep::default() }, Arc::new(Quiet));
        if chosen {
            writer.choose();
        }
        writer.apply(&service("shop"));
        writer.apply(&service("n1"));
        writer.apply(&Event::Synced(Kind::Services));
        let told = |name: &[u8]| (store.read().namespace(name), store.read().doubts(name));
        assert_eq!(told(b"n1"), (false, false));
        writer.apply(&Event::Refused(Kind::Namespaces, "".into()));
        assert_eq!(store.answers(), !chosen, "labels choose what is exposed");
        assert_eq!(told(b"n1"), (!chosen, false));
        assert_eq!(told(b"n2"), (false, !chosen));
        assert_eq!(told(b"shop"), (exposed && !chosen, false));
        assert_eq!(store.read().service(b"\x03web\x02n1").is_some(), !chosen);
        assert_eq!(told(b"no"), (false, exposed && !chosen), "it is not exposed");
        writer.apply(&Event::Synced(Kind::Namespaces));
        assert_eq!([told(b"n1"), told(b"n2"), told(b"no")], [(false, false); 3]);
        assert!(store.synced());
    }
}

#[test]
fn serials_move_with_what_they_tell() {
    let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
    assert_eq!((store.serial(), store.external_serial(), store.version()), (0, 0, 0));
    writer.apply(&Event::Apply(Object::Namespace(Meta { name: "shop".into(), ..Meta::default() })));
    assert!(store.serial() > 1_700_000_000);
    let meta =
        |name: &'static str| Meta { namespace: "shop".into(), name: name.into(), version: 1 };
    let service = Service {
        meta: meta("web"),
        cluster_ips: vec![[198, 51, 100, 1].into()],
        ..Service::default()
    };
    writer.apply(&Event::Apply(Object::Service(service.clone())));
    let version = store.version();
    writer.apply(&Event::Apply(Object::Service(Service {
        meta: Meta { version: 2, ..meta("web") },
        ..service
    })));
    assert_eq!(store.version(), version, "a new version of the same content is no change");
    let pod = Pod { meta: meta("web-0"), labels: vec![("a".into(), "b".into())], ..Pod::default() };
    writer.apply(&Event::Apply(Object::Pod(pod)));
    assert_eq!(store.version(), version + 1);
}

#[test]
fn services_of_hidden_namespaces_are_not_shown_and_their_pods_are() {
    let keep = Keep { namespaces: vec!["edge".to_owned()], ..all() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    let ip = IpAddr::from([198, 51, 100, 99]);
    for namespace in ["edge", "internal"] {
        writer.apply(&Event::Apply(Object::Namespace(Meta {
            name: namespace.into(),
            ..Meta::default()
        })));
        let meta = Meta { namespace: namespace.into(), name: "s".into(), version: 0 };
        let service = Service { meta: meta.clone(), cluster_ips: vec![ip], ..Service::default() };
        writer.apply(&Event::Apply(Object::Service(service)));
        writer.apply(&Event::Apply(Object::Pod(Pod { meta, ips: vec![ip], ..Pod::default() })));
    }
    let reader = store.read();
    assert!(reader.namespace(b"edge") && !reader.namespace(b"internal"));
    assert!(reader.service(b"\x01s\x04edge").is_some());
    assert!(reader.service(b"\x01s\x08internal").is_none());
    assert_eq!(reader.services_by_ip(ip).count(), 1);
    assert!(reader.pod_in(b"internal", ip));
    for key in [
        &b""[..],
        b"\x01s",
        b"\x01s\x04edg",
        b"\x01s\x04edgex",
        b"\x01s\x04edge\x00",
        b"\x40",
        b"\xff\xff",
    ] {
        assert!(reader.service(key).is_none(), "{key:?}");
    }
}

#[test]
fn an_endpoint_in_two_slices_goes_with_the_second() {
    let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
    writer.apply(&Event::Apply(Object::Namespace(Meta {
        name: "default".into(),
        ..Meta::default()
    })));
    let ip = IpAddr::from([198, 51, 100, 10]);
    let endpoint = Endpoint {
        place: Place::Ip(ip),
        ready: true,
        hostname: "node".into(),
        pod: "".into(),
        zone: "".into(),
    };
    for name in ["db-1", "db-2"] {
        let slice = Slice {
            meta: Meta { namespace: "default".into(), name: name.into(), version: 0 },
            service: "db".into(),
            endpoints: vec![endpoint.clone()],
            ..Slice::default()
        };
        writer.apply(&Event::Apply(Object::Slice(slice)));
    }
    assert_eq!(store.read().endpoints_by_ip(ip).count(), 0, "the service is not there yet");
    let meta = Meta { namespace: "default".into(), name: "db".into(), version: 0 };
    let service = Service { meta, kind: ServiceKind::Headless, ..Service::default() };
    writer.apply(&Event::Apply(Object::Service(service)));
    for (name, left) in [("db-1", 1), ("db-2", 0)] {
        let key = Key { kind: Kind::Slices, namespace: "default".into(), name: name.into() };
        writer.apply(&Event::Delete(key));
        let reader = store.read();
        assert_eq!(reader.endpoints_by_ip(ip).count(), left);
        let service = reader.service(b"\x02db\x07default").unwrap();
        assert_eq!(service.endpoints().count(), left);
        assert!(service.endpoints().all(|endpoint| endpoint.address() == Address::Ip(ip)));
    }
}

/// Remembers latencies and counts.
#[derive(Debug, Default)]
struct Ear(std::sync::Mutex<Vec<(String, f64)>>);

impl crate::Probe for Ear {
    fn programmed(&self, service_kind: &str, seconds: f64) {
        self.0.lock().unwrap().push((service_kind.to_owned(), seconds));
    }

    fn objects(&self, kind: Kind, count: usize) {
        self.0.lock().unwrap().push((kind.word().to_owned(), count as f64));
    }
}

#[test]
fn latencies_are_told_of_changes_after_the_list() {
    let ear = Arc::new(Ear::default());
    let (mut writer, _store) = Writer::new(all(), Arc::clone(&ear) as _);
    let meta =
        |name: &str| Meta { namespace: "shop".into(), name: name.to_owned().into(), version: 0 };
    let kinds = [
        ("a", ServiceKind::ClusterIp, true, "cluster_ip"),
        ("b", ServiceKind::Headless, true, "headless_with_selector"),
        ("c", ServiceKind::Headless, false, "headless_without_selector"),
    ];
    for (name, kind, selector, _) in kinds {
        let service = Service { meta: meta(name), kind, selector, ..Service::default() };
        writer.apply(&Event::Apply(Object::Service(service)));
    }
    let then = crate::store::unix_time().0 - 2;
    let then = k8s_openapi::jiff::Timestamp::from_second(then as i64).unwrap().to_string();
    let slice = |name: &str, port| Slice {
        meta: meta(&format!("{name}-1")),
        service: name.to_owned().into(),
        ports: vec![Port { name: "".into(), protocol: Protocol::Tcp, number: port }],
        triggered: then.clone().into(),
        ..Slice::default()
    };
    writer.apply(&Event::Apply(Object::Slice(slice("a", 1))));
    writer.apply(&Event::Synced(Kind::Services));
    assert_eq!(
        *ear.0.lock().unwrap(),
        [
            ("services".to_owned(), 1.0),
            ("services".to_owned(), 2.0),
            ("services".to_owned(), 3.0),
            ("endpointslices".to_owned(), 1.0)
        ]
    );
    writer.apply(&Event::Apply(Object::Slice(slice("a", 1))));
    writer.apply(&Event::Synced(Kind::Slices));
    ear.0.lock().unwrap().clear();
    for (name, ..) in kinds {
        writer.apply(&Event::Apply(Object::Slice(slice(name, 2))));
        writer.apply(&Event::Apply(Object::Slice(slice(name, 2))));
    }
    let told: Vec<_> =
        ear.0.lock().unwrap().iter().filter(|told| told.0 != "endpointslices").cloned().collect();
    assert_eq!(told.iter().map(|told| &*told.0).collect::<Vec<_>>(), kinds.map(|kind| kind.3));
    assert!(told.iter().all(|told| (2.0..10.0).contains(&told.1)), "{told:?}");
}
