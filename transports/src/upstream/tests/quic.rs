//! DNS over QUIC, and over HTTPS by HTTP/3.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use h3::server::RequestStream;
use http::{Request, Response};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use rustls::ServerConfig;

use super::pki::Pki;
use super::{LOOPBACK, ask, reply, request, settings};
use crate::upstream::{Error, Identity, Protocol, Settings, Speech, Upstream, Verb};

/// A server's endpoint.
fn endpoint(config: ServerConfig, addr: SocketAddr) -> Endpoint {
    let crypto = QuicServerConfig::try_from(config).unwrap();
    Endpoint::server(quinn::ServerConfig::with_crypto(Arc::new(crypto)), addr).unwrap()
}

/// What answers a stream: the connection, its number, the number of the query, the query, and where the answer goes.
type Act = dyn Fn(Connection, usize, Vec<u8>, (SendStream, RecvStream)) -> BoxFuture<'static, ()>
    + Send
    + Sync;

/// Accepts connections of DNS over QUIC until the endpoint is closed.
async fn accept(endpoint: Endpoint, act: Arc<Act>, connections: Arc<AtomicUsize>) {
    while let Some(incoming) = endpoint.accept().await {
        let (act, connections) = (Arc::clone(&act), Arc::clone(&connections));
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let number = connections.fetch_add(1, Ordering::Relaxed);
            while let Ok((send, mut recv)) = connection.accept_bi().await {
                let (act, connection) = (Arc::clone(&act), connection.clone());
                tokio::spawn(async move {
                    // RFC 9250 §4.2: the end is right behind the query.
                    let Ok(framed) = recv.read_to_end(70_000).await else { return };
                    assert_eq!(framed[..2], (framed.len() as u16 - 2).to_be_bytes());
                    assert_eq!(framed[2..4], [0, 0], "the id is 0");
                    act(connection, number, framed[2..].to_vec(), (send, recv)).await;
                });
            }
        });
    }
}

/// A server of DNS over QUIC that does the same with each query.
fn serve<F: Future<Output = ()> + Send + 'static>(
    pki: &Pki,
    act: impl Fn(Connection, usize, Vec<u8>, (SendStream, RecvStream)) -> F + Send + Sync + 'static,
) -> (SocketAddr, Endpoint, Arc<AtomicUsize>) {
    let endpoint = endpoint(pki.server(&["127.0.0.1"], &[b"doq"]), LOOPBACK);
    let addr = endpoint.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let act: Arc<Act> = Arc::new(move |c, number, query, io| Box::pin(act(c, number, query, io)));
    tokio::spawn(accept(endpoint.clone(), act, Arc::clone(&connections)));
    (addr, endpoint, connections)
}

/// A message with its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Answers a query as it should be.
async fn echo(_: Connection, _: usize, query: Vec<u8>, (mut send, _): (SendStream, RecvStream)) {
    send.write_all(&framed(&reply(&query))).await.unwrap();
    send.finish().unwrap();
}

/// An upstream of DNS over QUIC.
fn upstream(pki: &Pki, addr: SocketAddr, settings: Settings) -> Arc<Upstream> {
    let identity = Identity::new(pki.client(), None, addr).unwrap();
    Upstream::new(addr, &Speech::Quic(identity), settings)
}

/// Settings with time.
fn patient() -> Settings {
    Settings { read_timeout: Duration::from_secs(5), ..settings() }
}

/// The label of a query's name.
fn label(query: &[u8]) -> &[u8] {
    &query[13..13 + usize::from(query[12])]
}

