//! What the conformance suite of the Multi-Cluster Services API asks of names, on real API servers with the API's definitions.
//!
//! Each test is called after rows of `docs/conformance.md` and an item of the suite (its file, then its words). Items on ClusterSetIP
//! need a controller, in whose place the test writes ServiceImports; *clusterset* and `multicluster` of *kubernetes* answer them.
//! All others are answered by *clusterset* without a controller, from ServiceExports, too.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::{Cluster, Gateway, Query, Reply};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// What a gateway that follows a cluster set may do beyond the users of the tests.
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: dns-exports}
rules: [{apiGroups: [multicluster.x-k8s.io], resources: [serviceexports, serviceimports], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dns-exports}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-exports}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader}]
";

/// Starts a member of a cluster set.
fn member() -> Cluster {
    let cluster = Cluster::start();
    cluster.add_multicluster();
    cluster.apply(RIGHTS);
    cluster
}

/// The two clusters of most tests, each of which has a namespace of its own.
fn clusters() -> &'static [Cluster; 2] {
    static CLUSTERS: OnceLock<[Cluster; 2]> = OnceLock::new();
    CLUSTERS.get_or_init(|| [member(), member()])
}

/// A gateway for both: `clusterset.local` has what *clusterset* knows, `imports.example.org` the same of imports alone,
/// `multi.example.org` what *kubernetes* has of the first cluster's, and `cluster.local` is the first cluster's own.
fn gateway() -> Arc<Gateway> {
    static GATEWAY: Mutex<Weak<Gateway>> = Mutex::new(Weak::new());
    shared(&GATEWAY, "")
}

/// A gateway of several tests, which ends with the last that uses it: what a static holds would go on after all of them.
fn shared(place: &Mutex<Weak<Gateway>>, lines: &str) -> Arc<Gateway> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    place.upgrade().unwrap_or_else(|| {
        let gateway = Arc::new(start(clusters(), lines));
        *place = Arc::downgrade(&gateway);
        gateway
    })
}

/// Starts a gateway for two clusters, with further lines for *clusterset*.
fn start([first, second]: &[Cluster; 2], lines: &str) -> Gateway {
    let (first, second) = (first.kubeconfig("reader"), second.kubeconfig("reader"));
    let (first, second) = (first.display(), second.display());
    Gateway::new(&format!(
        "cluster://c1 {{\n kubeconfig {first}\n}}\n\
         cluster://c2 {{\n kubeconfig {second}\n}}\n\
         clusterset.local:@PORT@ {{\n bind 127.0.0.1\n errors\n prometheus 127.0.0.1:@PORT:metrics@\n clusterset {{\n  cluster c1 c2\n  {lines}\n }}\n}}\n\
         imports.example.org:@PORT@ {{\n bind 127.0.0.1\n errors\n clusterset {{\n  cluster c1 c2\n  source imports\n }}\n}}\n\
         multi.example.org:@PORT@ {{\n bind 127.0.0.1\n errors\n kubernetes {{\n  kubeconfig {first}\n  multicluster multi.example.org\n }}\n}}\n\
         cluster.local:@PORT@ {{\n bind 127.0.0.1\n errors\n kubernetes {{\n  kubeconfig {first}\n }}\n}}\n"
    ))
    .start()
}

/// The zones that have what a controller has imported.
const IMPORTING: [&str; 3] = ["clusterset.local", "imports.example.org", "multi.example.org"];
/// The zone that has what clusters export, too.
const EXPORTING: &str = "clusterset.local";

/// A service with its namespace and one slice of endpoints, which need no names.
fn hello(namespace: &str, ip: &str, ports: &str, endpoints: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{name: hello, namespace: {namespace}}}, spec: {{{ip}ports: {ports}}}}}\n---\n\
         {{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: hello-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: hello}}}}, \
         addressType: IPv4, endpoints: [{endpoints}], ports: {ports}}}\n"
    )
}

/// Ports as the suite has them.
const PORTS: &str = "[{name: tcp, port: 42, protocol: TCP}, {name: udp, port: 42, protocol: UDP}]";
/// What makes a service headless.
const HEADLESS: &str = "clusterIP: None, ";

