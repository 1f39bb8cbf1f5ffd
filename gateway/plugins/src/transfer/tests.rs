//! The facts `transfer.*`.

use std::time::{Duration, SystemTime};

use engine::Keyring as _;
use engine::testing::{Bench, show};
use tokio::net::UdpSocket;
use wire::{Answer, Section, scan};

use crate::kubernetes::tests::{CHAIN, apply, bench, shorten};
use crate::shared::testing::{ANSWERS, Folder, logged};
use crate::shared::tsig;

/// A cluster with all that a zone can have.
const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.10.10, clusterIPs: [10.96.10.10, 'fd00:10:96::a11'], ports: [{name: http, port: 80}, {port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: head, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: www.example.org}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, namespace: shop}
status: {phase: Running, podIP: 172.16.7.1}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: head-1, namespace: shop, labels: {kubernetes.io/service-name: head}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [172.16.1.1], hostname: h0, zone: a}
- {addresses: [172.16.1.2]}
- {addresses: [172.16.1.3], conditions: {ready: false}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.112.0.7], ports: [{name: http, port: 80, protocol: TCP}]}
";

/// A block with its zones and what `transfer` says.
fn corefile(transfer: &str) -> String {
    format!(
        "cluster.local clusterset.local 10.96.0.0/16 {{\n {transfer}\n kubernetes {{\n manifests .\n multicluster clusterset.local\n pods verified\n zonal\n }}\n}}\n"
    )
}

/// The records of a transfer, and how many messages they came in.
async fn records(bench: &Bench, line: &str) -> (Vec<String>, usize) {
    let messages = bench.messages(line).await;
    let mut all = Vec::new();
    for message in &messages {
        assert!(message.len() <= 65_535);
        let shown = shorten(&show(message));
        let (head, records) = shown.split_once(" | ").unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(head, "NOERROR aa rd");
        all.extend(records.split("; ").map(str::to_owned));
    }
    (all, messages.len())
}

/// The serial of a zone.
fn serial(bench: &Bench, zone: &str) -> u32 {
    let mut answer = Answer::default();
    scan::read(&bench.serve(&mut bench.exchange(&format!("{zone} SOA"))), &mut answer).unwrap();
    let soa = answer.section(Section::Answer).next().unwrap();
    let data = answer.data(soa);
    u32::from_be_bytes(data[data.len() - 20..data.len() - 16].try_into().unwrap())
}

#[tokio::test]
async fn a_zone_is_handed_out_from_soa_to_soa() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n }"));
    logged();
    let (mut all, messages) = records(&bench, "cluster.local AXFR +tcp").await;
    let soa = "SOA(cluster.local. 5)";
    assert_eq!(
        (messages, all.first().unwrap().as_str(), all.last().unwrap().as_str()),
        (1, soa, soa)
    );
    let log = logged().pop().unwrap();
    let (count, serial) = (all.len(), serial(&bench, "cluster.local"));
    assert_eq!(
        log,
        format!(
            "[INFO] plugin/transfer: Outgoing transfer of {count} records of zone \"cluster.local.\" to 127.0.0.1 for {serial} SOA serial"
        )
    );
    all.retain(|record| !record.starts_with("ns.dns.") && !record.starts_with("SOA("));
    all.sort_unstable();
    assert_eq!(
        all,
        [
            "172-16-1-2.head.shop.svc.cluster.local. 5 A 172.16.1.2",
            "_http._tcp.head.shop.svc.cluster.local. 5 SRV 0 50 8080 172-16-1-2.head.shop.svc.cluster.local.",
            "_http._tcp.head.shop.svc.cluster.local. 5 SRV 0 50 8080 h0.head.shop.svc.cluster.local.",
            "_http._tcp.web.shop.svc.cluster.local. 5 SRV 0 50 80 web.shop.svc.cluster.local.",
            "cluster.local. 5 NS ns.dns.cluster.local.",
            "h0.head.shop.svc.cluster.local. 5 A 172.16.1.1",
            "head.shop.svc.cluster.local. 5 A 172.16.1.1",
            "head.shop.svc.cluster.local. 5 A 172.16.1.2",
            "head.shop.svc.cluster.local. 5 SRV 0 50 8080 172-16-1-2.head.shop.svc.cluster.local.",
            "head.shop.svc.cluster.local. 5 SRV 0 50 8080 h0.head.shop.svc.cluster.local.",
            "out.shop.svc.cluster.local. 5 CNAME www.example.org.",
            "web.shop.svc.cluster.local. 5 A 10.96.10.10",
            "web.shop.svc.cluster.local. 5 AAAA fd00:10:96::a11",
            "web.shop.svc.cluster.local. 5 SRV 0 25 80 web.shop.svc.cluster.local.",
            "web.shop.svc.cluster.local. 5 SRV 0 25 81 web.shop.svc.cluster.local.",
        ]
    );
    let (reverse, _) = records(&bench, "96.10.in-addr.arpa AXFR +tcp").await;
    assert!(
        reverse.contains(&"10.10.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.".to_owned()),
        "{reverse:?}"
    );
}

