//! The fast path's promise: no allocation for cached and authoritative answers, from the socket to the socket.
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Build, Common, Exchange, Gateway, Http, Limits, Origin, Process, Served, Session, Transport,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tests::pki::Pair;
use tests::process::repository;
use tests::tls::{Client, Connection};
use tests::{Folder, Pki, free_port};
use transports::{Bounds, Fronts, Workers};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A cluster with every kind of name.
const MANIFESTS: &str = include_str!("../../gateway/server/demo/shop.yaml");

/// A service that cannot be reached from outside, and has no endpoints.
const BARE: &str = "apiVersion: v1
kind: Service
metadata: {name: bare, namespace: shop}
spec: {clusterIP: 10.96.10.99, ports: [{name: http, port: 80}]}
";

/// What a second cluster has.
const DESK: &str = "apiVersion: v1
kind: Service
metadata: {name: only, namespace: more}
spec: {clusterIP: 10.97.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: more}
spec: {clusterIP: 10.98.0.9, ports: [{name: http, port: 80}]}
";

/// What the cluster exports to its cluster set.
const EXPORTS: &str = "apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web, namespace: shop}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: db, namespace: shop}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: bare, namespace: shop}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: edge, namespace: shop}
";

/// What is asked, and the response code and the number of answers that it gets.
const QUESTIONS: &[(&str, &str, u8, u8)] = &[
    ("web.shop.svc.cluster.local", "A", 0, 1),
    ("web.shop.svc.cluster.local", "AAAA", 0, 0),
    ("web.shop.svc.cluster.local", "MX", 0, 0),
    ("dual.shop.svc.cluster.local", "AAAA", 0, 1),
    ("web.shop.svc.cluster.local", "SRV", 0, 2),
    ("_http._tcp.web.shop.svc.cluster.local", "SRV", 0, 1),
    ("db.shop.svc.cluster.local", "A", 0, 2),
    ("db.shop.svc.cluster.local", "SRV", 0, 2),
    ("db-0.db.shop.svc.cluster.local", "A", 0, 1),
    ("front.shop.svc.cluster.local", "A", 0, 2),
    ("front.shop.svc.cluster.local", "CNAME", 0, 1),
    ("10-244-1-21.shop.pod.cluster.local", "A", 0, 1),
    ("10-244-1-99.shop.pod.cluster.local", "A", 3, 0),
    ("10.10.96.10.in-addr.arpa", "PTR", 0, 1),
    ("21.1.244.10.in-addr.arpa", "PTR", 0, 1),
    ("dns-version.cluster.local", "TXT", 0, 1),
    ("cluster.local", "SOA", 0, 1),
    ("shop.svc.cluster.local", "A", 0, 0),
    ("nothing.shop.svc.cluster.local", "A", 3, 0),
    ("web.nowhere.svc.cluster.local", "A", 3, 0),
    ("hit.cached.test", "A", 0, 1),
    ("www.zoned.test", "A", 0, 2),
    ("alias.zoned.test", "A", 0, 3),
    ("a.w.zoned.test", "TXT", 0, 1),
    ("mx.zoned.test", "MX", 0, 1),
    ("x.sub.zoned.test", "A", 0, 0),
    ("x.d.zoned.test", "A", 0, 4),
    ("no.zoned.test", "A", 3, 0),
    ("edge.shop.outside.test", "A", 0, 1),
    ("edge.shop.outside.test", "SRV", 0, 1),
    ("_https._tcp.edge.shop.outside.test", "SRV", 0, 1),
    ("db.shop.outside.test", "A", 0, 2),
    ("db-0.db.shop.outside.test", "A", 0, 1),
    ("outside.test", "NS", 0, 1),
    ("web.shop.outside.test", "A", 3, 0),
    ("edge.shop.svc.reach.test", "A", 0, 1),
    ("edge.shop.svc.reach.test", "SRV", 0, 1),
    ("web.shop.svc.reach.test", "A", 0, 2),
    ("_http._tcp.web.shop.svc.reach.test", "SRV", 0, 2),
    ("bare.shop.svc.reach.test", "A", 0, 0),
    ("web.shop.svc.union.test", "A", 0, 1),
    ("front.shop.svc.union.test", "A", 0, 2),
    ("only.more.svc.union.test", "A", 0, 1),
    ("only.more.svc.union.test", "SRV", 0, 1),
    ("9.0.97.10.in-addr.arpa", "PTR", 0, 1),
    ("nothing.shop.svc.union.test", "A", 3, 0),
    ("web.shop.svc.set.test", "A", 0, 2),
    ("_http._tcp.web.shop.svc.set.test", "SRV", 0, 4),
    ("db.shop.svc.set.test", "A", 0, 2),
    ("db.shop.svc.set.test", "SRV", 0, 4),
    ("db-0.west.db.shop.svc.set.test", "A", 0, 1),
    ("east.db.shop.svc.set.test", "A", 0, 0),
    ("shop.svc.set.test", "A", 0, 0),
    ("web.shop.svc.set.test", "SRV", 0, 8),
    ("bare.shop.svc.set.test", "A", 0, 0),
    ("bare.shop.svc.set.test", "SRV", 0, 0),
    ("_http._tcp.bare.shop.svc.set.test", "SRV", 0, 0),
    ("_dns._udp.bare.shop.svc.set.test", "SRV", 3, 0),
    ("nothing.shop.svc.set.test", "A", 3, 0),
    ("elsewhere.example", "A", 5, 0),
];

