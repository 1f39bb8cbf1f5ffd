//! What clients of QUIC may not do (protocols: abuse), and what they may ask of a connection before it is there.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::quic::{Client, End, closed, end, exchange, framed, hello, initial, query, send, soon};
use tests::{Gateway, Namespace, Pki, Query, Scripted, scripted};

/// A gateway with what its certificate comes from.
struct Place {
    pki: Pki,
    gateway: Gateway,
}

/// The lines of a block that answers `fixed.test A`, and asks `upstream` for all else.
fn lines(pki: &Pki, more: &str, upstream: SocketAddr) -> String {
    let server = pki.server("server", &["dns.example.org", "127.0.0.1"]);
    format!(
        " tls {server}\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {more}\n \
         template IN A fixed.test {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n forward . {upstream}\n"
    )
}

/// An upstream that takes half a second for `slow.test`.
fn upstream() -> Scripted {
    Scripted::start(|query, _| {
        if scripted::asked(query) == "slow.test" {
            std::thread::sleep(Duration::from_millis(500));
        }
        Some(scripted::reply(query, &[&format!("{} 60 A 203.0.113.7", query.queries[0].name())]))
    })
}

impl Place {
    /// A gateway with more lines in the block of its `quic` key.
    fn new(more: &str) -> Self {
        let pki = Pki::new();
        let block = lines(&pki, more, upstream().address());
        Self { gateway: Gateway::new(&format!("quic://.:@PORT@ {{\n{block}}}\n")).start(), pki }
    }

    /// A client.
    fn client(&self) -> Client {
        Client::new(self.pki.ca(), &["doq"])
    }

    /// Its address.
    fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// What became of those who wanted a connection.
    fn handshakes(&self, result: &str) -> f64 {
        let server = self.address();
        let key = format!(
            "causeway_quic_handshakes_total{{result=\"{result}\",server=\"quic://{server}\"}}"
        );
        self.gateway.metrics("metrics")[&key]
    }

    /// Whether a new client is served.
    async fn still_serves(&self) {
        let client = self.client();
        let connection = client.connect(self.address()).await.unwrap();
        answered(&connection).await;
        assert!(!self.gateway.output().contains("panic"), "{}", self.gateway.output());
    }
}

/// Whether a connection is served.
async fn answered(connection: &quinn::Connection) {
    let end = exchange(connection, &query("fixed.test A")).await;
    assert_eq!(end.reply().addresses(), [IpAddr::from([203, 0, 113, 1])]);
}

/// All that comes back for datagrams that are sent now, until there is nothing for `quiet`.
fn heard(server: SocketAddr, datagrams: &[Vec<u8>], quiet: Duration) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(quiet)).unwrap();
    for datagram in datagrams {
        socket.send_to(datagram, server).unwrap();
    }
    let mut all = Vec::new();
    let mut buffer = [0; 65536];
    while let Ok(length) = socket.recv(&mut buffer) {
        all.push(buffer[..length].to_vec());
    }
    all
}

#[tokio::test]
async fn q_01_an_address_that_is_not_proved_gets_little() {
    let place = Place::new("");
    let hello = hello(&["doq"]);
    let quiet = Duration::from_secs(2);
    assert!(heard(place.address(), &[initial(&hello, 1199)], quiet).is_empty());
    // Repetitions of a lost packet count too: the client never answers.
    for size in [1200, 1452] {
        let id = (size as u64).to_be_bytes();
        let got = heard(place.address(), &[tests::quic::initial_to(id, &hello, size)], quiet);
        let octets: usize = got.iter().map(Vec::len).sum();
        assert!(octets > 0 && octets <= 3 * size, "{octets} octets for {size}");
    }
    place.still_serves().await;
}

#[tokio::test]
async fn q_01_doq_11_clients_prove_their_address_when_they_have_to() {
    let place = Place::new("quic {\n  retry always\n }");
    let hello = hello(&["doq"]);
    let got = heard(place.address(), &[initial(&hello, 1200)], Duration::from_millis(500));
    // One packet of the type Retry (RFC 9000 §17.2.5), smaller than what asked for it.
    assert_eq!(got.len(), 1);
    assert_eq!((got[0][0] & 0xf0, &got[0][1..5]), (0xf0, &[0, 0, 0, 1][..]));
    assert!(got[0].len() < 1200);
    let client = place.client();
    let connection = client.connect(place.address()).await.unwrap();
    answered(&connection).await;
    assert_eq!(place.handshakes("retried"), 2.0);
    connection.close(0_u32.into(), b"");
    // Whoever was here has a token (RFC 9000 §8.1.3).
    let connection = client.connect(place.address()).await.unwrap();
    answered(&connection).await;
    assert_eq!(place.handshakes("retried"), 2.0);
    assert_eq!(place.handshakes("done"), 2.0);
}

