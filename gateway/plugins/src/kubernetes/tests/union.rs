//! Alias zones, and several clusters under one zone.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use engine::testing::Bench;

use super::snapshot::{REAL, keep, now};
use super::{CHAIN, ask, table, union};
use crate::shared::testing::{Folder, logged};

/// A cluster.
const PROD: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {clusterIP: 10.96.0.12, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: inside, namespace: shop}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: twice, namespace: shop}
spec: {type: ExternalName, externalName: Inside.shop.svc.Cluster.Local.}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: shop}
spec: {type: ExternalName, externalName: www.example.net}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: named-1, namespace: shop, labels: {kubernetes.io/service-name: named}}
addressType: FQDN
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [web.shop.svc.cluster.local]}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.244.0.5], hostname: db-0}]
---
apiVersion: v1
kind: Pod
metadata: {name: p1, namespace: shop}
status: {phase: Running, podIP: 10.244.0.5, podIPs: [{ip: 10.244.0.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p2, namespace: shop}
status: {phase: Running, podIP: 10.244.0.6, podIPs: [{ip: 10.244.0.6}]}
";

/// Another one that calls itself the same.
const STAGE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.97.0.20, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {clusterIP: 10.97.0.22, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: empty-1, namespace: shop, labels: {kubernetes.io/service-name: empty}}
addressType: IPv4
endpoints: [{addresses: [10.245.0.9]}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: billing}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: near, namespace: billing}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: billing}
spec: {type: ExternalName, externalName: outside.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.245.0.5], hostname: db-7}]
---
apiVersion: v1
kind: Pod
metadata: {name: p7, namespace: billing}
status: {phase: Running, podIP: 10.245.0.7, podIPs: [{ip: 10.245.0.7}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p6, namespace: billing}
status: {phase: Running, podIP: 10.244.0.6, podIPs: [{ip: 10.244.0.6}]}
";

/// A block of a zone, with these clusters and properties.
pub(super) fn corefile(zones: &str, properties: &str) -> String {
    format!("{zones} {{\n metadata\n kubernetes {{\n {properties}\n }}\n answers\n}}\n")
}

/// A gateway for a zone of both clusters.
fn both(properties: &str) -> Bench {
    let clusters = [("prod", Some(PROD)), ("stage", Some(STAGE))];
    union(
        &clusters,
        &corefile("k8s.test 10.0.0.0/8", &format!("cluster prod stage\n {properties}")),
    )
}

#[test]
fn an_alias_zone_has_no_name_of_the_clusters_own_domain() {
    let prod = corefile("prod.test 10.0.0.0/8", "cluster prod\n pods verified");
    let bench = union(&[("prod", Some(PROD))], &prod);
    let soa = "SOA(prod.test. 5)";
    let web = "web.shop.svc.prod.test. 5 A 10.96.0.10";
    table(
        &bench,
        &[
            ("web.shop.svc.prod.test", &format!("NOERROR aa rd | {web}")),
            (
                "_http._tcp.web.shop.svc.prod.test SRV",
                &format!(
                    "NOERROR aa rd | _http._tcp.web.shop.svc.prod.test. 5 SRV 0 100 80 web.shop.svc.prod.test. |  | {web}"
                ),
            ),
            (
                "db-0.db.shop.svc.prod.test",
                "NOERROR aa rd | db-0.db.shop.svc.prod.test. 5 A 10.244.0.5",
            ),
            (
                "db.shop.svc.prod.test SRV",
                "NOERROR aa rd | db.shop.svc.prod.test. 5 SRV 0 100 5432 db-0.db.shop.svc.prod.test. |  | db-0.db.shop.svc.prod.test. 5 A 10.244.0.5",
            ),
            (
                "10-244-0-5.shop.pod.prod.test",
                "NOERROR aa rd | 10-244-0-5.shop.pod.prod.test. 5 A 10.244.0.5",
            ),
            ("10-244-0-9.shop.pod.prod.test", &format!("NXDOMAIN aa rd |  | {soa}")),
            (
                "10.0.96.10.in-addr.arpa PTR",
                "NOERROR aa rd | 10.0.96.10.in-addr.arpa. 5 PTR web.shop.svc.prod.test.",
            ),
            (
                "5.0.244.10.in-addr.arpa PTR",
                "NOERROR aa rd | 5.0.244.10.in-addr.arpa. 5 PTR db-0.db.shop.svc.prod.test.",
            ),
            (
                "inside.shop.svc.prod.test",
                &format!(
                    "NOERROR aa rd | inside.shop.svc.prod.test. 5 CNAME web.shop.svc.prod.test.; {web}"
                ),
            ),
            (
                "twice.shop.svc.prod.test CNAME",
                "NOERROR aa rd | twice.shop.svc.prod.test. 5 CNAME inside.shop.svc.prod.test.",
            ),
            (
                "outside.shop.svc.prod.test CNAME",
                "NOERROR aa rd | outside.shop.svc.prod.test. 5 CNAME www.example.net.",
            ),
            (
                "named.shop.svc.prod.test",
                &format!(
                    "NOERROR aa rd | named.shop.svc.prod.test. 5 CNAME web.shop.svc.prod.test.; {web}"
                ),
            ),
            (
                "named.shop.svc.prod.test SRV",
                "NOERROR aa rd | named.shop.svc.prod.test. 5 SRV 0 100 80 web.shop.svc.prod.test.",
            ),
        ],
    );
    // A name of the alias below the domain is not one of the domain.
    let below = corefile("prod.cluster.local", "cluster prod");
    let bench = union(&[("prod", Some(PROD))], &below);
    let want = "NOERROR aa rd | inside.shop.svc.prod.cluster.local. 5 CNAME web.shop.svc.prod.cluster.local.; web.shop.svc.prod.cluster.local. 5 A 10.96.0.10";
    table(&bench, &[("inside.shop.svc.prod.cluster.local", want)]);
}

#[test]
fn a_service_is_answered_from_the_first_cluster_that_has_it() {
    let bench = both("");
    let none = "NXDOMAIN aa rd |  | SOA(k8s.test. 5)";
    table(
        &bench,
        &[
            ("web.shop.svc.k8s.test", "NOERROR aa rd | web.shop.svc.k8s.test. 5 A 10.96.0.10"),
            (
                "api.billing.svc.k8s.test",
                "NOERROR aa rd | api.billing.svc.k8s.test. 5 A 10.96.0.10",
            ),
            ("db.shop.svc.k8s.test", "NOERROR aa rd | db.shop.svc.k8s.test. 5 A 10.244.0.5"),
            (
                "db-0.db.shop.svc.k8s.test",
                "NOERROR aa rd | db-0.db.shop.svc.k8s.test. 5 A 10.244.0.5",
            ),
            ("db-7.db.shop.svc.k8s.test", none),
            ("nope.shop.svc.k8s.test", none),
            ("billing.svc.k8s.test", "NOERROR aa rd |  | SOA(k8s.test. 5)"),
            ("shop.svc.k8s.test", "NOERROR aa rd |  | SOA(k8s.test. 5)"),
            ("nope.svc.k8s.test", none),
            // An alias of one cluster leads to the name in the union.
            (
                "near.billing.svc.k8s.test",
                "NOERROR aa rd | near.billing.svc.k8s.test. 5 CNAME web.shop.svc.k8s.test.; web.shop.svc.k8s.test. 5 A 10.96.0.10",
            ),
            ("empty.shop.svc.k8s.test", "NOERROR aa rd | empty.shop.svc.k8s.test. 5 A 10.96.0.12"),
        ],
    );
    // What is hidden is not there, so that the next cluster has its turn.
    let bench = both("ignore empty_service");
    let there = "NOERROR aa rd | empty.shop.svc.k8s.test. 5 A 10.97.0.22";
    table(&bench, &[("empty.shop.svc.k8s.test", there)]);
    let bench = both("pods verified");
    let pod = |name: &str, ip: &str| format!("NOERROR aa rd | {name}. 5 A {ip}");
    let (first, second) = ("10-244-0-5.shop.pod.k8s.test", "10-245-0-7.billing.pod.k8s.test");
    table(
        &bench,
        &[
            (first, &pod(first, "10.244.0.5")),
            (second, &pod(second, "10.245.0.7")),
            ("10-245-0-7.shop.pod.k8s.test", none),
        ],
    );
}

#[test]
fn the_order_counts() {
    let clusters = [("stage", Some(STAGE)), ("prod", Some(PROD))];
    let bench = union(&clusters, &corefile("k8s.test", "cluster stage prod"));
    table(
        &bench,
        &[
            ("web.shop.svc.k8s.test", "NOERROR aa rd | web.shop.svc.k8s.test. 5 A 10.97.0.20"),
            (
                "inside.shop.svc.k8s.test",
                "NOERROR aa rd | inside.shop.svc.k8s.test. 5 CNAME web.shop.svc.k8s.test.; web.shop.svc.k8s.test. 5 A 10.97.0.20",
            ),
        ],
    );
}

#[test]
fn a_cluster_that_was_never_known_fails_only_what_those_before_it_lack() {
    let clusters = [("prod", Some(PROD)), ("stage", None)];
    let bench = union(&clusters, &corefile("k8s.test 10.0.0.0/8", "cluster prod stage"));
    let failed = "SERVFAIL aa rd |  | SOA(k8s.test. 5) | EDE 14 cluster stage: its objects are not known yet";
    table(
        &bench,
        &[
            (
                "web.shop.svc.k8s.test +edns",
                "NOERROR aa rd | web.shop.svc.k8s.test. 5 A 10.96.0.10",
            ),
            ("db-7.db.shop.svc.k8s.test", "NXDOMAIN aa rd |  | SOA(k8s.test. 5)"),
            ("api.billing.svc.k8s.test +edns", failed),
            ("billing.svc.k8s.test +edns", failed),
            ("svc.k8s.test +edns", "NOERROR aa rd |  | SOA(k8s.test. 5)"),
            (
                "10.0.96.10.in-addr.arpa PTR",
                "NOERROR aa rd | 10.0.96.10.in-addr.arpa. 5 PTR web.shop.svc.k8s.test.",
            ),
            ("9.0.96.10.in-addr.arpa PTR", "SERVFAIL aa rd |  | SOA(10.in-addr.arpa. 5)"),
        ],
    );
    let clusters = [("stage", None), ("prod", Some(PROD))];
    let bench = union(&clusters, &corefile("k8s.test", "cluster stage prod"));
    table(&bench, &[("web.shop.svc.k8s.test +edns", failed)]);
}

#[tokio::test]
async fn an_alias_of_a_cluster_that_is_away_says_so_whoever_has_its_target() {
    let folder = Folder::new("");
    folder.write("prod/all.yaml", PROD);
    keep(&folder, STAGE, now() - 100);
    let corefile = folder.corefile(
        "cluster://prod {
            manifests DIR/prod
            startup_timeout 10s
        }
        cluster://stage {
            endpoint http://127.0.0.1:1
            snapshot DIR/kept 1h
            startup_timeout 0s
        }
        k8s.test {
            kubernetes {
                cluster prod stage
            }
            answers
        }",
    );
    let bench = Bench::new(REAL, &corefile);
    bench.built.waits.over().await.unwrap();
    let web = "web.shop.svc.k8s.test. 5 A 10.96.0.10";
    let live = format!("NOERROR aa rd | {web}");
    assert_eq!(bench.ask("web.shop.svc.k8s.test +edns").await, live);
    let stale = "| EDE 3 cluster stage: known from 10";
    for (name, records) in [
        // Its target is of the one that is there, in the zone or outside of it.
        (
            "near.billing",
            format!("near.billing.svc.k8s.test. 5 CNAME web.shop.svc.k8s.test.; {web}"),
        ),
        (
            "far.billing",
            "far.billing.svc.k8s.test. 5 CNAME outside.shop.svc.k8s.test.; outside.shop.svc.k8s.test. 5 CNAME www.example.net.".to_owned(),
        ),
    ] {
        let reply = bench.ask(&format!("{name}.svc.k8s.test +edns")).await;
        assert!(reply.starts_with(&format!("NOERROR aa rd | {records}")), "{reply}");
        assert!(reply.contains(stale), "{reply}");
        assert_eq!(reply.matches("EDE").count(), 1, "{reply}");
    }
}

