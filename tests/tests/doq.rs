//! DNS over QUIC (RFC 9250). The names of tests begin with the IDs of the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::quic::{Client, End, closed, code, end, exchange, framed, query, send, soon};
use tests::{Gateway, Pki, Query, Scripted};

/// A message that a client may not send: `www.test A` with these first six octets.
fn message(head: [u8; 6]) -> Vec<u8> {
    let mut message = head.to_vec();
    message.extend_from_slice(b"\x00\x00\x00\x00\x00\x00\x03www\x04test\x00\x00\x01\x00\x01");
    message
}

/// A gateway with what its certificate comes from.
struct Place {
    pki: Pki,
    gateway: Gateway,
}

impl Place {
    /// A gateway with more lines in the block of its `quic` key; `slow.test` takes a second, `never.test` for ever.
    fn new(lines: &str) -> Self {
        let pki = Pki::new();
        let server = pki.server("server", &["dns.example.org", "127.0.0.1"]);
        let upstream = Scripted::moody(230);
        let corefile = format!(
            "quic://.:@PORT@ {{\n tls {server}\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n \
             template IN A fixed.test {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n \
             forward . {}\n}}\n",
            upstream.address()
        );
        Self { gateway: Gateway::new(&corefile).start(), pki }
    }

    /// A client of it.
    fn client(&self) -> Client {
        Client::new(self.pki.ca(), &["doq"])
    }

    /// A connection of a new client.
    async fn connect(&self) -> (Client, quinn::Connection) {
        let client = self.client();
        let connection = client.connect(self.address()).await.unwrap();
        (client, connection)
    }

    /// Its address.
    fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Its counter of streams with this status.
    fn count(&self, status: &str) -> f64 {
        let server = self.address();
        let key = format!(
            "coredns_dns_quic_responses_total{{server=\"quic://{server}\",status=\"{status}\"}}"
        );
        *self.gateway.metrics("metrics").get(&key).unwrap_or_else(|| panic!("no {key}"))
    }
}

#[tokio::test]
async fn doq_01_alpn_is_doq_and_nothing_else() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    assert_eq!(
        exchange(&connection, &query("fixed.test A")).await.reply().addresses(),
        [IpAddr::from([203, 0, 113, 1])]
    );
    for alpn in [&["doq-i02"][..], &["h3"], &["dot"], &[]] {
        let client = Client::new(place.pki.ca(), alpn);
        let error = client.connect(place.address()).await.unwrap_err();
        // The alert no_application_protocol, 120, in the space of QUIC's codes (RFC 9001 §4.8).
        let quinn::ConnectionError::ConnectionClosed(close) = &error else {
            panic!("{alpn:?}: {error}")
        };
        assert_eq!(u64::from(close.error_code), 0x100 + 120, "{alpn:?}");
    }
}

#[tokio::test]
async fn doq_02_05_a_query_a_stream_with_its_length_and_id_zero() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    for _ in 0..3 {
        let End::Fin(octets) = exchange(&connection, &query("fixed.test A")).await else {
            panic!()
        };
        assert_eq!(octets.len(), 2 + usize::from(u16::from_be_bytes([octets[0], octets[1]])));
        assert_eq!(octets[2..4], [0, 0]);
    }
    // What is slow holds nothing up.
    let (_slow, mut slow) = send(&connection, &query("slow.test A"), true).await;
    let begin = Instant::now();
    exchange(&connection, &query("fixed.test A")).await.reply();
    assert!(begin.elapsed() < Duration::from_millis(500));
    assert_eq!(end(&mut slow).await.reply().addresses(), [IpAddr::from([203, 0, 113, 7])]);
    assert_eq!(place.count("0x0"), 5.0);
}