#[tokio::test]
async fn q_01_under_load_addresses_are_proved() {
    let place = Place::new("limits {\n  handshake 4s\n }");
    let hello = hello(&["doq"]);
    // Many begin and do not go on; each has another connection ID.
    let sockets: Vec<_> = (0..100)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.send_to(&fresh(&hello), place.address()).unwrap();
            socket
        })
        .collect();
    let reached = |result: &str, count: f64| {
        let begin = Instant::now();
        while place.handshakes(result) < count {
            assert!(begin.elapsed() < Duration::from_secs(15), "{}", place.handshakes(result));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    reached("retried", 30.0);
    // A real client is served all the same.
    place.still_serves().await;
    // They do not stay.
    reached("late", 60.0);
    let before = place.handshakes("retried");
    place.still_serves().await;
    assert_eq!(place.handshakes("retried"), before);
    drop(sockets);
}

/// A first datagram with a connection ID that nobody has had.
fn fresh(hello: &[u8]) -> Vec<u8> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(1);
    let id = LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    tests::quic::initial_to(id, hello, 1200)
}

#[tokio::test]
async fn q_02_streams_and_connections_are_bounded() {
    let place = Place::new(
        "quic {\n  max_streams 20\n  max_connections 3\n }\n timeouts {\n  read 10s\n }",
    );
    let client = place.client();
    let mut connections = Vec::new();
    for _ in 0..3 {
        let connection = client.connect(place.address()).await.unwrap();
        answered(&connection).await;
        connections.push(connection);
    }
    // Fact tx.doq: one more is told why it has to go.
    let excess = client.connect(place.address()).await.unwrap();
    assert_eq!(closed(&excess).await, End::Closed(0));
    let quinn::ConnectionError::ApplicationClosed(close) = excess.close_reason().unwrap() else {
        panic!()
    };
    assert_eq!(&close.reason[..], b"too many connections");
    assert_eq!(place.handshakes("excess"), 1.0);
    // Streams: as many as there is room for, each without its end. What has ended gives room again, by and by.
    let mut open = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(500), connections[0].open_bi()).await
    {
        let (mut own, recv) = stream.unwrap();
        soon(own.write_all(&query("fixed.test A"))).await.unwrap();
        open.push((own, recv));
    }
    assert!((17..=20).contains(&open.len()), "{}", open.len());
    answered(&connections[1]).await;
    for (mut own, mut answer) in open.drain(..10) {
        own.finish().unwrap();
        end(&mut answer).await.reply();
    }
    answered(&connections[0]).await;
}

#[tokio::test]
async fn q_02_connections_of_one_client_are_bounded() {
    let place = Place::new("limits {\n  connections_per_client 2\n }");
    let client = place.client();
    let held = [
        client.connect(place.address()).await.unwrap(),
        client.connect(place.address()).await.unwrap(),
    ];
    let error = client.connect(place.address()).await.unwrap_err();
    // CONNECTION_REFUSED (RFC 9000 §20.1), before the handshake.
    let quinn::ConnectionError::ConnectionClosed(close) = &error else { panic!("{error}") };
    assert_eq!(u64::from(close.error_code), 2);
    let other = Client::from_address(place.pki.ca(), &["doq"], Ipv4Addr::new(127, 0, 0, 9).into());
    answered(&other.connect(place.address()).await.unwrap()).await;
    for connection in &held {
        answered(connection).await;
    }
}

#[tokio::test]
async fn q_02_large_queries_that_do_not_end_take_little() {
    let place = Place::new("timeouts {\n  read 30s\n }");
    place.still_serves().await;
    let before = place.gateway.resident();
    let client = place.client();
    let mut streams = Vec::new();
    let octets = framed(&vec![0; 65_535]);
    let connections = [
        client.connect(place.address()).await.unwrap(),
        client.connect(place.address()).await.unwrap(),
    ];
    let wait = Duration::from_millis(200);
    for connection in &connections {
        // Until the client gets no room for more streams, or for what is on them.
        while let Ok(stream) = tokio::time::timeout(wait, connection.open_bi()).await {
            let (mut own, recv) = stream.unwrap();
            let all = own.write_all(&octets[..65_000]);
            drop(tokio::time::timeout(Duration::from_millis(2), all).await);
            streams.push((own, recv));
        }
    }
    assert!(streams.len() >= 100, "{}", streams.len());
    let grown = place.gateway.resident().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} octets");
    place.still_serves().await;
}