#[tokio::test]
async fn doq_02_and_05_queries_are_streams_of_one_connection() {
    let pki = Pki::new();
    let waiting = Arc::new(tokio::sync::Barrier::new(50));
    let (addr, _endpoint, connections) = serve(&pki, move |c, number, query, io| {
        let waiting = Arc::clone(&waiting);
        async move {
            waiting.wait().await;
            echo(c, number, query, io).await;
        }
    });
    let upstream = upstream(&pki, addr, patient());
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..50 {
        let upstream = Arc::clone(&upstream);
        tasks.spawn(async move {
            let name = format!("n{at}.test");
            let got = ask(&upstream, Protocol::Udp, &name).await.unwrap();
            assert!(got[10..].starts_with(request(&name).name.wire()));
        });
    }
    tasks.join_all().await;
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn doq_04_breaches_of_the_protocol_end_the_connection() {
    let pki = Pki::new();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ended);
    let (addr, _endpoint, _) = serve(&pki, move |connection, _, query, (mut send, _)| {
        let ended = Arc::clone(&noted);
        async move {
            let right = reply(&query);
            match label(&query) {
                b"id" => {
                    let mut other = right;
                    other[0] = 1;
                    send.write_all(&framed(&other)).await.unwrap();
                }
                b"early" => send.write_all(&framed(&right)[..20]).await.unwrap(),
                b"empty" => {}
                b"more" => {
                    send.write_all(&framed(&right)).await.unwrap();
                    send.write_all(b"x").await.unwrap();
                }
                b"late" => {
                    send.write_all(&framed(&right)).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    send.write_all(b"x").await.unwrap();
                }
                b"short" => send.write_all(&framed(&right[..5])).await.unwrap(),
                b"other" => {
                    let mut other = right;
                    other[14] ^= 1;
                    send.write_all(&framed(&other)).await.unwrap();
                }
                b"reset" => {
                    send.reset(VarInt::from_u32(1)).unwrap();
                    return;
                }
                b"load" => {
                    connection.close(VarInt::from_u32(4), b"");
                    return;
                }
                b"uni" => {
                    // None is allowed (RFC 9250 §4.3.3): it waits for ever.
                    let opened =
                        tokio::time::timeout(Duration::from_millis(50), connection.open_uni());
                    assert!(opened.await.is_err());
                    send.write_all(&framed(&right)).await.unwrap();
                }
                _ => send.write_all(&framed(&right)).await.unwrap(),
            }
            send.finish().unwrap();
            if let quinn::ConnectionError::ApplicationClosed(close) = connection.closed().await {
                let name = String::from_utf8_lossy(label(&query)).into_owned();
                ended.lock().unwrap().push((name, close.error_code.into_inner()));
            }
        }
    });
    for (name, want, code) in [
        ("id", "the reply has an id that is not 0", Some(2)),
        ("early", "the stream ended before the reply", Some(2)),
        ("empty", "the stream ended before the reply", Some(2)),
        ("more", "", Some(2)),
        ("late", "", Some(2)),
        ("short", "the reply is no message", None),
        ("other", "the reply is to another question", None),
        ("reset", "the server reset the stream: DOQ_INTERNAL_ERROR", None),
        ("load", "the server closed the connection: DOQ_EXCESSIVE_LOAD", None),
        ("uni", "", None),
        ("good", "", None),
    ] {
        let upstream = upstream(&pki, addr, settings());
        let text = match ask(&upstream, Protocol::Udp, &format!("{name}.test")).await {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(text.is_empty() == want.is_empty() && text.ends_with(want), "{name}: {text}");
        assert!(text.is_empty() || text.starts_with("read quic 0.0.0.0:"), "{name}: {text}");
        if let Some(code) = code {
            let seen = async {
                while !ended.lock().unwrap().contains(&(name.to_owned(), code)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let seen = tokio::time::timeout(Duration::from_secs(3), seen).await;
            assert!(seen.is_ok(), "{name}: {:?}", ended.lock().unwrap());
        }
    }
}

#[tokio::test]
async fn doq_06_queries_that_nobody_waits_for_are_cancelled() {
    let pki = Pki::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let (addr, _endpoint, connections) = serve(&pki, move |c, number, query, io| {
        let tell = tell.clone();
        async move {
            if label(&query) == b"slow" {
                tell.send(io.0.stopped().await.unwrap()).await.unwrap();
            } else {
                echo(c, number, query, io).await;
            }
        }
    });
    let upstream = upstream(&pki, addr, patient());
    let asked = ask(&upstream, Protocol::Udp, "slow.test");
    assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
    assert_eq!(told.recv().await.unwrap(), Some(VarInt::from_u32(3)));
    // A stream that was answered was not cancelled, and the connection is as good as before.
    ask(&upstream, Protocol::Udp, "a.test").await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn fwd_04_connections_that_end_or_whose_server_begins_anew_lose_no_query() {
    let pki = Pki::new();
    let (addr, first, connections) = serve(&pki, |connection, number, query, io| async move {
        echo(connection.clone(), number, query, io).await;
        // The reply has to be there first.
        tokio::time::sleep(Duration::from_millis(20)).await;
        connection.close(VarInt::from_u32(0), b"");
    });
    let upstream = upstream(&pki, addr, patient());
    for at in 0..5 {
        ask(&upstream, Protocol::Udp, &format!("n{at}.test")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(if at % 2 == 0 { 20 } else { 0 })).await;
    }
    assert!(connections.load(Ordering::Relaxed) >= 3);
    // The server goes with all it knows, and another begins where it was.
    first.close(VarInt::from_u32(0), b"");
    first.wait_idle().await;
    drop(first);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = endpoint(pki.server(&["127.0.0.1"], &[b"doq"]), addr);
    let again: Arc<Act> = Arc::new(|c, number, query, io| Box::pin(echo(c, number, query, io)));
    tokio::spawn(accept(second, again, Arc::default()));
    ask(&upstream, Protocol::Udp, "again.test").await.unwrap();
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_again() {
    let pki = Pki::new();
    let (addr, _endpoint, connections) = serve(&pki, |c, number, query, io| async move {
        if number == 0 && label(&query) == b"b" {
            std::future::pending::<()>().await;
        }
        echo(c, number, query, io).await;
    });
    let kept = upstream(&pki, addr, settings());
    ask(&kept, Protocol::Udp, "a.test").await.unwrap();
    let error = ask(&kept, Protocol::Udp, "b.test").await.unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    ask(&kept, Protocol::Udp, "b.test").await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    // Where nobody is, making a connection is not waited for longer than a reply.
    let nobody = std::net::UdpSocket::bind(LOOPBACK).unwrap();
    let absent = upstream(&pki, nobody.local_addr().unwrap(), settings());
    let begun = std::time::Instant::now();
    let error = ask(&absent, Protocol::Udp, "a.test").await.unwrap_err();
    assert!(matches!(error, Error::Dial(Protocol::Quic, ..)), "{error}");
    assert!(error.to_string().ends_with("i/o timeout") && begun.elapsed().as_millis() < 1500);
}

#[tokio::test]
async fn names_and_protocols_are_checked_by_quic_as_well() {
    let pki = Pki::new();
    for (config, want) in [
        (pki.server(&["dns.example.org"], &[b"doq"]), "dns.example.org"),
        (
            pki.server(&["127.0.0.1"], &[b"h3"]),
            "the server refuses: it does not speak this protocol (NoApplicationProtocol)",
        ),
        (pki.expired(&["127.0.0.1"], &[b"doq"]), "expired"),
    ] {
        let endpoint = endpoint(config, LOOPBACK);
        let addr = endpoint.local_addr().unwrap();
        let act: Arc<Act> = Arc::new(|c, number, query, io| Box::pin(echo(c, number, query, io)));
        tokio::spawn(accept(endpoint, act, Arc::default()));
        let error = ask(&upstream(&pki, addr, patient()), Protocol::Udp, "a.test").await;
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with(&format!("dial quic {addr}: tls: ")), "{text}");
        assert!(text.contains(want), "{text}, not {want}");
    }
}

/// A stream of HTTP/3.
type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// A server of HTTP/3 that does the same with each request.
fn serve_http<F: Future<Output = ()> + Send + 'static>(
    pki: &Pki,
    act: impl Fn(Connection, Request<()>, Vec<u8>, Stream) -> F + Copy + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let endpoint = endpoint(pki.server(&["127.0.0.1"], &[b"h3"]), LOOPBACK);
    let addr = endpoint.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                counted.fetch_add(1, Ordering::Relaxed);
                let quic = h3_quinn::Connection::new(connection.clone());
                let mut http: h3::server::Connection<_, Bytes> =
                    h3::server::Connection::new(quic).await.unwrap();
                while let Ok(Some(resolver)) = http.accept().await {
                    let connection = connection.clone();
                    tokio::spawn(async move {
                        let (head, mut stream) = resolver.resolve_request().await.unwrap();
                        let mut query = Vec::new();
                        while let Ok(Some(mut data)) = stream.recv_data().await {
                            let len = data.remaining();
                            query.extend_from_slice(&data.copy_to_bytes(len));
                        }
                        act(connection, head, query, stream).await;
                    });
                }
            });
        }
    });
    (addr, connections)
}

