//! Faults of comparable servers that their users reported: names of a cluster's objects, and copies of its zone.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, Record, RecordType};
use tests::client::PATIENCE;
use tests::scripted::record;
use tests::{Cluster, Gateway, Query, Reply, Stream};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The cluster of all tests of this file; each has namespaces of its own.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

/// A gateway with these lines, where the cluster's directive has `@API@` for its connection, by address and certificates.
fn gateway(lines: &str) -> Gateway {
    let cluster = cluster();
    let connection = format!(
        "endpoint {}\n tls {} {} {}",
        cluster.url(),
        cluster.certificate("reader").display(),
        cluster.key("reader").display(),
        cluster.ca().display()
    );
    Gateway::new(&format!(".:@PORT@ {{\n errors\n {}\n}}", lines.replace("@API@", &connection)))
        .start()
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

/// A slice of a Service with these ports and endpoints, as YAML lists.
fn slice(namespace: &str, name: &str, service: &str, ports: &str, endpoints: &str) -> String {
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{kubernetes.io/service-name: {service}}}}}, addressType: IPv4, ports: {ports}, endpoints: {endpoints}}}\n"
    )
}

/// Addresses of one network.
fn of(net: &str, last: &[u8]) -> Vec<IpAddr> {
    last.iter().map(|l| format!("{net}.{l}").parse().expect("an address")).collect()
}

/// Whether a reply has no answer, but AA and the zone's SOA record with this TTL.
fn denies(reply: &Reply, code: ResponseCode, zone: &str, ttl: u32) -> bool {
    let soa =
        |r: &Record| matches!(r.data, RData::SOA(_)) && r.name.to_string() == zone && r.ttl == ttl;
    let [authority] = reply.message.authorities.as_slice() else { return false };
    reply.rcode() == code
        && reply.message.answers.is_empty()
        && reply.message.metadata.authoritative
        && soa(authority)
}

// Existing names were NXDOMAIN for types that they lack, at which stubs give up; absent ones were NODATA for TXT, at which the
// search list ends.
#[test]
fn b17_existing_names_are_nodata_and_absent_ones_nxdomain() {
    cluster().apply(
        &(namespace("plain")
            + &service("plain", "web", "{clusterIP: 10.96.30.1, ports: [{port: 80}]}")
            + "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: plain}, \
               spec: {containers: [{name: c, image: 'registry.example/web:1'}]}, \
               status: {phase: Running, podIP: 10.244.30.7, podIPs: [{ip: 10.244.30.7}]}}\n"),
    );
    let gateway = gateway("kubernetes cluster.local {\n @API@\n pods verified\n ttl 7\n }");
    let web = of("10.96.30", &[1]);
    assert_eq!(gateway.ask("WEB.Plain.svc.cluster.LOCAL A").addresses(), web);
    assert_eq!(
        gateway.ask("10-244-30-7.plain.pod.cluster.local A").addresses(),
        of("10.244.30", &[7])
    );
    for (question, code) in [
        ("web.plain.svc.cluster.local AAAA", ResponseCode::NoError),
        ("web.plain.svc.cluster.local CNAME", ResponseCode::NoError),
        ("plain.svc.cluster.local A", ResponseCode::NoError),
        ("svc.cluster.local A", ResponseCode::NoError),
        ("cluster.local A", ResponseCode::NoError),
        ("plain.pod.cluster.local SRV", ResponseCode::NoError),
        ("nope.plain.svc.cluster.local A", ResponseCode::NXDomain),
        ("nope.plain.svc.cluster.local AAAA", ResponseCode::NXDomain),
        ("nope.plain.svc.cluster.local TXT", ResponseCode::NXDomain),
        ("nope.plain.svc.cluster.local HINFO", ResponseCode::NXDomain),
        ("nons.svc.cluster.local A", ResponseCode::NXDomain),
    ] {
        let reply = gateway.ask(question);
        assert!(denies(&reply, code, "cluster.local.", 7), "{question}: {reply:?}");
    }
}