#[test]
fn an_address_of_several_clusters_has_no_name_unless_all_are_wanted() {
    let shared = "EDE 0 several clusters have this address";
    for (mode, want) in [
        ("", format!("NOERROR aa rd |  | SOA(10.in-addr.arpa. 5) | {shared}")),
        ("ptr one", format!("NOERROR aa rd |  | SOA(10.in-addr.arpa. 5) | {shared}")),
        (
            "ptr all",
            "NOERROR aa rd | 10.0.96.10.in-addr.arpa. 5 PTR web.shop.svc.k8s.test.; 10.0.96.10.in-addr.arpa. 5 PTR api.billing.svc.k8s.test.".to_owned(),
        ),
    ] {
        let bench = both(mode);
        assert_eq!(ask(&bench, "10.0.96.10.in-addr.arpa PTR +edns"), want, "{mode}");
        table(
            &bench,
            &[
                // Both have it under one name, which is that of the first.
                ("1.0.96.10.in-addr.arpa PTR", "NOERROR aa rd | 1.0.96.10.in-addr.arpa. 5 PTR kubernetes.default.svc.k8s.test."),
                // The name is that of another address, which its cluster does not answer for.
                ("20.0.97.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(10.in-addr.arpa. 5)"),
                ("5.0.245.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(10.in-addr.arpa. 5)"),
                ("5.0.244.10.in-addr.arpa PTR", "NOERROR aa rd | 5.0.244.10.in-addr.arpa. 5 PTR db-0.db.shop.svc.k8s.test."),
                ("244.10.in-addr.arpa PTR", "NOERROR aa rd |  | SOA(10.in-addr.arpa. 5)"),
            ],
        );
    }
}