/// Sends a response; the client may have had enough of it.
async fn respond(mut stream: Stream, response: Response<()>, body: Vec<u8>) {
    if stream.send_response(response).await.is_ok() && stream.send_data(body.into()).await.is_ok() {
        stream.finish().await.ok();
    }
}

/// A response as it should be.
fn good() -> Response<()> {
    Response::builder().header("content-type", "application/dns-message").body(()).unwrap()
}

/// An upstream of HTTP/3.
fn upstream3(pki: &Pki, verb: Verb, addr: SocketAddr, settings: Settings) -> Arc<Upstream> {
    let identity = Identity::new(pki.client(), None, addr).unwrap();
    Upstream::new(addr, &Speech::Https3(identity, verb), settings)
}

#[tokio::test]
async fn http3_carries_queries_and_refuses_what_is_no_reply() {
    let pki = Pki::new();
    let (addr, connections) = serve_http(&pki, |_, head, query, mut stream| async move {
        assert_eq!(head.uri().path(), "/dns-query");
        let query = match head.uri().query().and_then(|query| query.strip_prefix("dns=")) {
            Some(text) => {
                use base64::Engine as _;
                base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap()
            }
            None => query,
        };
        let right = reply(&query);
        let medium = |medium: &str| Response::builder().header("content-type", medium);
        match label(&query) {
            b"busy" => {
                respond(stream, Response::builder().status(503).body(()).unwrap(), right).await;
            }
            b"html" => respond(stream, medium("text/html").body(()).unwrap(), right).await,
            b"empty" => respond(stream, good(), Vec::new()).await,
            b"reset" => stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR),
            b"endless" => {
                stream.send_response(good()).await.unwrap();
                while stream.send_data(vec![0; 16_384].into()).await.is_ok() {}
            }
            b"slow" => tokio::time::sleep(Duration::from_secs(2)).await,
            _ => respond(stream, good(), right).await,
        }
    });
    for verb in [Verb::Post, Verb::Get] {
        let upstream = upstream3(&pki, verb, addr, settings());
        for (name, want) in [
            ("ok", ""),
            ("busy", "HTTP status 503 Service Unavailable"),
            ("html", "the reply is no application/dns-message but \"text/html\""),
            ("empty", "the reply is no message"),
            ("endless", "the reply is longer than 65535 octets"),
            ("reset", "the server reset the stream: "),
            ("slow", "i/o timeout"),
            ("ok", ""),
        ] {
            let text = match ask(&upstream, Protocol::Tcp, &format!("{name}.test")).await {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert!(text.is_empty() == want.is_empty() && text.contains(want), "{name}: {text}");
            assert!(text.is_empty() || text.starts_with("read https3 "), "{name}: {text}");
        }
    }
    assert!(connections.load(Ordering::Relaxed) <= 6);
}

