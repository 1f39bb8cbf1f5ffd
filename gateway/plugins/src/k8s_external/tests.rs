//! The facts `k8s_external.*`, by table: a Corefile and manifests in, replies in words out.

use engine::testing::{Bench, show};

use crate::kubernetes::tests::{CHAIN, bench, change, sorted, union, unsynced};

/// Services that are and are not seen from outside.
const EDGE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: hidden, labels: {open: 'no'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: edge, labels: {open: 'yes'}}
---
apiVersion: v1
kind: Service
metadata: {name: lb, namespace: edge, labels: {tier: front}}
spec: {type: LoadBalancer, clusterIP: 10.96.50.1, ports: [{name: https, port: 443}, {name: http, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}, {ip: 203.0.113.8}, {ip: '2001:db8::7'}]}}
---
apiVersion: v1
kind: Service
metadata: {name: lbname, namespace: edge}
spec: {type: LoadBalancer, clusterIP: 10.96.50.3, ports: [{name: https, port: 443}]}
status: {loadBalancer: {ingress: [{hostname: lb.up.test}]}}
---
apiVersion: v1
kind: Service
metadata: {name: lbmix, namespace: edge}
spec: {type: LoadBalancer, clusterIP: 10.96.50.8, ports: [{name: https, port: 443}]}
status: {loadBalancer: {ingress: [{hostname: lb.up.test}, {ip: 203.0.113.66}]}}
---
apiVersion: v1
kind: Service
metadata: {name: pending, namespace: edge}
spec: {type: LoadBalancer, clusterIP: 10.96.50.4, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: extip, namespace: edge}
spec: {clusterIP: 10.96.50.5, externalIPs: [198.51.100.5, 198.51.100.5, 198.51.100.7], ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: twin, namespace: edge}
spec: {clusterIP: 10.96.50.7, externalIPs: [198.51.100.7], ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: node, namespace: edge}
spec: {type: NodePort, clusterIP: 10.96.50.6, ports: [{name: http, port: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: head, namespace: edge}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: headext, namespace: edge}
spec: {clusterIP: None, externalIPs: [198.51.100.9], ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: secret, namespace: hidden}
spec: {clusterIP: 10.96.50.9, externalIPs: [198.51.100.66], ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: head-1, namespace: edge, labels: {kubernetes.io/service-name: head}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [172.16.9.1], hostname: h0}
- {addresses: [172.16.9.2]}
- {addresses: [172.16.9.3], conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: lb-1, namespace: edge, labels: {kubernetes.io/service-name: lb, tier: front}}
addressType: IPv4
ports: [{name: https, port: 8443, protocol: TCP}]
endpoints:
- {addresses: [172.16.9.9]}
";

/// A block with what *kubernetes* and *k8s_external* are told besides.
fn corefile(kubernetes: &str, external: &str) -> String {
    format!(
        ". {{\n bind 172.16.8.8\n kubernetes cluster.local {{\n manifests .\n {kubernetes}\n }}\n \
         k8s_external example.org 113.0.203.in-addr.arpa 198.in-addr.arpa {{\n {external}\n }}\n answers\n}}\n"
    )
}

/// Puts `SOA` for the zone's own record, whose serial is a time.
fn shorten(reply: &str, soa: &str) -> String {
    let mut out = Vec::new();
    for section in reply.split(" | ") {
        let records =
            section.split("; ").map(|record| match record.split(' ').collect::<Vec<_>>()[..] {
                [zone, ttl, "SOA", server, mailbox, serial, "7200", "1800", "86400", minimum] => {
                    assert!(serial.parse::<u32>().unwrap() > 1_700_000_000, "{record}");
                    assert_eq!(format!("{zone} {ttl} {server} {mailbox} {minimum}"), soa);
                    "SOA".to_owned()
                }
                _ => record.to_owned(),
            });
        out.push(records.collect::<Vec<_>>().join("; "));
    }
    out.join(" | ")
}

/// The numbers and names of the SOA record of `example.org` where nothing is stated.
const SOA: &str = "example.org. 5 ns1.dns.example.org. hostmaster.dns.example.org. 5";
/// The reply to a name that has nothing of the type.
const NODATA: &str = "NOERROR aa rd |  | SOA";
/// The reply to a name that is not there.
const NXDOMAIN: &str = "NXDOMAIN aa rd |  | SOA";
/// What comes of a name that goes on.
const PASSED: &str = "198.51.100.1";

/// Asks each line of a table and compares; the order of records in a section is the store's business.
fn table(bench: &Bench, soa: &str, rows: &[(&str, &str)]) {
    for (line, want) in rows {
        let reply = shorten(&bench.now(line), soa);
        assert_eq!(sorted(&reply), sorted(want), "{line}");
    }
}

#[test]
fn services_have_the_addresses_that_they_have_outside() {
    let bench = bench(EDGE, &corefile("", ""));
    table(
        &bench,
        SOA,
        &[
            (
                "lb.edge.example.org",
                "NOERROR aa rd | lb.edge.example.org. 5 A 203.0.113.7; lb.edge.example.org. 5 A 203.0.113.8",
            ),
            ("lb.edge.example.org AAAA", "NOERROR aa rd | lb.edge.example.org. 5 AAAA 2001:db8::7"),
            ("LB.Edge.example.org AAAA", "NOERROR aa rd | lb.edge.example.org. 5 AAAA 2001:db8::7"),
            (
                "_http._tcp.lb.edge.example.org AAAA",
                "NOERROR aa rd | _http._tcp.lb.edge.example.org. 5 AAAA 2001:db8::7",
            ),
            ("extip.edge.example.org AAAA", NODATA),
            ("lb.edge.example.org MX", NODATA),
            // Equal addresses count once.
            (
                "extip.edge.example.org",
                "NOERROR aa rd | extip.edge.example.org. 5 A 198.51.100.5; extip.edge.example.org. 5 A 198.51.100.7",
            ),
            (
                "headext.edge.example.org",
                "NOERROR aa rd | headext.edge.example.org. 5 A 198.51.100.9",
            ),
            // Names with an address and a host name have the address.
            ("lbmix.edge.example.org", "NOERROR aa rd | lbmix.edge.example.org. 5 A 203.0.113.66"),
            ("_tcp.lb.edge.example.org", NODATA),
            ("edge.example.org", NODATA),
            ("edge.example.org TXT", NODATA),
            ("pending.edge.example.org", NXDOMAIN),
            // Neither the cluster's addresses nor those of nodes are ones outside.
            ("node.edge.example.org", NXDOMAIN),
            ("_udp.lb.edge.example.org", NXDOMAIN),
            ("_smtp._tcp.lb.edge.example.org SRV", NXDOMAIN),
            ("http.tcp.lb.edge.example.org SRV", NXDOMAIN),
            ("x.lb.edge.example.org", NXDOMAIN),
            ("a.b.c.lb.edge.example.org", NXDOMAIN),
            ("nope.edge.example.org", NXDOMAIN),
            ("lb.nope.example.org", NXDOMAIN),
            ("nope.example.org", NXDOMAIN),
            ("head.edge.example.org", NXDOMAIN),
            ("example.org AXFR +tcp", "REFUSED rd"),
        ],
    );
}

#[test]
fn a_host_name_of_a_load_balancer_is_an_alias() {
    let bench = bench(EDGE, &corefile("", ""));
    let alias = "lbname.edge.example.org. 5 CNAME lb.up.test.";
    table(
        &bench,
        SOA,
        &[
            (
                "lbname.edge.example.org",
                &format!("NOERROR aa rd | {alias}; lb.up.test. 30 A 198.51.100.1"),
            ),
            ("lbname.edge.example.org CNAME", &format!("NOERROR aa rd | {alias}")),
            (
                "lbname.edge.example.org SRV",
                "NOERROR aa rd | lbname.edge.example.org. 5 SRV 0 100 443 lb.up.test. |  | lb.up.test. 30 A 198.51.100.1",
            ),
            (
                "lbmix.edge.example.org SRV",
                "NOERROR aa rd | lbmix.edge.example.org. 5 SRV 0 50 443 lbmix.edge.example.org.; \
                 lbmix.edge.example.org. 5 SRV 0 50 443 lb.up.test. |  | \
                 lbmix.edge.example.org. 5 A 203.0.113.66; lb.up.test. 30 A 198.51.100.1",
            ),
        ],
    );
}

#[test]
fn a_service_with_nothing_but_odd_host_names_is_there() {
    const ODD: &str = "
apiVersion: v1
kind: Service
metadata: {name: odd, namespace: edge}
spec: {clusterIP: 10.96.0.9, ports: [{name: https, port: 443}]}
status: {loadBalancer: {ingress: [{hostname: 203.0.113.1}]}}
---
apiVersion: v1
kind: Service
metadata: {name: both, namespace: edge}
spec: {clusterIP: 10.96.0.8, ports: [{name: https, port: 443}]}
status: {loadBalancer: {ingress: [{hostname: 203.0.113.1}, {hostname: www.example.net}]}}
";
    let bench = bench(ODD, &corefile("", ""));
    table(
        &bench,
        SOA,
        &[
            ("odd.edge.example.org", NODATA),
            ("_https._tcp.odd.edge.example.org", NODATA),
            ("_https._tcp.odd.edge.example.org SRV", NODATA),
            (
                "both.edge.example.org CNAME",
                "NOERROR aa rd | both.edge.example.org. 5 CNAME www.example.net.",
            ),
        ],
    );
}

#[test]
fn ports_have_srv_records_with_their_share() {
    let bench = bench(EDGE, &corefile("", "ttl 30"));
    let glue = "lb.edge.example.org. 30 A 203.0.113.7; lb.edge.example.org. 30 A 203.0.113.8; \
                lb.edge.example.org. 30 AAAA 2001:db8::7";
    let soa = "example.org. 30 ns1.dns.example.org. hostmaster.dns.example.org. 30";
    table(
        &bench,
        soa,
        &[
            (
                "_https._tcp.lb.edge.example.org SRV",
                &format!(
                    "NOERROR aa rd | _https._tcp.lb.edge.example.org. 30 SRV 0 33 443 lb.edge.example.org. |  | {glue}"
                ),
            ),
            (
                "lb.edge.example.org SRV",
                &format!(
                    "NOERROR aa rd | lb.edge.example.org. 30 SRV 0 16 443 lb.edge.example.org.; \
                     lb.edge.example.org. 30 SRV 0 16 80 lb.edge.example.org. |  | {glue}"
                ),
            ),
        ],
    );
}

#[test]
fn the_zone_has_names_of_its_own() {
    let bench = bench(EDGE, &corefile("", ""));
    let server = "ns1.dns.example.org. 5 A 172.16.8.8";
    table(
        &bench,
        SOA,
        &[
            ("example.org SOA", "NOERROR aa rd | SOA"),
            (
                "example.org NS",
                &format!("NOERROR aa rd | example.org. 5 NS ns1.dns.example.org. |  | {server}"),
            ),
            ("example.org", NODATA),
            ("example.org TXT", NODATA),
            ("dns.example.org", NODATA),
            ("ns1.dns.example.org", &format!("NOERROR aa rd | {server}")),
            ("ns1.dns.example.org AAAA", NODATA),
            ("ns1.dns.example.org TXT", NODATA),
            ("nope.dns.example.org", NXDOMAIN),
            ("x.ns1.dns.example.org", NXDOMAIN),
        ],
    );
}

#[test]
fn apex_and_ttl_are_those_that_are_stated() {
    for (apex, labels) in [("zone", "zone"), ("a.b.", "a.b")] {
        let bench = bench(EDGE, &corefile("", &format!("apex {apex}\n ttl 3600")));
        let soa = format!(
            "example.org. 3600 ns1.{labels}.example.org. hostmaster.{labels}.example.org. 3600"
        );
        let server = format!("ns1.{labels}.example.org");
        table(
            &bench,
            &soa,
            &[
                ("example.org SOA", "NOERROR aa rd | SOA"),
                (&server, &format!("NOERROR aa rd | {server}. 3600 A 172.16.8.8")),
                ("ns1.dns.example.org", NXDOMAIN),
                ("b.example.org", if apex == "zone" { NXDOMAIN } else { NODATA }),
                (
                    "twin.edge.example.org",
                    "NOERROR aa rd | twin.edge.example.org. 3600 A 198.51.100.7",
                ),
            ],
        );
    }
}

#[test]
fn a_server_that_a_service_selects_has_its_addresses() {
    let corefile = |ip: &str, external: &str| corefile("", external).replace("172.16.8.8", ip);
    let behind = bench(EDGE, &corefile("172.16.9.9", ""));
    table(
        &behind,
        SOA,
        &[
            (
                "ns1.dns.example.org",
                "NOERROR aa rd | ns1.dns.example.org. 5 A 203.0.113.7; ns1.dns.example.org. 5 A 203.0.113.8",
            ),
            ("ns1.dns.example.org AAAA", "NOERROR aa rd | ns1.dns.example.org. 5 AAAA 2001:db8::7"),
        ],
    );
    let headless = bench(EDGE, &corefile("172.16.9.1", "headless"));
    let own = "NOERROR aa rd | ns1.dns.example.org. 5 A 172.16.9.1";
    table(&headless, SOA, &[("ns1.dns.example.org", own)]);
}

#[test]
fn headless_services_are_shown_by_their_endpoints() {
    let bench = bench(EDGE, &corefile("", "headless\n ttl 77"));
    let soa = "example.org. 77 ns1.dns.example.org. hostmaster.dns.example.org. 77";
    table(
        &bench,
        soa,
        &[
            (
                "head.edge.example.org",
                "NOERROR aa rd | head.edge.example.org. 77 A 172.16.9.1; head.edge.example.org. 77 A 172.16.9.2",
            ),
            (
                "_http._tcp.head.edge.example.org SRV",
                "NOERROR aa rd | _http._tcp.head.edge.example.org. 77 SRV 0 50 8080 h0.head.edge.example.org.; \
                 _http._tcp.head.edge.example.org. 77 SRV 0 50 8080 172-16-9-2.head.edge.example.org. |  | \
                 h0.head.edge.example.org. 77 A 172.16.9.1; 172-16-9-2.head.edge.example.org. 77 A 172.16.9.2",
            ),
            (
                "h0.head.edge.example.org",
                "NOERROR aa rd | h0.head.edge.example.org. 77 A 172.16.9.1",
            ),
            (
                "172-16-9-2.head.edge.example.org",
                "NOERROR aa rd | 172-16-9-2.head.edge.example.org. 77 A 172.16.9.2",
            ),
            ("_tcp.head.edge.example.org", NODATA),
            ("_udp.head.edge.example.org", NXDOMAIN),
            ("nope.head.edge.example.org", NXDOMAIN),
            ("172-16-9-3.head.edge.example.org", NXDOMAIN),
            // One with an address outside has that, and one with a cluster IP shows nothing of its endpoints.
            (
                "headext.edge.example.org",
                "NOERROR aa rd | headext.edge.example.org. 77 A 198.51.100.9",
            ),
            ("172-16-9-9.lb.edge.example.org", NXDOMAIN),
        ],
    );
}

#[test]
fn addresses_lead_back_to_their_services() {
    let bench = bench(EDGE, &corefile("", ""));
    for (line, want) in [
        (
            "7.113.0.203.in-addr.arpa PTR",
            "NOERROR aa rd | 7.113.0.203.in-addr.arpa. 5 PTR lb.edge.example.org.",
        ),
        (
            "7.100.51.198.in-addr.arpa PTR",
            "NOERROR aa rd | 7.100.51.198.in-addr.arpa. 5 PTR extip.edge.example.org.; \
             7.100.51.198.in-addr.arpa. 5 PTR twin.edge.example.org.",
        ),
        ("7.100.51.198.in-addr.arpa TXT", NODATA),
        ("51.198.in-addr.arpa PTR", NODATA),
        ("99.100.51.198.in-addr.arpa PTR", NXDOMAIN),
        ("x.100.51.198.in-addr.arpa PTR", NXDOMAIN),
    ] {
        let zone = if line.contains("203") { "113.0.203" } else { "198" };
        let zone = format!("{zone}.in-addr.arpa.");
        let soa = format!("{zone} 5 ns1.dns.{zone} hostmaster.dns.{zone} 5");
        table(&bench, &soa, &[(line, want)]);
    }
}

#[test]
fn only_names_that_are_not_there_fall_through() {
    let all = bench(EDGE, &corefile("", "fallthrough"));
    for name in ["pending.edge.example.org", "nope.example.org", "99.100.51.198.in-addr.arpa"] {
        let reply = all.now(name);
        assert!(reply.ends_with(PASSED), "{name}: {reply}");
    }
    table(
        &all,
        SOA,
        &[
            ("edge.example.org", NODATA),
            ("extip.edge.example.org AAAA", NODATA),
            ("twin.edge.example.org", "NOERROR aa rd | twin.edge.example.org. 5 A 198.51.100.7"),
        ],
    );
    let some = bench(EDGE, &corefile("", "fallthrough edge.example.org"));
    assert!(some.now("pending.edge.example.org").ends_with(PASSED));
    table(&some, SOA, &[("nope.example.org", NXDOMAIN)]);
    // What is not of the zones goes on in any case.
    assert!(some.now("www.example.net").ends_with(PASSED));
}

#[test]
fn the_cluster_is_that_which_kubernetes_sees() {
    for (kubernetes, name, address) in [
        ("namespaces edge", "secret.hidden.example.org", "66.100.51.198.in-addr.arpa PTR"),
        // No endpoint is ready.
        ("ignore empty_service", "twin.edge.example.org", "7.100.51.198.in-addr.arpa PTR"),
    ] {
        let bench = bench(EDGE, &corefile(kubernetes, ""));
        table(&bench, SOA, &[(name, NXDOMAIN)]);
        assert!(bench.now("lb.edge.example.org").contains("203.0.113.7"), "{kubernetes}");
        let reply = bench.now(address);
        assert!(reply.starts_with("NXDOMAIN"), "{kubernetes}: {reply}");
    }
}

#[test]
fn nothing_is_denied_before_the_cluster_is_known() {
    let bench = unsynced(&corefile("", "fallthrough"));
    for name in ["lb.edge.example.org", "edge.example.org", "7.100.51.198.in-addr.arpa PTR"] {
        let reply = bench.now(&format!("{name} +edns"));
        assert!(reply.starts_with("SERVFAIL aa rd |  | "), "{name}: {reply}");
        assert!(
            reply.ends_with("EDE 14 the cluster's objects are not known yet"),
            "{name}: {reply}"
        );
    }
    assert!(bench.now("example.org").starts_with("NOERROR aa rd |  | example.org. 5 SOA "));
}

#[test]
fn answers_follow_the_cluster() {
    let bench = bench(EDGE, &corefile("", ""));
    change(
        "apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: edge}\nspec: {clusterIP: 10.96.50.99, externalIPs: [198.51.100.99]}\n",
    );
    table(
        &bench,
        SOA,
        &[
            ("lb.edge.example.org", NXDOMAIN),
            ("new.edge.example.org", "NOERROR aa rd | new.edge.example.org. 5 A 198.51.100.99"),
        ],
    );
}

#[test]
fn wrong_words_are_refused() {
    let refused = |block: &str| Bench::refused(CHAIN, &format!("example.org {{\n{block}\n}}\n"));
    let with = |property: &str| {
        refused(&format!(
            "kubernetes cluster.local {{\n manifests .\n}}\nk8s_external {{\n {property}\n}}"
        ))
    };
    assert!(refused("k8s_external").contains("kubernetes"));
    for (property, want) in [
        ("ttl", "ttl"),
        ("ttl -1", "range [0, 3600]"),
        ("ttl 3601", "range [0, 3600]"),
        ("ttl 5s", "range [0, 3600]"),
        ("ttl 5 6", "6"),
        ("apex", "apex"),
        ("apex .", "no label"),
        ("apex a b", "b"),
        ("headless yes", "yes"),
        ("nosuch", "not a property"),
    ] {
        let told = with(property);
        assert!(told.contains(want), "{property}: {told}");
    }
    let twice = refused("kubernetes cluster.local {\n manifests .\n}\nk8s_external\nk8s_external");
    assert!(twice.contains("once"), "{twice}");
}

#[test]
fn without_zones_they_are_those_of_the_block() {
    let bench = bench(
        EDGE,
        "example.org {\n kubernetes cluster.local {\n manifests .\n }\n k8s_external\n}\n",
    );
    table(
        &bench,
        SOA,
        &[("twin.edge.example.org", "NOERROR aa rd | twin.edge.example.org. 5 A 198.51.100.7")],
    );
}

#[test]
fn addresses_outside_are_not_those_of_the_clusters_own_zone() {
    let bench = bench(EDGE, &corefile("", ""));
    let own = "lb.edge.svc.cluster.local.";
    assert_eq!(
        bench.now("lb.edge.svc.cluster.local"),
        format!("NOERROR aa rd | {own} 5 A 10.96.50.1")
    );
    let none = bench.now("lb.edge.svc.cluster.local AAAA");
    assert!(none.starts_with("NOERROR aa rd |  | cluster.local. 5 SOA "), "{none}");
    // Nor are the cluster's own those of the zone outside.
    table(
        &bench,
        SOA,
        &[(
            "lb.edge.example.org A",
            "NOERROR aa rd | lb.edge.example.org. 5 A 203.0.113.7; lb.edge.example.org. 5 A 203.0.113.8",
        )],
    );
}

#[test]
fn it_stands_before_kubernetes() {
    let place = |name: &str| crate::CHAIN.iter().position(|plugin| plugin.name == name);
    assert!(place("k8s_external") < place("kubernetes"));
    // Where both have a zone, this one answers for it.
    let bench = bench(EDGE, "cluster.local {\n kubernetes {\n manifests .\n }\n k8s_external\n}\n");
    assert!(bench.now("lb.edge.svc.cluster.local").starts_with("NXDOMAIN"));
    assert!(bench.now("lb.edge.cluster.local").contains("203.0.113.7"));
}

/// The records of a transfer.
async fn records(bench: &Bench, line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for message in bench.messages(line).await {
        let shown = show(&message);
        let (head, records) = shown.split_once(" | ").unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(head, "NOERROR aa rd");
        all.extend(records.split("; ").map(str::to_owned));
    }
    all
}

/// A block whose zones are handed out.
fn handed_out(external: &str) -> String {
    corefile("", external).replace("bind 172.16.8.8", "bind 172.16.8.8\n transfer {\n to *\n }")
}

#[tokio::test]
async fn a_zone_is_handed_out_from_soa_to_soa() {
    let bench = bench(EDGE, &handed_out("headless"));
    let mut all = records(&bench, "example.org AXFR +tcp").await;
    let (first, last) = (all.remove(0), all.pop().unwrap());
    assert!(first == last && first.starts_with("example.org. 5 SOA ns1.dns.example.org. "));
    all.sort_unstable();
    let mut want = vec![
        "example.org. 5 NS ns1.dns.example.org.",
        "ns1.dns.example.org. 5 A 172.16.8.8",
        "lb.edge.example.org. 5 A 203.0.113.7",
        "lb.edge.example.org. 5 A 203.0.113.8",
        "lb.edge.example.org. 5 AAAA 2001:db8::7",
        "lb.edge.example.org. 5 SRV 0 16 443 lb.edge.example.org.",
        "lb.edge.example.org. 5 SRV 0 16 80 lb.edge.example.org.",
        "_https._tcp.lb.edge.example.org. 5 SRV 0 33 443 lb.edge.example.org.",
        "_http._tcp.lb.edge.example.org. 5 SRV 0 33 80 lb.edge.example.org.",
        // An alias has nothing else.
        "lbname.edge.example.org. 5 CNAME lb.up.test.",
        "_https._tcp.lbname.edge.example.org. 5 SRV 0 100 443 lb.up.test.",
        "lbmix.edge.example.org. 5 A 203.0.113.66",
        "lbmix.edge.example.org. 5 SRV 0 50 443 lb.up.test.",
        "lbmix.edge.example.org. 5 SRV 0 50 443 lbmix.edge.example.org.",
        "_https._tcp.lbmix.edge.example.org. 5 SRV 0 50 443 lb.up.test.",
        "_https._tcp.lbmix.edge.example.org. 5 SRV 0 50 443 lbmix.edge.example.org.",
        "extip.edge.example.org. 5 A 198.51.100.5",
        "extip.edge.example.org. 5 A 198.51.100.7",
        "extip.edge.example.org. 5 SRV 0 33 8080 extip.edge.example.org.",
        "_http._tcp.extip.edge.example.org. 5 SRV 0 33 8080 extip.edge.example.org.",
        "twin.edge.example.org. 5 A 198.51.100.7",
        "twin.edge.example.org. 5 SRV 0 100 8080 twin.edge.example.org.",
        "_http._tcp.twin.edge.example.org. 5 SRV 0 100 8080 twin.edge.example.org.",
        "headext.edge.example.org. 5 A 198.51.100.9",
        "headext.edge.example.org. 5 SRV 0 100 80 headext.edge.example.org.",
        "_http._tcp.headext.edge.example.org. 5 SRV 0 100 80 headext.edge.example.org.",
        "secret.hidden.example.org. 5 A 198.51.100.66",
        "secret.hidden.example.org. 5 SRV 0 100 80 secret.hidden.example.org.",
        "_http._tcp.secret.hidden.example.org. 5 SRV 0 100 80 secret.hidden.example.org.",
        "head.edge.example.org. 5 A 172.16.9.1",
        "head.edge.example.org. 5 A 172.16.9.2",
        "head.edge.example.org. 5 SRV 0 50 8080 h0.head.edge.example.org.",
        "head.edge.example.org. 5 SRV 0 50 8080 172-16-9-2.head.edge.example.org.",
        "_http._tcp.head.edge.example.org. 5 SRV 0 50 8080 h0.head.edge.example.org.",
        "_http._tcp.head.edge.example.org. 5 SRV 0 50 8080 172-16-9-2.head.edge.example.org.",
        "h0.head.edge.example.org. 5 A 172.16.9.1",
        "172-16-9-2.head.edge.example.org. 5 A 172.16.9.2",
    ];
    want.sort_unstable();
    assert_eq!(all, want);
    let reverse = records(&bench, "113.0.203.in-addr.arpa AXFR +tcp").await;
    assert!(reverse.contains(&"7.113.0.203.in-addr.arpa. 5 PTR lb.edge.example.org.".to_owned()));
    assert!(!reverse.iter().any(|record| record.contains("198.in-addr")), "{reverse:?}");
    // The zone of the cluster itself is handed out beside it.
    assert!(records(&bench, "cluster.local AXFR +tcp").await.len() > 2);
}

#[tokio::test]
async fn who_has_the_serial_gets_the_soa_record_alone() {
    let bench = bench(EDGE, &handed_out(""));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for (later, whole) in [(-60i64, true), (60, false)] {
        let serial = u32::try_from(i64::try_from(now.as_secs()).unwrap() + later).unwrap();
        let mut x = bench.exchange("example.org IXFR +tcp");
        // A query of a secondary has its SOA record in the authority section (RFC 1995 §3).
        let numbers = [serial, 0, 0, 0, 0].map(u32::to_be_bytes);
        let data = [&[0, 0][..], numbers.as_flattened()].concat();
        let head = [&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22][..], &data].concat();
        x.query.wire[9] = 1;
        x.query.wire.extend_from_slice(&head);
        let mut out = Vec::new();
        if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        let shown = show(&out);
        assert_eq!(shown.contains("203.0.113.7"), whole, "{later}: {shown}");
        assert_eq!(shown.matches(" SOA ").count(), if whole { 2 } else { 1 }, "{later}: {shown}");
    }
}

