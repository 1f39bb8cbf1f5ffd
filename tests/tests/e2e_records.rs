//! Every kind of record that the specification of DNS-based service discovery (version 1.1.0) has, and those beyond it, from a
//! real API server, as dig sees them.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::client::dig;
use tests::{Cluster, Gateway, Query, Upstream};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The cluster of all tests of this file; each has namespaces of its own.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start();
        cluster.add_multicluster();
        cluster
    })
}

/// A gateway for the cluster, with these zones, these lines in the directive's block and these beside it.
fn gateway(zones: &str, properties: &str, beside: &str) -> Gateway {
    let kubeconfig = cluster().kubeconfig("reader");
    let corefile = format!(
        ".:@PORT@ {{\n errors\n {beside}\n kubernetes {zones} {{\n  kubeconfig {}\n  {properties}\n }}\n}}",
        kubeconfig.display()
    );
    Gateway::new(&corefile).start()
}

/// What `dig +short` prints, its lines sorted.
fn short(server: SocketAddr, words: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        dig(server, &format!("{words} +short")).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The response code and the sections' counts that dig shows, `NOERROR qr aa rd 1/0/0`.
fn header(server: SocketAddr, words: &str) -> String {
    let text = dig(server, &format!("{words} +noedns"));
    let after = |mark: &str, end: char| {
        let rest = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?}:\n{text}")).1;
        rest.split(end).next().unwrap_or_default().trim().to_owned()
    };
    format!(
        "{} {} {}/{}/{}",
        after("status: ", ','),
        after(";; flags: ", ';'),
        after("ANSWER: ", ','),
        after("AUTHORITY: ", ','),
        after("ADDITIONAL: ", '\n')
    )
}

/// A slice of a Service: ports and endpoints as YAML lists.
fn slice(namespace: &str, service: &str, family: &str, ports: &str, endpoints: &str) -> String {
    let name = format!("{service}-{}", family.to_lowercase());
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{kubernetes.io/service-name: {service}}}}}, addressType: {family}, ports: {ports}, endpoints: {endpoints}}}\n"
    )
}

/// A namespace.
fn namespace(name: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n")
}

/// A Service with this YAML as its specification.
fn service(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}}}, spec: {spec}}}\n"
    )
}

/// A Pod with an address.
fn pod(namespace: &str, name: &str, ip: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}, \
         spec: {{containers: [{{name: c, image: 'registry.example/web:1'}}]}}, \
         status: {{phase: Running, podIP: {ip}, podIPs: [{{ip: {ip}}}]}}}}\n"
    )
}

#[test]
fn the_schema_version_is_told() {
    let gateway = gateway("cluster.local", "", "");
    let line = dig(gateway.address(), "dns-version.cluster.local TXT +noall +answer");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["dns-version.cluster.local.", "28800", "IN", "TXT", "\"1.1.0\""]);
}

#[test]
fn services_with_cluster_ips_have_a_aaaa_srv_and_ptr_records() {
    cluster().apply(
        &(namespace("front")
            + &service(
                "front",
                "web",
                "{ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.20.1, clusterIPs: [10.96.20.1, 'fd00:10:96::2001'], \
                 ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]}",
            )
            + &service("front", "plain", "{clusterIP: 10.96.20.2, ports: [{port: 8080}]}")),
    );
    let gateway = gateway("cluster.local 10.96.0.0/12 fd00:10:96::/108", "ttl 30", "");
    let server = gateway.address();

    let line = dig(server, "web.front.svc.cluster.local A +noall +answer");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["web.front.svc.cluster.local.", "30", "IN", "A", "10.96.20.1"]);
    assert_eq!(short(server, "web.front.svc.cluster.local AAAA"), ["fd00:10:96::2001"]);
    // Both addresses share the weight.
    assert_eq!(
        short(server, "_http._tcp.web.front.svc.cluster.local SRV"),
        ["0 50 80 web.front.svc.cluster.local."]
    );
    assert_eq!(
        short(server, "_dns._udp.web.front.svc.cluster.local SRV"),
        ["0 50 53 web.front.svc.cluster.local."]
    );
    // The addresses of the target come along.
    assert_eq!(
        header(server, "_http._tcp.web.front.svc.cluster.local SRV"),
        "NOERROR qr aa rd 1/0/2"
    );
    assert_eq!(short(server, "-x 10.96.20.1"), ["web.front.svc.cluster.local."]);
    assert_eq!(short(server, "-x fd00:10:96::2001"), ["web.front.svc.cluster.local."]);

    // A port without a name has no SRV record of its own; the other family is NODATA.
    assert_eq!(header(server, "plain.front.svc.cluster.local AAAA"), "NOERROR qr aa rd 0/1/0");
    assert_eq!(
        header(server, "_http._tcp.plain.front.svc.cluster.local SRV"),
        "NXDOMAIN qr aa rd 0/1/0"
    );
    assert_eq!(header(server, "-x 10.96.20.99"), "NXDOMAIN qr aa rd 0/1/0");

    // What is gone is gone in both directions.
    cluster().delete("{apiVersion: v1, kind: Service, metadata: {name: plain, namespace: front}}");
    gateway
        .ask_until("plain.front.svc.cluster.local", LIMIT, |r| r.rcode() == ResponseCode::NXDomain);
    assert_eq!(header(server, "-x 10.96.20.2"), "NXDOMAIN qr aa rd 0/1/0");
}