#[test]
fn who_asks_is_known_if_one_cluster_has_the_address() {
    let corefile = "k8s.test {\n metadata\n autopath @kubernetes\n kubernetes {\n cluster prod stage\n pods verified\n }\n answers\n}\n";
    let clusters = [("prod", Some(PROD)), ("stage", Some(STAGE))];
    let mut bench = union(&clusters, corefile);
    let none = "NXDOMAIN aa rd |  | SOA(k8s.test. 5)";
    // The path of a pod of the second cluster; and an address that pods of both have.
    for (last, found) in [([10, 245, 0, 7], true), ([10, 244, 0, 6], false)] {
        bench.from(IpAddr::V4(Ipv4Addr::from(last)));
        let reply = ask(&bench, "web.shop.billing.svc.k8s.test");
        let want = "NOERROR aa rd | web.shop.billing.svc.k8s.test. 5 CNAME web.shop.svc.k8s.test.; web.shop.svc.k8s.test. 5 A 10.96.0.10";
        assert_eq!(reply, if found { want } else { none });
    }
}

#[tokio::test(start_paused = true)]
async fn services_of_several_clusters_are_counted_and_told() {
    logged();
    let bench = both("");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let page = engine::metrics::render();
    for (cluster, count) in [("prod", 0), ("stage", 4)] {
        let line = format!(
            "causeway_kubernetes_conflicts{{cluster=\"{cluster}\",zone=\"k8s.test.\"}} {count}"
        );
        assert!(page.contains(&line), "{page}");
    }
    let lines = logged();
    let said = "4 services of cluster stage, such as ";
    assert_eq!(lines.iter().filter(|line| line.contains(said)).count(), 1, "{lines:?}");
    drop(bench);
}

