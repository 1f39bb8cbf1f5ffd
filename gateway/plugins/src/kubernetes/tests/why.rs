//! Why names are not there: what clients are told, and what `causeway explain` says.

use engine::explain::{Inquiry, explain};

use super::*;

/// A cluster with a service of each kind.
const SHOP: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, resourceVersion: '4711'}, spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: idle, namespace: shop}, spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: none, namespace: shop}, spec: {clusterIP: None}}
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
endpoints: [{addresses: [10.244.0.1], hostname: db-0}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.0.2]}]
";

/// A gateway over it that keeps services without endpoints from view.
fn shop() -> Bench {
    bench(
        SHOP,
        ". {\n kubernetes cluster.local 10.in-addr.arpa {\n  pods verified\n  ignore empty_service\n }\n}",
    )
}

#[test]
fn denials_say_why() {
    let bench = shop();
    for (name, want) in [
        ("web.shop.svc.cluster.local", None),
        ("web.shop.svc.cluster.local AAAA", None),
        ("shop.svc.cluster.local", None),
        ("svc.cluster.local", None),
        ("_http._tcp.web.shop.svc.cluster.local SRV", None),
        ("db-0.db.shop.svc.cluster.local AAAA", None),
        ("_tcp.db.shop.svc.cluster.local", None),
        ("a.b.c.cluster.local", Some("no name of a cluster has this form")),
        ("web.shpo.svc.cluster.local", Some("no namespace \"shpo\"")),
        ("shpo.svc.cluster.local", Some("no namespace \"shpo\"")),
        ("wep.shop.svc.cluster.local", Some("no service \"wep\" in namespace \"shop\"")),
        (
            "idle.shop.svc.cluster.local",
            Some("no ready endpoint, ignored: service \"idle\" in namespace \"shop\""),
        ),
        (
            "_https._tcp.web.shop.svc.cluster.local SRV",
            Some("no TCP port \"https\": service \"web\" in namespace \"shop\""),
        ),
        (
            "_pg._udp.db.shop.svc.cluster.local SRV",
            Some("no UDP port \"pg\": service \"db\" in namespace \"shop\""),
        ),
        (
            "_udp.db.shop.svc.cluster.local",
            Some("no UDP port: service \"db\" in namespace \"shop\""),
        ),
        (
            "none.shop.svc.cluster.local",
            Some("no ready endpoint: service \"none\" in namespace \"shop\""),
        ),
        (
            "db-1.db.shop.svc.cluster.local",
            Some("no ready endpoint \"db-1\": service \"db\" in namespace \"shop\""),
        ),
        (
            "a.out.shop.svc.cluster.local",
            Some("ExternalName: service \"out\" in namespace \"shop\""),
        ),
        ("10-244-0-1.shop.pod.cluster.local AAAA", None),
        ("10-244-0-9.shop.pod.cluster.local", Some("no pod with 10.244.0.9 in namespace \"shop\"")),
        ("nine.shop.pod.cluster.local", Some("\"nine\" is no address")),
        ("1.0.96.10.in-addr.arpa PTR", None),
        ("9.0.96.10.in-addr.arpa PTR", Some("nothing has 10.96.0.9")),
    ] {
        let reply = bench.now(&format!("{name} +edns"));
        let said = reply.split(" | ").find_map(|part| part.strip_prefix("EDE 0 "));
        assert_eq!(said, want, "{name}: {reply}");
        // A name that is denied has a reason; and without EDNS nothing else changes.
        assert!(want.is_some() || !reply.starts_with("NXDOMAIN"), "{name}: {reply}");
        let plain = bench.now(name);
        let plain = plain.as_str();
        assert_eq!(reply.split(" | EDE").next(), Some(plain), "{name}");
    }
}

#[test]
fn names_of_pods_may_be_disabled() {
    let bench = bench(SHOP, ". {\n kubernetes cluster.local\n}");
    for name in ["10-244-0-1.shop.pod.cluster.local", "shop.pod.cluster.local"] {
        let reply = bench.now(&format!("{name} +edns"));
        assert!(reply.ends_with("| EDE 0 names of pods are disabled"), "{reply}");
    }
}

#[test]
fn of_several_clusters_the_one_that_knows_most_says_why() {
    const DESK: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: desk}}";
    let bench = union(
        &[("desk", Some(DESK)), ("prod", Some(SHOP))],
        "cluster://desk {\n}\ncluster://prod {\n}\n. {\n kubernetes cluster.local {\n  cluster desk prod\n }\n}",
    );
    for (name, want) in [
        ("web.none.svc", "no namespace \"none\" of clusters desk, prod"),
        ("wep.shop.svc", "no service \"wep\" in namespace \"shop\" of clusters desk, prod"),
        ("web.desk.svc", "no service \"web\" in namespace \"desk\" of clusters desk, prod"),
        (
            "none.shop.svc",
            "no ready endpoint: service \"none\" in namespace \"shop\" of cluster prod",
        ),
        // What is so whatever the clusters have is of none of them.
        ("a.b.c", "no name of a cluster has this form"),
        ("10-244-0-1.shop.pod", "names of pods are disabled"),
    ] {
        let reply = bench.now(&format!("{name}.cluster.local +edns"));
        assert!(reply.ends_with(&format!(" | EDE 0 {want}")), "{name}: {reply}");
    }
}