#[tokio::test]
async fn a_client_that_is_up_to_date_gets_the_soa_record_alone() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n }"));
    let serial = serial(&bench, "cluster.local");
    let ask = async |theirs: Option<u32>| {
        let mut x = bench.exchange("cluster.local IXFR +tcp");
        if let Some(theirs) = theirs {
            x.query.wire[9] = 1;
            let numbers = [theirs, 1, 1, 1, 1].map(u32::to_be_bytes);
            x.query.wire.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
            x.query.wire.extend_from_slice(numbers.as_flattened());
        }
        let mut out = Vec::new();
        if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        while x.more(65535, &mut out) {}
        shorten(&show(&out))
    };
    logged();
    for theirs in [serial, serial.wrapping_add(1)] {
        assert_eq!(ask(Some(theirs)).await, "NOERROR aa rd | SOA(cluster.local. 5)");
        assert_eq!(
            logged().pop().unwrap(),
            format!(
                "[INFO] plugin/transfer: Outgoing noop, incremental transfer for up to date zone \"cluster.local.\" to 127.0.0.1 for {serial} SOA serial"
            )
        );
    }
    for theirs in [0, serial - 1] {
        assert!(ask(Some(theirs)).await.contains("web.shop.svc.cluster.local. 5 A 10.96.10.10"));
    }
    assert_eq!(ask(None).await, "SERVFAIL rd");
}

#[tokio::test]
async fn only_those_named_may_and_only_over_streams() {
    let text = corefile(
        "transfer cluster.local {\n to 127.0.0.7 127.0.0.8:5353\n to [2001:db8::1]:53\n }",
    );
    let mut bench = bench(SHOP, &text);
    let refused = |why: &str| format!("REFUSED rd | EDE 18 {why}");
    let no_stream = refused("zones are handed out over TCP and TLS only");
    for (from, line, want) in [
        (
            "127.0.0.1",
            "cluster.local AXFR +tcp +edns",
            refused("the client may not copy this zone"),
        ),
        ("127.0.0.7", "cluster.local AXFR +edns", no_stream.clone()),
        ("127.0.0.7", "cluster.local AXFR +http +edns", no_stream.clone()),
        ("127.0.0.7", "cluster.local IXFR +http +edns", no_stream),
        ("127.0.0.1", "cluster.local IXFR +edns", refused("the client may not copy this zone")),
        ("127.0.0.7", "elsewhere.cluster.local IXFR", "SERVFAIL rd".to_owned()),
        // Not a zone of the plugin, and one that transfer does not name: kubernetes says no.
        ("127.0.0.7", "shop.svc.cluster.local AXFR +tcp", "REFUSED rd".to_owned()),
        ("127.0.0.7", "clusterset.local AXFR +tcp", "REFUSED rd".to_owned()),
        ("127.0.0.7", "96.10.in-addr.arpa AXFR +tcp", "REFUSED rd".to_owned()),
        (
            "127.0.0.7",
            "web.shop.svc.cluster.local +tcp",
            "NOERROR aa rd | web.shop.svc.cluster.local. 5 A 10.96.10.10".to_owned(),
        ),
    ] {
        bench.from(from.parse().unwrap());
        assert_eq!(bench.ask(line).await, want, "{from} {line}");
    }
    for from in ["127.0.0.7", "127.0.0.8", "2001:db8::1", "::ffff:127.0.0.8"] {
        bench.from(from.parse().unwrap());
        assert!(records(&bench, "cluster.local AXFR +tcp").await.0.len() > 10, "{from}");
    }
}

#[tokio::test]
async fn a_cluster_set_is_not_handed_out() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n }"));
    assert_eq!(bench.ask("clusterset.local AXFR +tcp").await, "REFUSED rd");
}

