//! Services with addresses of their own, aliases, and the names between them and the zone.

use super::{NODATA, NXDOMAIN, ask, bench, change, table};

/// Services of every kind.
const SHOP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: empty}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.10.10, ports: [{name: http, port: 80}, {name: https, port: 443}, {name: dns, port: 53, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: dual, namespace: shop}
spec: {clusterIP: 10.96.10.11, clusterIPs: [10.96.10.11, 'fd00:10:96::a11'], ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: six, namespace: shop}
spec: {clusterIP: 'fd00:10:96::a12', clusterIPs: ['fd00:10:96::a12'], ports: [{port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: noname, namespace: shop}
spec: {clusterIP: 10.96.10.13, ports: [{port: 9000}]}
---
apiVersion: v1
kind: Service
metadata: {name: sctp, namespace: shop}
spec: {clusterIP: 10.96.10.14, ports: [{name: diam, port: 3868, protocol: SCTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: shop}
spec: {clusterIP: 10.96.10.16}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: shop}
spec: {type: ExternalName, externalName: www.example.org}
---
apiVersion: v1
kind: Service
metadata: {name: gone, namespace: shop}
spec: {type: ExternalName, externalName: nx.example.org}
---
apiVersion: v1
kind: Service
metadata: {name: failing, namespace: shop}
spec: {type: ExternalName, externalName: fail.example.org}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: shop}
spec: {type: ExternalName, externalName: www.example.net}
---
apiVersion: v1
kind: Service
metadata: {name: inside, namespace: shop}
spec: {type: ExternalName, externalName: Web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: twice, namespace: shop}
spec: {type: ExternalName, externalName: inside.shop.svc.cluster.local.}
---
apiVersion: v1
kind: Service
metadata: {name: dangling, namespace: shop}
spec: {type: ExternalName, externalName: nope.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: round, namespace: shop}
spec: {type: ExternalName, externalName: round.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: address, namespace: shop}
spec: {type: ExternalName, externalName: 198.51.100.77}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [172.16.1.1], conditions: {ready: true}}
- {addresses: [172.16.1.2], conditions: {ready: true}, hostname: web-b}
- {addresses: [172.16.1.3], conditions: {ready: false}}
";

/// One block for the cluster, one for the names that aliases lead to.
const COREFILE: &str = "cluster.local {
    kubernetes {
        manifests .
    }
}
example.org {
    answers
}
";

#[test]
fn a_service_has_its_addresses_and_ports() {
    let bench = bench(SHOP, COREFILE);
    let http = "0 100 80 web.shop.svc.cluster.local.";
    table(
        &bench,
        &[
            (
                "web.shop.svc.cluster.local",
                "NOERROR aa rd | web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
            (
                "WEB.Shop.SVC.cluster.local",
                "NOERROR aa rd | web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
            ("web.shop.svc.cluster.local AAAA", NODATA),
            (
                "web.shop.svc.cluster.local SRV",
                "NOERROR aa rd | web.shop.svc.cluster.local. 5 SRV 0 33 80 web.shop.svc.cluster.local.; \
             web.shop.svc.cluster.local. 5 SRV 0 33 443 web.shop.svc.cluster.local.; \
             web.shop.svc.cluster.local. 5 SRV 0 33 53 web.shop.svc.cluster.local. |  | \
             web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
            (
                "_http._tcp.web.shop.svc.cluster.local SRV",
                &format!(
                    "NOERROR aa rd | _http._tcp.web.shop.svc.cluster.local. 5 SRV {http} |  | web.shop.svc.cluster.local. 5 A 10.96.10.10"
                ),
            ),
            (
                "_http._tcp.web.shop.svc.cluster.local",
                "NOERROR aa rd | _http._tcp.web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
            ("_dns._tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            ("_dns._tcp.web.shop.svc.cluster.local", NXDOMAIN),
            ("_none._tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            (
                "dual.shop.svc.cluster.local",
                "NOERROR aa rd | dual.shop.svc.cluster.local. 5 A 10.96.10.11",
            ),
            (
                "dual.shop.svc.cluster.local AAAA",
                "NOERROR aa rd | dual.shop.svc.cluster.local. 5 AAAA fd00:10:96::a11",
            ),
            (
                "dual.shop.svc.cluster.local SRV",
                "NOERROR aa rd | dual.shop.svc.cluster.local. 5 SRV 0 50 8080 dual.shop.svc.cluster.local. |  | \
             dual.shop.svc.cluster.local. 5 A 10.96.10.11; dual.shop.svc.cluster.local. 5 AAAA fd00:10:96::a11",
            ),
            ("six.shop.svc.cluster.local", NODATA),
            (
                "noname.shop.svc.cluster.local SRV",
                "NOERROR aa rd | noname.shop.svc.cluster.local. 5 SRV 0 100 9000 noname.shop.svc.cluster.local. |  | \
             noname.shop.svc.cluster.local. 5 A 10.96.10.13",
            ),
            (
                "_diam._sctp.sctp.shop.svc.cluster.local SRV",
                "NOERROR aa rd | _diam._sctp.sctp.shop.svc.cluster.local. 5 SRV 0 100 3868 sctp.shop.svc.cluster.local. |  | \
             sctp.shop.svc.cluster.local. 5 A 10.96.10.14",
            ),
            (
                "bare.shop.svc.cluster.local",
                "NOERROR aa rd | bare.shop.svc.cluster.local. 5 A 10.96.10.16",
            ),
            ("bare.shop.svc.cluster.local SRV", NODATA),
            // Endpoints of such a service have names as well.
            (
                "172-16-1-1.web.shop.svc.cluster.local",
                "NOERROR aa rd | 172-16-1-1.web.shop.svc.cluster.local. 5 A 172.16.1.1",
            ),
            (
                "web-b.web.shop.svc.cluster.local",
                "NOERROR aa rd | web-b.web.shop.svc.cluster.local. 5 A 172.16.1.2",
            ),
            ("172-16-1-2.web.shop.svc.cluster.local", NXDOMAIN),
            ("172-16-1-3.web.shop.svc.cluster.local", NXDOMAIN),
        ],
    );
}

#[test]
fn owner_names_keep_the_case_of_the_question() {
    let bench = bench(SHOP, COREFILE);
    let mut x = bench.exchange("web.shop.svc.cluster.local");
    x.query.wire[12..20].make_ascii_uppercase();
    assert_eq!(
        engine::testing::show(&bench.serve(&mut x)),
        "NOERROR aa rd | WEB.SHOp.svc.cluster.local. 5 A 10.96.10.10"
    );
}

#[test]
fn other_types_are_nodata_where_the_name_is_there_and_nxdomain_where_not() {
    let bench = bench(SHOP, COREFILE);
    for kind in
        ["A", "AAAA", "TXT", "MX", "HTTPS", "PTR", "CNAME", "HINFO", "ANY", "NS", "SOA", "DS"]
    {
        assert_eq!(ask(&bench, &format!("nope.shop.svc.cluster.local {kind}")), NXDOMAIN, "{kind}");
        assert_eq!(ask(&bench, &format!("shop.svc.cluster.local {kind}")), NODATA, "{kind}");
        if kind != "A" {
            assert_eq!(
                ask(&bench, &format!("web.shop.svc.cluster.local {kind}")),
                NODATA,
                "{kind}"
            );
        }
    }
}

#[test]
fn names_between_a_service_and_the_zone_have_no_records_and_are_there() {
    let bench = bench(SHOP, COREFILE);
    table(
        &bench,
        &[
            ("cluster.local", NODATA),
            ("svc.cluster.local", NODATA),
            ("pod.cluster.local", NODATA),
            ("dns.cluster.local", NODATA),
            ("empty.svc.cluster.local", NODATA),
            ("nope.svc.cluster.local", NXDOMAIN),
            ("web.empty.svc.cluster.local", NXDOMAIN),
            ("web.nope.svc.cluster.local", NXDOMAIN),
            ("foo.cluster.local", NXDOMAIN),
            ("shop.cluster.local", NXDOMAIN),
            // RFC 8020 §2: what has names below is there.
            ("_tcp.web.shop.svc.cluster.local SRV", NODATA),
            ("_udp.web.shop.svc.cluster.local", NODATA),
            ("_sctp.web.shop.svc.cluster.local", NXDOMAIN),
            ("_tcp.noname.shop.svc.cluster.local", NXDOMAIN),
            ("_foo.web.shop.svc.cluster.local", NXDOMAIN),
            // Labels of ports begin with an underscore and are not empty.
            ("http.tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            ("_http.tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            ("_._tcp.noname.shop.svc.cluster.local SRV", NXDOMAIN),
            ("x._http._tcp.web.shop.svc.cluster.local SRV", NXDOMAIN),
            ("a.b.c.d.e.shop.svc.cluster.local", NXDOMAIN),
            // There are no wildcards.
            ("*.shop.svc.cluster.local", NXDOMAIN),
            ("web.*.svc.cluster.local", NXDOMAIN),
            ("any.any.svc.cluster.local", NXDOMAIN),
        ],
    );
}

#[test]
fn an_alias_is_followed_inside_and_outside_the_zone() {
    let bench = bench(SHOP, COREFILE);
    let outside = "NOERROR aa rd | outside.shop.svc.cluster.local. 5 CNAME www.example.org.";
    let inside =
        "NOERROR aa rd | inside.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.";
    let address = bench.now("www.example.org").split_once(" | ").unwrap().1.to_owned();
    table(
        &bench,
        &[
            ("outside.shop.svc.cluster.local", &format!("{outside}; {address}")),
            ("outside.shop.svc.cluster.local CNAME", outside),
            (
                "inside.shop.svc.cluster.local",
                &format!("{inside}; web.shop.svc.cluster.local. 5 A 10.96.10.10"),
            ),
            // The alias stays where its target has nothing of the type (RFC 2308 §2.2).
            ("inside.shop.svc.cluster.local AAAA", &format!("{inside} | SOA(cluster.local. 5)")),
            ("inside.shop.svc.cluster.local TXT", &format!("{inside} | SOA(cluster.local. 5)")),
            (
                "twice.shop.svc.cluster.local",
                "NOERROR aa rd | twice.shop.svc.cluster.local. 5 CNAME inside.shop.svc.cluster.local.; \
             inside.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.; \
             web.shop.svc.cluster.local. 5 A 10.96.10.10",
            ),
            // RFC 6604 §2.1: the response code is that of the last name.
            (
                "dangling.shop.svc.cluster.local",
                "NXDOMAIN aa rd | dangling.shop.svc.cluster.local. 5 CNAME nope.shop.svc.cluster.local. | SOA(cluster.local. 5)",
            ),
            (
                "gone.shop.svc.cluster.local",
                "NXDOMAIN aa rd | gone.shop.svc.cluster.local. 5 CNAME nx.example.org.",
            ),
            // Nobody here knows the target: the alias is all that can be said.
            (
                "nobody.shop.svc.cluster.local",
                "NOERROR aa rd | nobody.shop.svc.cluster.local. 5 CNAME www.example.net.",
            ),
            ("failing.shop.svc.cluster.local", "SERVFAIL rd"),
            ("round.shop.svc.cluster.local", "SERVFAIL rd"),
            // An address is no name, and names below an alias are none of its own.
            ("address.shop.svc.cluster.local", NXDOMAIN),
            ("x.outside.shop.svc.cluster.local", NXDOMAIN),
            ("_http._tcp.outside.shop.svc.cluster.local SRV", NXDOMAIN),
        ],
    );
}

#[test]
fn an_alias_comes_before_what_it_stands_for() {
    let bench = bench(SHOP, COREFILE);
    let reply = ask(&bench, "twice.shop.svc.cluster.local");
    let order =
        ["twice.", "inside.", "web."].map(|name| reply.find(&format!(" {name}shop")).unwrap());
    assert!(order.is_sorted(), "{reply}");
}

#[test]
fn the_time_to_live_is_that_of_all_records_and_denials() {
    let corefile =
        |ttl: u32| format!("cluster.local {{\n kubernetes {{\n manifests .\n ttl {ttl}\n }}\n}}\n");
    for (ttl, soa) in [(0, 0), (30, 30), (3600, 300)] {
        let bench = bench(SHOP, &corefile(ttl));
        assert_eq!(
            ask(&bench, "web.shop.svc.cluster.local"),
            format!("NOERROR aa rd | web.shop.svc.cluster.local. {ttl} A 10.96.10.10")
        );
        assert_eq!(
            ask(&bench, "nope.shop.svc.cluster.local"),
            format!("NXDOMAIN aa rd |  | SOA(cluster.local. {soa})")
        );
    }
}

#[test]
fn an_answer_counts_every_record_once_however_many_there_are() {
    // More endpoints than are compared one by one, in two slices that overlap.
    let mut yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: big, namespace: db}\nspec: {clusterIP: None, ports: [{name: h, port: 80}]}\n".to_owned();
    for slice in 0..2 {
        yaml.push_str(&format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: big-{slice}, namespace: db, labels: {{kubernetes.io/service-name: big}}}}\naddressType: IPv4\nports: [{{name: h, port: 80}}]\nendpoints:\n"
        ));
        for host in slice * 20..slice * 20 + 40 {
            yaml.push_str(&format!("- {{addresses: [172.17.0.{}]}}\n", host + 1));
        }
    }
    let bench = bench(Box::leak(yaml.into_boxed_str()), COREFILE);
    let addresses = |reply: &str| reply.matches(" A ").count();
    assert_eq!(addresses(&ask(&bench, "big.db.svc.cluster.local +bufsize=4096")), 60);
    assert_eq!(addresses(&ask(&bench, "big.db.svc.cluster.local +tcp")), 60);
    let services = ask(&bench, "big.db.svc.cluster.local SRV +tcp");
    assert_eq!(services.matches(" SRV 0 1 80 ").count(), 60, "{services}");
    assert_eq!(addresses(&services), 60);
}

#[test]
fn answers_follow_the_cluster() {
    let bench = bench(SHOP, COREFILE);
    let serial =
        || bench.now("cluster.local SOA").split(' ').nth(9).unwrap().parse::<u64>().unwrap();
    assert!(serial() > 1_700_000_000);
    change(
        "apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: shop}\nspec: {clusterIP: 10.96.10.99}\n",
    );
    table(
        &bench,
        &[
            ("web.shop.svc.cluster.local", NXDOMAIN),
            ("empty.svc.cluster.local", NXDOMAIN),
            (
                "new.shop.svc.cluster.local",
                "NOERROR aa rd | new.shop.svc.cluster.local. 5 A 10.96.10.99",
            ),
        ],
    );
}