/// An export, of one of the API's two versions.
fn export(namespace: &str, version: &str) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/{version}, kind: ServiceExport, metadata: {{name: hello, namespace: {namespace}}}}}\n"
    )
}

/// What a controller makes of exports.
fn import(namespace: &str, kind: &str, ips: &str, ports: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}\n---\n\
         {{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {{name: hello, namespace: {namespace}}}, \
         spec: {{type: {kind}, ips: [{ips}], ports: {ports}}}}}\n"
    )
}

/// The slice of a cluster that a controller copies.
fn imported(namespace: &str, cluster: &str, endpoints: &str) -> String {
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: imported-{cluster}, namespace: {namespace}, \
         labels: {{multicluster.kubernetes.io/service-name: hello, multicluster.kubernetes.io/source-cluster: {cluster}}}}}, \
         addressType: IPv4, endpoints: [{endpoints}], ports: {PORTS}}}\n"
    )
}

/// Waits until a name has these addresses.
fn addresses(gateway: &Gateway, query: &str, want: &[&str]) {
    let mut want: Vec<IpAddr> = want.iter().map(|ip| ip.parse().unwrap()).collect();
    want.sort_unstable();
    gateway.ask_until(query, LIMIT, |reply| {
        let mut found = reply.addresses();
        found.sort_unstable();
        reply.rcode() == ResponseCode::NoError && found == want
    });
}

/// Waits until a name is not there.
fn nothing(gateway: &Gateway, query: &str) {
    gateway.ask_until(query, LIMIT, |reply| reply.rcode() == ResponseCode::NXDomain);
}

/// Ports and targets of the SRV records of a reply, in order.
fn services(reply: &Reply) -> Vec<(u16, String)> {
    let mut all: Vec<_> = reply
        .answers()
        .iter()
        .filter_map(|record| {
            let words: Vec<_> = record.split(' ').collect();
            let ["SRV", _, _, port, target] = words[3..] else { return None };
            Some((port.parse().unwrap(), target.to_owned()))
        })
        .collect();
    all.sort();
    all
}

/// Waits until a name has these SRV records.
fn srv(gateway: &Gateway, name: &str, want: &[(u16, String)]) {
    let mut want = want.to_vec();
    want.sort();
    gateway.ask_until(&*format!("{name} SRV"), LIMIT, |reply| services(reply) == want);
}

#[test]
fn mcs_01_clusterip_service_dns_lookup_resolves_to_the_clusterset_ip() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    for cluster in [first, second] {
        cluster.apply(&hello("ip", "", PORTS, "{addresses: [10.1.0.1]}"));
        cluster.apply(&export("ip", "v1beta1"));
        cluster.apply(&import("ip", "ClusterSetIP", "10.42.42.42, '2001:db8::42'", PORTS));
    }
    for zone in IMPORTING {
        addresses(gateway, &format!("hello.ip.svc.{zone} A"), &["10.42.42.42"]);
        addresses(gateway, &format!("hello.ip.svc.{zone} AAAA"), &["2001:db8::42"]);
    }
}

#[test]
fn mcs_02_clusterip_service_dns_srv_query_returns_valid_records() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    first.apply(&import("srv", "ClusterSetIP", "10.42.42.43", PORTS));
    for zone in IMPORTING {
        let own = format!("hello.srv.svc.{zone}.");
        srv(gateway, &format!("_tcp._tcp.hello.srv.svc.{zone}"), &[(42, own.clone())]);
        srv(gateway, &format!("hello.srv.svc.{zone}"), &[(42, own.clone())]);
        nothing(gateway, &format!("c1.hello.srv.svc.{zone} A"));
    }
}

#[test]
fn mcs_03_clusterip_service_dns_cluster_local_resolves_only_local_services() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    first.apply(&hello("near", "clusterIP: 10.96.77.1, ", PORTS, "{addresses: [10.1.0.2]}"));
    first.apply(&export("near", "v1beta1"));
    first.apply(&import("near", "ClusterSetIP", "10.42.42.44", PORTS));
    second.apply(&hello("far", "", PORTS, "{addresses: [10.2.0.2]}"));
    second.apply(&export("far", "v1beta1"));
    addresses(gateway, "hello.near.svc.cluster.local A", &["10.96.77.1"]);
    addresses(gateway, "hello.far.svc.clusterset.local A", &["10.2.0.2"]);
    nothing(gateway, "hello.far.svc.cluster.local A");
}