#[tokio::test]
async fn a_zone_that_is_not_known_yet_is_not_handed_out() {
    let bench = unsynced(&handed_out(""));
    assert!(bench.ask("example.org AXFR +tcp").await.starts_with("SERVFAIL"));
}

/// A cluster of a union.
const PROD: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, externalIPs: [203.0.113.7], ports: [{name: http, port: 80}]}
";

/// One behind it: a service of the same name, one of the same address, and one of its own.
const STAGE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.97.0.1, externalIPs: [203.0.113.8], ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.97.0.2, externalIPs: [203.0.113.7], ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: only, namespace: shop}
spec: {clusterIP: 10.97.0.3, externalIPs: [203.0.113.9], ports: [{name: http, port: 80}]}
";

#[test]
fn reverse_names_of_a_union_are_those_of_its_kubernetes() {
    let corefile =
        |ptr: &str| corefile("", "").replace("manifests .", &format!("cluster prod stage\n {ptr}"));
    let clusters = [("prod", Some(PROD)), ("stage", Some(STAGE))];
    let soa = "113.0.203.in-addr.arpa. 5 ns1.dns.113.0.203.in-addr.arpa. hostmaster.dns.113.0.203.in-addr.arpa. 5";
    for (ptr, shared) in [
        ("", "NOERROR aa rd |  | SOA | EDE 0 several clusters have this address"),
        (
            "ptr all",
            "NOERROR aa rd | 7.113.0.203.in-addr.arpa. 5 PTR web.shop.example.org.; 7.113.0.203.in-addr.arpa. 5 PTR api.shop.example.org.",
        ),
    ] {
        let bench = union(&clusters, &corefile(ptr));
        table(
            &bench,
            soa,
            &[
                ("7.113.0.203.in-addr.arpa PTR +edns", shared),
                // The name is that of another address, which its cluster does not answer for.
                ("8.113.0.203.in-addr.arpa PTR", NXDOMAIN),
                (
                    "9.113.0.203.in-addr.arpa PTR",
                    "NOERROR aa rd | 9.113.0.203.in-addr.arpa. 5 PTR only.shop.example.org.",
                ),
            ],
        );
    }
    let bench = union(&[("prod", Some(PROD)), ("stage", None)], &corefile(""));
    table(
        &bench,
        soa,
        &[
            (
                "7.113.0.203.in-addr.arpa PTR",
                "NOERROR aa rd | 7.113.0.203.in-addr.arpa. 5 PTR web.shop.example.org.",
            ),
            ("9.113.0.203.in-addr.arpa PTR", "SERVFAIL aa rd |  | SOA"),
        ],
    );
}

