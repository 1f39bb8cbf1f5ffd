//! `reach`: which of a service's addresses its name gives; and `nameserver`.

use engine::testing::{Bench, show};

use super::{CHAIN, MADE, Made, bench, sorted, table};

/// Services that are reached in every way, and in none.
const EDGE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.10.10, externalIPs: [203.0.113.9], ports: [{name: http, port: 80}, {name: https, port: 443}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [172.16.1.1], conditions: {ready: true}}
- {addresses: [172.16.1.2], conditions: {ready: false}}
---
apiVersion: v1
kind: Service
metadata: {name: dual, namespace: shop}
spec: {clusterIP: 10.96.10.11, clusterIPs: [10.96.10.11, 'fd00:10:96::a11'], ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.8}]}}
---
apiVersion: v1
kind: Service
metadata: {name: cloud, namespace: shop}
spec: {clusterIP: 10.96.10.12, ports: [{name: http, port: 80}, {port: 81}]}
status: {loadBalancer: {ingress: [{hostname: www.example.org}, {hostname: other.example.org}]}}
---
apiVersion: v1
kind: Service
metadata: {name: odd, namespace: shop}
spec: {clusterIP: 10.96.10.13, ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{hostname: '203.0.113.1'}]}}
---
apiVersion: v1
kind: Service
metadata: {name: head, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: head-1, namespace: shop, labels: {kubernetes.io/service-name: head}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [172.16.2.1], hostname: h0, conditions: {ready: true}}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: shop}
spec: {clusterIP: 10.96.10.14, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: www.example.org}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.112.0.7], ports: [{name: http, port: 80, protocol: TCP}]}
";

/// The reply to a name that has nothing of the type.
const NODATA: &str = "NOERROR aa rd |  | SOA(cluster.local. 5)";
/// The reply to a name that is not there.
const NXDOMAIN: &str = "NXDOMAIN aa rd |  | SOA(cluster.local. 5)";

/// A gateway whose `kubernetes` has these properties too.
fn block(properties: &str) -> Bench {
    bench(
        EDGE,
        &format!(
            "cluster.local 113.0.203.in-addr.arpa clusterset.local {{
    transfer {{
        to *
    }}
    kubernetes {{
        manifests .
        multicluster clusterset.local
        {properties}
    }}
}}
example.org {{
    answers
}}
"
        ),
    )
}

/// The one address of a name.
fn one(name: &str, address: &str) -> String {
    format!("NOERROR aa rd | {name}.shop.svc.cluster.local. 5 A {address}")
}

#[test]
fn the_first_kind_with_an_address_gives_all_of_the_answer() {
    for (order, web, dual, plain) in [
        ("clusterip", "10.96.10.10", "10.96.10.11", "10.96.10.14"),
        ("clusterip loadbalancer", "10.96.10.10", "10.96.10.11", "10.96.10.14"),
        ("loadbalancer endpoints clusterip", "203.0.113.7", "203.0.113.8", "10.96.10.14"),
        ("externalip loadbalancer clusterip", "203.0.113.9", "203.0.113.8", "10.96.10.14"),
        ("endpoints clusterip", "172.16.1.1", "10.96.10.11", "10.96.10.14"),
    ] {
        let bench = block(&format!("reach {order}"));
        table(
            &bench,
            &[
                ("web.shop.svc.cluster.local", &one("web", web)),
                ("dual.shop.svc.cluster.local", &one("dual", dual)),
                ("plain.shop.svc.cluster.local", &one("plain", plain)),
                // Endpoints are asked for by their own names, and aliases are none of the kinds.
                ("172-16-1-1.web.shop.svc.cluster.local", &one("172-16-1-1.web", "172.16.1.1")),
                ("h0.head.shop.svc.cluster.local", &one("h0.head", "172.16.2.1")),
                (
                    "out.shop.svc.cluster.local CNAME",
                    "NOERROR aa rd | out.shop.svc.cluster.local. 5 CNAME www.example.org.",
                ),
                ("nope.shop.svc.cluster.local", NXDOMAIN),
            ],
        );
    }
}

#[test]
fn families_do_not_mix_kinds() {
    let bench = block("reach loadbalancer clusterip");
    table(&bench, &[("dual.shop.svc.cluster.local AAAA +edns", NODATA)]);
    let bench = block("reach clusterip loadbalancer");
    table(
        &bench,
        &[(
            "dual.shop.svc.cluster.local AAAA",
            "NOERROR aa rd | dual.shop.svc.cluster.local. 5 AAAA fd00:10:96::a11",
        )],
    );
}

