//! What clients may take, and what becomes of those who want more. The names of tests begin with the IDs of the requirements that
//! they look at.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::client::Stream;
use tests::gateway::binary;
use tests::tls::{Client, End};
use tests::{Folder, Gateway, Pki, Process, Query, Scripted, free_port, scripted, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A loopback address.
fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// A counter of a gateway.
fn count(gateway: &Gateway, metric: &str, reason: &str) -> f64 {
    let key = format!("{metric}{{reason=\"{reason}\"}}");
    *gateway.metrics("metrics").get(&key).unwrap_or_else(|| panic!("no {key}"))
}

/// A counter of connections that were refused.
fn refused(gateway: &Gateway, reason: &str) -> f64 {
    count(gateway, "causeway_connections_refused_total", reason)
}

/// A counter of connections that were closed.
fn closed(gateway: &Gateway, reason: &str) -> f64 {
    count(gateway, "causeway_connections_closed_total", reason)
}

/// A counter of queries that came too fast.
fn limited(gateway: &Gateway, reason: &str) -> f64 {
    count(gateway, "causeway_queries_limited_total", reason)
}

/// Opens a connection and asks on it; none if there is no answer.
fn open(server: SocketAddr, source: IpAddr) -> Option<Stream> {
    let mut stream = Stream::open(server, Some(source))?;
    is_served(&mut stream).then_some(stream)
}

/// Whether a connection has its query answered.
fn is_served(stream: &mut Stream) -> bool {
    stream.send(&Query::from("a.test A"));
    stream.receive(LIMIT).is_some()
}

/// A Corefile for plain DNS with these lines.
fn plain(lines: &str) -> String {
    format!(
        ".:@PORT@ {{\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n whoami\n}}\n"
    )
}

#[test]
fn slow_02_idle_connections_make_room_and_busy_ones_do_not() {
    let upstream = Scripted::start(|_, _| None);
    let corefile = format!(
        "{}never.test:@PORT@ {{\n bind 127.0.0.1\n forward . {}\n}}\n",
        plain("timeouts {\n idle 1m\n }"),
        upstream.address()
    );
    let start =
        || Gateway::new(&corefile).argument("-set").argument("limits.tcp_connections=20").start();
    // Fifteen of one client, the first of which has been idle for longest, and five of another.
    let gateway = start();
    let server = gateway.address();
    let mut many: Vec<Stream> = (0..15)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            open(server, loopback(2)).unwrap()
        })
        .collect();
    let mut few: Vec<Stream> = (0..5).map(|_| open(server, loopback(3)).unwrap()).collect();
    let begin = Instant::now();
    let _newcomer = open(server, loopback(4)).expect("there is room for somebody new");
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(many[0].closed_within(LIMIT), "the longest idle of the client with most");
    assert_eq!(closed(&gateway, "crowded"), 1.0);
    assert!(many[1..].iter_mut().all(is_served) && few.iter_mut().all(is_served));
    // Where all have something under way, who comes late is refused.
    let gateway = start();
    let server = gateway.address();
    let busy: Vec<Stream> = (0..20)
        .map(|_| {
            let mut stream = Stream::open(server, Some(loopback(2))).unwrap();
            stream.send(&Query::from("x.never.test A"));
            stream
        })
        .collect();
    until(LIMIT, || {
        (gateway.metrics("metrics")["causeway_connections_open"] == 20.0).then_some(())
    })
    .expect("twenty are open");
    std::thread::sleep(Duration::from_millis(200));
    let mut late = Stream::open(server, Some(loopback(4))).unwrap();
    assert!(late.closed_within(Duration::from_millis(800)));
    assert_eq!(refused(&gateway, "total"), 1.0);
    assert!(Query::from("a.test A").ask(server).is_some(), "UDP goes on");
    drop(busy);
}