#[tokio::test]
async fn doq_03_a_query_waits_for_the_end_of_its_stream_for_some_time() {
    let place = Place::new("timeouts {\n  read 1s\n }");
    let (_client, connection) = place.connect().await;
    let octets = query("fixed.test A");
    let (mut late, mut answer) = send(&connection, &octets[..5], false).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    soon(late.write_all(&octets[5..])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    late.finish().unwrap();
    assert_eq!(end(&mut answer).await.reply().answers().len(), 1);
    // Fact quic.read: without an end the whole connection goes.
    let begin = Instant::now();
    let (_dangling, mut answer) = send(&connection, &octets, false).await;
    assert_eq!(end(&mut answer).await, End::Closed(2));
    assert!((900..3000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn doq_04_errors_in_the_protocol_close_the_connection() {
    let place = Place::new("");
    let octets = query("fixed.test A");
    let mut keepalive = Query::from("fixed.test A").option(11, &[]).encode();
    keepalive[..2].fill(0);
    let good = message([0, 0, 1, 0, 0, 1]);
    let id = message([0, 1, 1, 0, 0, 1]);
    let response = message([0, 0, 0x81, 0, 0, 1]);
    let cases: [(&str, Vec<u8>); 12] = [
        ("an ID", framed(&id)),
        ("an end within the length", vec![0]),
        ("an end within the message", octets[..octets.len() - 1].to_vec()),
        ("two queries", [&octets[..], &octets].concat()),
        ("an octet too many", [&octets[..], &[0]].concat()),
        ("nothing", Vec::new()),
        ("no message", vec![0, 0]),
        ("less than a header", framed(&good[..11])),
        ("the keepalive option", framed(&keepalive)),
        ("a response", framed(&response)),
        ("a length that is too small", [&[0, 12], &good[..]].concat()),
        ("a length that is too large", [&[1, 0], &good[..]].concat()),
    ];
    for (at, (what, octets)) in cases.iter().enumerate() {
        let (_client, connection) = place.connect().await;
        assert_eq!(exchange(&connection, octets).await, End::Closed(2), "{what}");
        assert_eq!(place.count("0x2"), at as f64 + 1.0, "{what}");
    }
    // A unidirectional stream cannot be opened: there is no room for any (RFC 9000 §4.6).
    let (_client, connection) = place.connect().await;
    let opened = tokio::time::timeout(Duration::from_millis(300), connection.open_uni()).await;
    assert!(opened.is_err(), "{opened:?}");
    // Nor does the gateway open one of either kind (DOQ-15).
    let own = async {
        tokio::select! { _ = connection.accept_bi() => {} _ = connection.accept_uni() => {} }
    };
    assert!(tokio::time::timeout(Duration::from_millis(300), own).await.is_err());
    assert_eq!(exchange(&connection, &octets).await.reply().answers().len(), 1);
}

#[tokio::test]
async fn doq_06_cancelled_queries_are_given_up() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    // Before its end.
    let (mut own, mut answer) = send(&connection, &query("fixed.test A")[..9], false).await;
    own.reset(code(3)).unwrap();
    assert_eq!(end(&mut answer).await, End::Reset(3));
    // Behind it, while the answer is made.
    let (own, mut answer) = send(&connection, &query("never.test A"), true).await;
    soon(own.stopped()).await.unwrap();
    answer.stop(code(3)).unwrap();
    let begin = Instant::now();
    while place.count("0x3") < 2.0 {
        assert!(begin.elapsed() < Duration::from_secs(2), "the query goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(exchange(&connection, &query("fixed.test A")).await.reply().answers().len(), 1);
}

#[tokio::test]
async fn doq_06_who_cancels_everything_has_to_go() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    let mut cancelled = 0;
    let how = loop {
        let Ok((mut own, mut answer)) = soon(connection.open_bi()).await else {
            break closed(&connection).await;
        };
        drop(soon(own.write_all(&query("never.test A"))).await);
        drop(own.reset(code(3)));
        drop(answer.stop(code(3)));
        cancelled += 1;
        assert!(cancelled < 5000, "still there after {cancelled}");
    };
    assert_eq!(how, End::Closed(4));
    assert!(cancelled >= 256, "{cancelled}");
    assert_eq!(place.count("0x4"), 1.0);
    // Q-06, H2-08: others are served.
    let (_client, connection) = place.connect().await;
    assert_eq!(exchange(&connection, &query("fixed.test A")).await.reply().answers().len(), 1);
}

#[tokio::test]
async fn doq_07_what_dns_cannot_answer_is_answered_by_dns() {
    let place = Place::new("acl {\n  drop type AAAA\n }");
    let (_client, connection) = place.connect().await;
    for (what, octets, rcode) in [
        // 0x55 as flags is a query with the opcode 10.
        ("garbage", [&[0, 0], &[0x55; 30][..]].concat(), ResponseCode::NotImp),
        ("no question", message([0, 0, 1, 0, 0, 0])[..12].to_vec(), ResponseCode::FormErr),
        ("two questions", message([0, 0, 1, 0, 0, 2]), ResponseCode::FormErr),
        ("an opcode", message([0, 0, 0x29, 0, 0, 1]), ResponseCode::NotImp),
    ] {
        let octets = framed(&octets);
        let got = exchange(&connection, &octets).await;
        assert_eq!(got.reply().rcode(), rcode, "{what}");
    }
    // Where nothing is to be said, nothing is: not even an end without an answer.
    assert_eq!(exchange(&connection, &query("fixed.test AAAA")).await, End::Reset(1));
    assert_eq!(place.count("0x1"), 1.0);
}

#[tokio::test]
async fn doq_08_12_idle_connections_end_without_an_error() {
    let place = Place::new("timeouts {\n  idle 1s\n }");
    let (_client, connection) = place.connect().await;
    // The time counts from the last query.
    for _ in 0..3 {
        exchange(&connection, &query("fixed.test A")).await.reply();
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let begin = Instant::now();
    assert_eq!(closed(&connection).await, End::Closed(0));
    assert!(begin.elapsed() < Duration::from_secs(2));
    // One that never asks goes as well, whatever else it sends.
    let client = place.client().transport(|t| {
        t.keep_alive_interval(Some(Duration::from_millis(100)));
    });
    let connection = client.connect(place.address()).await.unwrap();
    let begin = Instant::now();
    assert_eq!(closed(&connection).await, End::Closed(0));
    assert!((800..3000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn doq_10_pad_04_replies_are_padded() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    for edns in
        [Query::from("fixed.test A").bufsize(1232), Query::from("fixed.test A").option(12, &[0; 7])]
    {
        let End::Fin(octets) = exchange(&connection, &query(edns)).await else { panic!() };
        assert_eq!((octets.len() - 2) % 468, 0, "{}", octets.len());
    }
    let End::Fin(octets) = exchange(&connection, &query("fixed.test A")).await else { panic!() };
    assert!(octets.len() < 100, "no EDNS, no padding: {}", octets.len());
}

#[tokio::test]
async fn doq_13_edns_09_messages_may_be_large_whatever_edns_says() {
    let place = Place::new("");
    let (_client, connection) = place.connect().await;
    let reply =
        exchange(&connection, &query(Query::from("large.test TXT").bufsize(512))).await.reply();
    assert_eq!(reply.answers().len(), 230);
    assert!(!reply.flags().contains("tc"), "{}", reply.flags());
    // A query as large as can be, by an option.
    let small = Query::from("fixed.test A").option(65001, &[]).encode().len();
    let large = query(Query::from("fixed.test A").option(65001, &vec![1; 65535 - small]));
    assert_eq!(large.len(), 65537);
    assert_eq!(
        exchange(&connection, &large).await.reply().addresses(),
        [IpAddr::from([203, 0, 113, 1])]
    );
}

#[tokio::test]
async fn doq_15_connections_may_move_to_another_address() {
    let place = Place::new("");
    let (client, connection) = place.connect().await;
    exchange(&connection, &query("fixed.test A")).await.reply();
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)] {
        client.endpoint().rebind(std::net::UdpSocket::bind((address, 0)).unwrap()).unwrap();
        exchange(&connection, &query("fixed.test A")).await.reply();
    }
}
