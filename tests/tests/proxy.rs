//! The PROXY protocol from outside: whom answers, rules, limits and the log are about. The names of tests begin with the IDs of
//! the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::client::Stream;
use tests::tls::{Client, End};
use tests::{Gateway, Pki, Query, Reply, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The client that headers speak of, and the address that it asked.
const CLIENT: &str = "203.0.113.9";
const ASKED: &str = "198.51.100.53";

/// A header of version 1.
fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} {ASKED} 4000 53\r\n").into_bytes()
}

/// A header of version 2, for a stream (1) or a datagram (2).
fn v2(client: &str, protocol: u8) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    let head = b"\r\n\r\n\0\r\nQUIT\n\x21";
    let ports = [0x0f, 0xa0, 0, 53];
    [&head[..], &[0x10 | protocol, 0, 12], &octets(client), &octets(ASKED), &ports].concat()
}

/// A header that speaks for the proxy itself.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A gateway with these lines in *proxyproto* and beside it.
fn gateway(proxyproto: &str, lines: &str) -> Gateway {
    Gateway::new(&format!(
        ".:@PORT@ {{\n bind 127.0.0.1\n proxyproto {{\n {proxyproto}\n }}\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n whoami\n}}\n"
    ))
    .start()
}

/// Asks over TCP behind these octets.
fn ask_tcp(gateway: &Gateway, before: &[u8], source: Option<IpAddr>) -> Option<Reply> {
    let mut stream = Stream::open(gateway.address(), source).unwrap();
    stream.send_raw(before);
    stream.send(&Query::from("a.test A"));
    stream.receive(Duration::from_secs(2))
}

/// Asks over UDP behind these octets.
fn ask_udp(gateway: &Gateway, before: &[u8], source: IpAddr) -> Option<Reply> {
    let socket = UdpSocket::bind((source, 0)).unwrap();
    ask_by(&socket, gateway, before)
}

/// The same by a socket.
fn ask_by(socket: &UdpSocket, gateway: &Gateway, before: &[u8]) -> Option<Reply> {
    socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let query = Query::from("a.test A").encode();
    socket.send_to(&[before, &query].concat(), gateway.address()).unwrap();
    let mut buffer = vec![0; 4096];
    let (length, from) = socket.recv_from(&mut buffer).ok()?;
    assert_eq!(from, gateway.address(), "PRX-03: the reply comes from where the query went");
    buffer.truncate(length);
    Some(Reply::decode(buffer, Duration::ZERO))
}

/// Whom *whoami* sees.
fn seen(reply: Option<Reply>) -> String {
    let reply = reply.expect("a reply");
    assert_eq!(reply.rcode(), ResponseCode::NoError);
    let records = reply.additionals().into_iter();
    let record = records.into_iter().find(|record| record.contains(" A ")).expect("an address");
    record.rsplit(' ').next().unwrap().to_owned()
}

/// A counter of the gateway.
fn count(gateway: &Gateway, key: &str) -> f64 {
    *gateway.metrics("metrics").get(key).unwrap_or_else(|| panic!("no {key}"))
}

/// A loopback address.
fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

