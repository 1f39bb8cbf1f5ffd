//! Rights on the whole cluster that were never there: what is known without them is told, and nothing is denied for want of them.

use k8s::{Event, Kind};

use super::union::corefile;
use super::{apply, apply_in, ask, change, union, unsynced};

/// A service of each kind, an address outside, a pod, and a namespace with nothing in it.
const SHOP: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bare}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}], externalIPs: [203.0.113.9]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: out, namespace: shop}, spec: {type: ExternalName, externalName: www.example.org}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, status: {podIP: 10.244.0.1, podIPs: [{ip: 10.244.0.1}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.244.0.1], hostname: db-0, zone: a}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.0.2], hostname: web-0}]
";

/// The lists of all kinds but one.
fn events_without(kind: Kind) -> Vec<Event<'static>> {
    let is = |event: &mut Event<'_>| match event {
        Event::Restart(other) | Event::Synced(other) => *other == kind,
        Event::Apply(object) => object.kind() == kind,
        _ => unreachable!("a folder is listed as a whole"),
    };
    let mut events = k8s::from_yaml(SHOP).unwrap();
    events.extract_if(.., is).for_each(drop);
    events
}

/// A gateway whose rights on one kind are missing, with these properties.
fn without(kind: Kind, properties: &str) -> engine::testing::Bench {
    let bench = unsynced(&format!(
        "cluster.local 10.in-addr.arpa 203.in-addr.arpa {{\n kubernetes {{\n manifests .\n {properties}\n }}\n answers\n}}\n"
    ));
    events_without(kind).iter().for_each(apply);
    let before = ask(&bench, "web.shop.svc.cluster.local");
    assert!(before.starts_with("SERVFAIL"), "nobody has said that it is refused: {before}");
    apply(&Event::Refused(kind, "".into()));
    bench
}

/// Asks, and compares the response code with the words that the answer has.
fn rows(bench: &engine::testing::Bench, rows: &[(&str, &str)]) {
    for (question, want) in rows {
        let reply = ask(bench, &format!("{question} +edns"));
        assert!(want.split(" .. ").all(|word| reply.contains(word)), "{question}: {reply}");
        let failed = reply.starts_with("SERVFAIL");
        assert_eq!(failed, reply.contains("EDE 14 "), "{question}: {reply}");
        assert_eq!(failed, want.starts_with("SERVFAIL"), "{question}: {reply}");
    }
}

/// What no right is needed for but that on services.
const SERVICES: &[(&str, &str)] = &[
    ("web.shop.svc.cluster.local", "NOERROR .. 10.96.0.1"),
    ("web.shop.svc.cluster.local AAAA", "NOERROR .. SOA"),
    ("_http._tcp.web.shop.svc.cluster.local SRV", "NOERROR .. 80 web.shop"),
    ("_no._tcp.web.shop.svc.cluster.local SRV", "NXDOMAIN"),
    ("out.shop.svc.cluster.local CNAME", "NOERROR .. www.example.org"),
    ("x.out.shop.svc.cluster.local", "NXDOMAIN"),
    ("nope.shop.svc.cluster.local", "NXDOMAIN .. no service \"nope\""),
    ("shop.svc.cluster.local", "NOERROR .. SOA"),
    ("1.0.96.10.in-addr.arpa PTR", "NOERROR .. web.shop"),
    ("cluster.local SOA", "NOERROR"),
];

#[test]
fn without_endpoints_only_what_needs_them_fails() {
    let bench = without(Kind::Slices, "");
    rows(&bench, SERVICES);
    let open = [
        ("db.shop.svc.cluster.local", "NOERROR .. 10.244.0.1"),
        ("db.shop.svc.cluster.local AAAA", "NOERROR"),
        ("_pg._tcp.db.shop.svc.cluster.local SRV", "NOERROR .. 5432"),
        ("_no._tcp.db.shop.svc.cluster.local SRV", "NXDOMAIN"),
        ("db-0.db.shop.svc.cluster.local", "NOERROR .. 10.244.0.1"),
        ("db-9.db.shop.svc.cluster.local", "NXDOMAIN"),
        ("web-9.web.shop.svc.cluster.local", "NXDOMAIN"),
        ("1.0.244.10.in-addr.arpa PTR", "NOERROR .. db-0.db"),
        ("9.9.9.10.in-addr.arpa PTR", "NXDOMAIN"),
    ];
    rows(&bench, &open.map(|(question, _)| (question, "SERVFAIL")));
    rows(&bench, &[("bare.svc.cluster.local", "NOERROR"), ("nope.svc.cluster.local", "NXDOMAIN")]);
    // They are granted.
    change(SHOP);
    rows(&bench, SERVICES);
    rows(&bench, &open);
}