/// Endpoints of a headless service with two Pods, in both clusters: with a controller in the first, and without.
fn headless(namespace: &str, pods: [&str; 2]) -> [String; 2] {
    let [first, second] = clusters();
    let east = pods[0];
    first.apply(&hello(namespace, HEADLESS, PORTS, east));
    second.apply(&hello(namespace, HEADLESS, PORTS, pods[1]));
    first.apply(&export(namespace, "v1beta1"));
    second.apply(&export(namespace, "v1alpha1"));
    let with = format!("{namespace}-with");
    first.apply(
        &(import(&with, "Headless", "", PORTS)
            + &imported(&with, "c1", east)
            + &imported(&with, "c2", pods[1])),
    );
    [namespace.to_owned(), with]
}

/// Goes through the zones that a headless service is in, by the names of its namespaces: without a controller, and with one.
fn zones([without, with]: &[String; 2]) -> Vec<String> {
    let imports = IMPORTING.iter().map(|zone| format!("hello.{with}.svc.{zone}"));
    imports.chain([format!("hello.{without}.svc.{EXPORTING}")]).collect()
}

#[test]
fn mcs_04_headless_service_dns_query_returns_the_ready_endpoints() {
    let gateway = gateway();
    let pods = [
        "{addresses: [10.1.1.1]}, {addresses: [10.1.1.2]}, {addresses: [10.1.1.3], conditions: {ready: false}}",
        "{addresses: [10.2.1.1]}",
    ];
    for name in zones(&headless("bare", pods)) {
        addresses(&gateway, &format!("{name} A"), &["10.1.1.1", "10.1.1.2", "10.2.1.1"]);
    }
}

#[test]
fn mcs_05_headless_service_dns_query_of_a_hostname_returns_the_pods_address() {
    let gateway = gateway();
    let pods = [
        "{addresses: [10.1.2.1], hostname: hello-0}, {addresses: [10.1.2.2], hostname: hello-1}",
        "{addresses: [10.2.2.1], hostname: hello-0}",
    ];
    for name in zones(&headless("stateful", pods)) {
        addresses(&gateway, &format!("hello-0.c1.{name} A"), &["10.1.2.1"]);
        addresses(&gateway, &format!("hello-1.c1.{name} A"), &["10.1.2.2"]);
        addresses(&gateway, &format!("hello-0.c2.{name} A"), &["10.2.2.1"]);
        nothing(&gateway, &format!("hello-1.c2.{name} A"));
        // The form of one cluster's part has no record.
        let part = gateway.ask(&*format!("c1.{name} A"));
        assert!(part.rcode() == ResponseCode::NoError && part.answers().is_empty(), "{part:?}");
    }
}

#[test]
fn mcs_06_headless_service_dns_srv_query_returns_valid_records() {
    let gateway = gateway();
    let pods = [
        "{addresses: [10.1.3.1], hostname: hello-0}, {addresses: [10.1.3.2]}",
        "{addresses: [10.2.3.1]}",
    ];
    for name in zones(&headless("srvless", pods)) {
        let want = ["hello-0.c1", "10-1-3-2.c1", "10-2-3-1.c2"]
            .map(|host| (42, format!("{host}.{name}.")));
        srv(&gateway, &format!("_tcp._tcp.{name}"), &want);
        srv(&gateway, &name, &want);
    }
}

#[test]
fn mcs_07_connectivity_a_service_that_is_not_exported_is_inaccessible() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    for cluster in [first, second] {
        cluster.apply(&hello("private", "", PORTS, "{addresses: [10.1.4.1]}"));
    }
    first.apply(&hello("shared", HEADLESS, PORTS, "{addresses: [10.1.4.2]}"));
    first.apply(&export("shared", "v1beta1"));
    addresses(gateway, "hello.shared.svc.clusterset.local A", &["10.1.4.2"]);
    nothing(gateway, "hello.private.svc.clusterset.local A");
}