/// A zone with every kind of name.
const ZONE: &str = "$TTL 300
@ SOA ns1 hostmaster 1 7200 3600 1209600 60
@ NS ns1
ns1 A 198.51.100.53
www A 198.51.100.1
www A 198.51.100.2
alias CNAME www
*.w TXT wild
mx MX 10 www
sub NS ns.sub
ns.sub A 198.51.100.3
d DNAME t
x.t A 198.51.100.4
x.t A 198.51.100.5
";

/// The Corefile of a production block, and one whose answers come from the cache; over TLS as well.
fn corefile((port, secure): (u16, u16), pair: &Pair, manifests: &Path) -> String {
    format!(
        "cluster.local:{port} in-addr.arpa:{port} tls://cluster.local:{secure} tls://in-addr.arpa:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    kubernetes cluster.local in-addr.arpa {{
        manifests {manifests}
        pods verified
    }}
    loadbalance
}}
outside.test:{port} tls://outside.test:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    loadbalance
    k8s_external outside.test {{
        headless
    }}
    kubernetes cluster.local {{
        manifests {manifests}
        pods verified
    }}
}}
reach.test:{port} tls://reach.test:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    kubernetes {{
        manifests {manifests}
        pods verified
        reach loadbalancer externalip endpoints
    }}
    loadbalance
}}
cluster://shop {{
    manifests {manifests}
}}
cluster://desk {{
    manifests {manifests}/../desk
}}
union.test:{port} tls://union.test:{secure} 10.97.0.0/16:{port} tls://10.97.0.0/16:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    kubernetes {{
        cluster shop desk
    }}
    loadbalance
}}
cluster://east {{
    manifests {manifests}
}}
cluster://west {{
    manifests {manifests}
}}
set.test:{port} tls://set.test:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    clusterset {{
        cluster east west
    }}
    loadbalance
}}
cached.test:{port} tls://cached.test:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    cache 300
    loadbalance
    hosts {{
        198.51.100.7 hit.cached.test
        ttl 300
    }}
}}
zoned.test:{port} tls://zoned.test:{secure} {{
    tls {pair}
    errors
    prometheus 127.0.0.1:{metrics}
    loadbalance
    file {zone}
}}
",
        manifests = manifests.display(),
        zone = manifests.with_file_name("zoned").display(),
        metrics = free_port(),
    )
}