#[test]
fn headless_services_have_records_of_their_endpoints() {
    let ports = "[{name: pg, port: 5432, protocol: TCP}]";
    let v4 = "[{addresses: [172.16.30.1], hostname: db-0}, {addresses: [172.16.30.2], hostname: db-1}, \
              {addresses: [172.16.30.3], conditions: {ready: false}}, {addresses: [172.16.30.4]}]";
    cluster().apply(
        &(namespace("store")
            + &service("store", "db", "{clusterIP: None, ports: [{name: pg, port: 5432}]}")
            + &slice("store", "db", "IPv4", ports, v4)
            + &slice("store", "db", "IPv6", ports, "[{addresses: ['fd00:b::1'], hostname: db-0}]")),
    );
    let gateway = gateway("cluster.local 172.16.30.0/24", "", "");
    let server = gateway.address();
    assert_eq!(
        short(server, "db.store.svc.cluster.local A"),
        ["172.16.30.1", "172.16.30.2", "172.16.30.4"]
    );
    assert_eq!(short(server, "db.store.svc.cluster.local AAAA"), ["fd00:b::1"]);
    assert_eq!(short(server, "db-0.db.store.svc.cluster.local A"), ["172.16.30.1"]);
    assert_eq!(short(server, "db-0.db.store.svc.cluster.local AAAA"), ["fd00:b::1"]);
    assert_eq!(short(server, "172-16-30-4.db.store.svc.cluster.local A"), ["172.16.30.4"]);
    let targets: Vec<String> = short(server, "_pg._tcp.db.store.svc.cluster.local SRV")
        .iter()
        .map(|line| line.split(' ').skip(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        targets,
        [
            "5432 172-16-30-4.db.store.svc.cluster.local.",
            "5432 db-0.db.store.svc.cluster.local.",
            "5432 db-1.db.store.svc.cluster.local."
        ]
    );
    assert_eq!(short(server, "-x 172.16.30.2"), ["db-1.db.store.svc.cluster.local."]);
    assert_eq!(header(server, "-x 172.16.30.3"), "NXDOMAIN qr aa rd 0/1/0");

    // An endpoint that becomes ready is there.
    cluster().apply(&slice(
        "store",
        "db",
        "IPv4",
        ports,
        &v4.replace("ready: false", "ready: true"),
    ));
    gateway.ask_until("db.store.svc.cluster.local", LIMIT, |r| r.addresses().len() == 4);
    assert_eq!(short(server, "-x 172.16.30.3"), ["172-16-30-3.db.store.svc.cluster.local."]);
}

#[test]
fn external_names_are_aliases_whose_targets_are_looked_up() {
    let upstream = Upstream::start(&["www.example.org. 60 IN A 203.0.113.9"]);
    cluster().apply(
        &(namespace("away")
            + &service("away", "outside", "{type: ExternalName, externalName: www.example.org}")
            + &service("away", "lost", "{type: ExternalName, externalName: lost.example.org}")
            + &service("away", "inside", "{clusterIP: 10.96.21.1, ports: [{port: 80}]}")
            + &service(
                "away",
                "alias",
                "{type: ExternalName, externalName: inside.away.svc.cluster.local}",
            )),
    );
    let gateway = gateway("cluster.local", "", &format!("forward . {}", upstream.address()));
    let server = gateway.address();
    assert_eq!(short(server, "outside.away.svc.cluster.local CNAME"), ["www.example.org."]);
    assert_eq!(
        short(server, "outside.away.svc.cluster.local A"),
        ["203.0.113.9", "www.example.org."]
    );
    assert_eq!(
        short(server, "alias.away.svc.cluster.local A"),
        ["10.96.21.1", "inside.away.svc.cluster.local."]
    );
    let lost = gateway.ask("lost.away.svc.cluster.local A");
    assert_eq!(lost.rcode(), ResponseCode::NXDomain);
    assert_eq!(lost.aliases(), ["lost.away.svc.cluster.local. -> lost.example.org."]);
    // No query leaves for what the cluster knows.
    assert!(
        upstream.queries().iter().all(|q| q.contains("example.org")),
        "{:?}",
        upstream.queries()
    );
}

#[test]
fn names_that_are_not_there_say_so_and_names_above_them_exist() {
    cluster().apply(&(namespace("sparse") + &service("sparse", "web", "{ports: [{port: 80}]}")));
    let gateway = gateway("cluster.local", "", "");
    let server = gateway.address();
    for (name, wanted) in [
        ("nothing.sparse.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
        ("web.nowhere.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
        ("a.b.c.web.sparse.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
        ("*.sparse.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
        ("sparse.svc.cluster.local", "NOERROR qr aa rd 0/1/0"),
        ("svc.cluster.local", "NOERROR qr aa rd 0/1/0"),
        ("cluster.local", "NOERROR qr aa rd 0/1/0"),
        ("web.sparse.svc.cluster.local MX", "NOERROR qr aa rd 0/1/0"),
        ("WEB.Sparse.SVC.cluster.local", "NOERROR qr aa rd 1/0/0"),
        ("10-1-2-3.sparse.pod.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
    ] {
        assert_eq!(header(server, name), wanted, "{name}");
    }
    let soa = short(server, "cluster.local SOA").join("");
    let words: Vec<&str> = soa.split(' ').collect();
    assert_eq!(words[..2], ["ns.dns.cluster.local.", "hostmaster.cluster.local."]);
    assert!(words[2].parse::<u32>().unwrap() > 1_700_000_000, "{soa}");
}

#[test]
fn names_of_pods_give_what_the_mode_says() {
    cluster().apply(&(namespace("crew") + &pod("crew", "one", "10.244.7.1")));
    let insecure = gateway("cluster.local", "pods insecure", "");
    for (name, wanted) in [
        ("10-244-7-1.crew.pod.cluster.local", "10.244.7.1"),
        ("10-244-7-200.crew.pod.cluster.local", "10.244.7.200"),
    ] {
        assert_eq!(short(insecure.address(), name), [wanted]);
    }
    let verified = gateway("cluster.local", "pods verified", "");
    assert_eq!(short(verified.address(), "10-244-7-1.crew.pod.cluster.local"), ["10.244.7.1"]);
    for name in ["10-244-7-200.crew.pod.cluster.local", "10-244-7-1.default.pod.cluster.local"] {
        assert_eq!(header(verified.address(), name), "NXDOMAIN qr aa rd 0/1/0", "{name}");
    }
    cluster().delete("{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: crew}}");
    verified.ask_until("10-244-7-1.crew.pod.cluster.local", LIMIT, |r| {
        r.rcode() == ResponseCode::NXDomain
    });
}

#[test]
fn a_client_that_is_a_pod_has_its_search_path_walked() {
    let upstream = Upstream::start(&[
        "example.org. 60 IN SOA ns.example.org. host.example.org. 1 2 3 4 5",
        "www.example.org. 60 IN A 203.0.113.9",
    ]);
    cluster().apply(
        &(namespace("red")
            + &namespace("blue")
            + &pod("red", "walker", "127.0.0.31")
            + &pod("blue", "runner", "127.0.0.32")
            + &service("red", "web", "{clusterIP: 10.96.22.1, ports: [{port: 80}]}")
            + &service("blue", "web", "{clusterIP: 10.96.22.2, ports: [{port: 80}]}")),
    );
    let beside = format!(
        "metadata\n autopath @kubernetes\n forward . {}\n log . \"by {{/kubernetes/client-namespace}} {{/kubernetes/client-pod-name}} {{/kubernetes/client-label/app}}\"",
        upstream.address()
    );
    let gateway = gateway("cluster.local", "pods verified", &beside);
    let from = |ip: &str, name: &str| {
        let ip: IpAddr = ip.parse().unwrap();
        gateway.ask(Query::from(name).from_address(ip))
    };
    for (ip, space) in [("127.0.0.31", "red"), ("127.0.0.32", "blue")] {
        let reply = from(ip, &format!("www.example.org.{space}.svc.cluster.local"));
        assert_eq!(reply.addresses(), ["203.0.113.9".parse::<IpAddr>().unwrap()], "{reply:?}");
        assert_eq!(
            reply.aliases(),
            [format!("www.example.org.{space}.svc.cluster.local. -> www.example.org.")]
        );
    }
    // The path is that of the client's namespace, and strangers have none.
    let other = from("127.0.0.31", "web.blue.red.svc.cluster.local");
    assert_eq!(other.addresses(), ["10.96.22.2".parse::<IpAddr>().unwrap()], "{other:?}");
    for ip in ["127.0.0.33", "127.0.0.32"] {
        let reply = from(ip, "www.example.org.red.svc.cluster.local");
        assert_eq!(reply.rcode(), ResponseCode::NXDomain, "{ip}: {reply:?}");
    }
    gateway.line("by red walker walker");
    gateway.line("by blue runner runner");
}

#[test]
fn imported_services_are_those_of_the_cluster_set_in_both_versions_of_the_api() {
    let import = |version: &str, name: &str, fields: &str| {
        format!(
            "---\n{{apiVersion: multicluster.x-k8s.io/{version}, kind: ServiceImport, metadata: {{name: {name}, namespace: fleet}}, {fields}}}\n"
        )
    };
    let imported = |cluster: &str, address: &str| {
        format!(
            "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: db-{cluster}, namespace: fleet, labels: \
             {{multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: {cluster}}}}}, addressType: IPv4, \
             ports: [{{name: pg, port: 5432, protocol: TCP}}], endpoints: [{{addresses: [{address}], hostname: db-0}}]}}\n"
        )
    };
    let (web, db) = (
        "spec: {type: ClusterSetIP, ips: [10.112.0.7], ports: [{name: http, port: 80, protocol: TCP}]}",
        "spec: {type: Headless, ports: [{name: pg, port: 5432, protocol: TCP}]}",
    );
    // The API server turns one version into the other without conversion, so each test of one has its definition alone.
    let definitions = tests::process::run(&mut cluster().command("mcs-crds"));
    let one_version = |unserved: &str| {
        let mark = format!("name: {unserved}\n      served: true");
        assert!(definitions.contains(&mark), "{definitions}");
        cluster().apply(&definitions.replace(&mark, &mark.replace("true", "false")));
    };
    let gateway = {
        one_version("v1beta1");
        cluster().apply(
            &(namespace("fleet")
                + &imported("east", "172.20.0.1")
                + &imported("west", "172.20.0.2")),
        );
        cluster().apply(&(import("v1alpha1", "web", web) + &import("v1alpha1", "db", db)));
        gateway("cluster.local clusterset.local", "multicluster clusterset.local", "")
    };
    let server = gateway.address();
    let check = || {
        gateway.ask_until("web.fleet.svc.clusterset.local", LIMIT, |r| r.addresses().len() == 1);
        assert_eq!(short(server, "web.fleet.svc.clusterset.local"), ["10.112.0.7"]);
        gateway.ask_until("db.fleet.svc.clusterset.local", LIMIT, |r| r.addresses().len() == 2);
        assert_eq!(short(server, "db-0.west.db.fleet.svc.clusterset.local"), ["172.20.0.2"]);
        assert_eq!(
            short(server, "_http._tcp.web.fleet.svc.clusterset.local SRV"),
            ["0 100 80 web.fleet.svc.clusterset.local."]
        );
        // What is imported is not the cluster's own, and the other way round.
        assert_eq!(header(server, "web.fleet.svc.cluster.local"), "NXDOMAIN qr aa rd 0/1/0");
        assert_eq!(
            header(server, "kubernetes.default.svc.clusterset.local"),
            "NXDOMAIN qr aa rd 0/1/0"
        );
    };
    check();
    let gone = |kind: &str| {
        for name in ["web", "db"] {
            cluster().delete(&import(kind, name, "spec: {}"));
        }
        gateway.ask_until("web.fleet.svc.clusterset.local", LIMIT, |r| {
            r.rcode() == ResponseCode::NXDomain
        });
    };
    gone("v1alpha1");
    cluster().apply(&definitions);
    one_version("v1alpha1");
    cluster().apply(&(import("v1beta1", "web", web) + &import("v1beta1", "db", db)));
    check();
    gone("v1beta1");
}

#[test]
fn zonal_names_give_the_endpoints_of_a_topology_zone() {
    let ports = "[{name: pg, port: 5432, protocol: TCP}]";
    cluster().apply(
        &(namespace("prod")
            + &service("prod", "db", "{clusterIP: None, ports: [{name: pg, port: 5432}]}")
            + &slice(
                "prod",
                "db",
                "IPv4",
                ports,
                "[{addresses: [172.16.40.1], zone: us-west-2a}, {addresses: [172.16.40.2], zone: us-west-2b}, \
                 {addresses: [172.16.40.3], zone: corp.example.com}]",
            )
            + &service("prod", "vip", "{clusterIP: 10.96.23.1, ports: [{port: 80}]}")),
    );
    let gateway = gateway("cluster.local", "zonal", "");
    let server = gateway.address();
    let all = ["172.16.40.1", "172.16.40.2", "172.16.40.3"];
    for (name, wanted) in [
        ("us-west-2a.pin._zone.db.prod.svc.cluster.local", &all[..1]),
        ("us-west-2b.prefer._zone.db.prod.svc.cluster.local", &all[1..2]),
        ("corp.example.com.pin._zone.db.prod.svc.cluster.local", &all[2..]),
        ("nowhere.prefer._zone.db.prod.svc.cluster.local", &all[..]),
    ] {
        assert_eq!(short(server, name), wanted, "{name}");
    }
    for (name, wanted) in [
        ("nowhere.pin._zone.db.prod.svc.cluster.local", "NOERROR qr aa rd 0/1/0"),
        ("us-west-2a.stay._zone.db.prod.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
        ("us-west-2a.pin._zone.vip.prod.svc.cluster.local", "NXDOMAIN qr aa rd 0/1/0"),
    ] {
        assert_eq!(header(server, name), wanted, "{name}");
    }
}

#[test]
fn a_zone_can_be_copied_by_dig_and_nobody_may_without_transfer() {
    cluster().apply(
        &(namespace("copy")
            + &service("copy", "web", "{clusterIP: 10.96.24.1, ports: [{name: http, port: 80}]}")
            + &service("copy", "db", "{clusterIP: None, ports: [{name: pg, port: 5432}]}")
            + &slice(
                "copy",
                "db",
                "IPv4",
                "[{name: pg, port: 5432, protocol: TCP}]",
                "[{addresses: [172.16.50.1], hostname: db-0}]",
            )
            + &service("copy", "out", "{type: ExternalName, externalName: www.example.org}")),
    );
    let properties = "namespaces copy";
    let gateway = gateway("cluster.local", properties, "transfer cluster.local {\n to *\n }");
    let text = dig(gateway.address(), "cluster.local AXFR +noall +answer");
    let lines: Vec<String> = text
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|l| !l.is_empty() && !l.starts_with(';'))
        .collect();
    let (first, last) = (lines.first().expect("records"), lines.last().expect("records"));
    assert!(first.contains(" SOA ") && first == last, "{text}");
    for wanted in [
        "web.copy.svc.cluster.local. 5 IN A 10.96.24.1",
        "_http._tcp.web.copy.svc.cluster.local. 5 IN SRV 0 100 80 web.copy.svc.cluster.local.",
        "db.copy.svc.cluster.local. 5 IN A 172.16.50.1",
        "db-0.db.copy.svc.cluster.local. 5 IN A 172.16.50.1",
        "_pg._tcp.db.copy.svc.cluster.local. 5 IN SRV 0 100 5432 db-0.db.copy.svc.cluster.local.",
        "out.copy.svc.cluster.local. 5 IN CNAME www.example.org.",
    ] {
        assert!(lines.iter().any(|l| l == wanted), "{wanted}:\n{text}");
    }
    assert!(!text.contains("kubernetes.default"), "a hidden namespace is copied:\n{text}");

    let closed = self::gateway("cluster.local", properties, "");
    let refused = dig(closed.address(), "cluster.local AXFR");
    assert!(refused.contains("; Transfer failed."), "{refused}");
}

#[test]
fn selectors_hide_what_they_do_not_match() {
    let labelled = |kind: &str, name: &str, place: &str, labels: &str, rest: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}{place}, labels: {{{labels}}}}}{rest}}}\n"
        )
    };
    let spec = ", spec: {ports: [{port: 80}]}";
    cluster().apply(
        &(labelled("Namespace", "meshed", "", "istio-injection: enabled", "")
            + &labelled("Namespace", "bare", "", "", "")
            + &labelled(
                "Service",
                "a",
                ", namespace: meshed",
                "environment: staging, application: nginx",
                spec,
            )
            + &labelled(
                "Service",
                "b",
                ", namespace: meshed",
                "environment: prod, application: nginx",
                spec,
            )
            + &labelled(
                "Service",
                "c",
                ", namespace: bare",
                "environment: qa, application: nginx",
                spec,
            )),
    );
    let there = |properties: &str| {
        let gateway = gateway("cluster.local", properties, "");
        let names = ["a.meshed", "b.meshed", "c.bare"];
        let found = |n: &&str| {
            !gateway.ask(format!("{n}.svc.cluster.local").as_str()).addresses().is_empty()
        };
        names.into_iter().filter(found).collect::<Vec<_>>()
    };
    assert_eq!(there("namespace_labels istio-injection=enabled"), ["a.meshed", "b.meshed"]);
    assert_eq!(
        there("labels environment in (staging, qa),application=nginx"),
        ["a.meshed", "c.bare"]
    );
    assert_eq!(there("namespaces bare test"), ["c.bare"]);
}