#[test]
fn mcs_08_connectivity_an_exported_service_is_accessible_through_dns() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    first.apply(&hello("plain", "", PORTS, "{addresses: [10.1.5.1]}"));
    first.apply(&export("plain", "v1beta1"));
    addresses(gateway, "hello.plain.svc.clusterset.local A", &["10.1.5.1"]);
}

#[test]
fn mcs_09_connectivity_a_service_in_two_clusters_is_that_of_the_exporting_one() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    first.apply(&hello("one", "", PORTS, "{addresses: [10.1.6.1]}"));
    second.apply(&hello("one", "", PORTS, "{addresses: [10.2.6.1]}"));
    first.apply(&export("one", "v1beta1"));
    for _ in 0..10 {
        addresses(gateway, "hello.one.svc.clusterset.local A", &["10.1.6.1"]);
    }
}

#[test]
fn mcs_10_connectivity_same_port_name_and_other_numbers_lead_to_the_cluster_that_has_the_port() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    first.apply(&hello("number", "", "[{name: tcp, port: 42}]", "{addresses: [10.1.7.1]}"));
    second.apply(&hello("number", "", "[{name: tcp, port: 4242}]", "{addresses: [10.2.7.1]}"));
    for cluster in [first, second] {
        cluster.apply(&export("number", "v1beta1"));
    }
    let name = "hello.number.svc.clusterset.local";
    let want = [(42, format!("10-1-7-1.c1.{name}.")), (4242, format!("10-2-7-1.c2.{name}."))];
    srv(gateway, &format!("_tcp._tcp.{name}"), &want);
}

#[test]
fn mcs_11_connectivity_other_port_names_lead_each_to_the_cluster_that_has_it() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    first.apply(&hello("names", "", "[{name: tcp, port: 42}]", "{addresses: [10.1.8.1]}"));
    second.apply(&hello("names", "", "[{name: tcp2, port: 4242}]", "{addresses: [10.2.8.1]}"));
    for cluster in [first, second] {
        cluster.apply(&export("names", "v1beta1"));
    }
    let name = "hello.names.svc.clusterset.local";
    srv(gateway, &format!("_tcp._tcp.{name}"), &[(42, format!("10-1-8-1.c1.{name}."))]);
    srv(gateway, &format!("_tcp2._tcp.{name}"), &[(4242, format!("10-2-8-1.c2.{name}."))]);
}

#[test]
fn mcs_12_service_import_exists_as_long_as_one_cluster_exports() {
    let (gateway, [first, second]) = (&gateway(), clusters());
    first.apply(&hello("life", "", PORTS, "{addresses: [10.1.9.1]}"));
    second.apply(&hello("life", "", PORTS, "{addresses: [10.2.9.1]}"));
    let name = "hello.life.svc.clusterset.local A";
    first.apply(&export("life", "v1beta1"));
    addresses(gateway, name, &["10.1.9.1"]);
    second.apply(&export("life", "v1beta1"));
    addresses(gateway, name, &["10.1.9.1", "10.2.9.1"]);
    first.delete(&export("life", "v1beta1"));
    addresses(gateway, name, &["10.2.9.1"]);
    second.delete(&export("life", "v1beta1"));
    nothing(gateway, name);
}

#[test]
fn mcs_13_service_import_of_a_clusterip_service_comes_and_goes() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    let import = import("comes", "ClusterSetIP", "10.42.42.45", PORTS);
    first.apply(&import);
    for zone in IMPORTING {
        addresses(gateway, &format!("hello.comes.svc.{zone} A"), &["10.42.42.45"]);
    }
    let (_, object) = import.split_once("---\n").unwrap();
    first.delete(object);
    for zone in IMPORTING {
        nothing(gateway, &format!("hello.comes.svc.{zone} A"));
    }
}

#[test]
fn mcs_14_service_import_has_an_ip_of_each_family() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    first.apply(&import("six", "ClusterSetIP", "'2001:db8::46'", PORTS));
    for zone in IMPORTING {
        addresses(gateway, &format!("hello.six.svc.{zone} AAAA"), &["2001:db8::46"]);
        addresses(gateway, &format!("hello.six.svc.{zone} A"), &[]);
    }
}