/// A gateway in this process.
async fn gateway(corefile: &str) -> Arc<Gateway> {
    let parsed = config::corefile::parse(
        Path::new("Corefile"),
        corefile,
        &|_| None,
        &config::corefile::Disk,
    )
    .unwrap();
    let process = Process::new(std::env::temp_dir(), "test".to_owned(), 1, Duration::from_secs(1));
    let build = Build {
        plugins: plugins::CHAIN,
        transports: Fronts::TRANSPORTS,
        check_cluster: plugins::check_cluster,
        port: 53,
        process: Arc::new(process),
        common: Common::new(Limits::default()),
        origin: Arc::new(Origin::default()),
        previous: None,
    };
    let mut built = build.build(&parsed.blocks).unwrap();
    for ready in built.waits.drain(..) {
        ready.await.unwrap();
    }
    for (_, task) in built.tasks() {
        tokio::spawn(task);
    }
    Arc::new(Gateway::new(built.live))
}

/// A query for a name and type, with EDNS.
fn query(name: &str, kind: &str) -> Vec<u8> {
    encoded(name, kind, 0)
}

/// The same with these EDNS flags.
fn encoded(name: &str, kind: &str, flags: u16) -> Vec<u8> {
    let mut request = wire::Request { name: name.parse().unwrap(), ..wire::Request::default() };
    request.rtype = wire::text::type_number(kind).unwrap();
    request.edns.present = true;
    request.edns.flags = flags;
    request.edns.size = 1232;
    let mut out = Vec::new();
    wire::encode_query(&request, 0x1234, &mut out);
    out
}

/// Counts the allocations of `rounds` calls, of all threads; tries a few times, for the runtime's own clockwork may
/// allocate now and then.
fn fewest(rounds: usize, mut run: impl FnMut()) -> usize {
    let count = |_| {
        let region = Region::new(ALLOCATOR);
        (0..rounds).for_each(|_| run());
        let change = region.change();
        change.allocations + change.reallocations
    };
    (0..5).map(count).min().unwrap()
}

