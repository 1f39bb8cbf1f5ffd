//! DNS over TLS (RFC 7858) and TLS itself. The names of tests begin with the IDs of the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use rustix::process::Signal;
use rustls::{HandshakeKind, NamedGroup, ProtocolVersion};
use tests::client::Stream;
use tests::pki::{Leaf, Pair};
use tests::tls::{Client, Connection, End};
use tests::{Gateway, Pki, Query, Scripted, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// EDNS options.
const PADDING: u16 = 12;
const KEEPALIVE: u16 = 11;

/// A gateway with what its certificate comes from.
struct Place {
    pki: Pki,
    gateway: Gateway,
    _upstream: Scripted,
}

impl Place {
    /// A gateway with more lines in the block of its `tls` key, and plain DNS beside it. `fixed.test` is answered at once,
    /// `slow.test` after a second, `never.test` never; TXT records are many.
    fn new(lines: &str) -> Self {
        let pki = Pki::new();
        let pair = pki.server("server", &["dns.example.org", "127.0.0.1"]);
        Self::with(pki, &pair, lines)
    }

    /// The same with a certificate of another kind.
    fn with(pki: Pki, pair: &Pair, lines: &str) -> Self {
        let upstream = Scripted::moody(16);
        let corefile = format!(
            "tls://.:@PORT@ dns://.:@PORT:plain@ {{\n bind 127.0.0.1\n tls {pair}\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n \
             template IN A fixed.test {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n \
             forward . {}\n}}\n",
            upstream.address()
        );
        Self { gateway: Gateway::new(&corefile).start(), pki, _upstream: upstream }
    }

    /// The address of DNS over TLS.
    fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// A client of it.
    fn client(&self) -> Client {
        Client::new(self.pki.ca())
    }

    /// A connection of a new client.
    fn connect(&self) -> Connection {
        self.client().connect(self.address()).unwrap()
    }

    /// A counter of connections that were closed.
    fn closed(&self, reason: &str) -> f64 {
        let key = format!("causeway_connections_closed_total{{reason=\"{reason}\"}}");
        *self.gateway.metrics("metrics").get(&key).unwrap_or_else(|| panic!("no {key}"))
    }

    /// Asks whether somebody who has done nothing wrong is still served.
    fn is_well(&self) {
        let mut connection = self.connect();
        connection.send(&Query::from("fixed.test"));
        assert_eq!(connection.receive().unwrap().rcode(), ResponseCode::NoError);
    }
}

/// A query with EDNS.
fn edns(name: &str) -> Query {
    Query::from(name).bufsize(1232)
}

#[test]
fn dot_01_there_is_no_clear_text_on_one_port_and_no_tls_on_the_other() {
    let place = Place::new("");
    let mut plain = TcpStream::connect(place.address()).unwrap();
    plain.set_read_timeout(Some(LIMIT)).unwrap();
    let message = Query::from("fixed.test").encode();
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    plain.write_all(&[&length[..], &message].concat()).unwrap();
    let mut got = Vec::new();
    // A reset may follow the alert.
    drop(plain.read_to_end(&mut got));
    assert!(got.is_empty() || got[0] == 21, "an alert or nothing: {got:02x?}");
    // The client may see the end before it is counted.
    until(LIMIT, || (place.closed("handshake") > 0.0).then_some(())).expect("a failed handshake");
    let wrong = place.client().connect(place.gateway.address_of("plain"));
    assert!(wrong.is_err(), "plain DNS takes no hello");
    place.is_well();
}

#[test]
fn dot_02_tls_10_the_protocol_is_dot_or_not_stated() {
    let place = Place::new("");
    for (offered, agreed) in
        [(&["dot"][..], Some("dot")), (&["h2", "dot"], Some("dot")), (&[], None)]
    {
        let mut connection = place.client().offering(offered).connect(place.address()).unwrap();
        assert_eq!(connection.session.alpn_protocol(), agreed.map(str::as_bytes), "{offered:?}");
        connection.send(&Query::from("fixed.test"));
        assert!(connection.receive().is_some(), "{offered:?}");
    }
    for offered in [&["h2"][..], &["foo"], &["doq", "http/1.1"]] {
        let wrong = place.client().offering(offered).connect(place.address()).unwrap_err();
        assert!(wrong.to_string().contains("NoApplicationProtocol"), "{offered:?}: {wrong}");
    }
}

#[test]
fn dot_03_tcp_02_03_11_pipelined_queries_in_any_pieces() {
    let place = Place::new("");
    let mut connection = place.connect();
    let queries: Vec<Query> = (0..50).map(|n| Query::from(&*format!("n{n}.fixed.test"))).collect();
    connection.send_all(&queries);
    for _ in 0..50 {
        assert_eq!(connection.receive().unwrap().rcode(), ResponseCode::NoError);
    }
    assert_eq!(connection.records, 50, "each has a record of its own, as some clients need it");
    // An octet a record.
    let message = queries[0].encode();
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    for octet in length.iter().chain(&message) {
        connection.send_raw(&[*octet]);
    }
    assert!(connection.receive().is_some());
    // A message over several records, and the rest of one with the next one behind it.
    let two = [&length[..], &message, &length, &message].concat();
    connection.send_raw(&two[..20]);
    connection.send_raw(&two[20..message.len() + 3]);
    connection.send_raw(&two[message.len() + 3..]);
    assert!(connection.receive().is_some() && connection.receive().is_some());
    // Two names under one ID.
    let same = |name: &str| Query::from(name).with(|message| message.metadata.id = 77);
    connection.send_all(&[same("a.fixed.test"), same("b.fixed.test")]);
    let names: Vec<String> = (0..2)
        .map(|_| connection.receive().unwrap().message.queries[0].name().to_string())
        .collect();
    assert_eq!(names, ["a.fixed.test.", "b.fixed.test."]);
}

#[test]
fn dot_03_tcp_02_07_answers_come_out_of_order_and_survive_a_half_close() {
    let place = Place::new("");
    let mut connection = place.connect();
    let begin = Instant::now();
    connection.send_all(&[Query::from("slow.test"), Query::from("fixed.test")]);
    connection.finish();
    let first = connection.receive().unwrap();
    assert_eq!(first.message.queries[0].name().to_string(), "fixed.test.");
    assert!(begin.elapsed() < Duration::from_millis(900));
    let second = connection.receive().unwrap();
    assert_eq!(second.message.queries[0].name().to_string(), "slow.test.");
    assert_eq!(connection.end_within(LIMIT), End::Notified);
    // TCP's end alone, as of clients that say nothing in TLS.
    let mut connection = place.connect();
    connection.send(&Query::from("slow.test"));
    connection.tcp.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(connection.receive().is_some());
}

#[test]
fn dot_03_tcp_05_slow_01_a_drip_of_octets_keeps_nothing_open() {
    let place = Place::new("timeouts {\n read 1s\n idle 2s\n }");
    // Before the first query, and after one.
    for after_one in [false, true] {
        let mut connection = place.connect();
        if after_one {
            connection.send(&Query::from("fixed.test"));
            assert!(connection.receive().is_some());
        }
        let begin = Instant::now();
        connection.send_raw(&[0, 200]);
        let mut end = End::Open;
        while end == End::Open && begin.elapsed() < Duration::from_secs(6) {
            connection.send_raw(&[0]);
            end = connection.end_within(Duration::from_millis(200));
        }
        let (least, most) = if after_one { (1800, 3500) } else { (800, 2500) };
        let took = begin.elapsed();
        assert!((least..most).contains(&took.as_millis()), "{after_one}: {end:?} after {took:?}");
        assert_eq!(end, End::Notified);
    }
    assert_eq!(place.closed("idle"), 2.0);
    place.is_well();
}

#[test]
fn dot_03_tcp_08_who_is_gone_leaves_nothing_behind() {
    let place = Place::new("");
    let open = || place.gateway.metrics("metrics")["causeway_connections_open"];
    assert_eq!(open(), 0.0);
    let mut connection = place.connect();
    connection.send_all(&vec![Query::from("never.test"); 100]);
    until(LIMIT, || (open() == 1.0).then_some(())).unwrap();
    // With something unread, the close is a reset.
    connection.send(&Query::from("fixed.test"));
    std::thread::sleep(Duration::from_millis(200));
    drop(connection);
    until(LIMIT, || (open() == 0.0).then_some(())).expect("the connection is given up");
    place.is_well();
}

#[test]
fn dot_03_tcp_09_a_client_that_never_reads_costs_no_memory_and_is_cut_off() {
    let place = Place::new("timeouts {\n write 1s\n }");
    let before = place.gateway.resident();
    let mut connection = place.connect();
    let queries = vec![Query::from("fixed.test"); 200];
    connection.tcp.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let begin = Instant::now();
    // 100,000 queries, or as many as are taken.
    for _ in 0..500 {
        connection.send_all(&queries);
        if place.closed("write") > 0.0 {
            break;
        }
    }
    until(LIMIT, || (place.closed("write") > 0.0).then_some(())).expect("it is cut off");
    assert!(begin.elapsed() < 2 * LIMIT);
    assert!(place.gateway.resident() < before + (16 << 20), "memory is bounded");
    place.is_well();
}

#[test]
fn dot_03_tcp_10_what_is_no_dns_ends_the_connection() {
    let place = Place::new("");
    for (count, octets) in
        [&[0u8, 0][..], &[0, 3, 1, 2, 3], &[0, 11, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0]]
            .iter()
            .enumerate()
    {
        let mut connection = place.connect();
        connection.send_raw(octets);
        assert_eq!(connection.end_within(LIMIT), End::Notified, "{octets:?}");
        assert_eq!(place.closed("garbage"), (count + 1) as f64);
    }
    // Octets that are no record, inside of a session.
    let mut connection = place.connect();
    connection.send(&Query::from("fixed.test"));
    assert!(connection.receive().is_some());
    connection.tcp.write_all(&[0x55; 300]).unwrap();
    assert!(matches!(connection.end_within(LIMIT), End::Broken | End::Cut));
    until(LIMIT, || (place.closed("garbage") == 4.0).then_some(())).unwrap();
    // And a record that nobody can decrypt.
    let mut connection = place.connect();
    connection.send(&Query::from("fixed.test"));
    assert!(connection.receive().is_some());
    connection.tcp.write_all(&[&[23, 3, 3, 0, 100][..], &[7; 100]].concat()).unwrap();
    assert!(matches!(connection.end_within(LIMIT), End::Broken | End::Cut));
    until(LIMIT, || (place.closed("garbage") == 5.0).then_some(())).unwrap();
    place.is_well();
}

#[test]
fn dot_03_edns_09_the_size_that_a_client_offers_binds_udp_alone() {
    let place = Place::new("");
    let mut connection = place.connect();
    connection.send(&Query::from("large.test TXT").bufsize(512));
    let reply = connection.receive().unwrap();
    assert!(!reply.flags().contains("tc") && reply.answers().len() == 16, "{reply:?}");
}

#[test]
fn dot_05_sessions_are_resumed_and_the_end_is_told() {
    let place = Place::new("timeouts {\n idle 1s\n }");
    let client = place.client();
    let mut first = client.connect(place.address()).unwrap();
    first.send(&Query::from("fixed.test"));
    assert!(first.receive().is_some());
    assert_eq!(first.session.handshake_kind(), Some(HandshakeKind::Full));
    assert_eq!(first.end_within(Duration::from_secs(3)), End::Notified);
    let second = client.connect(place.address()).unwrap();
    assert_eq!(second.session.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn dot_05_nobody_renegotiates() {
    let place = Place::new("");
    let mut openssl = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-quiet", "-no_ign_eof", "-connect"])
        .arg(place.address().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A line with a single R has s_client ask for a new handshake.
    let mut input = openssl.stdin.take().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    input.write_all(b"R\n").unwrap();
    let ended = until(LIMIT, || openssl.try_wait().unwrap());
    if ended.is_none() {
        openssl.kill().unwrap();
    }
    let mut said = String::new();
    openssl.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("renegotiation") || said.contains("alert"), "{said}");
    place.is_well();
}

#[test]
fn tls_01_versions_from_1_2_on() {
    let place = Place::new("");
    let old = Client::old(place.pki.ca()).connect(place.address()).unwrap();
    assert_eq!(old.session.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    let new = place.connect();
    assert_eq!(new.session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
}

#[test]
fn tls_02_there_is_no_early_data() {
    let place = Place::new("");
    let client = place.client().early();
    let mut first = client.connect(place.address()).unwrap();
    first.send(&Query::from("fixed.test"));
    assert!(first.receive().is_some());
    let mut second = client.begin(place.address()).unwrap();
    assert!(second.session.early_data().is_none(), "the ticket allows none");
    second.shake().unwrap();
    assert!(!second.session.is_early_data_accepted());
}

#[test]
fn tls_04_slow_01_a_handshake_has_its_time_whatever_drips() {
    let place = Place::new("limits {\n handshake 1s\n }");
    // Nothing at all, the beginning of a record, and a hello octet by octet.
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0; 53]].concat();
    for octets in [&[][..], &hello[..7], &hello] {
        let mut tcp = TcpStream::connect(place.address()).unwrap();
        tcp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let begin = Instant::now();
        let mut left = octets.iter();
        let mut ended = false;
        while !ended && begin.elapsed() < Duration::from_secs(5) {
            if let Some(octet) = left.next() {
                drop(tcp.write_all(&[*octet]));
            }
            ended = match tcp.read(&mut [0; 64]) {
                Ok(read) => read == 0,
                Err(e) => !matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ),
            };
        }
        assert!(ended && begin.elapsed() < Duration::from_secs(3), "{octets:?}");
    }
    // The client may see the end before it is counted.
    until(LIMIT, || (place.closed("handshake_timeout") == 3.0).then_some(())).expect("three");
    place.is_well();
}

#[test]
fn tls_04_a_hello_may_have_post_quantum_keys_and_be_cut_and_has_an_end() {
    let place = Place::new("");
    let client = Client::post_quantum(place.pki.ca());
    let mut connection = client.connect(place.address()).unwrap();
    let group = connection.session.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), NamedGroup::X25519MLKEM768);
    connection.send(&Query::from("fixed.test"));
    assert!(connection.receive().is_some());
    // The same hello in two records and three segments.
    let mut cut = client.begin(place.address()).unwrap();
    let mut hello = Vec::new();
    cut.session.write_tls(&mut hello).unwrap();
    assert!(hello.len() > 1200, "{}", hello.len());
    let (first, second) = hello[5..].split_at(700);
    for part in [first, second] {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        cut.tcp.write_all(&[&[22, 3, 1][..], &length].concat()).unwrap();
        cut.tcp.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    cut.shake().unwrap();
    cut.send(&Query::from("fixed.test"));
    assert!(cut.receive().is_some());
    // One that says it has 60,000 octets, and sends them.
    let mut tcp = TcpStream::connect(place.address()).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    tcp.write_all(&[22, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60]).unwrap();
    for _ in 0..4 {
        drop(tcp.write_all(&[0; (16 << 10) - 4]));
        drop(tcp.write_all(&[22, 3, 3, 0x3f, 0xfc]));
    }
    let mut got = Vec::new();
    let end = tcp.read_to_end(&mut got);
    let open = end.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!open, "it is closed before its time");
    until(LIMIT, || (place.closed("handshake") == 1.0).then_some(())).expect("a failed handshake");
    place.is_well();
}