#[tokio::test]
async fn a_large_zone_comes_in_several_messages() {
    let mut yaml = String::new();
    for at in 0..1500 {
        yaml.push_str(&format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: service-{at}, namespace: shop}}\nspec: {{clusterIP: 10.96.{}.{}, ports: [{{name: http, port: 80}}]}}\n",
            at / 250, at % 250 + 1,
        ));
    }
    let bench = bench(Box::leak(yaml.into_boxed_str()), &corefile("transfer {\n to *\n }"));
    let (all, messages) = records(&bench, "cluster.local AXFR +tcp").await;
    assert!(messages > 2, "{messages}");
    assert_eq!(all.iter().filter(|record| record.contains(" A 10.96.")).count(), 1500);
    assert_eq!(all.iter().filter(|record| record.starts_with("SOA(")).count(), 2);
}

#[test]
fn wrong_words_are_refused_with_a_remedy() {
    for (transfer, want) in [
        ("transfer", "says nobody who may copy the zone"),
        ("transfer {\n }", "says nobody who may copy the zone"),
        ("transfer {\n source 127.0.0.1\n }", "says nobody who may copy the zone"),
        ("transfer {\n to\n }", "to ADDRESS..."),
        ("transfer {\n to example.org\n }", "is no address of a server"),
        ("transfer {\n to 198.51.100.0/24\n }", "is no address of a server"),
        ("transfer {\n to tls://198.51.100.1\n }", "is no address of a server"),
        ("transfer {\n to 198.51.100.1:0\n }", "is no address of a server"),
        ("transfer {\n to fe80::1%nosuch\n }", "names an interface that is not there"),
        ("transfer {\n to *\n source\n }", "source IP"),
        ("transfer {\n to *\n source example.org\n }", "is wrong"),
        ("transfer {\n to *\n source 127.0.0.1\n source 127.0.0.2\n }", "is stated twice"),
        ("transfer {\n to *\n key\n }", "key NAME [ALGORITHM]"),
        ("transfer {\n to *\n key nosuch\n }", "is none of the keys"),
        ("transfer {\n to *\n at_once\n }", "at_once MAX"),
        ("transfer {\n to *\n at_once 0\n }", "not a number of transfers, 1 to 10000"),
        ("transfer {\n to *\n at_once many\n }", "not a number of transfers, 1 to 10000"),
        ("transfer {\n from *\n }", "'from' is not a property"),
    ] {
        let refused = Bench::refused(CHAIN, &format!("cluster.local {{\n {transfer}\n}}\n"));
        assert!(refused.contains(want), "{transfer}: {refused}");
    }
}

/// The fact `transfer.scoped`.
#[tokio::test]
async fn an_address_may_say_its_interface() {
    let text = corefile("transfer cluster.local {\n to fe80::7%lo\n to [fe80::8%1]:5353\n }");
    let mut bench = bench(SHOP, &text);
    for (from, is_named) in [("fe80::7", true), ("fe80::8", true), ("fe80::9", false)] {
        bench.from(from.parse().unwrap());
        let reply = bench.ask("cluster.local AXFR +tcp").await;
        assert_eq!(reply.starts_with("NOERROR"), is_named, "{from}: {reply}");
    }
}

#[tokio::test]
async fn servers_are_told_of_a_zone_and_of_its_changes() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    let text = corefile(&format!("transfer cluster.local {{\n to {to}\n source 127.0.0.3\n }}"));
    let _bench = bench(SHOP, &text);
    let mut message = [0u8; 512];
    let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
    let (len, from) = told.await.unwrap().unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.3");
    // NOTIFY with AA, one question for the zone's SOA record (RFC 1996 §3.7).
    assert_eq!(message[2..12], [0x24, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&message[12..len], b"\x07cluster\x05local\0\0\x06\0\x01");
    message[2] |= 0x80;
    server.send_to(&message[..len], from).await.unwrap();
}

/// A zone in a file.
const ZONE: &str = "$TTL 60\n@ SOA ns1 hostmaster 1 7200 3600 1209600 30\n@ NS ns1\n";