#[test]
fn without_endpoints_what_they_decide_fails() {
    let bench = without(Kind::Slices, "ignore empty_service");
    rows(
        &bench,
        &[
            ("web.shop.svc.cluster.local", "SERVFAIL"),
            ("1.0.96.10.in-addr.arpa PTR", "SERVFAIL"),
            ("out.shop.svc.cluster.local CNAME", "NOERROR"),
            ("nope.shop.svc.cluster.local", "NXDOMAIN"),
        ],
    );
    let bench = without(Kind::Slices, "reach endpoints externalip");
    rows(&bench, &[("web.shop.svc.cluster.local", "SERVFAIL")]);
    let bench = without(Kind::Slices, "reach externalip endpoints\n zonal");
    rows(
        &bench,
        &[
            ("web.shop.svc.cluster.local", "NOERROR .. 203.0.113.9"),
            ("db.shop.svc.cluster.local", "SERVFAIL"),
            ("a.pin._zone.db.shop.svc.cluster.local", "SERVFAIL"),
            ("_zone.db.shop.svc.cluster.local", "NOERROR"),
            ("a.pin._zone.web.shop.svc.cluster.local", "NXDOMAIN"),
        ],
    );
}

#[test]
fn without_namespaces_those_are_there_that_something_is_in() {
    let bench = without(Kind::Namespaces, "pods verified");
    rows(&bench, SERVICES);
    let open = [("bare.svc.cluster.local", "NOERROR"), ("nope.svc.cluster.local", "NXDOMAIN")];
    rows(&bench, &open.map(|(question, _)| (question, "SERVFAIL")));
    let sure = [
        ("db.shop.svc.cluster.local", "NOERROR .. 10.244.0.1"),
        ("9.9.9.10.in-addr.arpa PTR", "NXDOMAIN"),
        ("10-244-0-1.shop.pod.cluster.local", "NOERROR .. 10.244.0.1"),
        ("10-244-0-9.shop.pod.cluster.local", "NXDOMAIN"),
        ("10-244-0-9.bare.pod.cluster.local", "NXDOMAIN"),
    ];
    rows(&bench, &sure);
    rows(&bench, &[("web.bare.svc.cluster.local", "NXDOMAIN .. no service \"web\"")]);
    change(SHOP);
    rows(&bench, SERVICES);
    rows(&bench, &open);
    rows(&bench, &sure);
    rows(&bench, &[("web.nope.svc.cluster.local", "NXDOMAIN .. no namespace \"nope\"")]);

    let bench = without(Kind::Namespaces, "pods insecure");
    rows(
        &bench,
        &[
            ("10-244-0-9.shop.pod.cluster.local", "NOERROR .. 10.244.0.9"),
            ("10-244-0-9.bare.pod.cluster.local", "SERVFAIL"),
            ("bare.pod.cluster.local", "SERVFAIL"),
        ],
    );
    let bench = without(Kind::Namespaces, "");
    rows(&bench, &[("bare.pod.cluster.local", "NXDOMAIN")]);
}

#[test]
fn a_cluster_behind_one_with_fewer_rights_does_not_answer_for_it() {
    let other = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.97.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: 10.97.0.2}}