#[test]
fn tls_04_handshakes_under_way_are_bounded_by_client() {
    let place = Place::new("");
    let refused = || {
        let metrics = place.gateway.metrics("metrics");
        metrics["causeway_connections_refused_total{reason=\"handshakes_client\"}"]
    };
    let silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(place.address()).unwrap()).collect();
    until(LIMIT, || (refused() == 50.0).then_some(())).expect("250 of a client begin");
    // Others are not concerned.
    let mut other =
        place.client().from_address([127, 0, 0, 9].into()).connect(place.address()).unwrap();
    other.send(&Query::from("fixed.test"));
    assert!(other.receive().is_some());
    until(LIMIT, || (place.closed("handshake_timeout") == 250.0).then_some(())).unwrap();
    drop(silent);
    place.is_well();
}

#[test]
fn tls_05_names_that_nobody_has_and_none_at_all_get_the_certificate() {
    let pki = Pki::new();
    let pair = pki.server("server", &["dns.example.org", "elsewhere.example.org", "127.0.0.1"]);
    let place = Place::with(pki, &pair, "");
    for client in [place.client(), place.client().named("elsewhere.example.org")] {
        let mut connection = client.connect(place.address()).unwrap();
        connection.send(&Query::from("fixed.test"));
        assert!(connection.receive().is_some());
    }
}