#[tokio::test]
async fn notices_are_signed_with_a_key() {
    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    let folder = Folder::new(ZONE);
    logged();
    let _bench = folder.bench(&format!(
        "example.org {{\n tsig {{\n  secret key.test {SECRET}\n }}\n transfer {{\n  to {to}\n  key key.test hmac-sha512\n }}\n file DB\n}}\n"
    ));
    let mut message = [0u8; 512];
    // A reply without a signature is none: the server is told again.
    for is_signed in [false, true] {
        let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
        let (len, from) = told.await.unwrap().unwrap();
        let signed = &message[..len];
        let at = 12 + b"\x07example\x03org\0\0\x06\0\x01".len();
        assert_eq!(signed[11], 1, "one record behind the question");
        assert!(signed[at..].starts_with(b"\x03key\x04test\0\x00\xfa"));
        let mut reply = signed[..at].to_vec();
        (reply[2], reply[11]) = (reply[2] | 0x80, 0);
        if is_signed {
            let mut seal = tsig::testing(SECRET).check(signed, at, SystemTime::now()).unwrap();
            assert_eq!(seal.broken(), None);
            seal.sign(&mut reply, 0);
        }
        server.send_to(&reply, from).await.unwrap();
    }
    let again = tokio::time::timeout(Duration::from_millis(300), server.recv_from(&mut message));
    assert!(again.await.is_err(), "it was told");
    let log = logged().join("\n");
    assert!(log.contains(&format!("Sent notifies for zone \"example.org.\" to {to}")), "{log}");
    assert!(!log.contains("failed to notify"), "{log}");
}

/// Of `transfer.notify` three tries and a warning, and `transfer.notify.longest`.
#[tokio::test]
async fn a_server_that_does_not_answer_is_told_three_times() {
    let (server, other) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    let (to, not) = (server.local_addr().unwrap(), other.local_addr().unwrap());
    let folder = Folder::new(ZONE);
    logged();
    let _bench = folder.bench(&format!(
        "org {{\n transfer org {{\n  to {not}\n }}\n transfer example.org {{\n  to {to}\n }}\n file DB example.org\n}}\n"
    ));
    let mut message = [0u8; 512];
    for _ in 0..3 {
        let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
        let (len, from) = told.await.unwrap().unwrap();
        // SERVFAIL.
        (message[2], message[3]) = (message[2] | 0x80, 2);
        server.send_to(&message[..len], from).await.unwrap();
    }
    let mut log = String::new();
    for _ in 0..200 {
        log.push_str(&logged().join("\n"));
        if log.contains("failed to notify") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let want = format!("failed to notify for zone \"example.org.\": {to}: rcode was SERVFAIL");
    assert!(log.contains(&want), "{log}");
    let told = tokio::time::timeout(Duration::from_millis(100), other.recv_from(&mut message));
    assert!(told.await.is_err(), "a shorter zone's server is told");
}

/// A server that is away for longer is told the same again, with growing pauses, and not for ever (RFC 1996 §3.6).
#[tokio::test(start_paused = true)]
async fn a_notice_that_failed_is_repeated() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    let folder = Folder::new(ZONE);
    let _bench = folder.bench(&format!(
        "example.org {{\n transfer {{\n  to {to}\n }}\n file DB example.org\n}}\n"
    ));
    let mut message = [0u8; 512];
    let mut told = Vec::new();
    let within = Duration::from_secs(3600);
    while let Ok(got) = tokio::time::timeout(within, server.recv_from(&mut message)).await {
        got.unwrap();
        told.push(tokio::time::Instant::now());
    }
    let pauses: Vec<_> = told.windows(2).map(|two| two[1].duration_since(two[0])).collect();
    let long: Vec<_> = pauses.iter().filter(|pause| pause.as_secs() > 3).collect();
    assert_eq!((told.len(), long.len()), (18, 5), "{pauses:?}");
    assert!(long.windows(2).all(|two| *two[1] > *two[0] * 3 / 2), "{pauses:?}");
    assert!((10..=15).contains(&long[0].as_secs()), "{pauses:?}");
}

/// A server that refuses at once is being restarted, as it seems: the tries are apart from one another.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_at_once_is_given_time() {
    // Not the address that others of this run bind.
    let gone = UdpSocket::bind("127.0.0.9:0").await.unwrap();
    let to = gone.local_addr().unwrap();
    drop(gone);
    let folder = Folder::new(ZONE);
    logged();
    let _bench = folder.bench(&format!(
        "example.org {{\n transfer {{\n  to {to}\n }}\n file DB example.org\n}}\n"
    ));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let server = UdpSocket::bind(to).await.unwrap();
    let mut message = [0u8; 512];
    let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
    let (len, from) = told.await.unwrap().unwrap();
    message[2] |= 0x80;
    server.send_to(&message[..len], from).await.unwrap();
    let again = tokio::time::timeout(Duration::from_secs(60), server.recv_from(&mut message));
    assert!(again.await.is_err(), "it was told");
    let log = logged().join("\n");
    assert!(log.contains("Sent notifies") && !log.contains("failed to notify"), "{log}");
}