// A service with an external name was an alias for all names below it: with one called `com`, search lists led all of .com
// astray.
#[test]
fn b18_an_external_name_is_no_wildcard() {
    cluster().apply(
        &(namespace("astray")
            + &service("astray", "web", "{clusterIP: 10.96.31.1, ports: [{port: 80}]}")
            + &service(
                "astray",
                "com",
                "{type: ExternalName, externalName: web.astray.svc.cluster.local}",
            )),
    );
    let gateway = gateway("kubernetes cluster.local {\n @API@\n }");
    for name in ["www.vendor.com.astray.svc.cluster.local", "x.com.astray.svc.cluster.local"] {
        let reply = gateway.ask(name);
        assert!(denies(&reply, ResponseCode::NXDomain, "cluster.local.", 5), "{name}: {reply:?}");
    }
    let reply = gateway.ask("com.astray.svc.cluster.local A");
    assert_eq!(reply.aliases(), ["com.astray.svc.cluster.local. -> web.astray.svc.cluster.local."]);
    assert_eq!(reply.addresses(), of("10.96.31", &[1]));
}

// Endpoints that are not ready were published; then those were dropped that do not say whether they are.
#[test]
fn b19_endpoints_count_as_ready_unless_they_say_no() {
    let endpoints = "[{addresses: [10.244.32.1], conditions: {ready: true}}, \
         {addresses: [10.244.32.2], conditions: {}}, {addresses: [10.244.32.3]}, \
         {addresses: [10.244.32.4], conditions: {ready: false}}, \
         {addresses: [10.244.32.5], conditions: {ready: false, serving: true, terminating: true}}]";
    let slice = slice("ready", "hl-1", "hl", "[{name: http, port: 80, protocol: TCP}]", endpoints);
    let headless = service("ready", "hl", "{clusterIP: None, ports: [{name: http, port: 80}]}");
    cluster().apply(&(namespace("ready") + &headless + &slice));
    let gateway = gateway("kubernetes cluster.local 10.244.0.0/16 {\n @API@\n }");
    assert_eq!(
        gateway.ask("hl.ready.svc.cluster.local A").addresses(),
        of("10.244.32", &[1, 2, 3])
    );
    assert_eq!(gateway.ask("_http._tcp.hl.ready.svc.cluster.local SRV").answers().len(), 3);
    for last in 1..=5 {
        let code = if last <= 3 { ResponseCode::NoError } else { ResponseCode::NXDomain };
        let dashed = format!("10-244-32-{last}.hl.ready.svc.cluster.local A");
        assert_eq!(gateway.ask(dashed.as_str()).rcode(), code, "{dashed}");
        let reverse = format!("{last}.32.244.10.in-addr.arpa PTR");
        assert_eq!(gateway.ask(reverse.as_str()).rcode(), code, "{reverse}");
    }
    cluster().delete(&slice);
    gateway.ask_until("hl.ready.svc.cluster.local A", LIMIT, |r| {
        denies(r, ResponseCode::NXDomain, "cluster.local.", 5)
    });
}