#[test]
fn prx_01_headers_are_believed_of_those_that_are_named_and_of_nobody_else() {
    for (default, other_headed, other_bare) in [
        ("", Some("127.0.0.2"), Some("127.0.0.2")),
        ("default use", Some(CLIENT), Some("127.0.0.2")),
        ("default ignore", Some("127.0.0.2"), Some("127.0.0.2")),
        ("default reject", None, Some("127.0.0.2")),
        ("default reject\n require", None, None),
    ] {
        let gateway = gateway(&format!("allow 127.0.0.1/32\n {default}"), "");
        let own = |before: &[u8]| ask_tcp(&gateway, before, None);
        let other = |before: &[u8]| ask_tcp(&gateway, before, Some(loopback(2)));
        for header in [v1(CLIENT), v2(CLIENT, 1)] {
            assert_eq!(seen(own(&header)), CLIENT, "{default}");
            assert_eq!(other(&header).map(|r| seen(Some(r))).as_deref(), other_headed, "{default}");
        }
        assert_eq!(own(&[]).is_some(), !default.contains("require"), "{default}");
        assert_eq!(other(&[]).map(|r| seen(Some(r))).as_deref(), other_bare, "{default}");
        let header = v2(CLIENT, 2);
        assert_eq!(seen(ask_udp(&gateway, &header, loopback(1))), CLIENT, "{default}");
        let reply = ask_udp(&gateway, &header, loopback(2));
        assert_eq!(reply.map(|r| seen(Some(r))).as_deref(), other_headed, "{default} over UDP");
        let reply = ask_udp(&gateway, &[], loopback(2));
        assert_eq!(reply.map(|r| seen(Some(r))).as_deref(), other_bare, "{default} over UDP");
    }
    // Where nobody looks, a header is no DNS.
    let gateway = gateway("allow 127.0.0.1/32\n default skip", "");
    assert!(ask_tcp(&gateway, &v1(CLIENT), Some(loopback(2))).is_none());
    assert!(ask_tcp(&gateway, &[], Some(loopback(2))).is_some());
    assert_eq!(seen(ask_tcp(&gateway, &v1(CLIENT), None)), CLIENT);
}

#[test]
fn prx_01_without_allow_everybody_is_believed_and_the_operator_is_warned() {
    let gateway = gateway("", "");
    gateway.line("every client can claim to have any address");
    assert_eq!(seen(ask_tcp(&gateway, &v1(CLIENT), Some(loopback(7)))), CLIENT);
    assert_eq!(seen(ask_udp(&gateway, &v2(CLIENT, 2), loopback(7))), CLIENT);
    assert_eq!(seen(ask_tcp(&gateway, &[], Some(loopback(7)))), "127.0.0.7");
}