/// The requirement XFR-03 of RFC 9103 §7.1.
#[tokio::test]
async fn xfr_03_no_zone_by_an_older_tls() {
    let folder = Folder::new(ZONE);
    let bench = folder.bench("tls://example.org {\n transfer {\n  to *\n }\n file DB\n}\n");
    for (version, want) in [("TLSv1.2", "REFUSED"), ("TLSv1.3", "NOERROR")] {
        let mut x = bench.exchange("example.org AXFR +tls");
        x.query.session =
            Some(std::sync::Arc::new(engine::Session { version, ..engine::Session::default() }));
        let mut out = Vec::new();
        if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        assert!(show(&out).starts_with(want), "{version}: {}", show(&out));
    }
}

/// Of the requirement XFR-04 of RFC 9103 §6.3: transfers at a time are bounded; those over the bound wait, and not for ever.
#[tokio::test(start_paused = true)]
async fn xfr_04_transfers_at_a_time_are_bounded() {
    let folder = Folder::new(ZONE);
    let bench = folder.bench("example.org {\n transfer {\n  to *\n  at_once 2\n }\n file DB\n}\n");
    let begin = async || {
        let mut x = bench.exchange("example.org AXFR +tcp +edns");
        let mut out = Vec::new();
        if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        (x, show(&out))
    };
    let (mut first, text) = begin().await;
    assert!(text.starts_with("NOERROR"), "{text}");
    let (second, text) = begin().await;
    assert!(text.starts_with("NOERROR"), "{text}");
    let (_, text) = begin().await;
    assert_eq!(text, "SERVFAIL rd | EDE 0 too many transfers are under way");
    // One that is read to its end leaves its place, and one that is broken off does.
    while first.more(65535, &mut Vec::new()) {}
    let (third, text) = begin().await;
    assert!(text.starts_with("NOERROR"), "{text}");
    drop(second);
    let (_, text) = begin().await;
    assert!(text.starts_with("NOERROR"), "{text}");
    drop(third);
}

/// The reply to an IXFR query of a client that has `theirs` (RFC 1995 §3); `by` is its transport.
async fn since(bench: &Bench, by: &str, theirs: u32) -> String {
    let mut x = bench.exchange(&format!("cluster.local IXFR {by}"));
    x.query.wire[9] = 1;
    let numbers = [theirs, 1, 1, 1, 1].map(u32::to_be_bytes);
    x.query.wire.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    x.query.wire.extend_from_slice(numbers.as_flattened());
    let mut out = Vec::new();
    if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
        live.complete(&mut x, &mut out).await;
    }
    if by.is_empty() {
        assert!(!x.is_streaming() && out.len() <= 512);
    }
    while x.more(65535, &mut out) {}
    shorten(&show(&out))
}

/// Adds a service with these ports, and lets the time pass that it takes to be published.
async fn add_service(name: &'static str, ports: &[&'static str]) {
    let port = |name: &&'static str| k8s::Port {
        name: (*name).into(),
        protocol: k8s::Protocol::Tcp,
        number: 80,
    };
    apply(&k8s::Event::Apply(k8s::Object::Service(k8s::Service {
        meta: k8s::Meta { namespace: "shop".into(), name: name.into(), version: 0 },
        cluster_ips: vec!["10.96.10.11".parse().unwrap()],
        ports: ports.iter().map(port).collect(),
        ..k8s::Service::default()
    })));
    tokio::time::advance(Duration::from_secs(2)).await;
}

/// The SOA record of the cluster's zone alone.
const ALONE: &str = "NOERROR aa rd | SOA(cluster.local. 5)";