#[test]
fn slow_02_tcp_12_connections_leave_descriptors_for_upstreams() {
    let upstream = Scripted::start(|query, _| {
        Some(scripted::reply(query, &[&format!("{} 60 A 203.0.113.1", query.queries[0].name())]))
    });
    let (folder, port) = (Folder::new("few"), free_port());
    let text = format!(
        ".:{port} {{\n bind 127.0.0.1\n forward . {}\n timeouts {{\n idle 1m\n }}\n}}\n",
        upstream.address()
    );
    let corefile = folder.write("Corefile", text);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 160 && exec \"$0\" -conf \"$1\" -set worker_threads=2"])
        .arg(binary())
        .arg(corefile)
        .env_remove("CAUSEWAY_BIN");
    let process = Process::start("gateway", command);
    let line = process.line("limits.tcp_connections is 10000", LIMIT);
    assert!(line.contains("160 files open: 80 connections"), "{line}");
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    until(LIMIT, || Query::from("a.test A").ask(server)).expect("it serves");
    let idle: Vec<_> = (0..200).map(|_| Stream::open(server, None).unwrap()).collect();
    for number in 0..20 {
        let name = format!("n{number}.test A");
        assert_eq!(Query::from(&*name).ask(server).unwrap().rcode(), ResponseCode::NoError);
        let tcp = Query::from(&*name).tcp().from_address(loopback(5)).ask(server).unwrap();
        assert_eq!(tcp.rcode(), ResponseCode::NoError, "{}", process.output());
    }
    assert!(!process.output().contains("Too many open files"), "{}", process.output());
    drop(idle);
}

#[test]
fn tcp_06_connections_of_a_listener_and_of_its_clients_are_bounded() {
    let lines =
        "limits {\n connections 6\n connections_per_client 4\n }\n timeouts {\n idle 1m\n }";
    let gateway = Gateway::new(&plain(lines)).start();
    let server = gateway.address();
    let mut kept: Vec<Stream> = (0..4).map(|_| open(server, loopback(2)).unwrap()).collect();
    assert!(Stream::open(server, Some(loopback(2))).unwrap().closed_within(Duration::from_secs(2)));
    assert_eq!(refused(&gateway, "listener_client"), 1.0);
    kept.extend((0..2).map(|_| open(server, loopback(3)).unwrap()));
    assert!(Stream::open(server, Some(loopback(4))).unwrap().closed_within(Duration::from_secs(2)));
    assert_eq!(refused(&gateway, "listener"), 1.0);
    assert!(kept.iter_mut().all(is_served), "who is in is not concerned");
    kept.pop();
    let again = until(LIMIT, || open(server, loopback(4)));
    assert!(again.is_some(), "and who comes when there is room");
}

#[test]
fn tls_04_limits_refuse_before_the_handshake_costs_anything() {
    let pki = Pki::new();
    let pair = pki.server("server", &["127.0.0.1"]);
    let lines = format!("tls {pair}\n limits {{\n connections 2\n }}");
    let gateway = Gateway::new(&plain(&lines).replace(".:@PORT@", "tls://.:@PORT@")).start();
    let client = Client::new(pki.ca());
    let kept: Vec<_> = (0..2).map(|_| client.connect(gateway.address()).unwrap()).collect();
    for _ in 0..50 {
        let mut stream = Stream::open(gateway.address(), None).unwrap();
        assert!(stream.closed_within(Duration::from_secs(2)), "without a word of TLS");
    }
    assert_eq!(refused(&gateway, "listener"), 50.0);
    assert_eq!(closed(&gateway, "handshake") + closed(&gateway, "handshake_timeout"), 0.0);
    drop(kept);
}

