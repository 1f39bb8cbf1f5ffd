//! Reverse zones, name servers and what falls through.

use super::{NXDOMAIN, ask, bench, table};

/// Services and endpoints with addresses.
const NET: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.10.10, clusterIPs: [10.96.10.10, 'fd00:10:96::a11'], ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: idle, namespace: shop}
spec: {clusterIP: 10.96.10.11, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: head, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: secret, namespace: internal}
spec: {clusterIP: 10.96.10.99, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: link, namespace: shop}
spec: {type: ExternalName, externalName: secret.internal.svc.cluster.local}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [172.16.1.1]}
- {addresses: [172.16.1.2], conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: head-1, namespace: shop, labels: {kubernetes.io/service-name: head}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [172.16.1.1], hostname: h0}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: head-2, namespace: shop, labels: {kubernetes.io/service-name: head}}
addressType: IPv4
ports: [{name: http, port: 8081}]
endpoints:
- {addresses: [172.16.1.1], hostname: h0}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: orphan-1, namespace: shop, labels: {kubernetes.io/service-name: nosuch}}
addressType: IPv4
ports: [{name: http, port: 8081}]
endpoints:
- {addresses: [172.16.9.9]}
";

/// A block for the cluster and three networks.
fn corefile(properties: &str) -> String {
    format!(
        "cluster.local 10.96.0.0/16 172.16.0.0/16 fd00:10:96::/64 {{\n kubernetes {{\n manifests .\n {properties}\n }}\n answers\n}}\n"
    )
}