#[test]
fn ports_are_those_of_the_kind() {
    let port = |name: &str, data: &str, glue: &str| {
        format!("NOERROR aa rd | {name} 5 SRV 0 100 {data} |  | {glue}")
    };
    let (http, https) =
        ("_http._tcp.web.shop.svc.cluster.local.", "_https._tcp.web.shop.svc.cluster.local.");
    let own = "web.shop.svc.cluster.local.";
    let endpoint = "172-16-1-1.web.shop.svc.cluster.local.";
    let bench = block("reach loadbalancer clusterip");
    let outside = format!("{own} 5 A 203.0.113.7");
    table(
        &bench,
        &[
            (
                "_http._tcp.web.shop.svc.cluster.local SRV",
                &port(http, &format!("80 {own}"), &outside),
            ),
            (
                "_https._tcp.web.shop.svc.cluster.local SRV",
                &port(https, &format!("443 {own}"), &outside),
            ),
            ("_tcp.web.shop.svc.cluster.local SRV", NODATA),
            ("_udp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            ("_dns._tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
        ],
    );
    // The endpoints have one port, and another number.
    let inside = format!("{endpoint} 5 A 172.16.1.1");
    table(
        &block("reach endpoints"),
        &[
            (
                "_http._tcp.web.shop.svc.cluster.local SRV",
                &port(http, &format!("8080 {endpoint}"), &inside),
            ),
            ("web.shop.svc.cluster.local SRV", &port(own, &format!("8080 {endpoint}"), &inside)),
            ("_https._tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
        ],
    );
}

#[test]
fn a_service_that_no_kind_leads_to_says_what_was_looked_for() {
    let bench = block("reach loadbalancer externalip");
    let ede =
        "EDE 0 the service is there, but has none of these addresses: loadbalancer, externalip";
    let nothing = format!("{NODATA} | {ede}");
    table(
        &bench,
        &[
            ("plain.shop.svc.cluster.local +edns", &nothing),
            ("plain.shop.svc.cluster.local AAAA +edns", &nothing),
            ("plain.shop.svc.cluster.local SRV +edns", &nothing),
            ("_http._tcp.plain.shop.svc.cluster.local SRV +edns", &nothing),
            // An address is no host name.
            ("odd.shop.svc.cluster.local +edns", &nothing),
            // A headless service has its endpoints, which the order does not name.
            ("head.shop.svc.cluster.local +edns", &nothing),
            // These have nothing to do with addresses.
            ("plain.shop.svc.cluster.local", NODATA),
            ("plain.shop.svc.cluster.local MX +edns", NODATA),
            (
                "_nope._tcp.plain.shop.svc.cluster.local SRV +edns",
                "NXDOMAIN aa rd |  | SOA(cluster.local. 5) | EDE 0 no TCP port \"nope\": service \"plain\" in namespace \"shop\"",
            ),
            (
                "nope.shop.svc.cluster.local +edns",
                "NXDOMAIN aa rd |  | SOA(cluster.local. 5) | EDE 0 no service \"nope\" in namespace \"shop\"",
            ),
        ],
    );
}

#[test]
fn headless_services_have_their_endpoints_by_either_word() {
    for order in ["loadbalancer clusterip", "loadbalancer endpoints", "clusterip"] {
        let bench = block(&format!("reach {order}"));
        table(&bench, &[("head.shop.svc.cluster.local", &one("head", "172.16.2.1"))]);
    }
}

#[test]
fn imported_services_have_the_two_kinds_that_they_can_have() {
    let address = "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.112.0.7";
    table(&block("reach loadbalancer clusterip"), &[("web.shop.svc.clusterset.local", address)]);
    table(
        &block("reach loadbalancer endpoints"),
        &[("web.shop.svc.clusterset.local", "NOERROR aa rd |  | SOA(clusterset.local. 5)")],
    );
}

#[tokio::test]
async fn a_load_balancer_with_a_host_name_is_an_alias() {
    let bench = block("reach loadbalancer clusterip");
    let alias = "cloud.shop.svc.cluster.local. 5 CNAME www.example.org.";
    let reply = bench.ask("cloud.shop.svc.cluster.local").await;
    assert!(reply.starts_with(&format!("NOERROR aa rd | {alias}; www.example.org. ")), "{reply}");
    table(
        &bench,
        &[
            ("cloud.shop.svc.cluster.local CNAME", &format!("NOERROR aa rd | {alias}")),
            // An SRV record must not lead to an alias.
            (
                "_http._tcp.cloud.shop.svc.cluster.local SRV",
                "NOERROR aa rd | _http._tcp.cloud.shop.svc.cluster.local. 5 SRV 0 100 80 www.example.org.",
            ),
            ("_http._tcp.cloud.shop.svc.cluster.local", NODATA),
            ("_tcp.cloud.shop.svc.cluster.local", NODATA),
            ("_nope._tcp.cloud.shop.svc.cluster.local SRV", NXDOMAIN),
        ],
    );
}

/// A zone's records by AXFR, in order.
async fn copy(bench: &Bench, zone: &str) -> Vec<String> {
    let mut all = Vec::new();
    for message in bench.messages(&format!("{zone} AXFR +tcp")).await {
        let shown = show(&message);
        all.extend(shown.split(" | ").skip(1).flat_map(|one| one.split("; ")).map(str::to_owned));
    }
    all.retain(|record| !record.contains(" SOA "));
    all.sort_unstable();
    all
}

#[tokio::test]
async fn copies_and_reverse_names_say_the_same() {
    let bench = block("reach loadbalancer endpoints\n nameserver ns1.example.org");
    let all = copy(&bench, "cluster.local").await;
    assert_eq!(
        all,
        [
            "172-16-1-1.web.shop.svc.cluster.local. 5 A 172.16.1.1",
            "_http._tcp.cloud.shop.svc.cluster.local. 5 SRV 0 100 80 www.example.org.",
            "_http._tcp.dual.shop.svc.cluster.local. 5 SRV 0 100 80 dual.shop.svc.cluster.local.",
            "_http._tcp.head.shop.svc.cluster.local. 5 SRV 0 100 8080 h0.head.shop.svc.cluster.local.",
            "_http._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local.",
            "_https._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 443 web.shop.svc.cluster.local.",
            "cloud.shop.svc.cluster.local. 5 CNAME www.example.org.",
            "cluster.local. 5 NS ns1.example.org.",
            "dual.shop.svc.cluster.local. 5 A 203.0.113.8",
            "dual.shop.svc.cluster.local. 5 SRV 0 100 80 dual.shop.svc.cluster.local.",
            "h0.head.shop.svc.cluster.local. 5 A 172.16.2.1",
            "head.shop.svc.cluster.local. 5 A 172.16.2.1",
            "head.shop.svc.cluster.local. 5 SRV 0 100 8080 h0.head.shop.svc.cluster.local.",
            "out.shop.svc.cluster.local. 5 CNAME www.example.org.",
            "web.shop.svc.cluster.local. 5 A 203.0.113.7",
            "web.shop.svc.cluster.local. 5 SRV 0 50 443 web.shop.svc.cluster.local.",
            "web.shop.svc.cluster.local. 5 SRV 0 50 80 web.shop.svc.cluster.local.",
        ]
    );
    assert_eq!(
        copy(&bench, "113.0.203.in-addr.arpa").await,
        [
            "113.0.203.in-addr.arpa. 5 NS ns1.example.org.",
            "7.113.0.203.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
            "8.113.0.203.in-addr.arpa. 5 PTR dual.shop.svc.cluster.local.",
        ]
    );
    table(
        &bench,
        &[(
            "7.113.0.203.in-addr.arpa PTR",
            "NOERROR aa rd | 7.113.0.203.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
        )],
    );
    // An external address is not among the kinds, so the name does not give it.
    assert!(bench.now("9.113.0.203.in-addr.arpa PTR").starts_with("NXDOMAIN"));
}

#[test]
fn stated_name_servers_take_the_place_of_those_found_out() {
    let bench = block(
        "nameserver ns1.example.org 198.51.100.1\n nameserver a.ns.cluster.local 198.51.100.2 2001:db8::2",
    );
    let soa = bench.now("cluster.local SOA");
    assert!(
        soa.starts_with(
            "NOERROR aa rd | cluster.local. 5 SOA ns1.example.org. hostmaster.cluster.local. "
        ),
        "{soa}"
    );
    let hide = |reply: String| {
        let mut parts: Vec<_> = reply.split(" | ").collect();
        if parts.last().is_some_and(|last| last.contains(" SOA ")) {
            *parts.last_mut().unwrap() = "SOA";
        }
        sorted(&parts.join(" | "))
    };
    for (line, want) in [
        (
            "cluster.local NS",
            "NOERROR aa rd | cluster.local. 5 NS ns1.example.org.; cluster.local. 5 NS a.ns.cluster.local. |  | \
             ns1.example.org. 5 A 198.51.100.1; a.ns.cluster.local. 5 A 198.51.100.2; a.ns.cluster.local. 5 AAAA 2001:db8::2",
        ),
        (
            "113.0.203.in-addr.arpa NS",
            "NOERROR aa rd | 113.0.203.in-addr.arpa. 5 NS ns1.example.org.; 113.0.203.in-addr.arpa. 5 NS a.ns.cluster.local. |  | \
             ns1.example.org. 5 A 198.51.100.1; a.ns.cluster.local. 5 A 198.51.100.2; a.ns.cluster.local. 5 AAAA 2001:db8::2",
        ),
        ("a.ns.cluster.local", "NOERROR aa rd | a.ns.cluster.local. 5 A 198.51.100.2"),
        ("a.ns.cluster.local AAAA", "NOERROR aa rd | a.ns.cluster.local. 5 AAAA 2001:db8::2"),
        ("a.ns.cluster.local MX", "NOERROR aa rd |  | SOA"),
        // What has names below is there.
        ("ns.cluster.local", "NOERROR aa rd |  | SOA"),
        ("b.ns.cluster.local", "NXDOMAIN aa rd |  | SOA"),
        ("x.a.ns.cluster.local", "NXDOMAIN aa rd |  | SOA"),
        ("ns.dns.cluster.local", "NXDOMAIN aa rd |  | SOA"),
        (
            "plain.shop.svc.cluster.local",
            "NOERROR aa rd | plain.shop.svc.cluster.local. 5 A 10.96.10.14",
        ),
    ] {
        assert_eq!(hide(bench.now(line)), sorted(want), "{line}");
    }
}

#[test]
fn a_name_server_may_have_the_zones_own_name() {
    let bench = block("nameserver cluster.local 198.51.100.1");
    for (line, want) in [
        ("cluster.local SOA", "NOERROR aa rd | cluster.local. 5 SOA cluster.local. "),
        (
            "cluster.local NS",
            "NOERROR aa rd | cluster.local. 5 NS cluster.local. |  | cluster.local. 5 A 198.51.100.1",
        ),
        ("cluster.local A", "NOERROR aa rd | cluster.local. 5 A 198.51.100.1"),
        ("cluster.local AAAA", "NOERROR aa rd |  | "),
    ] {
        let reply = bench.now(line);
        assert!(reply.starts_with(want), "{line}: {reply}");
    }
}

#[tokio::test]
async fn stated_name_servers_are_in_copies() {
    let bench = block(
        "nameserver ns.cluster.local 198.51.100.2\n nameserver ns.cluster.local 198.51.100.3",
    );
    let all = copy(&bench, "cluster.local").await;
    for record in [
        "cluster.local. 5 NS ns.cluster.local.",
        "ns.cluster.local. 5 A 198.51.100.2",
        "ns.cluster.local. 5 A 198.51.100.3",
    ] {
        assert!(all.iter().any(|other| other == record), "{record}: {all:?}");
    }
    assert!(!all.iter().any(|record| record.starts_with("ns.dns.")), "{all:?}");
}

#[test]
fn wrong_words_are_refused() {
    MADE.set(Made::Yaml(EDGE));
    for (properties, want) in [
        ("reach", "reach KIND..."),
        ("reach nodeports", "is no kind of addresses"),
        ("reach clusterip clusterip", "comes twice"),
        (
            "reach loadbalancer endpoints\n noendpoints",
            "endpoints needs what noendpoints leaves out",
        ),
        ("nameserver", "nameserver NAME [ADDRESS...]"),
        ("nameserver 198.51.100.1", "is no name of a server"),
        ("nameserver .", "is no name of a server"),
        ("nameserver ns.example.org 198.51.100", "is no IP address"),
        ("nameserver ns.cluster.local", "has no address"),
    ] {
        let corefile =
            format!("cluster.local {{\n kubernetes {{\n manifests .\n {properties}\n }}\n}}\n");
        let refused = Bench::refused(CHAIN, &corefile);
        assert!(refused.contains(want), "{properties}: {refused}");
    }
}