/// Sends octets in one record, and reads so many replies, without memory of its own.
fn ask_over_tls(tls: &mut Connection, octets: &[u8], buffer: &mut [u8], replies: usize) {
    let Connection { tcp, session, .. } = tls;
    session.writer().write_all(octets).unwrap();
    while session.wants_write() {
        session.write_tls(tcp).unwrap();
    }
    let (mut have, mut at, mut left) = (0, 0, replies);
    while left > 0 {
        assert!(have < buffer.len(), "{replies} replies are longer than {have} octets");
        match session.reader().read(&mut buffer[have..]) {
            Ok(read) => have += read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(session.read_tls(tcp).unwrap() > 0);
                session.process_new_packets().unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        while left > 0 && have >= at + 2 {
            let end = at + 2 + usize::from(u16::from_be_bytes([buffer[at], buffer[at + 1]]));
            if have < end {
                break;
            }
            (at, left) = (end, left - 1);
        }
    }
}

#[test]
fn cached_and_authoritative_answers_allocate_nothing() {
    let folder = Folder::new("alloc");
    folder.write("manifests/shop.yaml", MANIFESTS);
    folder.write("manifests/bare.yaml", BARE);
    folder.write("desk/only.yaml", DESK);
    folder.write("manifests/exports.yaml", EXPORTS);
    folder.write("zoned", ZONE);
    let (port, secure, pki) = (free_port(), free_port(), Pki::new());
    let pair = pki.server("server", &["127.0.0.1"]);
    let text = corefile((port, secure), &pair, &folder.path().join("manifests"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let gateway = runtime.block_on(gateway(&text));
    let _inside = runtime.enter();
    let group = gateway.live().groups().next().unwrap().id;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));

    // The chain alone, as each transport calls it.
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut x = Exchange::new(group, transport, server);
        x.query.peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
        let mut out = Vec::with_capacity(4096);
        for (name, kind, rcode, answers) in QUESTIONS {
            let wire = query(name, kind);
            let mut ask = || {
                out.clear();
                x.query.wire.clear();
                x.query.wire.extend_from_slice(&wire);
                x.query.received = Instant::now();
                let served = gateway.serve(&mut x, &mut out);
                assert!(matches!(served, Served::Now), "{name} {kind} waited");
            };
            (0..20).for_each(|_| ask());
            let allocations = fewest(200, &mut ask);
            assert_eq!((out[3] & 0xf, out[7]), (*rcode, *answers), "{name} {kind}");
            assert_eq!(allocations, 0, "{name} {kind} over {transport:?}");
        }
    }

    known_clients(&folder, &runtime);
    guarded_names(&runtime);
    signed_answers(&folder, &runtime);
    many_clusters(&folder, &runtime);
    watched_queries(&folder, &runtime);

    // The whole way, sockets and all.
    let limits = transports::Limits::new(Bounds::default());
    let mut fronts = Fronts::new(Workers::start(1).unwrap(), limits, Duration::from_secs(1));
    let bound = fronts.bind(gateway.live().groups()).unwrap();
    fronts.start(bound, &gateway);
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.connect(server).unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut tcp = TcpStream::connect(server).unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut reply = [0u8; 16384];
    for (name, kind, rcode, _) in QUESTIONS {
        let wire = query(name, kind);
        let mut datagram = || {
            udp.send(&wire).unwrap();
            udp.recv(&mut reply).unwrap();
            assert_eq!(reply[3] & 0xf, *rcode);
        };
        (0..50).for_each(|_| datagram());
        assert_eq!(fewest(100, &mut datagram), 0, "{name} {kind} over a UDP socket");
        let framed = [&u16::try_from(wire.len()).unwrap().to_be_bytes()[..], &wire].concat();
        let mut stream = || {
            tcp.write_all(&framed).unwrap();
            let mut len = [0; 2];
            tcp.read_exact(&mut len).unwrap();
            tcp.read_exact(&mut reply[..usize::from(u16::from_be_bytes(len))]).unwrap();
            assert_eq!(reply[3] & 0xf, *rcode);
        };
        (0..50).for_each(|_| stream());
        assert_eq!(fewest(100, &mut stream), 0, "{name} {kind} over a TCP connection");
    }

    // TLS takes some memory for each record, at both ends, which are both in this process; a query takes none.
    let mut tls = Client::new(pki.ca()).connect((Ipv4Addr::LOCALHOST, secure).into()).unwrap();
    tls.tcp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for (name, kind, ..) in QUESTIONS {
        let wire = query(name, kind);
        let framed = [&u16::try_from(wire.len()).unwrap().to_be_bytes()[..], &wire].concat();
        let mut records = |queries: usize| {
            let all = framed.repeat(queries);
            let mut ask = || ask_over_tls(&mut tls, &all, &mut reply, queries);
            (0..50).for_each(|_| ask());
            (fewest(100, &mut ask), 2 + usize::from(u16::from_be_bytes([reply[0], reply[1]])))
        };
        let (one, len) = records(1);
        // As many as the client's side takes in one read, which is 4 KiB.
        let queries = (4096 / (len + 32)).min(12);
        let (many, _) = records(queries);
        assert!(one <= 100 * 16, "{name} {kind}: {one} allocations for 100 records each way");
        // All queries come in one record, and each answer goes in one of its own, where one query has two records.
        assert!(
            queries > 3 && 2 * many <= (queries + 1) * one,
            "{name} {kind}: {many} allocations with {queries} queries a record, {one} with one"
        );
    }
    runtime.block_on(fronts.drain());
}

/// The fewest allocations of 200 queries of a wire, through a chain that answers at once; what it answers is in `out`.
fn of_a_chain(gateway: &Gateway, x: &mut Exchange, wire: &[u8], out: &mut Vec<u8>) -> usize {
    let mut ask = || {
        out.clear();
        x.query.wire.clear();
        x.query.wire.extend_from_slice(wire);
        x.query.received = Instant::now();
        assert!(matches!(gateway.serve(x, out), Served::Now), "it waited");
    };
    (0..20).for_each(|_| ask());
    fewest(200, &mut ask)
}

/// An exchange over UDP with the first group of a gateway.
fn exchange(gateway: &Gateway) -> Box<Exchange> {
    let group = gateway.live().groups().next().unwrap().id;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
    let mut x = Exchange::new(group, Transport::Udp, server);
    x.query.peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
    x
}

