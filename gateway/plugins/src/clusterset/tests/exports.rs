//! Without a controller: the union of what the clusters export.

use super::{NODATA, NXDOMAIN, TWO, ask, bench, change, table};

/// The eastern cluster.
pub(super) const EAST: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: empty}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.10.10, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3], conditions: {ready: false}}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop, resourceVersion: '4711'}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.1.1.1], hostname: db-0}, {addresses: [10.1.1.2]}]
ports: [{name: pg, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop}
spec: {clusterIP: 10.96.10.12, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: idle, namespace: shop}
spec: {clusterIP: 10.96.10.13, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: none, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: shop}
spec: {type: ExternalName, externalName: www.example.org}
---
apiVersion: v1
kind: Service
metadata: {name: bad, namespace: shop}
spec: {clusterIP: None}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: bad-1, namespace: shop, labels: {kubernetes.io/service-name: bad}}
addressType: IPv4
endpoints: [{addresses: [10.1.2.1]}]
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: db, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: idle, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: none, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: alias, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: absent, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: bad, namespace: shop}, status: {conditions: [{type: Valid, status: 'False'}]}}
";

/// The western cluster.
pub(super) const WEST: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.20.10, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.2.0.1], hostname: front}]
ports: [{name: http, port: 9090}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-2, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
endpoints: [{addresses: ['2001:db8:2::1'], hostname: front}]
ports: [{name: http, port: 9090}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.2.1.1], hostname: db-0}]
ports: [{name: pg, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop}
spec: {clusterIP: None}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: web, namespace: shop, creationTimestamp: '2026-01-02T00:00:00Z'}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: db, namespace: shop, creationTimestamp: '2026-01-02T00:00:00Z'}}
";

#[test]
fn a_headless_service_is_the_union_of_its_endpoints() {
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    table(
        &bench,
        &[
            (
                "db.shop.svc.clusterset.local A",
                "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.1.1.1; db.shop.svc.clusterset.local. 5 A 10.1.1.2; db.shop.svc.clusterset.local. 5 A 10.2.1.1",
            ),
            ("DB.shop.svc.clusterset.local AAAA", NODATA),
            (
                "db-0.east.db.shop.svc.clusterset.local A",
                "NOERROR aa rd | db-0.east.db.shop.svc.clusterset.local. 5 A 10.1.1.1",
            ),
            (
                "db-0.west.db.shop.svc.clusterset.local A",
                "NOERROR aa rd | db-0.west.db.shop.svc.clusterset.local. 5 A 10.2.1.1",
            ),
            (
                "10-1-1-2.east.db.shop.svc.clusterset.local A",
                "NOERROR aa rd | 10-1-1-2.east.db.shop.svc.clusterset.local. 5 A 10.1.1.2",
            ),
            ("10-1-1-2.west.db.shop.svc.clusterset.local A", NXDOMAIN),
            ("db-1.east.db.shop.svc.clusterset.local A", NXDOMAIN),
            ("db-0.north.db.shop.svc.clusterset.local A", NXDOMAIN),
            // One cluster's part has no records, and is there since there are names below (KEP-1645, specification 2.4.4).
            ("east.db.shop.svc.clusterset.local A", NODATA),
            ("north.db.shop.svc.clusterset.local A", NXDOMAIN),
            (
                "_pg._tcp.db.shop.svc.clusterset.local SRV",
                "NOERROR aa rd | _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 10-1-1-2.east.db.shop.svc.clusterset.local.; _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 db-0.east.db.shop.svc.clusterset.local.; _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 db-0.west.db.shop.svc.clusterset.local. |  | 10-1-1-2.east.db.shop.svc.clusterset.local. 5 A 10.1.1.2; db-0.east.db.shop.svc.clusterset.local. 5 A 10.1.1.1; db-0.west.db.shop.svc.clusterset.local. 5 A 10.2.1.1",
            ),
            ("_pg._udp.db.shop.svc.clusterset.local SRV", NXDOMAIN),
            ("_tcp.db.shop.svc.clusterset.local SRV", NODATA),
            ("_udp.db.shop.svc.clusterset.local SRV", NXDOMAIN),
        ],
    );
}