#[tokio::test]
async fn http3_connections_that_end_lose_no_query() {
    let pki = Pki::new();
    let (addr, connections) = serve_http(&pki, |connection, _, query, stream| async move {
        respond(stream, good(), reply(&query)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        connection.close(VarInt::from_u32(0x100), b"");
    });
    let upstream = upstream3(&pki, Verb::Post, addr, patient());
    for at in 0..6 {
        ask(&upstream, Protocol::Tcp, &format!("n{at}.test")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(if at % 2 == 0 { 20 } else { 0 })).await;
    }
    assert!(connections.load(Ordering::Relaxed) >= 3);
}

#[tokio::test]
async fn doh_24_header_fields_that_never_end_are_not_collected() {
    let pki = Pki::new();
    let endpoint = endpoint(pki.server(&["127.0.0.1"], &[b"h3"]), LOOPBACK);
    let addr = endpoint.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let mut control = connection.open_uni().await.unwrap();
        // A control stream with empty SETTINGS (RFC 9114 §6.2.1).
        control.write_all(&[0, 4, 0]).await.unwrap();
        let (mut send, _recv) = connection.accept_bi().await.unwrap();
        // HEADERS of 2^30 octets.
        send.write_all(&[1, 0xc0, 0, 0, 0, 0x40, 0, 0, 0]).await.unwrap();
        while send.write_all(&[0; 1024]).await.is_ok() {
            counted.fetch_add(1024, Ordering::Relaxed);
        }
        connection.closed().await;
    });
    let upstream = upstream3(&pki, Verb::Post, addr, patient());
    let text = ask(&upstream, Protocol::Tcp, "a.test").await.unwrap_err().to_string();
    assert!(text.contains("the reply is too long"), "{text}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(sent.load(Ordering::Relaxed) < 300_000, "{} octets", sent.load(Ordering::Relaxed));
}

#[tokio::test]
async fn http3_queries_that_nobody_waits_for_are_cancelled() {
    static STOPPED: AtomicUsize = AtomicUsize::new(0);
    let pki = Pki::new();
    let (addr, connections) = serve_http(&pki, |_, _, query, mut stream| async move {
        if label(&query) == b"slow" {
            stream.send_response(good()).await.unwrap();
            while stream.send_data(vec![0; 8].into()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            STOPPED.fetch_add(1, Ordering::Relaxed);
        } else {
            respond(stream, good(), reply(&query)).await;
        }
    });
    let upstream = upstream3(&pki, Verb::Post, addr, patient());
    let asked = ask(&upstream, Protocol::Udp, "slow.test");
    assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
    ask(&upstream, Protocol::Udp, "a.test").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(STOPPED.load(Ordering::Relaxed), 1);
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}
