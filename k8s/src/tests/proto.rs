//! The protobuf view, on what Kubernetes' own encoder made and on anything else.

use std::{net::IpAddr, sync::Arc};

use crate::{
    Event, Keep, Kind, Object, Place, Quiet, ServiceKind, Writer, from_yaml,
    proto::{self, Happened, ListCutter, Part},
};

/// Objects as the API server sends them, with managed fields and all else that is not read.
const SERVICE: &[u8] = include_bytes!("data/service.pb");
/// A slice of three endpoints.
const SLICE: &[u8] = include_bytes!("data/slice3.pb");
/// A slice of a hundred endpoints.
const LARGE: &[u8] = include_bytes!("data/slice100.pb");
/// A pod.
const POD: &[u8] = include_bytes!("data/pod.pb");

/// Keeps everything.
fn all() -> Keep {
    Keep {
        endpoints: true,
        pods: true,
        pod_names: true,
        pod_labels: true,
        zones: true,
        ..Keep::default()
    }
}

/// Writes a number of protobuf.
fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Writes a field of bytes.
pub(super) fn bytes(number: usize, value: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(value.len()), value.to_vec()].concat()
}

/// Writes a field of a number.
pub(super) fn number(field: usize, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Puts a message into its envelope.
pub(super) fn wrap(message: &[u8]) -> Vec<u8> {
    let kind = [bytes(1, b"v1"), bytes(2, b"Anything")].concat();
    [b"k8s\0".to_vec(), bytes(1, &kind), bytes(2, message), bytes(3, b""), bytes(4, b"")].concat()
}

/// Writes an event of a watch, without its length.
fn event(word: &str, message: &[u8]) -> Vec<u8> {
    [bytes(1, word.as_bytes()), bytes(2, &bytes(1, &wrap(message)))].concat()
}

#[test]
fn a_service_is_read_as_its_json_says() {
    let (object, version) =
        proto::object(Kind::Services, proto::unwrap(SERVICE).unwrap(), &all()).unwrap();
    let Object::Service(service) = object else { panic!("{object:?}") };
    assert_eq!(
        (&*service.meta.namespace, &*service.meta.name),
        ("team-payments-prod", "checkout-api-00042")
    );
    assert_eq!(service.kind, ServiceKind::ClusterIp);
    assert_eq!(version.parse(), Ok(service.meta.version));
    assert_eq!(service.cluster_ips, ["10.96.14.201".parse::<IpAddr>().unwrap()]);
    let ports: Vec<_> = service.ports.iter().map(|port| (&*port.name, port.number)).collect();
    assert_eq!(ports, [("http", 80), ("https", 443)]);
    assert!(service.selector && service.external_ips.is_empty());
}

#[test]
fn slices_are_read_as_their_json_says() {
    for (message, count) in [(SLICE, 3), (LARGE, 100)] {
        let (object, _) =
            proto::object(Kind::Slices, proto::unwrap(message).unwrap(), &all()).unwrap();
        let Object::Slice(slice) = object else { panic!("{object:?}") };
        assert_eq!(slice.service, "checkout-api-00042");
        assert_eq!(slice.endpoints.len(), count);
        assert!(slice.endpoints.iter().all(|endpoint| matches!(endpoint.place, Place::Ip(_))));
        assert!(slice.endpoints.iter().all(|endpoint| !endpoint.pod.is_empty()));
        assert!(!slice.ports.is_empty());
    }
}

#[test]
fn a_pod_is_read_as_its_json_says() {
    let (object, _) = proto::object(Kind::Pods, proto::unwrap(POD).unwrap(), &all()).unwrap();
    let Object::Pod(pod) = object else { panic!("{object:?}") };
    assert_eq!(&*pod.meta.namespace, "team-payments-prod");
    assert_eq!(pod.ips.len(), 1);
    assert!(!pod.terminating && !pod.labels.is_empty());
}

#[test]
fn every_field_that_dns_needs_is_found_where_the_api_has_it() {
    let pair =
        |key: &str, value: &str| [bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat();
    let meta = |name: &str, more: &[u8]| {
        let fields = [bytes(1, name.as_bytes()), bytes(3, b"shop"), bytes(6, b"77")];
        bytes(1, &[fields.concat(), more.to_vec()].concat())
    };
    let read = |kind, message: &[u8]| {
        let (object, version) = proto::object(kind, message, &all()).unwrap();
        assert_eq!(version, "77");
        format!("{object:?}")
    };
    let from = |text: &str| {
        let events = from_yaml(text).unwrap();
        let object = events.into_iter().find_map(|event| match event {
            Event::Apply(object) if object.kind() != Kind::Namespaces => Some(object),
            _ => None,
        });
        format!("{:?}", object.unwrap())
    };

    let balancer =
        [bytes(1, &bytes(1, b"203.0.113.7")), bytes(1, &bytes(2, b"lb.example.org"))].concat();
    let spec = [
        bytes(1, &[bytes(1, b"dns"), bytes(2, b"UDP"), number(3, 53), number(5, 30053)].concat()),
        bytes(2, &pair("app", "web")),
        bytes(3, b"198.51.100.1"),
        bytes(4, b"LoadBalancer"),
        bytes(5, b"203.0.113.8"),
        bytes(18, b"198.51.100.1"),
        bytes(18, b"2001:db8::1"),
    ];
    let message =
        [meta("web", b""), bytes(2, &spec.concat()), bytes(3, &bytes(1, &balancer))].concat();
    assert_eq!(
        read(Kind::Services, &message),
        from(
            "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, resourceVersion: '77'}
spec:
  type: LoadBalancer
  clusterIPs: [198.51.100.1, '2001:db8::1']
  externalIPs: [203.0.113.8]
  selector: {app: web}
  ports: [{name: dns, protocol: UDP, port: 53}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}, {hostname: lb.example.org}]}}
"
        )
    );

    let spec = [bytes(4, b"ExternalName"), bytes(10, b"db.example.org")].concat();
    let message = [meta("web", b""), bytes(2, &spec)].concat();
    assert_eq!(
        read(Kind::Services, &message),
        from(
            "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, resourceVersion: '77'}, spec: {type: ExternalName, externalName: db.example.org}}"
        )
    );

    let endpoint = [
        bytes(1, b"203.0.113.1"),
        bytes(2, &[number(1, 0), number(2, 1)].concat()),
        bytes(3, b"web-0"),
        bytes(4, &[bytes(1, b"Pod"), bytes(2, b"shop"), bytes(3, b"web-pod")].concat()),
        bytes(6, b"node-1"),
        bytes(7, b"zone-a"),
    ];
    let other = [bytes(1, b"203.0.113.2"), bytes(4, &[bytes(1, b"Node"), bytes(3, b"n")].concat())];
    let labels = bytes(11, &pair("kubernetes.io/service-name", "web"));
    let trigger = bytes(
        12,
        &pair("endpoints.kubernetes.io/last-change-trigger-time", "2026-01-02T03:04:05Z"),
    );
    let message = [
        meta("web-x", &[labels, trigger].concat()),
        bytes(2, &endpoint.concat()),
        bytes(2, &other.concat()),
        bytes(3, &[bytes(1, b"http"), bytes(2, b"TCP"), number(3, 8080)].concat()),
        bytes(3, &bytes(1, b"open")),
        bytes(4, b"IPv4"),
    ];
    assert_eq!(
        read(Kind::Slices, &message.concat()),
        from("
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-x
  namespace: shop
  resourceVersion: '77'
  labels: {kubernetes.io/service-name: web}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: '2026-01-02T03:04:05Z'}
addressType: IPv4
endpoints:
- {addresses: [203.0.113.1], conditions: {ready: false}, hostname: web-0, zone: zone-a, targetRef: {kind: Pod, name: web-pod}}
- {addresses: [203.0.113.2], targetRef: {kind: Node, name: n}}
ports: [{name: http, port: 8080}, {name: open}]
")
    );

    let labels = [
        bytes(11, &pair("multicluster.kubernetes.io/service-name", "far")),
        bytes(11, &pair("multicluster.kubernetes.io/source-cluster", "c1")),
    ];
    let message = [
        meta("far-x", &labels.concat()),
        bytes(2, &bytes(1, b"node.example.org")),
        bytes(4, b"FQDN"),
    ];
    assert_eq!(
        read(Kind::ImportSlices, &message.concat()),
        from("
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: far-x
  namespace: shop
  resourceVersion: '77'
  labels: {multicluster.kubernetes.io/service-name: far, multicluster.kubernetes.io/source-cluster: c1}
addressType: FQDN
endpoints: [{addresses: [node.example.org]}]
")
    );

    let status = [
        bytes(1, b"Running"),
        bytes(6, b"203.0.113.1"),
        bytes(12, &bytes(1, b"203.0.113.1")),
        bytes(12, &bytes(1, b"2001:db8::1")),
    ];
    let message =
        [meta("web-0", &bytes(11, &pair("app", "web"))), bytes(3, &status.concat())].concat();
    assert_eq!(
        read(Kind::Pods, &message),
        from(
            "
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, resourceVersion: '77', labels: {app: web}}
status: {phase: Running, podIP: 203.0.113.1, podIPs: [{ip: 203.0.113.1}, {ip: '2001:db8::1'}]}
"
        )
    );
    let deleting = meta("web-0", &bytes(9, &number(1, 1_700_000_000)));
    assert!(read(Kind::Pods, &deleting).contains("terminating: true"));
}