// An address in two slices, or of a service with two ports, was answered twice; two pods with one hostname overwrote each
// other.
#[test]
fn b20_an_endpoint_that_is_told_twice_is_answered_once() {
    let ports =
        "[{name: http, port: 80, protocol: TCP}, {name: metrics, port: 9100, protocol: TCP}]";
    let slice = |name: &str, endpoints: &[&str]| {
        slice("twice", name, "db", ports, &format!("[{}]", endpoints.join(", ")))
    };
    let ten = "{addresses: [10.244.33.10], hostname: node}";
    let eleven = "{addresses: [10.244.33.11], hostname: node}";
    let twelve = "{addresses: [10.244.33.12]}";
    let headless =
        "{clusterIP: None, ports: [{name: http, port: 80}, {name: metrics, port: 9100}]}";
    cluster().apply(
        &(namespace("twice")
            + &service("twice", "db", headless)
            + &slice("db-1", &[ten, eleven])
            + &slice("db-2", &[ten, twelve])),
    );
    let gateway = gateway("kubernetes cluster.local 10.244.0.0/16 {\n @API@\n }");
    let all = of("10.244.33", &[10, 11, 12]);
    assert_eq!(gateway.ask("db.twice.svc.cluster.local A").addresses(), all);
    assert_eq!(
        gateway.ask("node.db.twice.svc.cluster.local A").addresses(),
        of("10.244.33", &[10, 11])
    );
    let srv = gateway.ask("_http._tcp.db.twice.svc.cluster.local SRV");
    let mut targets: Vec<String> = srv
        .message
        .answers
        .iter()
        .map(|r| r.data.to_string().rsplit(' ').next().unwrap_or_default().to_owned())
        .collect();
    targets.sort();
    let pods = ["10-244-33-12.db.twice.svc.cluster.local.", "node.db.twice.svc.cluster.local."];
    assert_eq!(targets, pods);
    let mut beside: Vec<IpAddr> =
        srv.message.additionals.iter().filter_map(|r| r.data.ip_addr()).collect();
    beside.sort_unstable();
    assert_eq!(beside, all);
    let reverse = gateway.ask("10.33.244.10.in-addr.arpa PTR");
    assert_eq!(reverse.answers().len(), 1, "{reverse:?}");

    // It leaves one slice, and a mark that comes with that shows when.
    cluster().apply(&slice("db-1", &[eleven, "{addresses: [10.244.33.13]}"]));
    gateway.ask_until("db.twice.svc.cluster.local A", LIMIT, |r| {
        r.addresses() == of("10.244.33", &[10, 11, 12, 13])
    });
    cluster().apply(&slice("db-2", &[twelve]));
    gateway.ask_until("db.twice.svc.cluster.local A", LIMIT, |r| {
        r.addresses() == of("10.244.33", &[11, 12, 13])
    });
}

// A namespace that the filter hides was NODATA, and its services showed in the reverse zone.
#[test]
fn b21_a_hidden_namespace_does_not_exist_and_leaves_no_trace() {
    cluster().apply(
        &(namespace("edge")
            + &namespace("internal")
            + &service("edge", "a", "{clusterIP: 10.96.34.1, ports: [{port: 80}]}")
            + &service("internal", "s", "{clusterIP: 10.96.34.99, ports: [{port: 80}]}")
            + &service(
                "edge",
                "link",
                "{type: ExternalName, externalName: s.internal.svc.cluster.local}",
            )),
    );
    let gateway = gateway(
        "prometheus 127.0.0.1:@PORT:metrics@\n transfer {\n to *\n }\n \
         kubernetes cluster.local in-addr.arpa {\n @API@\n namespaces edge\n }",
    );
    assert_eq!(gateway.ask("a.edge.svc.cluster.local A").addresses(), of("10.96.34", &[1]));
    assert_eq!(gateway.ask("1.34.96.10.in-addr.arpa PTR").answers().len(), 1);
    for (question, zone) in [
        ("s.internal.svc.cluster.local A", "cluster.local."),
        ("internal.svc.cluster.local A", "cluster.local."),
        ("never.svc.cluster.local A", "cluster.local."),
        ("99.34.96.10.in-addr.arpa PTR", "in-addr.arpa."),
    ] {
        let reply = gateway.ask(question);
        assert!(denies(&reply, ResponseCode::NXDomain, zone, 5), "{question}: {reply:?}");
    }
    let reply = gateway.ask("link.edge.svc.cluster.local A");
    assert_eq!(reply.rcode(), ResponseCode::NXDomain);
    assert_eq!(reply.aliases(), ["link.edge.svc.cluster.local. -> s.internal.svc.cluster.local."]);
    assert!(reply.addresses().is_empty(), "{reply:?}");

    for zone in ["cluster.local", "in-addr.arpa"] {
        let copy = transfer(&gateway, &Query::from(format!("{zone} AXFR").as_str()));
        let told = copy.iter().flat_map(|r| &r.message.answers).map(ToString::to_string);
        // The alias is a record of the namespace that is shown.
        let told: Vec<String> = told
            .filter(|r| {
                r.contains("internal") && !r.starts_with("link.edge") || r.contains("34.99")
            })
            .collect();
        assert!(told.is_empty(), "{told:#?}");
    }
    let metrics = gateway.metrics("metrics");
    assert!(!metrics.keys().any(|k| k.contains("internal")), "{metrics:#?}");
    assert!(!gateway.output().contains("internal"), "{}", gateway.output());
}

