//! With a controller: what it has imported is what counts.

use super::{NODATA, NXDOMAIN, bench, stand, table};
use k8s::Standing;

/// A cluster with a controller, and exports of its own.
const EAST: &str = "
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.42.0.1, '2001:db8:42::1'], ports: [{name: http, port: 80, protocol: TCP}, {port: 81, protocol: UDP}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: db, namespace: shop}
spec: {type: Headless, ports: [{name: pg, port: 5432, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: new, namespace: shop}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: imported-db-c1
  namespace: shop
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: C1}
addressType: IPv4
endpoints: [{addresses: [10.3.1.1], hostname: db-0}, {addresses: [10.3.1.2], conditions: {ready: false}}]
ports: [{name: pg, port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: imported-db-c2
  namespace: shop
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: c2}
addressType: IPv4
endpoints: [{addresses: [10.4.1.1], hostname: db-0}]
ports: [{name: pg, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}]
---
apiVersion: v1
kind: Service
metadata: {name: late, namespace: shop}
spec: {clusterIP: None}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: late-1, namespace: shop, labels: {kubernetes.io/service-name: late}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.9]}]
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: late, namespace: shop}}
";

/// Another, whose controller gives other addresses.
const WEST: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.43.0.1], ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: far, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.43.0.2], ports: [{name: http, port: 80, protocol: TCP}]}
";

/// A Corefile with what is between `source` and the end.
fn corefile(source: &str) -> String {
    format!("clusterset.local {{\n clusterset {{\n  cluster east west\n  {source}\n }}\n}}\n")
}

#[test]
fn an_import_wins_over_exports() {
    for source in ["", "source imports exports"] {
        let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], &corefile(source));
        table(
            &bench,
            &[
                (
                    "web.shop.svc.clusterset.local A",
                    "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.42.0.1",
                ),
                (
                    "web.shop.svc.clusterset.local AAAA",
                    "NOERROR aa rd | web.shop.svc.clusterset.local. 5 AAAA 2001:db8:42::1",
                ),
                (
                    "_http._tcp.web.shop.svc.clusterset.local SRV",
                    "NOERROR aa rd | _http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 100 80 web.shop.svc.clusterset.local. |  | web.shop.svc.clusterset.local. 5 A 10.42.0.1; web.shop.svc.clusterset.local. 5 AAAA 2001:db8:42::1",
                ),
                ("_https._tcp.web.shop.svc.clusterset.local SRV", NXDOMAIN),
                ("_tcp.web.shop.svc.clusterset.local SRV", NODATA),
                // Its only port has no name.
                ("_udp.web.shop.svc.clusterset.local SRV", NXDOMAIN),
                ("new.shop.svc.clusterset.local A", NODATA),
                (
                    "far.shop.svc.clusterset.local A",
                    "NOERROR aa rd | far.shop.svc.clusterset.local. 5 A 10.43.0.2",
                ),
                (
                    "late.shop.svc.clusterset.local A",
                    "NOERROR aa rd | late.shop.svc.clusterset.local. 5 A 10.1.0.9",
                ),
                (
                    "db.shop.svc.clusterset.local A",
                    "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.3.1.1; db.shop.svc.clusterset.local. 5 A 10.4.1.1",
                ),
                (
                    "db-0.c1.db.shop.svc.clusterset.local A",
                    "NOERROR aa rd | db-0.c1.db.shop.svc.clusterset.local. 5 A 10.3.1.1",
                ),
                ("db-0.c3.db.shop.svc.clusterset.local A", NXDOMAIN),
                ("c1.db.shop.svc.clusterset.local A", NODATA),
                ("c3.db.shop.svc.clusterset.local A", NXDOMAIN),
                (
                    "_pg._tcp.db.shop.svc.clusterset.local SRV",
                    "NOERROR aa rd | _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 50 5432 db-0.c1.db.shop.svc.clusterset.local.; _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 50 5432 db-0.c2.db.shop.svc.clusterset.local. |  | db-0.c1.db.shop.svc.clusterset.local. 5 A 10.3.1.1; db-0.c2.db.shop.svc.clusterset.local. 5 A 10.4.1.1",
                ),
            ],
        );
    }
}

#[test]
fn the_source_says_where_services_are_found() {
    let clusters = [("east", Some(EAST)), ("west", Some(WEST))];
    let imports = bench(&clusters, &corefile("source imports"));
    table(
        &imports,
        &[
            (
                "far.shop.svc.clusterset.local A",
                "NOERROR aa rd | far.shop.svc.clusterset.local. 5 A 10.43.0.2",
            ),
            // Manifests have no controller: imports are made of exports where those are not looked at.
            (
                "late.shop.svc.clusterset.local A",
                "NOERROR aa rd | late.shop.svc.clusterset.local. 5 A 10.1.0.9",
            ),
            ("own.shop.svc.clusterset.local A", NXDOMAIN),
        ],
    );
    let exports = bench(&clusters, &corefile("source exports"));
    table(
        &exports,
        &[
            (
                "web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.1.0.1",
            ),
            ("far.shop.svc.clusterset.local A", NXDOMAIN),
        ],
    );
}

#[test]
fn a_cluster_that_is_there_gives_the_import_before_one_that_is_away() {
    let clusters = [("east", Some(EAST)), ("west", Some(WEST))];
    let bench = bench(&clusters, &corefile("keep 24h"));
    let now = super::super::member::unix_time();
    stand("east", Standing::Away { since: now - 3600 });
    table(
        &bench,
        &[
            (
                "web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.43.0.1",
            ),
            ("c1.db.shop.svc.clusterset.local A", NODATA),
        ],
    );
    stand("east", Standing::Away { since: now - 25 * 3600 });
    table(&bench, &[("c1.db.shop.svc.clusterset.local A", NXDOMAIN)]);
}