#[test]
fn events_bookmarks_and_statuses_are_told_apart() {
    let meta = |more: &[u8]| bytes(1, &[bytes(6, b"9"), more.to_vec()].concat());
    let (happened, message) = proto::event(&event("DELETED", &meta(b"")))
        .map(|(happened, message)| (happened, message.to_vec()))
        .unwrap();
    assert_eq!(happened, Happened::Deleted);
    assert_eq!(proto::bookmark(&message).unwrap(), ("9".into(), false));
    let end = bytes(12, &[bytes(1, b"k8s.io/initial-events-end"), bytes(2, b"true")].concat());
    assert_eq!(proto::bookmark(&meta(&end)).unwrap(), ("9".into(), true));
    let status = [bytes(3, b"too old"), bytes(4, b"Expired"), number(6, 410)].concat();
    let status = proto::status(&status).unwrap();
    assert_eq!((status.code, &*status.reason, &*status.message), (410, "Expired", "too old"));
    assert!(proto::event(&event("NEWS", b"")).is_err());
}

#[test]
fn a_list_is_cut_whatever_the_pieces() {
    let item = |name: &str| bytes(2, &bytes(1, &bytes(1, name.as_bytes())));
    let list =
        [bytes(1, &bytes(2, b"4711")), item("a"), item("b"), item(&"c".repeat(300))].concat();
    let body = wrap(&list);
    for size in [1, 3, 64, body.len()] {
        let (mut cutter, mut have, mut found) = (ListCutter::default(), Vec::new(), Vec::new());
        for piece in body.chunks(size) {
            have.extend_from_slice(piece);
            while let Some((part, len)) = cutter.next(&have).unwrap() {
                match part {
                    Part::Version(version) => found.push(version.into_owned()),
                    Part::Item(message) => {
                        let (key, _) = proto::key(Kind::Services, message).unwrap();
                        found.push(key.name.into_owned());
                    }
                    Part::Other => {}
                }
                have.drain(..len);
            }
        }
        assert_eq!(found, ["4711", "a", "b", &"c".repeat(300)], "pieces of {size}");
        assert!(cutter.complete() && have.is_empty());
    }
    assert!(ListCutter::default().next(b"{\"kind\"").is_err());
}