/// A service with a load balancer, by which clients outside reach it.
fn balanced(cluster: &Cluster, namespace: &str, ip: &str, ports: &str) {
    let service = hello(
        namespace,
        "type: LoadBalancer, allocateLoadBalancerNodePorts: false, ",
        ports,
        "{addresses: [10.1.10.1]}",
    );
    cluster.apply(&service.replace("}}\n---\n{apiVersion: discovery", &format!("}}, status: {{loadBalancer: {{ingress: [{{ip: {ip}}}]}}}}}}\n---\n{{apiVersion: discovery")));
}

/// The second gateway, whose names are those of load balancers.
fn outside() -> Arc<Gateway> {
    static GATEWAY: Mutex<Weak<Gateway>> = Mutex::new(Weak::new());
    shared(&GATEWAY, "reach loadbalancer")
}

#[test]
fn mcs_15_and_16_service_import_ports_are_the_union_of_those_exported() {
    let (gateway, [first, second]) = (&outside(), clusters());
    balanced(first, "union", "203.0.113.1", "[{name: tcp, port: 42}]");
    balanced(
        second,
        "union",
        "203.0.113.2",
        "[{name: tcp, port: 42}, {name: stcp, port: 142, protocol: SCTP}]",
    );
    for cluster in [first, second] {
        cluster.apply(&export("union", "v1beta1"));
    }
    let name = "hello.union.svc.clusterset.local";
    let own = format!("{name}.");
    addresses(gateway, &format!("{name} A"), &["203.0.113.1", "203.0.113.2"]);
    srv(gateway, &format!("_tcp._tcp.{name}"), &[(42, own.clone())]);
    srv(gateway, &format!("_stcp._sctp.{name}"), &[(142, own.clone())]);
    srv(gateway, name, &[(42, own.clone()), (142, own)]);
    gateway.line("exports of union/hello by c1, c2 differ in ports");
    let conflicts = r#"causeway_clusterset_conflicts{kind="port",zone="clusterset.local."}"#;
    assert!(gateway.metrics("metrics")[conflicts] >= 1.0);
}

#[test]
fn mcs_17_service_import_of_conflicting_ports_is_that_of_the_eldest_export() {
    let (gateway, [first, second]) = (&outside(), clusters());
    balanced(first, "elder", "203.0.113.3", "[{name: tcp, port: 43}]");
    balanced(second, "elder", "203.0.113.4", "[{name: tcp, port: 42}]");
    // Times are whole seconds.
    second.apply(&export("elder", "v1beta1"));
    std::thread::sleep(Duration::from_millis(1100));
    first.apply(&export("elder", "v1beta1"));
    let name = "hello.elder.svc.clusterset.local";
    addresses(gateway, &format!("{name} A"), &["203.0.113.3", "203.0.113.4"]);
    srv(gateway, &format!("_tcp._tcp.{name}"), &[(42, format!("{name}."))]);
    gateway.line("exports of elder/hello by c1, c2 differ in ports");
    // When the eldest is no more the next one decides.
    second.delete(&export("elder", "v1beta1"));
    srv(gateway, &format!("_tcp._tcp.{name}"), &[(43, format!("{name}."))]);
}

#[test]
fn mcs_18_and_19_service_import_of_a_headless_service_comes_and_goes_without_an_ip() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    first.apply(&hello("leave", HEADLESS, PORTS, "{addresses: [10.1.11.1]}"));
    first.apply(&export("leave", "v1beta1"));
    addresses(gateway, "hello.leave.svc.clusterset.local A", &["10.1.11.1"]);
    first.delete(&export("leave", "v1beta1"));
    nothing(gateway, "hello.leave.svc.clusterset.local A");
    // Without ready endpoints a headless service has no name (specification, 2.4.1). What comes after it is known, so it is.
    first.apply(&import("leave-with", "Headless", "", PORTS));
    first.apply(&import("leave-next", "ClusterSetIP", "10.42.42.47", PORTS));
    for zone in IMPORTING {
        addresses(gateway, &format!("hello.leave-next.svc.{zone} A"), &["10.42.42.47"]);
        let none = gateway.ask(&*format!("hello.leave-with.svc.{zone} A"));
        assert_eq!(none.rcode(), ResponseCode::NXDomain, "{none:?}");
    }
}