#[test]
fn metadata_names_the_cluster_that_answers() {
    let bench = both("");
    let value = |name: &str| {
        let mut x = bench.exchange(name);
        bench.serve(&mut x);
        let metadata = bench.gateway.live().sites()[0].metadata.clone();
        let mut out = String::new();
        metadata.value(&x, "kubernetes/cluster", &mut out).map(|()| out)
    };
    assert_eq!(value("web.shop.svc.k8s.test").as_deref(), Some("prod"));
    assert_eq!(value("api.billing.svc.k8s.test").as_deref(), Some("stage"));
}

#[test]
fn wrong_words_are_refused() {
    for (properties, want) in [
        ("cluster prod stage\n ptr two", "known: one, all"),
        ("cluster prod stage prod", "'prod' stands there twice"),
    ] {
        let refused = Bench::refused(CHAIN, &corefile("k8s.test", properties));
        assert!(refused.contains(want), "{refused}");
    }
}

#[test]
fn a_zone_of_one_address_has_its_own_records_and_those_of_the_address() {
    let zone = "10.0.96.10.in-addr.arpa";
    let corefile = |clusters: &str| corefile(&format!("k8s.test {zone}"), clusters);
    let one = union(&[("prod", Some(PROD))], &corefile("cluster prod"));
    let clusters = [("prod", Some(PROD)), ("stage", Some(STAGE))];
    let two = union(&clusters, &corefile("cluster prod stage\n ptr all"));
    for bench in [one, two] {
        let soa = format!("SOA({zone}. 5)");
        let pointer = format!("{zone}. 5 PTR web.shop.svc.k8s.test.");
        table(
            &bench,
            &[
                (&format!("{zone} SOA"), &format!("NOERROR aa rd | {soa}")),
                (&format!("{zone} TXT"), &format!("NOERROR aa rd |  | {soa}")),
            ],
        );
        let ns = bench.now(&format!("{zone} NS"));
        assert!(ns.starts_with(&format!("NOERROR aa rd | {zone}. 5 NS ns.dns.{zone}.")), "{ns}");
        let ptr = bench.now(&format!("{zone} PTR"));
        assert!(ptr.starts_with("NOERROR") && ptr.contains(&pointer), "{ptr}");
    }
}