#[test]
fn tls_06_a_new_certificate_is_for_new_connections() {
    let place = Place::new("");
    let mut old = place.connect();
    let leaf =
        |connection: &Connection| connection.session.peer_certificates().unwrap()[0].to_vec();
    let first = leaf(&old);
    place.pki.server("server", &["dns.example.org", "127.0.0.1"]);
    until(LIMIT, || (leaf(&place.connect()) != first).then_some(())).expect("it is taken up");
    old.send(&Query::from("fixed.test"));
    assert!(old.receive().is_some(), "the old connection lives on");
}

#[test]
fn tls_07_who_has_to_show_a_certificate_and_has_none_gets_an_alert() {
    let pki = Pki::new();
    let ca = pki.ca().display().to_string();
    let lines = format!("client_auth require_and_verify\n client_ca {ca}");
    let pair = pki.server("server", &["127.0.0.1"]);
    let corefile =
        format!("tls://.:@PORT@ {{\n bind 127.0.0.1\n tls {pair} {{\n {lines}\n }}\n whoami\n}}\n");
    let gateway = Gateway::new(&corefile).start();
    let known = pki.issue("client", Leaf::client("laptop", &["laptop.example.org"]));
    let late = pki.issue("late", Leaf::client("late", &[]).expired());
    let server = pki.issue("wrong", Leaf::server(&["laptop.example.org"]));
    let strangers = Pki::new();
    let other = strangers.issue("client", Leaf::client("laptop", &[]));
    let mut connection = Client::known(pki.ca(), &known).connect(gateway.address()).unwrap();
    connection.send(&Query::from("fixed.test"));
    assert!(connection.receive().is_some());
    for (client, what) in [
        (Client::new(pki.ca()), "none"),
        (Client::known(pki.ca(), &late), "expired"),
        (Client::known(pki.ca(), &server), "a server's"),
        (Client::known(pki.ca(), &other), "of another authority"),
    ] {
        // For the client the handshake is over before the server has seen the certificate.
        let mut connection = client.connect(gateway.address()).unwrap();
        assert_eq!(connection.end_within(LIMIT), End::Broken, "{what}");
        let alert = connection.session.process_new_packets();
        assert!(matches!(alert, Err(rustls::Error::AlertReceived(_))), "{what}: {alert:?}");
    }
}