#[tokio::test]
async fn q_02_who_does_not_read_has_its_answers_bounded() {
    let place = Place::new("timeouts {\n  write 1s\n }");
    let client = place.client().transport(|t| {
        // No answer fits.
        t.stream_receive_window(8_u32.into()).receive_window(64_u32.into());
    });
    let connection = client.connect(place.address()).await.unwrap();
    let octets = query(Query::from("fixed.test A").option(12, &[0; 8]));
    let mut asked = 0;
    while let Ok(Ok((mut own, recv))) =
        tokio::time::timeout(Duration::from_secs(8), connection.open_bi()).await
    {
        if own.write_all(&octets).await.is_err() || own.finish().is_err() {
            break;
        }
        // The answers stay where they are.
        std::mem::forget(recv);
        asked += 1;
        assert!(asked < 20_000, "it goes on for ever");
    }
    assert_eq!(closed(&connection).await, End::Closed(4));
    place.still_serves().await;
}

#[tokio::test]
async fn q_03_mutated_datagrams_do_no_harm() {
    let place = Place::new("quic {\n  max_connections 0\n }\n limits {\n  handshake 500ms\n }");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = move |below: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice >> 33) as usize % below
    };
    let good = hello(&["doq"]);
    for round in 0..4000 {
        // Within the encryption, so that frames, the handshake and transport parameters are reached, and outside of it.
        let mut frames = good.clone();
        if round % 2 == 0 {
            for _ in 0..=roll(4) {
                let at = roll(frames.len());
                frames[at] = roll(256) as u8;
            }
            if roll(4) == 0 {
                frames.truncate(roll(frames.len()) + 1);
            }
        }
        let id = (round as u64 | 1 << 60).to_be_bytes();
        let mut datagram = tests::quic::initial_to(id, &frames, 1200);
        if round % 2 == 1 {
            match roll(4) {
                0 => datagram.truncate(roll(1200)),
                1 => datagram = (0..roll(1500)).map(|_| roll(256) as u8).collect(),
                _ => {
                    for _ in 0..=roll(8) {
                        let part = if roll(2) == 0 { 40 } else { datagram.len() };
                        let at = roll(part);
                        datagram[at] = roll(256) as u8;
                    }
                }
            }
        }
        drop(socket.send_to(&datagram, place.address()));
        if round % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    place.still_serves().await;
    assert!(place.gateway.resident() < 200 << 20, "{}", place.gateway.resident());
}

#[tokio::test]
async fn q_04_resets_are_smaller_than_what_they_answer() {
    let place = Place::new("limits {\n  handshake 500ms\n }");
    // A connection ID of the server's own, others it does not answer; its handshake does not go on, so nobody has it in the end.
    let first = [initial(&hello(&["doq"]), 1200)];
    let got = heard(place.address(), &first, Duration::from_secs(2));
    let id = &got[0][5 + 1 + 8 + 1..][..8];
    tokio::time::sleep(Duration::from_secs(5)).await;
    // A packet of that connection (RFC 9000 §10.3).
    for (length, answered) in [(21, 0), (60, 1), (1000, 1)] {
        let mut datagram = vec![0x5a; length];
        datagram[0] = 0x40;
        datagram[1..9].copy_from_slice(id);
        let got = heard(place.address(), &[datagram], Duration::from_millis(300));
        assert_eq!(got.len(), answered, "{length}: {got:?}");
        assert!(got.iter().all(|reset| reset.len() < length), "{length}: {got:?}");
    }
}

#[tokio::test]
async fn q_05_versions_are_negotiated() {
    let place = Place::new("");
    let mut datagram = initial(&hello(&["doq"]), 1200);
    for version in [0x1a2a_3a4a_u32, 0xff00_001d, 0x6b33_43cf] {
        datagram[1..5].copy_from_slice(&version.to_be_bytes());
        let got = heard(place.address(), &[datagram.clone()], Duration::from_millis(500));
        assert_eq!(got.len(), 1, "{version:x}");
        // Version 0, our IDs the other way round, then what is spoken (RFC 8999 §6).
        assert_eq!(got[0][1..5], [0; 4]);
        let versions: Vec<_> = got[0][5 + 1 + 8 + 1 + 8..]
            .chunks(4)
            .map(|v| u32::from_be_bytes(v.try_into().unwrap()))
            .collect();
        // But for version 1 there is only one that is reserved.
        assert!(versions.contains(&1), "{versions:x?}");
        assert!(
            versions.iter().all(|v| *v == 1 || v & 0x0f0f_0f0f == 0x0a0a_0a0a),
            "{versions:x?}"
        );
        assert!(
            heard(place.address(), &[datagram[..1100].to_vec()], Duration::from_millis(300))
                .is_empty()
        );
    }
}