/// The messages of a transfer over TCP, up to the second SOA record of their answers, or the first of a single one.
fn transfer(gateway: &Gateway, query: &Query) -> Vec<Reply> {
    let mut stream = Stream::open(gateway.address(), None).expect("the port is open");
    stream.send(query);
    let mut replies: Vec<Reply> = Vec::new();
    let mut ends = 0;
    while ends < 2 {
        let Some(reply) = stream.receive(PATIENCE) else { break };
        ends += reply.message.answers.iter().filter(|r| r.record_type() == RecordType::SOA).count();
        let single = reply.rcode() != ResponseCode::NoError || reply.message.answers.len() == 1;
        replies.push(reply);
        if single && replies.len() == 1 {
            break;
        }
    }
    replies
}

// A transfer asked for over UDP was answered over UDP with the whole zone; a secondary with the current serial got a full
// transfer each time.
#[test]
fn b33_zones_are_copied_over_tcp_and_only_to_those_who_lack_them() {
    let mut services = namespace("many");
    for i in 0..1_700 {
        let ip = Ipv4Addr::from(0x0a60_4000 + i);
        let spec = format!("{{clusterIP: {ip}, ports: [{{name: http, port: 80}}]}}");
        write!(services, "{}", service("many", &format!("s{i}"), &spec)).expect("a text grows");
    }
    let corefile =
        "cluster.local:@PORT@ {\n transfer {\n to *\n }\n kubernetes {\n manifests objects\n }\n}";
    let gateway = Gateway::new(corefile).file("objects/all.yaml", &services).start();
    let small = |query: &Query| {
        let reply = gateway.ask(query.clone());
        assert!(reply.bytes.len() < 200, "{reply:?}");
        reply
    };
    let axfr = Query::from("cluster.local AXFR");
    let refused = small(&axfr);
    assert_eq!((refused.rcode(), refused.answers().len()), (ResponseCode::Refused, 0));

    let replies = transfer(&gateway, &axfr);
    assert!(replies.len() > 1, "several messages, not {}", replies.len());
    let records: Vec<&Record> = replies.iter().flat_map(|r| &r.message.answers).collect();
    assert!(records.len() > 5_000, "{}", records.len());
    let (first, last) = (records[0], records[records.len() - 1]);
    assert_eq!((first, first.record_type()), (last, RecordType::SOA));
    let id = axfr.message().metadata.id;
    assert!(replies.iter().all(|r| r.message.metadata.id == id && !r.flags().contains("tc")));
    assert_eq!(replies[0].message.queries.len(), 1);

    let RData::SOA(soa) = &first.data else { panic!("{first}") };
    let ixfr = |serial: u32| {
        let text =
            format!("cluster.local. 0 SOA ns.cluster.local. h.cluster.local. {serial} 1 2 3 4");
        Query::new("cluster.local", RecordType::IXFR).with(|m| {
            m.add_authority(record(&text));
        })
    };
    let current = transfer(&gateway, &ixfr(soa.serial));
    assert_eq!(current.iter().map(|r| r.message.answers.len()).sum::<usize>(), 1);
    let old = transfer(&gateway, &ixfr(soa.serial.wrapping_sub(1)));
    assert_eq!(old.iter().map(|r| r.message.answers.len()).sum::<usize>(), records.len());
    // The client comes again over TCP.
    let old = small(&ixfr(soa.serial.wrapping_sub(1)));
    let soa_alone = old.rcode() == ResponseCode::NoError && old.answers().len() == 1;
    assert!(soa_alone || old.rcode() == ResponseCode::Refused, "{old:?}");
}