#[test]
fn mcs_20_service_import_is_not_made_of_an_externalname_service() {
    let (gateway, [first, _]) = (&gateway(), clusters());
    first.apply("{apiVersion: v1, kind: Namespace, metadata: {name: name}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: hello, namespace: name}, spec: {type: ExternalName, externalName: www.example.org}}\n");
    first.apply(&export("name", "v1beta1"));
    gateway.ask_until("hello.name.svc.cluster.local CNAME", LIMIT, |reply| {
        !reply.answers().is_empty()
    });
    // What is exported after it is known, so it is.
    first.apply(&hello("name-next", "", PORTS, "{addresses: [10.1.14.1]}"));
    first.apply(&export("name-next", "v1beta1"));
    addresses(gateway, "hello.name-next.svc.clusterset.local A", &["10.1.14.1"]);
    let none = gateway.ask("hello.name.svc.clusterset.local A");
    assert_eq!(none.rcode(), ResponseCode::NXDomain, "{none:?}");
}

#[test]
fn mcs_21_service_import_of_conflicting_headlessness_is_as_the_eldest_has_it() {
    let (gateway, [first, second]) = (&outside(), clusters());
    balanced(first, "type", "203.0.113.5", PORTS);
    second.apply(&hello("type", HEADLESS, PORTS, "{addresses: [10.2.12.1]}"));
    first.apply(&export("type", "v1beta1"));
    std::thread::sleep(Duration::from_millis(1100));
    second.apply(&export("type", "v1beta1"));
    addresses(gateway, "hello.type.svc.clusterset.local A", &["203.0.113.5"]);
    gateway.line("exports of type/hello by c1, c2 differ in type: it is not headless");
    first.delete(&export("type", "v1beta1"));
    addresses(gateway, "hello.type.svc.clusterset.local A", &["10.2.12.1"]);
}

#[test]
fn a_cluster_that_is_killed_keeps_its_share_for_a_time_and_the_other_goes_on() {
    let mut clusters = [member(), member()];
    for (cluster, ip) in clusters.iter().zip(["10.1.13.1", "10.2.13.1"]) {
        cluster.apply(&hello(
            "both",
            HEADLESS,
            PORTS,
            &format!("{{addresses: [{ip}], hostname: hello-0}}"),
        ));
        cluster.apply(&export("both", "v1beta1"));
    }
    let gateway = start(&clusters, "keep 25s");
    let (name, second) =
        ("hello.both.svc.clusterset.local A", "hello-0.c2.hello.both.svc.clusterset.local A");
    addresses(&gateway, name, &["10.1.13.1", "10.2.13.1"]);
    addresses(&gateway, second, &["10.2.13.1"]);
    clusters[1].kill();
    let killed = Instant::now();
    let mut stale = false;
    let mut since = None;
    // The kept share, then that it is out of date, then the survivor alone: at no time anything else.
    while since.is_none() {
        assert!(
            killed.elapsed() < Duration::from_secs(90),
            "the share of the killed cluster stays"
        );
        let asked = Instant::now();
        let reply = gateway.ask(Query::from(name).bufsize(1232));
        let took = asked.elapsed();
        assert!(took < Duration::from_millis(500), "the survivor's answers do not wait: {took:?}");
        let mut found = reply.addresses();
        found.sort_unstable();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        stale |= reply.extended().is_some();
        match found.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["10.1.13.1", "10.2.13.1"] => {}
            ["10.1.13.1"] => since = Some(killed.elapsed()),
            _ => panic!("{reply:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let since = since.unwrap();
    assert!(since >= Duration::from_secs(20), "the share stays for its time: {since:?}");
    assert!(stale, "answers from a share that is kept say so");
    nothing(&gateway, second);
    assert_eq!(gateway.ask(Query::from(name).bufsize(1232)).extended(), None);
    // Changes of the survivor are followed all the time.
    clusters[0].apply(&hello(
        "both",
        HEADLESS,
        PORTS,
        "{addresses: [10.1.13.9], hostname: hello-0}",
    ));
    addresses(&gateway, name, &["10.1.13.9"]);
    clusters[1].restart();
    addresses(&gateway, name, &["10.1.13.9", "10.2.13.1"]);
}