#[test]
fn a_service_with_an_address_is_reached_by_its_ready_endpoints() {
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    table(
        &bench,
        &[
            (
                "web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.1.0.1; web.shop.svc.clusterset.local. 5 A 10.1.0.2; web.shop.svc.clusterset.local. 5 A 10.2.0.1",
            ),
            (
                "web.shop.svc.clusterset.local AAAA",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 AAAA 2001:db8:2::1",
            ),
            (
                "_http._tcp.web.shop.svc.clusterset.local SRV",
                "NOERROR aa rd | _http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 25 8080 10-1-0-1.east.web.shop.svc.clusterset.local.; _http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 25 8080 10-1-0-2.east.web.shop.svc.clusterset.local.; _http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 25 9090 front.west.web.shop.svc.clusterset.local. |  | 10-1-0-1.east.web.shop.svc.clusterset.local. 5 A 10.1.0.1; 10-1-0-2.east.web.shop.svc.clusterset.local. 5 A 10.1.0.2; front.west.web.shop.svc.clusterset.local. 5 A 10.2.0.1; front.west.web.shop.svc.clusterset.local. 5 AAAA 2001:db8:2::1",
            ),
            ("web.shop.svc.clusterset.local TXT", NODATA),
        ],
    );
}

#[test]
fn what_is_not_exported_is_not_there() {
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    table(
        &bench,
        &[
            ("own.shop.svc.clusterset.local A", NXDOMAIN),
            ("alias.shop.svc.clusterset.local A", NXDOMAIN),
            ("absent.shop.svc.clusterset.local A", NXDOMAIN),
            ("bad.shop.svc.clusterset.local A", NXDOMAIN),
            ("none.shop.svc.clusterset.local A", NXDOMAIN),
            ("web.other.svc.clusterset.local A", NXDOMAIN),
            ("other.svc.clusterset.local A", NXDOMAIN),
            ("shop.svc.clusterset.local A", NODATA),
            ("empty.svc.clusterset.local A", NODATA),
            ("svc.clusterset.local A", NODATA),
            ("pod.clusterset.local A", NXDOMAIN),
            ("shop.pod.clusterset.local A", NXDOMAIN),
            ("10-1-0-1.shop.pod.clusterset.local A", NXDOMAIN),
            ("x.clusterset.local A", NXDOMAIN),
            ("clusterset.local A", NODATA),
            ("clusterset.local SOA", "NOERROR aa rd | SOA(clusterset.local. 5)"),
            (
                "dns-version.clusterset.local TXT",
                "NOERROR aa rd | dns-version.clusterset.local. 28800 TXT \"1.0.0\"",
            ),
        ],
    );
    assert_eq!(
        ask(&bench, "idle.shop.svc.clusterset.local A +do"),
        format!(
            "{NODATA} | EDE 0 the service is exported, but no cluster has any of these addresses of it: endpoints"
        )
    );
    let server = ask(&bench, "clusterset.local NS");
    assert!(server.contains("NS ns.dns.clusterset.local."), "{server}");
}

#[test]
fn a_change_is_answered_at_once() {
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    change("east", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    table(
        &bench,
        &[
            (
                "db.shop.svc.clusterset.local A",
                "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.2.1.1",
            ),
            ("db-0.east.db.shop.svc.clusterset.local A", NXDOMAIN),
            ("idle.shop.svc.clusterset.local A", NXDOMAIN),
        ],
    );
    change("west", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    table(
        &bench,
        &[("db.shop.svc.clusterset.local A", NXDOMAIN), ("shop.svc.clusterset.local A", NODATA)],
    );
}

#[test]
fn zones_of_any_name_have_the_same() {
    let corefile = "k8s.example.com sets.example.com {\n clusterset {\n  cluster east\n  ttl 30\n  namespaces shop\n }\n}\n";
    let bench = bench(&[("east", Some(EAST))], corefile);
    table(
        &bench,
        &[
            (
                "db-0.east.db.shop.svc.k8s.example.com A",
                "NOERROR aa rd | db-0.east.db.shop.svc.k8s.example.com. 30 A 10.1.1.1",
            ),
            (
                "db-0.east.db.shop.svc.sets.example.com A",
                "NOERROR aa rd | db-0.east.db.shop.svc.sets.example.com. 30 A 10.1.1.1",
            ),
            ("empty.svc.k8s.example.com A", "NXDOMAIN aa rd |  | SOA(k8s.example.com. 30)"),
        ],
    );
}