#[test]
fn q_07_errors_of_the_socket_do_not_end_the_endpoint() {
    let namespace = Namespace::new();
    let pki = Pki::new();
    let upstream = SocketAddr::from(([127, 0, 0, 1], 1));
    let corefile = format!("quic://.:8853 {{\n{}}}\n", lines(&pki, "", upstream));
    let gateway = Gateway::new(&corefile).within(&namespace).start();
    // Each fourth datagram of the gateway is refused by the kernel, with an error at the call that sends it.
    namespace
        .shell("iptables -A OUTPUT -p udp --sport 8853 -m statistic --mode nth --every 4 --packet 0 -j DROP");
    namespace.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for _ in 0..3 {
                let client = Client::new(pki.ca(), &["doq"]);
                let connection =
                    client.connect(SocketAddr::from(([127, 0, 0, 1], 8853))).await.unwrap();
                for _ in 0..20 {
                    answered(&connection).await;
                }
            }
        });
    });
    assert!(!gateway.output().contains("panic"), "{}", gateway.output());
}

#[tokio::test]
async fn doq_09_early_data_is_off_unless_it_is_asked_for() {
    let off = Place::new("");
    let client = off.client();
    let connection = client.connect(off.address()).await.unwrap();
    answered(&connection).await;
    assert!(client.begin(off.address()).into_0rtt().is_err(), "a ticket for early data");

    let on = Place::new("quic {\n  early_data\n }");
    let client = on.client();
    let connection = client.connect(on.address()).await.unwrap();
    answered(&connection).await;
    connection.close(0_u32.into(), b"");
    // A query, and an update, which nobody may have done twice: it is not looked at before the handshake is done.
    let update =
        framed(&[0, 0, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, b't', b'e', b's', b't', 0, 0, 6, 0, 1]);
    let (connection, accepted) =
        client.begin(on.address()).into_0rtt().map_err(|_| "no ticket").unwrap();
    let (_own, mut early) = send(&connection, &query("fixed.test A"), true).await;
    let (_own, mut held) = send(&connection, &update, true).await;
    assert_eq!(end(&mut early).await.reply().answers().len(), 1);
    assert_eq!(end(&mut held).await.reply().rcode().to_string(), "Not Implemented");
    assert!(soon(accepted).await, "early data was refused");
    answered(&connection).await;
}

#[tokio::test]
async fn doq_08_answers_under_way_are_delivered_on_sigterm() {
    let mut place = Place::new("");
    let client = place.client();
    let connection = client.connect(place.address()).await.unwrap();
    answered(&connection).await;
    let mut waiting = Vec::new();
    for _ in 0..30 {
        waiting.push(send(&connection, &query("slow.test A"), true).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    place.gateway.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(50)).await;
    // What was sent before the client could know is answered as well.
    waiting.push(send(&connection, &query("fixed.test A"), true).await);
    for (_own, mut answer) in waiting {
        assert_eq!(end(&mut answer).await.reply().answers().len(), 1);
    }
    assert_eq!(closed(&connection).await, End::Closed(0));
    let status = tokio::task::spawn_blocking(move || place.gateway.stop()).await.unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_reload_loses_no_query_and_drains_what_goes() {
    let pki = Pki::new();
    let upstream = upstream();
    let kept = lines(&pki, "", upstream.address());
    let gone = kept.replace(" prometheus 127.0.0.1:@PORT:metrics@\n", "");
    let corefile = format!("quic://.:@PORT@ {{\n{kept}}}\nquic://.:@PORT:gone@ {{\n{gone}}}\n");
    let mut gateway = Gateway::new(&corefile).start();
    let client = Client::new(pki.ca(), &["doq"]);
    let connection = client.connect(gateway.address()).await.unwrap();
    let leaving = client.connect(gateway.address_of("gone")).await.unwrap();
    let (_own, mut slow) = send(&leaving, &query("slow.test A"), true).await;
    let asking = tokio::spawn({
        let connection = connection.clone();
        async move {
            let end = Instant::now() + Duration::from_secs(3);
            let mut count = 0;
            while Instant::now() < end {
                answered(&connection).await;
                count += 1;
            }
            count
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // One listener goes, the other has other limits; its connections stay, and new ones have them.
    let changed = kept.replace(" forward", " quic {\n  max_streams 5\n }\n forward");
    gateway.write("Corefile", &format!("quic://.:@PORT@ {{\n{changed}}}\n"));
    gateway.reload();
    assert_eq!(end(&mut slow).await.reply().answers().len(), 1);
    assert_eq!(closed(&leaving).await, End::Closed(0));
    assert!(asking.await.unwrap() > 10);
    answered(&connection).await;
    let fresh = client.connect(gateway.address()).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(send(&fresh, &query("fixed.test A")[..9], false).await);
    }
    assert!(tokio::time::timeout(Duration::from_millis(300), fresh.open_bi()).await.is_err());
}
