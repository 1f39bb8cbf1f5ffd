//! Headless services and the names of endpoints.

use super::{NODATA, NXDOMAIN, bench, table};

/// Headless services in all shapes.
const DB: &str = "
apiVersion: v1
kind: Service
metadata: {name: pg, namespace: db}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}, {name: mon, port: 9187}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: db}
spec: {clusterIP: None}
---
apiVersion: v1
kind: Service
metadata: {name: many, namespace: db}
spec: {clusterIP: None, ports: [{name: h, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: none, namespace: db}
spec: {clusterIP: None, ports: [{name: h, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: six, namespace: db}
spec: {clusterIP: None, ports: [{name: h, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: fqdn, namespace: db}
spec: {clusterIP: None, ports: [{name: h, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: node, namespace: db}
spec: {clusterIP: None, ports: [{name: http, port: 80}, {name: metrics, port: 9100}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pg-4, namespace: db, labels: {kubernetes.io/service-name: pg}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}, {name: mon, port: 9187, protocol: TCP}]
endpoints:
- {addresses: [172.16.2.1], hostname: pg-0, conditions: {ready: true}, targetRef: {kind: Pod, namespace: db, name: pg-pod-0}}
- {addresses: [172.16.2.2], hostname: pg-1, conditions: {}}
- {addresses: [172.16.2.3], hostname: pg-2, conditions: {ready: false, serving: false}}
- {addresses: [172.16.2.4], hostname: pg-3, conditions: {ready: false, serving: true, terminating: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pg-6, namespace: db, labels: {kubernetes.io/service-name: pg}}
addressType: IPv6
ports: [{name: pg, port: 5432, protocol: TCP}, {name: mon, port: 9187, protocol: TCP}]
endpoints:
- {addresses: ['fd00:b::2:1'], hostname: pg-0, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: plain-1, namespace: db, labels: {kubernetes.io/service-name: plain}}
addressType: IPv4
ports: []
endpoints:
- {addresses: [172.16.3.1], conditions: {ready: true}}
- {addresses: [172.16.3.2]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-1, namespace: db, labels: {kubernetes.io/service-name: many}}
addressType: IPv4
ports: [{name: h, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [172.16.5.1]}
- {addresses: [172.16.5.2], targetRef: {kind: Pod, namespace: db, name: many-pod}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-2, namespace: db, labels: {kubernetes.io/service-name: many}}
addressType: IPv4
ports: [{name: h, port: 8081, protocol: TCP}]
endpoints:
- {addresses: [172.16.5.2], targetRef: {kind: Pod, namespace: db, name: many-pod}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: six-1, namespace: db, labels: {kubernetes.io/service-name: six}}
addressType: IPv6
ports: [{name: h, port: 80, protocol: TCP}]
endpoints:
- {addresses: ['fd00:b::3:1']}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: fqdn-1, namespace: db, labels: {kubernetes.io/service-name: fqdn}}
addressType: FQDN
ports: [{name: h, port: 80, protocol: TCP}]
endpoints:
- {addresses: [backend.example.net]}
- {addresses: [other.example.net]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: node-1, namespace: db, labels: {kubernetes.io/service-name: node}}
addressType: IPv4
ports: [{name: http, port: 80}, {name: metrics, port: 9100}]
endpoints:
- {addresses: [10.244.1.10], hostname: node}
- {addresses: [10.244.1.11], hostname: node}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: node-2, namespace: db, labels: {kubernetes.io/service-name: node}}
addressType: IPv4
ports: [{name: http, port: 80}, {name: metrics, port: 9100}]
endpoints:
- {addresses: [10.244.1.10], hostname: node}
- {addresses: [10.244.1.12], targetRef: {kind: Pod, namespace: db, name: pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp}}
";

/// A block with more properties.
fn corefile(properties: &str) -> String {
    format!(
        "cluster.local in-addr.arpa ip6.arpa {{\n kubernetes {{\n manifests .\n {properties}\n }}\n}}\n"
    )
}

#[test]
fn a_headless_service_has_the_addresses_of_its_ready_endpoints() {
    let bench = bench(DB, &corefile(""));
    table(
        &bench,
        &[
            (
                "pg.db.svc.cluster.local",
                "NOERROR aa rd | pg.db.svc.cluster.local. 5 A 172.16.2.1; pg.db.svc.cluster.local. 5 A 172.16.2.2",
            ),
            (
                "pg.db.svc.cluster.local AAAA",
                "NOERROR aa rd | pg.db.svc.cluster.local. 5 AAAA fd00:b::2:1",
            ),
            ("pg.db.svc.cluster.local TXT", NODATA),
            (
                "plain.db.svc.cluster.local",
                "NOERROR aa rd | plain.db.svc.cluster.local. 5 A 172.16.3.1; plain.db.svc.cluster.local. 5 A 172.16.3.2",
            ),
            // A slice that says nothing of ports has addresses and no services.
            ("plain.db.svc.cluster.local SRV", NODATA),
            ("none.db.svc.cluster.local", NXDOMAIN),
            ("none.db.svc.cluster.local SRV", NXDOMAIN),
            ("six.db.svc.cluster.local", NODATA),
            // One address in two slices comes once.
            (
                "many.db.svc.cluster.local",
                "NOERROR aa rd | many.db.svc.cluster.local. 5 A 172.16.5.1; many.db.svc.cluster.local. 5 A 172.16.5.2",
            ),
            (
                "node.db.svc.cluster.local",
                "NOERROR aa rd | node.db.svc.cluster.local. 5 A 10.244.1.10; node.db.svc.cluster.local. 5 A 10.244.1.11; node.db.svc.cluster.local. 5 A 10.244.1.12",
            ),
        ],
    );
}

#[test]
fn the_services_of_endpoints_lead_to_their_names() {
    let bench = bench(DB, &corefile(""));
    let pg = "pg-0.pg.db.svc.cluster.local. 5 A 172.16.2.1; pg-1.pg.db.svc.cluster.local. 5 A 172.16.2.2; pg-0.pg.db.svc.cluster.local. 5 AAAA fd00:b::2:1";
    table(
        &bench,
        &[
            // Three pairs of address and port make a weight of 33, the two names two records.
            (
                "_pg._tcp.pg.db.svc.cluster.local SRV +tcp",
                &format!(
                    "NOERROR aa rd | _pg._tcp.pg.db.svc.cluster.local. 5 SRV 0 33 5432 pg-0.pg.db.svc.cluster.local.; \
                      _pg._tcp.pg.db.svc.cluster.local. 5 SRV 0 33 5432 pg-1.pg.db.svc.cluster.local. |  | {pg}"
                ),
            ),
            (
                "_pg._tcp.pg.db.svc.cluster.local",
                "NOERROR aa rd | _pg._tcp.pg.db.svc.cluster.local. 5 A 172.16.2.1; _pg._tcp.pg.db.svc.cluster.local. 5 A 172.16.2.2",
            ),
            ("_pg._udp.pg.db.svc.cluster.local SRV", NXDOMAIN),
            ("_tcp.pg.db.svc.cluster.local", NODATA),
            ("_udp.pg.db.svc.cluster.local", NXDOMAIN),
            ("_tcp.plain.db.svc.cluster.local", NXDOMAIN),
            (
                "pg-0.pg.db.svc.cluster.local SRV",
                "NOERROR aa rd | pg-0.pg.db.svc.cluster.local. 5 SRV 0 25 5432 pg-0.pg.db.svc.cluster.local.; \
             pg-0.pg.db.svc.cluster.local. 5 SRV 0 25 9187 pg-0.pg.db.svc.cluster.local. |  | \
             pg-0.pg.db.svc.cluster.local. 5 A 172.16.2.1; pg-0.pg.db.svc.cluster.local. 5 AAAA fd00:b::2:1",
            ),
            (
                "_h._tcp.many.db.svc.cluster.local SRV +tcp",
                "NOERROR aa rd | _h._tcp.many.db.svc.cluster.local. 5 SRV 0 33 8080 172-16-5-1.many.db.svc.cluster.local.; \
             _h._tcp.many.db.svc.cluster.local. 5 SRV 0 33 8080 172-16-5-2.many.db.svc.cluster.local.; \
             _h._tcp.many.db.svc.cluster.local. 5 SRV 0 33 8081 172-16-5-2.many.db.svc.cluster.local. |  | \
             172-16-5-1.many.db.svc.cluster.local. 5 A 172.16.5.1; 172-16-5-2.many.db.svc.cluster.local. 5 A 172.16.5.2",
            ),
            (
                "_http._tcp.node.db.svc.cluster.local SRV +tcp",
                "NOERROR aa rd | _http._tcp.node.db.svc.cluster.local. 5 SRV 0 25 80 node.node.db.svc.cluster.local.; \
             _http._tcp.node.db.svc.cluster.local. 5 SRV 0 25 80 10-244-1-12.node.db.svc.cluster.local. |  | \
             node.node.db.svc.cluster.local. 5 A 10.244.1.10; node.node.db.svc.cluster.local. 5 A 10.244.1.11; \
             10-244-1-12.node.db.svc.cluster.local. 5 A 10.244.1.12",
            ),
        ],
    );
}

#[test]
fn an_endpoint_has_its_hostname_or_else_its_address_as_name() {
    let bench = bench(DB, &corefile(""));
    table(
        &bench,
        &[
            (
                "PG-0.pg.db.svc.cluster.local",
                "NOERROR aa rd | pg-0.pg.db.svc.cluster.local. 5 A 172.16.2.1",
            ),
            (
                "pg-0.pg.db.svc.cluster.local AAAA",
                "NOERROR aa rd | pg-0.pg.db.svc.cluster.local. 5 AAAA fd00:b::2:1",
            ),
            ("pg-1.pg.db.svc.cluster.local AAAA", NODATA),
            ("pg-1.pg.db.svc.cluster.local MX", NODATA),
            ("pg-2.pg.db.svc.cluster.local", NXDOMAIN),
            ("pg-3.pg.db.svc.cluster.local", NXDOMAIN),
            ("172-16-2-1.pg.db.svc.cluster.local", NXDOMAIN),
            ("x.pg-0.pg.db.svc.cluster.local", NXDOMAIN),
            (
                "172-16-3-2.plain.db.svc.cluster.local",
                "NOERROR aa rd | 172-16-3-2.plain.db.svc.cluster.local. 5 A 172.16.3.2",
            ),
            (
                "fd00-b--3-1.six.db.svc.cluster.local AAAA",
                "NOERROR aa rd | fd00-b--3-1.six.db.svc.cluster.local. 5 AAAA fd00:b::3:1",
            ),
            ("fd00-b-0-0-0-0-3-1.six.db.svc.cluster.local AAAA", NXDOMAIN),
            (
                "node.node.db.svc.cluster.local",
                "NOERROR aa rd | node.node.db.svc.cluster.local. 5 A 10.244.1.10; node.node.db.svc.cluster.local. 5 A 10.244.1.11",
            ),
            ("many-pod.many.db.svc.cluster.local", NXDOMAIN),
        ],
    );
}

#[test]
fn a_slice_of_names_is_an_alias() {
    let bench = bench(DB, &corefile(""));
    let alias = "NOERROR aa rd | fqdn.db.svc.cluster.local. 5 CNAME backend.example.net.";
    table(
        &bench,
        &[
            ("fqdn.db.svc.cluster.local", alias),
            ("fqdn.db.svc.cluster.local CNAME", alias),
            (
                "fqdn.db.svc.cluster.local SRV",
                "NOERROR aa rd | fqdn.db.svc.cluster.local. 5 SRV 0 50 80 backend.example.net.; \
             fqdn.db.svc.cluster.local. 5 SRV 0 50 80 other.example.net.",
            ),
            (
                "backend-example-net.fqdn.db.svc.cluster.local CNAME",
                "NOERROR aa rd | backend-example-net.fqdn.db.svc.cluster.local. 5 CNAME backend.example.net.",
            ),
        ],
    );
}

#[test]
fn endpoints_can_be_called_after_their_pods() {
    let bench = bench(DB, &corefile("endpoint_pod_names"));
    table(
        &bench,
        &[
            (
                "many-pod.many.db.svc.cluster.local",
                "NOERROR aa rd | many-pod.many.db.svc.cluster.local. 5 A 172.16.5.2",
            ),
            ("172-16-5-2.many.db.svc.cluster.local", NXDOMAIN),
            (
                "172-16-5-1.many.db.svc.cluster.local",
                "NOERROR aa rd | 172-16-5-1.many.db.svc.cluster.local. 5 A 172.16.5.1",
            ),
            ("pg-pod-0.pg.db.svc.cluster.local", NXDOMAIN),
            // 64 octets are no label.
            (
                "10-244-1-12.node.db.svc.cluster.local",
                "NOERROR aa rd | 10-244-1-12.node.db.svc.cluster.local. 5 A 10.244.1.12",
            ),
            (
                "2.5.16.172.in-addr.arpa PTR",
                "NOERROR aa rd | 2.5.16.172.in-addr.arpa. 5 PTR many-pod.many.db.svc.cluster.local.",
            ),
        ],
    );
}

#[test]
fn records_stay_in_the_order_of_the_store() {
    let bench = bench(DB, &corefile(""));
    let first = bench.now("pg.db.svc.cluster.local");
    assert!(first.matches(" A ").count() > 1, "{first}");
    for _ in 0..20 {
        assert_eq!(bench.now("pg.db.svc.cluster.local"), first);
    }
}

#[test]
fn endpoints_can_be_left_alone() {
    let bench = bench(DB, &corefile("noendpoints"));
    table(
        &bench,
        &[
            ("pg.db.svc.cluster.local", NXDOMAIN),
            ("pg-0.pg.db.svc.cluster.local", NXDOMAIN),
            ("_pg._tcp.pg.db.svc.cluster.local SRV", NXDOMAIN),
            ("2.2.16.172.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(in-addr.arpa. 5)"),
            ("db.svc.cluster.local", NODATA),
        ],
    );
}