/// The same for answers whose signatures are kept, and proofs made for the question.
fn signed_answers(folder: &Folder, runtime: &tokio::runtime::Runtime) {
    let samples = repository().join("gateway/plugins/src/shared/dnssec/samples");
    let corefile = format!(
        "example.org:{port} {{\n dnssec {{\n  key file {key}\n }}\n file {zone}\n}}",
        port = free_port(),
        key = samples.join("Kexample.org.+013+17122").display(),
        zone = folder.path().join("zoned").display(),
    );
    let gateway = runtime.block_on(gateway(&corefile));
    let mut x = exchange(&gateway);
    let mut out = Vec::with_capacity(4096);
    // Records, and those of the authority section: each set with its signature.
    for (name, kind, answers, authorities) in [
        ("www", "A", 3, 2),
        ("alias", "A", 5, 2),
        ("a.w", "TXT", 2, 2),
        ("mx", "MX", 2, 2),
        ("x.d", "A", 6, 2),
        ("www", "AAAA", 0, 4),
        ("no", "A", 0, 4),
        ("x.sub", "A", 0, 3),
    ] {
        let wire = encoded(&format!("{name}.example.org"), kind, wire::Edns::DO);
        let allocations = of_a_chain(&gateway, &mut x, &wire, &mut out);
        assert_eq!((out[3] & 0xf, out[7], out[9]), (0, answers, authorities), "{name} {kind}");
        assert_eq!(allocations, 0, "{name} {kind}");
    }
}

/// The same for a set whose names give other addresses than endpoints', and for a union of more clusters.
fn many_clusters(folder: &Folder, runtime: &tokio::runtime::Runtime) {
    let manifests = folder.path().join("manifests");
    let names = ["north", "east", "south", "west", "here"];
    let mut corefile = String::new();
    for name in names {
        corefile += &format!("cluster://{name} {{\n manifests {}\n}}\n", manifests.display());
    }
    corefile += &format!(
        "cluster://desk {{
    manifests {desk}
}}
ways.test:{port} {{
    clusterset {{
        cluster east west
        reach loadbalancer endpoints
    }}
}}
many.test:{port} 10.98.0.0/16:{port} {{
    kubernetes {{
        cluster {names} desk
    }}
}}
",
        desk = folder.path().join("desk").display(),
        port = free_port(),
        names = names.join(" "),
    );
    let gateway = runtime.block_on(gateway(&corefile));
    let mut x = exchange(&gateway);
    let mut out = Vec::with_capacity(4096);
    for (name, kind, rcode, answers) in [
        ("edge.shop.svc.ways.test", "A", 0, 1),
        ("edge.shop.svc.ways.test", "SRV", 0, 1),
        ("_https._tcp.edge.shop.svc.ways.test", "SRV", 0, 1),
        ("web.shop.svc.ways.test", "A", 0, 2),
        ("bare.shop.svc.ways.test", "A", 0, 0),
        ("_http._tcp.bare.shop.svc.ways.test", "SRV", 0, 0),
        ("far.more.svc.many.test", "A", 0, 1),
        ("9.0.98.10.in-addr.arpa", "PTR", 0, 1),
        ("7.0.98.10.in-addr.arpa", "PTR", 3, 0),
    ] {
        let allocations = of_a_chain(&gateway, &mut x, &query(name, kind), &mut out);
        assert_eq!((out[3] & 0xf, out[7]), (rcode, answers), "{name} {kind}");
        assert_eq!(allocations, 0, "{name} {kind}");
    }
}