---
{apiVersion: v1, kind: Service, metadata: {name: more, namespace: bare}, spec: {clusterIP: 10.97.0.3}}
";
    for (kind, questions) in [
        (
            Kind::Slices,
            [
                ("web.shop.svc.k8s.test", "NOERROR .. 10.96.0.1"),
                ("db.shop.svc.k8s.test", "SERVFAIL"),
                ("more.bare.svc.k8s.test", "NOERROR .. 10.97.0.3"),
                ("bare.svc.k8s.test", "NOERROR"),
                ("1.0.96.10.in-addr.arpa PTR", "NOERROR .. web.shop"),
                // It may be an endpoint of the first.
                ("3.0.97.10.in-addr.arpa PTR", "SERVFAIL"),
            ],
        ),
        (
            Kind::Namespaces,
            [
                ("web.shop.svc.k8s.test", "NOERROR .. 10.96.0.1"),
                ("db.shop.svc.k8s.test", "NOERROR .. 10.244.0.1"),
                ("more.bare.svc.k8s.test", "NOERROR .. 10.97.0.3"),
                // The first may have it.
                ("bare.svc.k8s.test", "SERVFAIL"),
                ("3.0.97.10.in-addr.arpa PTR", "NOERROR .. more.bare"),
                ("9.9.9.10.in-addr.arpa PTR", "NXDOMAIN"),
            ],
        ),
    ] {
        let bench = union(
            &[("prod", None), ("stage", Some(other))],
            &corefile("k8s.test 10.in-addr.arpa", "cluster prod stage"),
        );
        events_without(kind).iter().for_each(|event| apply_in(0, event));
        apply_in(0, &Event::Refused(kind, "".into()));
        rows(&bench, &questions);
    }
}

#[test]
fn without_services_nothing_is_known() {
    let bench = without(Kind::Services, "");
    for (question, _) in SERVICES.iter().filter(|(question, _)| !question.ends_with("SOA")) {
        rows(&bench, &[(question, "SERVFAIL")]);
    }
}

#[test]
fn pods_that_one_namespace_keeps_are_not_denied() {
    let bench = unsynced(
        "cluster.local {\n kubernetes {\n manifests .\n namespaces shop edge\n pods verified\n }\n}\n",
    );
    for kind in [Kind::Namespaces, Kind::Services, Kind::Slices] {
        apply(&Event::Restart(kind));
        apply(&Event::Apply(namespace("shop")));
        apply(&Event::Apply(namespace("edge")));
        apply(&Event::Synced(kind));
    }
    apply(&Event::RestartIn(Kind::Pods, "shop".into()));
    apply(&Event::SyncedIn(Kind::Pods, "shop".into()));
    apply(&Event::Refused(Kind::Pods, "edge".into()));
    rows(
        &bench,
        &[
            ("10-244-0-1.shop.pod.cluster.local", "NXDOMAIN"),
            ("10-244-0-1.edge.pod.cluster.local", "SERVFAIL"),
        ],
    );
}

#[test]
fn an_address_may_be_of_a_namespace_that_is_not_known() {
    let bench = unsynced(
        "cluster.local 10.in-addr.arpa {\n kubernetes {\n manifests .\n namespaces shop edge\n noendpoints\n }\n}\n",
    );
    apply(&Event::Apply(namespace("shop")));
    apply(&Event::Synced(Kind::Namespaces));
    apply(&Event::RestartIn(Kind::Services, "shop".into()));
    apply(&service("shop", "10.96.0.1"));
    apply(&Event::SyncedIn(Kind::Services, "shop".into()));
    apply(&Event::Refused(Kind::Services, "edge".into()));
    let known = ("1.0.96.10.in-addr.arpa PTR", "NOERROR .. web.shop");
    rows(&bench, &[known, ("9.0.96.10.in-addr.arpa PTR", "SERVFAIL")]);
    apply(&Event::SyncedIn(Kind::Services, "edge".into()));
    rows(&bench, &[known, ("9.0.96.10.in-addr.arpa PTR", "NXDOMAIN")]);
}

/// A service with a cluster IP.
fn service(namespace: &'static str, ip: &str) -> Event<'static> {
    let meta =
        k8s::Meta { name: "web".into(), namespace: namespace.into(), ..k8s::Meta::default() };
    let cluster_ips = vec![ip.parse().unwrap()];
    Event::Apply(k8s::Object::Service(k8s::Service {
        meta,
        cluster_ips,
        ..k8s::Service::default()
    }))
}

/// A namespace.
fn namespace(name: &'static str) -> k8s::Object<'static> {
    k8s::Object::Namespace(k8s::Meta { name: name.into(), ..k8s::Meta::default() })
}