/// IXFR by UDP (RFC 1995 §2): what has changed if that fits, else the SOA record alone.
#[tokio::test(start_paused = true)]
async fn changes_come_by_udp_if_they_fit() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n }"));
    let all = records(&bench, "cluster.local AXFR +tcp").await.0;
    let first = serial(&bench, "cluster.local");
    assert_eq!(since(&bench, "", first).await, ALONE);
    // The whole zone does not go by UDP.
    assert!(all.len() > 5);
    assert_eq!(since(&bench, "", first.wrapping_sub(1)).await, ALONE);
    add_service("new", &[]).await;
    let soa = "SOA(cluster.local. 5)";
    let new = "new.shop.svc.cluster.local. 5 A 10.96.10.11";
    let changes = format!("NOERROR aa rd | {soa}; {soa}; {soa}; {new}; {soa}");
    assert_eq!(since(&bench, "", first).await, changes);
    // Who has got them so goes on from there.
    let second = serial(&bench, "cluster.local");
    add_service("longer-than-others", &["a-port-with-a-name", "another-with-one", "third"]).await;
    assert_eq!(since(&bench, "", first).await, ALONE);
    assert_ne!(serial(&bench, "cluster.local"), first);
    assert!(since(&bench, "+tcp", second).await.starts_with(&format!("{ALONE}; {soa}; {soa}; ")));
}

/// A query by UDP may be in another's name: it has no zone copied, and what it got nothing of counts as handed out to nobody.
#[tokio::test(start_paused = true)]
async fn queries_by_udp_have_nothing_copied() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n }"));
    let are_changes = |reply: &str| reply.starts_with(&format!("{ALONE}; SOA(cluster.local. 5); "));
    let mut before = serial(&bench, "cluster.local");
    // 0 is what clients say who have nothing yet.
    for theirs in [0, before.wrapping_sub(1), before] {
        assert_eq!(since(&bench, "", theirs).await, ALONE);
    }
    add_service("new", &[]).await;
    // No past of the zone is known, since nobody had it.
    let whole = since(&bench, "+tcp", before).await;
    assert!(whole.contains("web.shop.svc") && !are_changes(&whole), "{whole}");
    before = serial(&bench, "cluster.local");
    add_service("other", &[]).await;
    assert_eq!(since(&bench, "", before.wrapping_sub(1)).await, ALONE);
    let unseen = serial(&bench, "cluster.local");
    assert_ne!(unseen, before);
    add_service("third", &[]).await;
    assert!(are_changes(&since(&bench, "+tcp", before).await));
    assert!(!are_changes(&since(&bench, "+tcp", unseen).await));
}

/// While all places are taken a query by UDP is not kept, so that it keeps no others waiting.
#[tokio::test(start_paused = true)]
async fn queries_by_udp_do_not_wait() {
    let bench = bench(SHOP, &corefile("transfer {\n to *\n at_once 1\n }"));
    let serial = serial(&bench, "cluster.local");
    let mut x = bench.exchange("cluster.local AXFR +tcp");
    if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut Vec::new()) {
        live.complete(&mut x, &mut Vec::new()).await;
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(since(&bench, "", serial).await, "SERVFAIL rd");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    drop(x);
    assert_eq!(since(&bench, "", serial).await, ALONE);
}

/// The facts `transfer.empty`, `.position`, `.provider_error`, `.doh`.
#[tokio::test]
async fn a_zone_of_nobody_goes_on() {
    static PLUGINS: &[&engine::Descriptor] = &[&super::PLUGIN, &crate::file::PLUGIN, &ANSWERS];
    let folder = Folder::new(ZONE);
    let text = "org {\n transfer {\n  to *\n }\n file DB example.org\n file DB.gone gone.org\n answers\n}\n";
    let bench = Bench::new(PLUGINS, &folder.corefile(text));
    assert!(bench.ask("elsewhere.org AXFR +tcp").await.contains(" 30 A "));
    assert!(bench.ask("example.org AXFR +tcp").await.starts_with("NOERROR aa rd | example.org."));
    assert_eq!(
        bench.ask("gone.org AXFR +tcp +edns").await,
        "SERVFAIL rd | EDE 14 the zone is not loaded"
    );
    assert!(bench.ask("example.org AXFR +http").await.starts_with("REFUSED"));
    let at = |name: &str| crate::CHAIN.iter().position(|plugin| plugin.name == name).unwrap();
    let backends = ["hosts", "k8s_external", "kubernetes", "file", "auto", "secondary"];
    let places: Vec<usize> = ["transfer"].iter().chain(&backends).map(|name| at(name)).collect();
    assert!(places.is_sorted(), "{places:?}");
}