/// What is explained of a line.
async fn say(bench: &Bench, line: &str) -> String {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let inquiry = Inquiry::read(&args).unwrap();
    let report = explain(&bench.gateway.live(), &inquiry).await.unwrap();
    report.value.json() + &report.to_text()
}

#[tokio::test]
async fn answers_are_explained() {
    let bench = shop();
    for (line, wants) in [
        (
            "web.shop.svc.cluster.local",
            &[
                r#""why":"the ClusterIP service \"web\" in namespace \"shop\"""#,
                r#""object":"Service shop/web","resource_version":"4711""#,
                "    resource version  4711\n",
                r#""addresses":["10.96.0.1"]"#,
                r#""ports":["80/tcp http"]"#,
                r#""endpoints":1,"ready_endpoints":1"#,
                "web.shop.svc.cluster.local. A: NOERROR, authoritative, from kubernetes\n",
            ][..],
        ),
        ("wep.shop.svc.cluster.local", &["(there is \\\"web\\\")", "NXDOMAIN, authoritative"]),
        ("web.shpo.svc.cluster.local", &["no namespace", "(there is \\\"shop\\\")"]),
        ("_htp._tcp.web.shop.svc.cluster.local SRV", &["(there is \\\"http\\\")"]),
        ("db-1.db.shop.svc.cluster.local", &["(there is \\\"db-0\\\")"]),
        (
            "10.96.0.1",
            &[
                r#""object":"Service shop/web","resource_version":"4711""#,
                "the names of an address",
            ],
        ),
        ("10.244.0.1", &[r#""object":"Service shop/db","resource_version":null"#]),
        (
            "10-244-0-1.shop.pod.cluster.local",
            &["a pod of the namespace has the address", "Pod shop/"],
        ),
        (
            "out.shop.svc.cluster.local",
            &["it stands for www.example.org.", "kubernetes asks for www.example.org. A"],
        ),
        ("idle.shop.svc.cluster.local", &["no ready endpoint, ignored", r#""ready_endpoints":0"#]),
    ] {
        let said = say(&bench, line).await;
        for want in wants {
            assert!(said.contains(want), "{line}: {want} is not in {said}");
        }
    }
}

#[tokio::test]
async fn what_is_told_is_as_old_as_the_oldest_that_it_needs() {
    let bench = shop();
    std::thread::sleep(std::time::Duration::from_millis(3_100));
    // Pods are heard of now, and all the others were last heard of at the start.
    for event in [k8s::Event::Restart(k8s::Kind::Pods), k8s::Event::Synced(k8s::Kind::Pods)] {
        apply(&event);
    }
    let said = say(&bench, "web.shop.svc.cluster.local").await;
    let age = said.split_once(r#""age_seconds":"#).and_then(|(_, rest)| rest.split_once(','));
    let age: u64 = age.unwrap().0.parse().unwrap();
    assert!(age >= 3, "{said}");
}

#[tokio::test]
async fn of_several_clusters_it_is_said_who_has_the_name_too() {
    const DESK: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.7, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {clusterIP: 10.96.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: q, namespace: shop}, status: {podIP: 10.244.0.1, podIPs: [{ip: 10.244.0.1}]}}
";
    let bench = union(
        &[("desk", Some(DESK)), ("prod", Some(SHOP)), ("edge", Some(DESK))],
        "cluster://desk {\n}\ncluster://prod {\n}\ncluster://edge {\n}\n. {\n kubernetes cluster.local 10.in-addr.arpa {\n  cluster desk prod edge\n  pods verified\n }\n}",
    );
    for (line, cluster, also) in [
        ("web.shop.svc.cluster.local", "desk", Some(r#"["prod","edge"]"#)),
        ("_htp._tcp.web.shop.svc.cluster.local SRV", "desk", Some(r#"["prod","edge"]"#)),
        ("api.shop.svc.cluster.local", "desk", Some(r#"["edge"]"#)),
        ("db.shop.svc.cluster.local", "prod", None),
        ("shop.svc.cluster.local", "desk", Some(r#"["prod","edge"]"#)),
        ("10-244-0-1.shop.pod.cluster.local", "desk", Some(r#"["prod","edge"]"#)),
        ("10.96.0.2", "desk", Some(r#"["prod","edge"]"#)),
        ("10.96.0.1", "prod", None),
        ("cluster.local SOA", "edge", None),
    ] {
        let said = say(&bench, line).await;
        assert!(said.contains(&format!(r#""cluster":"{cluster}""#)), "{line}: {said}");
        let found = said.split_once(r#""also_in":"#).and_then(|(_, rest)| rest.split_once(']'));
        assert_eq!(found.map(|(list, _)| format!("{list}]")).as_deref(), also, "{line}: {said}");
    }
}

#[tokio::test]
async fn what_falls_through_or_is_not_known_yet_is_said() {
    let bench = bench(SHOP, ". {\n kubernetes cluster.local {\n  fallthrough\n }\n answers\n}");
    let said = say(&bench, "wep.shop.svc.cluster.local").await;
    assert!(said.contains("it falls through to the next plugin"), "{said}");
    assert!(said.contains("kubernetes passes it on"), "{said}");
    let bench = unsynced(". {\n kubernetes cluster.local\n}");
    let said = say(&bench, "web.shop.svc.cluster.local").await;
    assert!(said.contains("the cluster's objects are not known yet"), "{said}");
    assert!(said.contains(r#""standing":"unsynced""#), "{said}");
}