#[test]
fn udp_03_udp_04_who_asks_too_fast_over_udp_is_sent_to_tcp_by_short_replies() {
    let gateway = Gateway::new(&plain("limits {\n queries_per_client 5 10\n }")).start();
    let server = gateway.address();
    let socket = UdpSocket::bind((loopback(2), 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let query = Query::from("a.test A").bufsize(1232).encode();
    for _ in 0..110 {
        socket.send_to(&query, server).unwrap();
    }
    let (mut whole, mut short) = (0, 0);
    let mut buffer = [0; 2048];
    while let Ok(length) = socket.recv(&mut buffer) {
        if buffer[2] & 2 == 0 {
            whole += 1;
        } else {
            short += 1;
            assert!(length <= query.len(), "{length} octets for {}", query.len());
            assert_eq!(
                (buffer[0..2].to_vec(), &buffer[4..12]),
                (query[0..2].to_vec(), &[0, 1, 0, 0, 0, 0, 0, 0][..])
            );
        }
    }
    assert!((10..=14).contains(&whole), "{whole} whole answers");
    assert!((40..=52).contains(&short), "{short} short ones");
    let (dropped, truncated) = (limited(&gateway, "dropped"), limited(&gateway, "truncated"));
    assert_eq!((truncated, dropped + truncated), (f64::from(short), f64::from(110 - whole)));
    let other = Query::from("a.test A").from_address(loopback(3)).ask(server);
    assert!(other.is_some_and(|reply| !reply.flags().contains("tc")), "others are not concerned");
    // What does not look like a query gets nothing, however often it comes.
    for _ in 0..20 {
        let mut reply = query.clone();
        reply[2] |= 0x80;
        socket.send_to(&reply, server).unwrap();
    }
    assert!(socket.recv(&mut buffer).is_err(), "a reply for a reply would be a loop");
    let over_tcp = Query::from("a.test A").tcp().from_address(loopback(2)).ask(server);
    let reply = over_tcp.expect("TCP is slowed down, and not refused");
    assert_eq!((reply.rcode(), reply.flags().contains("tc")), (ResponseCode::NoError, false));
}

#[test]
fn who_asks_too_fast_over_tcp_is_slowed_down_and_loses_nothing() {
    let gateway = Gateway::new(&plain("limits {\n queries_per_client 20 10\n }")).start();
    let mut stream = Stream::open(gateway.address(), Some(loopback(2))).unwrap();
    let begin = Instant::now();
    for number in 0..40 {
        stream.send(&Query::from(&*format!("n{number}.test A")));
    }
    for number in 0..40 {
        let reply = stream.receive(LIMIT).unwrap();
        assert_eq!(reply.message.queries[0].name().to_string(), format!("n{number}.test."));
    }
    let took = begin.elapsed().as_millis();
    assert!((1300..4000).contains(&took), "30 at 20 a second: {took} ms");
    assert!(limited(&gateway, "delayed") >= 1.0);
}

#[test]
fn https_max_connections_who_is_too_many_waits() {
    let corefile = "https://.:@PORT@ {\n bind 127.0.0.1\n https {\n max_connections 2\n }\n prometheus 127.0.0.1:@PORT:metrics@\n whoami\n}\n";
    let gateway = Gateway::new(corefile).start();
    let query =
        "GET /dns-query?dns=AAABAAABAAAAAAAAAWEEdGVzdAAAAQAB HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let connect = || {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(query.as_bytes()).unwrap();
        stream
    };
    let answered = |stream: &mut TcpStream, limit: Duration| {
        stream.set_read_timeout(Some(limit)).unwrap();
        stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0)
    };
    let mut kept: Vec<_> = (0..2).map(|_| connect()).collect();
    assert!(kept.iter_mut().all(|stream| answered(stream, LIMIT)));
    let mut waiting: Vec<_> = (0..3).map(|_| connect()).collect();
    assert!(!answered(&mut waiting[0], Duration::from_millis(700)), "it waits, and is not refused");
    kept.clear();
    assert!(
        until(LIMIT, || {
            let served =
                waiting.iter_mut().position(|stream| answered(stream, Duration::from_millis(50)));
            if let Some(at) = served {
                drop(waiting.remove(at));
            }
            waiting.is_empty().then_some(())
        })
        .is_some()
    );
    // Those that say nothing count as well: there is room from when a connection is taken, before TLS.
    let silent: Vec<_> = (0..2).map(|_| TcpStream::connect(gateway.address()).unwrap()).collect();
    let open = || gateway.metrics("metrics")["causeway_connections_open"];
    until(LIMIT, || (open() == 2.0).then_some(())).expect("both are taken");
    let mut third = connect();
    assert!(!answered(&mut third, Duration::from_millis(700)), "it waits for a silent one");
    drop(silent);
    assert!(answered(&mut third, LIMIT));
}