#[test]
fn prx_02_wrong_missing_and_slow_headers_end_the_connection() {
    let gateway = gateway("allow 127.0.0.0/8\n require", "");
    let closed = "causeway_connections_closed_total{reason=\"proxy\"}";
    let wrong: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 nobody nowhere 1 2\r\n",
        &[&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(),
        b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c............",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x02..",
    ];
    for (number, octets) in wrong.iter().enumerate() {
        let mut stream = Stream::open(gateway.address(), None).unwrap();
        stream.send_raw(octets);
        assert!(stream.closed_within(Duration::from_secs(2)), "{octets:?}");
        until(LIMIT, || (count(&gateway, closed) == (number + 1) as f64).then_some(())).unwrap();
    }
    // LOCAL: a health check of the proxy's own, which is seen as the proxy.
    assert_eq!(seen(ask_tcp(&gateway, LOCAL, None)), "127.0.0.1");
    assert_eq!(seen(ask_tcp(&gateway, b"PROXY UNKNOWN\r\n", None)), "127.0.0.1");
    assert_eq!(seen(ask_udp(&gateway, LOCAL, loopback(1))), "127.0.0.1");
    // In pieces it works, and the rest of a piece is not lost.
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    let query = Query::from("a.test A").encode();
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    let all = [&v2(CLIENT, 1)[..], &length, &query].concat();
    for part in all.chunks(5) {
        stream.send_raw(part);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(seen(stream.receive(LIMIT)), CLIENT);
    // The time is ten seconds from the beginning, whatever drips.
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let begin = Instant::now();
    let mut drip = v1(CLIENT).into_iter().take(35);
    let mut ended = false;
    while !ended && begin.elapsed() < Duration::from_secs(15) {
        drop(drip.next().map(|octet| stream.write_all(&[octet])));
        ended = stream.read(&mut [0; 16]).is_ok_and(|read| read == 0);
    }
    let took = begin.elapsed().as_secs_f64();
    assert!(ended && (9.0..12.0).contains(&took), "{took} s");
}

#[test]
fn prx_03_datagrams_with_wrong_headers_are_dropped_counted_and_told_once() {
    let gateway = gateway("allow 127.0.0.1/32\n default reject", "");
    let dropped = "causeway_proxy_datagrams_dropped_total";
    let cut = &v2(CLIENT, 2)[..20];
    for header in [&v1(CLIENT)[..], &v2(CLIENT, 1), b"\r\n\r\n\0\r\nQUIT\n\x31\x12\0\0"] {
        assert!(ask_udp(&gateway, header, loopback(1)).is_none(), "{header:?}");
    }
    let socket = UdpSocket::bind((loopback(1), 0)).unwrap();
    socket.send_to(cut, gateway.address()).unwrap();
    until(LIMIT, || (count(&gateway, dropped) == 4.0).then_some(())).unwrap();
    gateway.line("dropping invalid Proxy Protocol packet from 127.0.0.1:");
    // A flood of them fills no log and hurts nobody.
    for _ in 0..5000 {
        socket.send_to(cut, gateway.address()).unwrap();
    }
    assert_eq!(seen(ask_udp(&gateway, &v2(CLIENT, 2), loopback(1))), CLIENT);
    assert_eq!(gateway.output().matches("dropping invalid").count(), 1, "{}", gateway.output());
}

#[test]
fn prx_03_rules_limits_and_the_log_are_about_the_client_and_not_the_proxy() {
    let lines = "acl {\n  block net 203.0.113.66/32\n }\n log . \"{remote} asked {name} at {local}\"\n \
        limits {\n  connections_per_client 2\n  queries_per_client 1 20\n }";
    let gateway = gateway("allow 127.0.0.0/8", lines);
    for blocked in [
        ask_tcp(&gateway, &v1("203.0.113.66"), None),
        ask_tcp(&gateway, &v2("203.0.113.66", 1), None),
        ask_udp(&gateway, &v2("203.0.113.66", 2), loopback(1)),
    ] {
        assert_eq!(blocked.unwrap().rcode(), ResponseCode::Refused);
    }
    assert_eq!(seen(ask_udp(&gateway, &v2(CLIENT, 2), loopback(1))), CLIENT);
    gateway.line(&format!("{CLIENT} asked a.test. at {ASKED}"));
    // Two connections a client, though all are the proxy's.
    let open = |client: &str| {
        let mut stream = Stream::open(gateway.address(), None).unwrap();
        stream.send_raw(&v1(client));
        stream.send(&Query::from("a.test A"));
        let reply = stream.receive(Duration::from_secs(2));
        reply.map(|_| stream)
    };
    let kept = [open("203.0.113.1"), open("203.0.113.1"), open("203.0.113.2"), open("203.0.113.3")];
    assert!(kept.iter().all(Option::is_some));
    assert!(open("203.0.113.1").is_none(), "a third of one client");
    let refused = "causeway_connections_refused_total{reason=\"listener_client\"}";
    assert_eq!(count(&gateway, refused), 1.0);
    // Twenty queries a client, though all come from the proxy's socket.
    let answers = |client: &str| {
        let whole = |reply: &Reply| !reply.flags().contains("tc");
        let ask = || ask_udp(&gateway, &v2(client, 2), loopback(1));
        (0..24).filter(|_| ask().is_some_and(|reply| whole(&reply))).count()
    };
    let (one, other) = (answers("203.0.113.20"), answers("203.0.113.21"));
    assert!((20..23).contains(&one) && (20..23).contains(&other), "{one} {other}");
}

#[test]
fn proxyproto_udpsess_what_follows_a_header_belongs_to_its_client() {
    let gateway = gateway("allow 127.0.0.1/32\n udp_session_tracking 2s 2", "");
    let socket = || UdpSocket::bind((loopback(1), 0)).unwrap();
    let (one, two, three) = (socket(), socket(), socket());
    assert_eq!(seen(ask_by(&one, &gateway, &[])), "127.0.0.1");
    assert_eq!(seen(ask_by(&one, &gateway, &v2(CLIENT, 2))), CLIENT);
    assert_eq!(seen(ask_by(&one, &gateway, &[])), CLIENT);
    // A header alone has no answer, and counts.
    two.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    two.send_to(&v2("203.0.113.10", 2), gateway.address()).unwrap();
    assert!(two.recv(&mut [0; 512]).is_err());
    assert_eq!(seen(ask_by(&two, &gateway, &[])), "203.0.113.10");
    assert_eq!(seen(ask_by(&one, &gateway, &[])), CLIENT);
    // A third makes that be forgotten which was used longest ago.
    assert_eq!(seen(ask_by(&three, &gateway, &v2(CLIENT, 2))), CLIENT);
    assert_eq!(seen(ask_by(&two, &gateway, &[])), "127.0.0.1");
    assert_eq!(seen(ask_by(&one, &gateway, &[])), CLIENT);
    std::thread::sleep(Duration::from_millis(2300));
    assert_eq!(seen(ask_by(&one, &gateway, &[])), "127.0.0.1", "the time is over");
}

#[test]
fn prx_03_there_is_no_quic_behind_a_proxy() {
    let pki = Pki::new();
    let pair = pki.server("server", &["127.0.0.1"]);
    let corefile =
        format!("tls://.:@PORT@ quic://.:@PORT@ {{\n tls {pair}\n proxyproto\n whoami\n}}\n");
    let (status, output) = Gateway::new(&corefile).refused();
    assert!(!status.success());
    assert!(output.contains("QUIC is not served behind the PROXY protocol"), "{output}");
}

#[test]
fn prx_04_the_header_comes_before_tls() {
    let pki = Pki::new();
    let pair = pki.server("server", &["127.0.0.1"]);
    let corefile = format!(
        "tls://.:@PORT@ {{\n bind 127.0.0.1\n tls {pair}\n proxyproto {{\n allow 127.0.0.1/32\n require\n }}\n whoami\n}}\n"
    );
    let gateway = Gateway::new(&corefile).start();
    for header in [v1(CLIENT), v2(CLIENT, 1)] {
        let client = Client::new(pki.ca()).behind(&header);
        let mut connection = client.connect(gateway.address()).unwrap();
        connection.send(&Query::from("a.test A"));
        assert_eq!(seen(connection.receive()), CLIENT);
        // Inside of TLS it is no DNS.
        let mut connection = client.connect(gateway.address()).unwrap();
        connection.send_raw(&header);
        connection.send(&Query::from("a.test A"));
        assert_ne!(connection.end_within(LIMIT), End::Open);
    }
    assert!(Client::new(pki.ca()).connect(gateway.address()).is_err(), "no header, no handshake");
}

#[test]
fn prx_01_a_flood_of_connections_without_a_header_is_bounded() {
    let gateway = gateway("allow 127.0.0.1/32\n default reject\n require", "");
    let before = gateway.resident();
    // Of one that may not speak for others: 250 begin, the others are refused at once.
    let silent: Vec<_> =
        (0..400).map(|_| Stream::open(gateway.address(), Some(loopback(3))).unwrap()).collect();
    let refused = "causeway_connections_refused_total{reason=\"handshakes_client\"}";
    until(LIMIT, || (count(&gateway, refused) == 150.0).then_some(())).unwrap();
    assert_eq!(seen(ask_tcp(&gateway, &v1(CLIENT), None)), CLIENT, "the proxy is served");
    assert!(gateway.resident() < before + (16 << 20));
    drop(silent);
}

#[test]
fn kdig_speaks_through_a_proxy() {
    let gateway = gateway("allow 127.0.0.1/32", "");
    for transport in ["+notcp", "+tcp"] {
        let mut kdig = Command::new("kdig");
        kdig.args(["@127.0.0.1", "-p", &gateway.address().port().to_string(), transport]).args([
            &format!("+proxy={CLIENT}-{ASKED}#53"),
            "a.test",
            "A",
        ]);
        let output = String::from_utf8(kdig.output().unwrap().stdout).unwrap();
        assert!(output.contains(CLIENT), "{transport}: {output}");
    }
}
