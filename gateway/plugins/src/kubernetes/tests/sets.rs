//! Cluster sets.

use super::{NXDOMAIN, bench, table};

/// Imports beside plain services.
const SET: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.112.0.7], ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: dual, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.112.0.8, 'fd00:112::8'], ports: [{name: dns, port: 53, protocol: UDP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: db, namespace: shop}
spec: {type: Headless, ports: [{name: pg, port: 5432, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: noeps, namespace: shop}
spec: {type: Headless, ports: [{name: pg, port: 5432, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: local, namespace: shop}
spec: {clusterIP: 10.96.60.2, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: imported-db-c1
  namespace: shop
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: c1}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints:
- {addresses: [172.20.2.1], hostname: db-0}
- {addresses: [172.20.2.2]}
- {addresses: [172.20.2.3], hostname: db-9, conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: imported-db-c2
  namespace: shop
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: c2}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints:
- {addresses: [172.21.2.1], hostname: db-0}
";

/// The cluster, the set, and addresses; the set's zone comes first.
const COREFILE: &str = "clusterset.local cluster.local in-addr.arpa {
    kubernetes {
        manifests .
        multicluster clusterset.local
        zonal
    }
}
";

#[test]
fn a_cluster_set_has_imported_services_and_nothing_else() {
    let bench = bench(SET, COREFILE);
    let nxdomain = "NXDOMAIN aa rd |  | SOA(clusterset.local. 5)";
    let nodata = "NOERROR aa rd |  | SOA(clusterset.local. 5)";
    table(
        &bench,
        &[
            (
                "web.shop.svc.clusterset.local",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.112.0.7",
            ),
            ("web.shop.svc.clusterset.local AAAA", nodata),
            (
                "_http._tcp.web.shop.svc.clusterset.local SRV",
                "NOERROR aa rd | _http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 100 80 web.shop.svc.clusterset.local. |  | \
             web.shop.svc.clusterset.local. 5 A 10.112.0.7",
            ),
            ("_none._tcp.web.shop.svc.clusterset.local SRV", nxdomain),
            (
                "dual.shop.svc.clusterset.local AAAA",
                "NOERROR aa rd | dual.shop.svc.clusterset.local. 5 AAAA fd00:112::8",
            ),
            (
                "_pg._tcp.db.shop.svc.clusterset.local SRV +tcp",
                "NOERROR aa rd | _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 db-0.c1.db.shop.svc.clusterset.local.; \
             _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 172-20-2-2.c1.db.shop.svc.clusterset.local.; \
             _pg._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 5432 db-0.c2.db.shop.svc.clusterset.local. |  | \
             db-0.c1.db.shop.svc.clusterset.local. 5 A 172.20.2.1; 172-20-2-2.c1.db.shop.svc.clusterset.local. 5 A 172.20.2.2; \
             db-0.c2.db.shop.svc.clusterset.local. 5 A 172.21.2.1",
            ),
            (
                "db-0.c2.db.shop.svc.clusterset.local",
                "NOERROR aa rd | db-0.c2.db.shop.svc.clusterset.local. 5 A 172.21.2.1",
            ),
            (
                "172-20-2-2.c1.db.shop.svc.clusterset.local",
                "NOERROR aa rd | 172-20-2-2.c1.db.shop.svc.clusterset.local. 5 A 172.20.2.2",
            ),
            ("db-0.c3.db.shop.svc.clusterset.local", nxdomain),
            ("db-9.c1.db.shop.svc.clusterset.local", nxdomain),
            ("c1.db.shop.svc.clusterset.local", nodata),
            ("c3.db.shop.svc.clusterset.local", nxdomain),
            ("db-0.db.shop.svc.clusterset.local", nxdomain),
            ("noeps.shop.svc.clusterset.local", nxdomain),
            ("local.shop.svc.clusterset.local", nxdomain),
            ("shop.svc.clusterset.local", nodata),
            ("svc.clusterset.local", nodata),
            // Topology zones are not for cluster sets.
            ("_zone.db.shop.svc.clusterset.local", nxdomain),
            (
                "dns-version.clusterset.local TXT",
                "NOERROR aa rd | dns-version.clusterset.local. 28800 TXT \"1.1.0\"",
            ),
        ],
    );
}

#[test]
fn imports_are_not_in_the_clusters_own_zone_or_in_reverse_zones() {
    let bench = bench(SET, COREFILE);
    table(
        &bench,
        &[
            (
                "local.shop.svc.cluster.local",
                "NOERROR aa rd | local.shop.svc.cluster.local. 5 A 10.96.60.2",
            ),
            ("web.shop.svc.cluster.local", NXDOMAIN),
            ("db-0.c1.db.shop.svc.cluster.local", NXDOMAIN),
            ("7.0.112.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(in-addr.arpa. 5)"),
            ("1.2.20.172.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(in-addr.arpa. 5)"),
            // Services are in the cluster's zone, so their addresses lead there.
            (
                "2.60.96.10.in-addr.arpa PTR",
                "NOERROR aa rd | 2.60.96.10.in-addr.arpa. 5 PTR local.shop.svc.cluster.local.",
            ),
        ],
    );
}