#[test]
fn readiness_health_and_metrics_tell_of_the_cluster() {
    let beside = "ready localhost:@PORT:ready@\n health localhost:@PORT:health@\n prometheus localhost:@PORT:metrics@";
    let gateway = gateway("cluster.local", "", beside);
    let ready =
        tests::until(LIMIT, || gateway.get("ready", "/ready").filter(|(status, _)| *status == 200));
    assert_eq!(ready.map(|(_, body)| body).as_deref(), Some("OK"));
    assert_eq!(gateway.get("health", "/health"), Some((200, "OK".to_owned())));
    gateway.ask("kubernetes.default.svc.cluster.local");
    let host = cluster().address();
    let metrics = gateway.metrics("metrics");
    for wanted in [
        format!(
            "coredns_kubernetes_rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\"}}"
        ),
        format!(
            "coredns_kubernetes_rest_client_request_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}}"
        ),
        format!(
            "coredns_kubernetes_rest_client_rate_limiter_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}}"
        ),
    ] {
        let key = sorted(&wanted);
        let found = metrics.iter().find(|(name, _)| sorted(name) == key);
        assert!(found.is_some_and(|(_, value)| *value >= 3.0), "{wanted}: {metrics:#?}");
    }
    for name in [
        "causeway_kubernetes_objects",
        "causeway_kubernetes_watch_state",
        "coredns_dns_responses_total",
    ] {
        assert!(
            metrics.iter().any(|(key, v)| key.starts_with(name) && *v >= 1.0),
            "{name}: {metrics:#?}"
        );
    }
}

#[test]
fn a_gateway_without_its_cluster_is_alive_but_not_ready() {
    let folder = tests::Folder::new("nowhere");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], tests::free_port()));
    let kubeconfig = folder.write("kubeconfig", cluster().kubeconfig_at("reader", nowhere));
    let gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n ready localhost:@PORT:ready@\n health localhost:@PORT:health@\n kubernetes cluster.local {{\n  kubeconfig {}\n  startup_timeout 100ms\n }}\n}}",
        kubeconfig.display()
    ))
    .start();
    assert_eq!(gateway.get("ready", "/ready"), Some((503, "kubernetes".to_owned())));
    assert_eq!(gateway.get("health", "/health"), Some((200, "OK".to_owned())));
    let reply = gateway.ask(Query::from("web.front.svc.cluster.local").bufsize(1232));
    assert_eq!(reply.rcode(), ResponseCode::ServFail);
    gateway.line("starting server with unsynced Kubernetes API");
    gateway.line("refused");
}

/// The same sample with its labels in order.
fn sorted(sample: &str) -> String {
    let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
    let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
    labels.sort_unstable();
    format!("{name} {labels:?}")
}