#[test]
fn addresses_lead_to_services_and_endpoints() {
    let bench = bench(NET, &corefile(""));
    table(
        &bench,
        &[
            (
                "10.10.96.10.in-addr.arpa PTR",
                "NOERROR aa rd | 10.10.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
            ),
            (
                "1.1.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa PTR",
                "NOERROR aa rd | 1.1.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa. 5 PTR web.shop.svc.cluster.local.",
            ),
            // One for each service that selects it, each once.
            (
                "1.1.16.172.in-addr.arpa PTR",
                "NOERROR aa rd | 1.1.16.172.in-addr.arpa. 5 PTR 172-16-1-1.web.shop.svc.cluster.local.; \
             1.1.16.172.in-addr.arpa. 5 PTR h0.head.shop.svc.cluster.local.",
            ),
            ("2.1.16.172.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(16.172.in-addr.arpa. 5)"),
            ("9.9.16.172.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(16.172.in-addr.arpa. 5)"),
            ("99.99.96.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            ("10.10.96.10.in-addr.arpa", "NOERROR aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            ("10.96.10.in-addr.arpa PTR", "NOERROR aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            ("x.10.96.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            ("96.10.in-addr.arpa SOA", "NOERROR aa rd | SOA(96.10.in-addr.arpa. 5)"),
            ("web.shop.svc.96.10.in-addr.arpa", "NXDOMAIN aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            // A zone that is not the plugin's.
            ("1.1.17.172.in-addr.arpa PTR", "REFUSED rd"),
        ],
    );
}

#[test]
fn hidden_things_have_no_reverse_names() {
    let hidden = bench(NET, &corefile("namespaces shop"));
    table(
        &hidden,
        &[
            ("secret.internal.svc.cluster.local", NXDOMAIN),
            ("internal.svc.cluster.local", NXDOMAIN),
            ("99.10.96.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            (
                "link.shop.svc.cluster.local",
                "NXDOMAIN aa rd | link.shop.svc.cluster.local. 5 CNAME secret.internal.svc.cluster.local. | SOA(cluster.local. 5)",
            ),
            (
                "10.10.96.10.in-addr.arpa PTR",
                "NOERROR aa rd | 10.10.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
            ),
        ],
    );
    let empty = bench(NET, &corefile("ignore empty_service"));
    table(
        &empty,
        &[
            ("idle.shop.svc.cluster.local", NXDOMAIN),
            ("idle.shop.svc.cluster.local SRV", NXDOMAIN),
            ("11.10.96.10.in-addr.arpa PTR", "NXDOMAIN aa rd |  | SOA(96.10.in-addr.arpa. 5)"),
            (
                "web.shop.svc.cluster.local",
                "NOERROR aa rd | web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
        ],
    );
}

#[test]
fn names_that_are_not_there_fall_through_where_that_is_wanted() {
    let passed = |reply: &str| reply.starts_with("NOERROR") && !reply.contains("SOA(");
    let all = bench(NET, &corefile("fallthrough"));
    for line in [
        "nope.shop.svc.cluster.local",
        "foo.cluster.local",
        "99.99.96.10.in-addr.arpa PTR",
        "9.96.10.in-addr.arpa NS",
    ] {
        assert!(passed(&ask(&all, line)), "{line}");
    }
    for line in
        ["shop.svc.cluster.local", "web.shop.svc.cluster.local TXT", "10.10.96.10.in-addr.arpa A"]
    {
        assert!(!passed(&ask(&all, line)), "{line}");
    }
    let reverse = bench(NET, &corefile("fallthrough in-addr.arpa"));
    assert!(passed(&ask(&reverse, "99.99.96.10.in-addr.arpa PTR")));
    assert_eq!(ask(&reverse, "nope.shop.svc.cluster.local"), NXDOMAIN);
    assert_eq!(
        ask(&reverse, "10.10.96.10.in-addr.arpa PTR"),
        "NOERROR aa rd | 10.10.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local."
    );
}

#[test]
fn the_zone_says_its_servers_its_version_and_its_serial() {
    let bench = bench(NET, &corefile(""));
    let servers = ask(&bench, "cluster.local NS");
    assert!(
        servers.starts_with("NOERROR aa rd | cluster.local. 5 NS ns.dns.cluster.local."),
        "{servers}"
    );
    // The addresses are the machine's own, if it has any beyond loopback.
    if let Some((_, addresses)) = servers.split_once(" |  | ") {
        for address in addresses.split("; ") {
            assert!(address.starts_with("ns.dns.cluster.local. 5 A"), "{servers}");
            assert!(!address.contains("127.0.0."), "{servers}");
        }
    }
    let version = "dns-version.cluster.local. 28800 TXT \"1.1.0\"";
    table(
        &bench,
        &[
            ("dns-version.cluster.local TXT", &format!("NOERROR aa rd | {version}")),
            ("dns-version.cluster.local", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("x.dns-version.cluster.local TXT", NXDOMAIN),
            ("ns.dns.cluster.local MX", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("cluster.local SOA", "NOERROR aa rd | SOA(cluster.local. 5)"),
            ("cluster.local DNSKEY", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("cluster.local ANY", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("cluster.local TXT", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("cluster.local AXFR +tcp", "REFUSED rd"),
            ("cluster.local IXFR +tcp", "REFUSED rd"),
        ],
    );
}

#[test]
fn a_server_that_a_service_selects_is_called_by_it() {
    let block =
        |ip: &str| format!("cluster.local {{\n bind {ip}\n kubernetes {{\n manifests .\n }}\n}}\n");
    let endpoint = bench(NET, &block("172.16.1.1"));
    table(
        &endpoint,
        &[
            (
                "cluster.local NS",
                "NOERROR aa rd | cluster.local. 5 NS web.shop.svc.cluster.local.; \
             cluster.local. 5 NS h0.head.shop.svc.cluster.local. |  | \
             web.shop.svc.cluster.local. 5 A 10.96.10.10; web.shop.svc.cluster.local. 5 AAAA fd00:10:96::a11; \
             h0.head.shop.svc.cluster.local. 5 A 172.16.1.1",
            ),
            (
                "ns.dns.cluster.local AAAA",
                "NOERROR aa rd | ns.dns.cluster.local. 5 AAAA fd00:10:96::a11",
            ),
        ],
    );
    let host = bench(NET, &block("198.51.100.7"));
    table(
        &host,
        &[
            (
                "cluster.local NS",
                "NOERROR aa rd | cluster.local. 5 NS ns.dns.cluster.local. |  | ns.dns.cluster.local. 5 A 198.51.100.7",
            ),
            ("ns.dns.cluster.local", "NOERROR aa rd | ns.dns.cluster.local. 5 A 198.51.100.7"),
            ("ns.dns.cluster.local AAAA", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
        ],
    );
    let nobody = bench(NET, &block("127.0.0.1"));
    table(
        &nobody,
        &[
            ("cluster.local NS", "NOERROR aa rd | cluster.local. 5 NS ns.dns.cluster.local."),
            ("ns.dns.cluster.local", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
        ],
    );
}