#[test]
fn a_zone_of_one_address_has_its_own_records_and_those_of_the_address() {
    let zone = "7.113.0.203.in-addr.arpa";
    let name = "ns1.dns.7.113.0.203.in-addr.arpa.";
    let soa = format!("{zone}. 5 {name} hostmaster.dns.{zone}. 5");
    let ns = format!("NOERROR aa rd | {zone}. 5 NS {name} |  | {name} 5 A 172.16.8.8");
    let corefile = |properties: &str| {
        let text = corefile("", "").replace("113.0.203.in-addr.arpa", zone);
        text.replace("manifests .", properties)
    };
    let both = [("prod", Some(PROD)), ("stage", Some(STAGE))];
    let pointer = |name: &str| format!("{zone}. 5 PTR {name}.shop.example.org.");
    let all = format!("NOERROR aa rd | {}; {}", pointer("web"), pointer("api"));
    let web = format!("NOERROR aa rd | {}", pointer("web"));
    let several = "NOERROR aa rd |  | SOA | EDE 0 several clusters have this address";
    for (bench, ptr) in [
        (bench(PROD, &corefile("manifests .")), &*web),
        (union(&both, &corefile("cluster prod stage")), several),
        (union(&both, &corefile("cluster prod stage\n ptr all")), &all),
    ] {
        table(
            &bench,
            &soa,
            &[
                (&format!("{zone} SOA"), "NOERROR aa rd | SOA"),
                (&format!("{zone} NS"), &ns),
                (&format!("{zone} PTR +edns"), ptr),
                (&format!("{zone} TXT"), NODATA),
                (&format!("x.{zone} PTR"), NXDOMAIN),
            ],
        );
    }
    // The zone is there, whether anything has the address or not.
    let zone = "9.113.0.203.in-addr.arpa";
    let bench = bench(PROD, &corefile("manifests .").replace("7.113.", "9.113."));
    table(&bench, &soa.replace("7.113.", "9.113."), &[(&format!("{zone} PTR"), NODATA)]);
}