#[test]
fn keep_02_keep_03_the_time_that_is_told_is_the_time_in_force() {
    let place = Place::new("timeouts {\n idle 2s\n }");
    let mut connection = place.connect();
    connection.send(&edns("fixed.test").option(KEEPALIVE, &[]));
    assert_eq!(connection.receive().unwrap().option(KEEPALIVE), Some(vec![0, 20]));
    let begin = Instant::now();
    assert_eq!(connection.end_within(LIMIT), End::Notified);
    let took = begin.elapsed().as_millis();
    assert!((1800..3000).contains(&took), "{took} ms");
    // Who does not ask is not told, and nobody's own value comes back.
    let mut connection = place.connect();
    connection.send_all(&[edns("fixed.test"), edns("fixed.test").option(KEEPALIVE, &[0, 100])]);
    assert_eq!(connection.receive().unwrap().option(KEEPALIVE), None);
    assert_eq!(connection.receive().unwrap().option(KEEPALIVE), Some(vec![0, 20]));
}

#[test]
fn keep_02_tcp_12_a_gateway_that_ends_answers_what_it_has_and_asks_to_go() {
    let place = Place::new("");
    let (mut busy, mut idle) = (place.connect(), place.connect());
    idle.send(&Query::from("fixed.test"));
    assert!(idle.receive().is_some());
    busy.send(&edns("slow.test").option(KEEPALIVE, &[]));
    std::thread::sleep(Duration::from_millis(300));
    place.gateway.signal(Signal::TERM);
    assert_eq!(
        idle.end_within(Duration::from_millis(600)),
        End::Notified,
        "the idle one ends at once"
    );
    std::thread::sleep(Duration::from_millis(100));
    busy.send(&Query::from("fixed.test"));
    let reply = busy.receive().unwrap();
    assert_eq!(reply.message.queries[0].name().to_string(), "slow.test.", "no new ones are taken");
    assert_eq!(reply.option(KEEPALIVE), Some(vec![0, 0]));
    assert_eq!(busy.end_within(LIMIT), End::Notified);
    assert!(TcpStream::connect(place.address()).is_err());
}