#[test]
fn garbage_is_refused_or_read_and_never_a_panic() {
    let (mut writer, _store) = Writer::new(all(), Arc::new(Quiet));
    let mut seed = 1u64;
    let mut throw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let (mut refused, mut read) = (0, 0);
    for _ in 0..20_000 {
        let (kind, message) = [
            (Kind::Services, SERVICE),
            (Kind::Slices, SLICE),
            (Kind::Pods, POD),
            (Kind::Namespaces, SERVICE),
        ][throw(4)];
        let mut message = message.to_vec();
        for _ in 0..=throw(4) {
            let at = throw(message.len().max(1));
            match throw(3) {
                0 => message.truncate(at.max(1)),
                1 => message[at] = throw(256) as u8,
                _ => message.insert(at, throw(256) as u8),
            }
        }
        let result =
            proto::unwrap(&message).and_then(|message| proto::object(kind, message, &all()));
        match result {
            Ok((object, _)) => {
                writer.apply(&Event::Apply(object));
                read += 1;
            }
            Err(_) => refused += 1,
        }
        let mut cutter = ListCutter::default();
        let mut rest = &message[..];
        while let Ok(Some((_, len))) = cutter.next(rest) {
            rest = &rest[len..];
            if len == 0 && rest.is_empty() {
                break;
            }
        }
        refused += usize::from(proto::event(&message).is_err());
        refused += usize::from(proto::status(&message).is_err());
    }
    assert!(refused > 1000 && read > 1000, "{refused} refused, {read} read");
}
