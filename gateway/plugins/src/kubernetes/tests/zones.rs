//! Names by topology zone, and several zones of one plugin.

use super::{NODATA, NXDOMAIN, bench, table};

/// A headless service over zones, and others that have none.
const PROD: &str = "
apiVersion: v1
kind: Service
metadata: {name: db, namespace: prod}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: vip, namespace: prod}
spec: {clusterIP: 10.96.70.1, ports: [{name: pg, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: ext, namespace: prod}
spec: {type: ExternalName, externalName: ext.example.net}
---
apiVersion: v1
kind: Service
metadata: {name: hollow, namespace: prod}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints:
- {addresses: [172.16.10.1], zone: us-west-2a, hostname: db-0}
- {addresses: [172.16.10.2], zone: us-west-2b, hostname: db-1}
- {addresses: [172.16.10.4]}
- {addresses: [172.16.10.5], zone: us-west-2c, conditions: {ready: false}}
- {addresses: [172.16.10.6], zone: corp.example.com}
- {addresses: [172.16.10.7], zone: Upper-Zone}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-6, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv6
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints:
- {addresses: ['fd00:b::a:1'], zone: us-west-2b}
";

#[test]
fn a_headless_service_has_names_by_topology_zone() {
    let bench = bench(PROD, "cluster.local {\n kubernetes {\n manifests .\n zonal\n }\n}\n");
    let one = |name: &str, ip: &str| {
        format!("NOERROR aa rd | {name}.db.prod.svc.cluster.local. 5 A {ip}")
    };
    table(
        &bench,
        &[
            (
                "us-west-2a.pin._zone.db.prod.svc.cluster.local",
                &one("us-west-2a.pin._zone", "172.16.10.1"),
            ),
            ("us-west-2a.pin._zone.db.prod.svc.cluster.local AAAA", NODATA),
            ("us-west-2a.pin._zone.db.prod.svc.cluster.local TXT", NODATA),
            ("us-west-2c.pin._zone.db.prod.svc.cluster.local", NODATA),
            ("typo.pin._zone.db.prod.svc.cluster.local", NODATA),
            (
                "us-west-2a.prefer._zone.db.prod.svc.cluster.local",
                &one("us-west-2a.prefer._zone", "172.16.10.1"),
            ),
            (
                "us-west-2b.prefer._zone.db.prod.svc.cluster.local SRV +tcp",
                "NOERROR aa rd | us-west-2b.prefer._zone.db.prod.svc.cluster.local. 5 SRV 0 50 5432 db-1.db.prod.svc.cluster.local.; \
             us-west-2b.prefer._zone.db.prod.svc.cluster.local. 5 SRV 0 50 5432 fd00-b--a-1.db.prod.svc.cluster.local. |  | \
             db-1.db.prod.svc.cluster.local. 5 A 172.16.10.2; fd00-b--a-1.db.prod.svc.cluster.local. 5 AAAA fd00:b::a:1",
            ),
            (
                "corp.example.com.pin._zone.db.prod.svc.cluster.local",
                &one("corp.example.com.pin._zone", "172.16.10.6"),
            ),
            (
                "upper-zone.pin._zone.db.prod.svc.cluster.local",
                &one("upper-zone.pin._zone", "172.16.10.7"),
            ),
            ("pin._zone.db.prod.svc.cluster.local", NODATA),
            ("_zone.db.prod.svc.cluster.local", NODATA),
            ("other._zone.db.prod.svc.cluster.local", NXDOMAIN),
            ("us-west-2a.other._zone.db.prod.svc.cluster.local", NXDOMAIN),
            ("us-west-2a.pin._zone.hollow.prod.svc.cluster.local", NODATA),
            ("us-west-2a.pin._zone.vip.prod.svc.cluster.local", NXDOMAIN),
            ("us-west-2a.pin._zone.ext.prod.svc.cluster.local", NXDOMAIN),
            ("us-west-2a.pin._zone.nope.prod.svc.cluster.local", NXDOMAIN),
            ("db-0.db.prod.svc.cluster.local", &one("db-0", "172.16.10.1")),
        ],
    );
    let everywhere = super::ask(&bench, "us-west-2z.prefer._zone.db.prod.svc.cluster.local");
    assert_eq!(everywhere.matches(" A ").count(), 5, "{everywhere}");
}

#[test]
fn topology_zones_have_no_names_unless_that_is_wanted() {
    let bench = bench(PROD, "cluster.local {\n kubernetes {\n manifests .\n }\n}\n");
    table(
        &bench,
        &[
            ("us-west-2a.pin._zone.db.prod.svc.cluster.local", NXDOMAIN),
            ("us-west-2z.prefer._zone.db.prod.svc.cluster.local", NXDOMAIN),
            ("_zone.db.prod.svc.cluster.local", NXDOMAIN),
        ],
    );
}

#[test]
fn every_zone_has_the_names_and_the_longest_counts() {
    let bench = bench(
        PROD,
        "cluster.local k8s.test {\n kubernetes k8s.test sub.k8s.test cluster.local {\n manifests .\n }\n}\n",
    );
    table(
        &bench,
        &[
            (
                "vip.prod.svc.cluster.local",
                "NOERROR aa rd | vip.prod.svc.cluster.local. 5 A 10.96.70.1",
            ),
            ("vip.prod.svc.k8s.test", "NOERROR aa rd | vip.prod.svc.k8s.test. 5 A 10.96.70.1"),
            (
                "vip.prod.svc.sub.k8s.test",
                "NOERROR aa rd | vip.prod.svc.sub.k8s.test. 5 A 10.96.70.1",
            ),
            ("sub.k8s.test SOA", "NOERROR aa rd | SOA(sub.k8s.test. 5)"),
            ("nope.sub.k8s.test", "NXDOMAIN aa rd |  | SOA(sub.k8s.test. 5)"),
        ],
    );
}