#[test]
fn pad_01_02_03_replies_are_padded_where_the_query_is_and_the_channel_hides_it() {
    let place = Place::new("");
    let mut connection = place.connect();
    for (name, least) in [("fixed.test", 468), ("large.test TXT", 468 * 9)] {
        connection.send(&edns(name).option(PADDING, &[0; 20]));
        let reply = connection.receive().unwrap();
        assert_eq!(reply.bytes.len() % 468, 0, "{name}: {} octets", reply.bytes.len());
        assert!(reply.bytes.len() >= least);
        let padding = reply.option(PADDING).expect("the option is there");
        assert!(padding.iter().all(|octet| *octet == 0));
    }
    // PAD-03: not in clear text, not without EDNS, not if nobody asks.
    connection.send_all(&[edns("fixed.test"), Query::from("fixed.test")]);
    assert_eq!(connection.receive().unwrap().option(PADDING), None);
    assert!(connection.receive().unwrap().message.edns.is_none());
    let plain = place.gateway.address_of("plain");
    for query in [edns("fixed.test"), edns("fixed.test").tcp()] {
        let reply = query.option(PADDING, &[0; 20]).ask(plain).unwrap();
        assert_eq!(reply.option(PADDING), None);
    }
}

#[test]
fn tls_without_a_certificate_is_clear_text_for_a_proxy_in_front() {
    let gateway = Gateway::new("tls://.:@PORT@ {\n whoami\n}\n").start();
    assert!(gateway.output().contains("clear text"), "{}", gateway.output());
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    stream.send(&edns("a.test A").option(PADDING, &[]));
    let reply = stream.receive(LIMIT).unwrap();
    assert_eq!((reply.rcode(), reply.option(PADDING)), (ResponseCode::NoError, None));
}