/// The same for queries that *dnstap* and *trace* see: those that are not drawn, and those that nobody takes any more.
fn watched_queries(folder: &Folder, runtime: &tokio::runtime::Runtime) {
    let socket = folder.path().join("collector");
    // Nobody listens at a port that was free.
    for (lines, queue) in [
        (format!("dnstap listen {} full", socket.display()), 0),
        (format!("dnstap {}.gone full", socket.display()), 10_000),
        (format!("trace 127.0.0.1:{} {{\n  every 1000000\n }}", free_port()), 0),
        (format!("trace 127.0.0.1:{} {{\n  every 0\n }}", free_port()), 0),
        (
            format!(
                "dnstap {}.gone\n trace 127.0.0.1:{} {{\n  every 0\n }}",
                socket.display(),
                free_port()
            ),
            10_000,
        ),
    ] {
        let corefile = format!(
            "watched.test:{port} {{\n {lines}\n cache 300\n hosts {{\n  198.51.100.7 hit.watched.test\n  ttl 300\n }}\n}}",
            port = free_port(),
        );
        let gateway = runtime.block_on(gateway(&corefile));
        let mut x = exchange(&gateway);
        let (mut out, wire) = (Vec::with_capacity(4096), query("hit.watched.test", "A"));
        // A queue that nobody empties is full after so many messages, two for a query.
        for _ in 0..queue / 2 {
            out.clear();
            x.query.wire.clear();
            x.query.wire.extend_from_slice(&wire);
            x.query.received = Instant::now();
            gateway.serve(&mut x, &mut out);
        }
        let allocations = of_a_chain(&gateway, &mut x, &wire, &mut out);
        assert_eq!((out[3] & 0xf, out[7], allocations), (0, 1, 0), "{lines}");
    }
}

/// The same for what *guard* answers itself.
fn guarded_names(runtime: &tokio::runtime::Runtime) {
    let corefile =
        format!(".:{} {{\n guard\n forward . 127.0.0.1:{}\n}}", free_port(), free_port());
    let gateway = runtime.block_on(gateway(&corefile));
    let mut x = exchange(&gateway);
    let mut out = Vec::with_capacity(4096);
    for (name, rcode) in [("printer.local", 3), ("1.0.0.10.in-addr.arpa", 3), ("localhost", 0)] {
        let allocations = of_a_chain(&gateway, &mut x, &query(name, "A"), &mut out);
        assert_eq!((out[3] & 0xf, allocations), (rcode, 0), "{name}");
    }
}

/// The same for clients that are known, by each way but a key: signatures are made of memory of their own.
fn known_clients(folder: &Folder, runtime: &tokio::runtime::Runtime) {
    let made = plugins::identity::mint("alice", &["staff".to_owned()]).unwrap();
    folder.write("secrets", made.lines.join("\n"));
    let corefile = format!(
        "known.test:{port} {{
    identity {{
        secrets {secrets}
        names *.dns.example.org
        networks here 127.0.0.0/8 staff
    }}
    view staff {{
        expr 'staff' in groups()
    }}
    acl {{
        allow identity alice here
        block
    }}
    cache 300
    hosts {{
        198.51.100.7 hit.known.test
        ttl 300
    }}
}}
",
        port = free_port(),
        secrets = folder.path().join("secrets").display(),
    );
    let gateway = runtime.block_on(gateway(&corefile));
    let group = gateway.live().groups().next().unwrap().id;
    let session = |name: Option<&str>| {
        Some(Arc::new(Session { name: name.map(Into::into), ..Session::default() }))
    };
    let http = |secret: &str, authorization: &str| {
        Some(Box::new(Http {
            secret: secret.to_owned(),
            authorization: authorization.to_owned(),
            ..Http::default()
        }))
    };
    let label = format!("{}.dns.example.org", made.label);
    for (transport, session, http) in [
        (Transport::Udp, None, None),
        (Transport::Tls, session(None), None),
        (Transport::Tls, session(Some(&label)), None),
        (Transport::Https, session(None), http(&made.token, "")),
        (Transport::Https, session(None), http("", &format!("Bearer {}", made.token))),
    ] {
        let mut x = Exchange::new(group, transport, SocketAddr::from((Ipv4Addr::LOCALHOST, 53)));
        x.query.peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
        (x.query.session, x.query.http) = (session, http);
        let mut out = Vec::with_capacity(4096);
        let wire = query("hit.known.test", "A");
        let allocations = of_a_chain(&gateway, &mut x, &wire, &mut out);
        assert_eq!((out[3] & 0xf, out[7]), (0, 1), "{transport:?}");
        assert_eq!(allocations, 0, "{transport:?}");
    }
}