#[test]
fn keep_02_tcp_12_a_listener_that_a_reload_takes_away_is_drained() {
    let upstream = Scripted::start(|query, _| {
        std::thread::sleep(Duration::from_secs(1));
        Some(scripted::reply(query, &[&format!("{} 60 A 203.0.113.1", query.queries[0].name())]))
    });
    let block = |port: &str| {
        format!(".:@PORT{port}@ {{\n bind 127.0.0.1\n forward . {}\n}}\n", upstream.address())
    };
    let mut gateway = Gateway::new(&format!("{}{}", block(""), block(":second"))).start();
    let second = gateway.address_of("second");
    let mut stream = Stream::open(second, None).unwrap();
    stream.send(&Query::from("a.test A").bufsize(1232).option(11, &[]));
    std::thread::sleep(Duration::from_millis(200));
    gateway.write("Corefile", &block(""));
    gateway.reload();
    gateway.line("Reloading complete");
    let reply = stream.receive(LIMIT).unwrap();
    assert_eq!((reply.addresses().len(), reply.option(11)), (1, Some(vec![0, 0])));
    assert!(stream.closed_within(LIMIT));
    assert!(TcpStream::connect(second).is_err());
}

#[test]
fn tcp_09_a_hundred_thousand_queries_at_once_are_answered_in_bounded_memory() {
    let pki = Pki::new();
    let pair = pki.server("server", &["127.0.0.1"]);
    let corefile = format!(
        "tls://.:@PORT@ dns://.:@PORT:plain@ {{\n bind 127.0.0.1\n tls {pair}\n whoami\n}}\n"
    );
    let gateway = Gateway::new(&corefile).start();
    let before = gateway.resident();
    let message = Query::from("a.test A").encode();
    let framed = [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat();
    // TCP: one thread writes and another reads.
    let mut writer = TcpStream::connect(gateway.address_of("plain")).unwrap();
    let mut reader = writer.try_clone().unwrap();
    reader.set_read_timeout(Some(3 * LIMIT)).unwrap();
    let all = framed.repeat(1000);
    let sending = std::thread::spawn(move || (0..100).all(|_| writer.write_all(&all).is_ok()));
    let mut length = [0; 2];
    let mut reply = vec![0; 4096];
    for number in 0..100_000 {
        reader.read_exact(&mut length).unwrap_or_else(|e| panic!("reply {number}: {e}"));
        reader.read_exact(&mut reply[..usize::from(u16::from_be_bytes(length))]).unwrap();
    }
    assert!(sending.join().unwrap());
    // TLS: a thousand at a time.
    let mut connection = Client::new(pki.ca()).connect(gateway.address()).unwrap();
    for _ in 0..100 {
        connection.send_raw(&framed.repeat(1000));
        for number in 0..1000 {
            assert!(connection.receive().is_some(), "reply {number}");
        }
    }
    assert!(
        gateway.resident() < before + (16 << 20),
        "{} KB more",
        (gateway.resident() - before) >> 10
    );
    connection.finish();
    assert_eq!(connection.end_within(LIMIT), End::Notified);
}

#[test]
fn udp_04_queries_that_wait_are_bounded_in_all_and_by_client() {
    let upstream = Scripted::start(|query, _| {
        let name = scripted::asked(query);
        let answer = format!("{} 60 A 203.0.113.1", query.queries[0].name());
        (!name.ends_with("never.test")).then(|| scripted::reply(query, &[&answer]))
    });
    let lines = format!("forward . {}", upstream.address());
    let gateway = Gateway::new(&plain(&lines))
        .argument("-set")
        .argument("limits.udp_waiting=20")
        .argument("-set")
        .argument("worker_threads=1")
        .start();
    let socket = UdpSocket::bind((loopback(2), 0)).unwrap();
    for number in 0..60 {
        let query = Query::from(&*format!("n{number}.never.test A")).encode();
        socket.send_to(&query, gateway.address()).unwrap();
    }
    let dropped = || gateway.metrics("metrics")["causeway_udp_queries_dropped_total"];
    until(LIMIT, || (dropped() == 50.0).then_some(())).expect("ten of a client wait");
    let other = Query::from("a.test A").from_address(loopback(3)).ask(gateway.address());
    assert!(other.is_some_and(|reply| reply.addresses().len() == 1), "others are served");
}
