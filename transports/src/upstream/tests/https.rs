//! DNS over HTTPS by HTTP/2.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::future::BoxFuture;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Method, Request, Response};
use rustls::{HandshakeKind, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::pki::Pki;
use super::{LOOPBACK, ask, reply, settings};
use crate::upstream::{Error, Identity, Protocol, Settings, Speech, Upstream, Verb};

/// A request whose body has been read.
pub(super) struct Asked {
    /// Its head.
    pub(super) head: Request<()>,
    /// The query in it.
    pub(super) query: Vec<u8>,
    /// How many requests came before it, by all connections.
    pub(super) number: usize,
    /// How many connections were made before its own.
    pub(super) connection: usize,
}

/// What answers a request.
type Act = dyn Fn(Asked, SendResponse<Bytes>) -> BoxFuture<'static, Then> + Send + Sync;

/// What comes of the connection behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It goes on.
    Keep,
    /// It ends when its streams have.
    Leave,
    /// It is cut.
    Cut,
}

/// What a server saw of its connections.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: AtomicUsize,
    kinds: Mutex<Vec<HandshakeKind>>,
}

/// Reads the query of a request.
fn query_of(head: &Request<()>, body: Vec<u8>) -> Vec<u8> {
    match head.uri().query().and_then(|query| query.strip_prefix("dns=")) {
        Some(text) => URL_SAFE_NO_PAD.decode(text).unwrap(),
        None => body,
    }
}

/// Reads a body.
async fn read(mut body: RecvStream) -> Vec<u8> {
    let mut octets = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        body.flow_control().release_capacity(data.len()).unwrap();
        octets.extend_from_slice(&data);
    }
    octets
}

/// A server that does the same with each request.
async fn serve<F: Future<Output = Then> + Send + 'static>(
    config: ServerConfig,
    act: impl Fn(Asked, SendResponse<Bytes>) -> F + Send + Sync + 'static,
) -> (SocketAddr, Arc<Seen>) {
    let act: Arc<Act> = Arc::new(move |asked, out| Box::pin(act(asked, out)));
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let seen = Arc::new(Seen::default());
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, act, seen) = (acceptor.clone(), Arc::clone(&act), Arc::clone(&noted));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let connection = seen.connections.fetch_add(1, Ordering::Relaxed);
                seen.kinds.lock().unwrap().push(stream.get_ref().1.handshake_kind().unwrap());
                let Ok(mut http) = h2::server::handshake(stream).await else { return };
                let (tell, mut told) = tokio::sync::mpsc::channel(1);
                loop {
                    tokio::select! {
                        next = http.accept() => {
                            let Some(Ok((request, out))) = next else { return };
                            let (head, body) = request.into_parts();
                            let head = Request::from_parts(head, ());
                            let number = seen.requests.fetch_add(1, Ordering::Relaxed);
                            let (act, tell) = (Arc::clone(&act), tell.clone());
                            tokio::spawn(async move {
                                let query = query_of(&head, read(body).await);
                                let then = act(Asked { head, query, number, connection }, out).await;
                                // A connection that is cut listens no more.
                                tell.send(then).await.ok();
                            });
                        }
                        Some(then) = told.recv() => match then {
                            Then::Keep => {}
                            Then::Leave => http.graceful_shutdown(),
                            Then::Cut => return,
                        }
                    }
                }
            });
        }
    });
    (addr, seen)
}

/// Sends a response.
fn respond(mut out: SendResponse<Bytes>, response: Response<()>, body: Vec<u8>) {
    let mut out = out.send_response(response, false).unwrap();
    // A client may be gone, or have had enough.
    drop(out.send_data(body.into(), true));
}

/// A response as it should be.
fn good() -> Response<()> {
    Response::builder().header("content-type", "application/dns-message").body(()).unwrap()
}

/// Answers a query as it should be.
async fn echo(asked: Asked, out: SendResponse<Bytes>) -> Then {
    respond(out, good(), reply(&asked.query));
    Then::Keep
}

/// An upstream.
fn upstream(pki: &Pki, verb: Verb, addr: SocketAddr, settings: Settings) -> Arc<Upstream> {
    let identity = Identity::new(pki.client(), None, addr).unwrap();
    Upstream::new(addr, &Speech::Https(identity, verb), settings)
}

/// A server's certificate.
fn config(pki: &Pki) -> ServerConfig {
    pki.server(&["dns.example.org", "127.0.0.1"], &[b"h2", b"http/1.1"])
}

/// Settings with time.
fn patient() -> Settings {
    Settings { read_timeout: Duration::from_secs(5), ..settings() }
}

#[tokio::test]
async fn doh_01_queries_go_as_requests_with_id_0() {
    let pki = Pki::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(8);
    let (addr, _) = serve(config(&pki), move |asked, out| {
        let tell = tell.clone();
        async move {
            respond(out, good(), reply(&asked.query));
            tell.send(asked).await.unwrap();
            Then::Keep
        }
    })
    .await;
    for (verb, name, method) in [
        (Verb::Post, None, Method::POST),
        (Verb::Get, None, Method::GET),
        (Verb::Get, Some("dns.example.org"), Method::GET),
    ] {
        let identity = Identity::new(pki.client(), name, addr).unwrap();
        let upstream = Upstream::new(addr, &Speech::Https(identity, verb), settings());
        // Whatever the query came by, it goes by HTTPS.
        ask(&upstream, Protocol::Udp, "www.example.org").await.unwrap();
        let asked = told.recv().await.unwrap();
        assert_eq!(asked.query[..2], [0, 0]);
        assert_eq!((asked.head.method(), asked.head.uri().path()), (&method, "/dns-query"));
        let host = name.unwrap_or("127.0.0.1");
        let authority = format!("{host}:{}", addr.port());
        assert_eq!(asked.head.uri().authority().unwrap().as_str(), authority);
        let headers = asked.head.headers();
        assert_eq!(headers["accept"], "application/dns-message");
        let body = headers.get("content-type").is_some();
        assert_eq!(body, verb == Verb::Post);
    }
}

#[tokio::test]
async fn what_is_no_reply_is_told_and_not_waited_for() {
    let pki = Pki::new();
    let (addr, seen) = serve(config(&pki), |asked, mut out| async move {
        let label = usize::from(asked.query[12]);
        let right = reply(&asked.query);
        let medium = |medium: &str| Response::builder().header("content-type", medium);
        match &asked.query[13..13 + label] {
            b"ok" => respond(out, medium("Application/DNS-Message;x=y").body(()).unwrap(), right),
            b"busy" => respond(out, Response::builder().status(503).body(()).unwrap(), right),
            b"moved" => respond(out, Response::builder().status(302).body(()).unwrap(), right),
            b"html" => respond(out, medium("text/html").body(()).unwrap(), right),
            b"bare" => respond(out, Response::new(()), right),
            b"empty" => respond(out, good(), Vec::new()),
            b"short" => respond(out, good(), right[..11].to_vec()),
            b"other" => {
                let mut other = right;
                other[13] ^= 1;
                respond(out, good(), other);
            }
            b"id" => {
                let mut other = right;
                other[1] = 1;
                respond(out, good(), other);
            }
            b"said" => {
                let response = medium("application/dns-message").header("content-length", "70000");
                respond(out, response.body(()).unwrap(), right);
            }
            b"fields" => {
                let mut response = medium("application/dns-message");
                for at in 0..40 {
                    response = response.header(format!("x-{at}"), "y".repeat(1000));
                }
                respond(out, response.body(()).unwrap(), right);
            }
            b"reset" => out.send_reset(Reason::INTERNAL_ERROR),
            b"drip" => {
                let mut body = out.send_response(good(), false).unwrap();
                for octet in right {
                    if body.send_data(vec![octet].into(), false).is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            b"endless" => {
                let mut body = out.send_response(good(), false).unwrap();
                loop {
                    body.reserve_capacity(16_384);
                    match std::future::poll_fn(|cx| body.poll_capacity(cx)).await {
                        Some(Ok(len)) if body.send_data(vec![0; len].into(), false).is_ok() => {}
                        _ => break,
                    }
                }
            }
            _ => unreachable!(),
        }
        Then::Keep
    })
    .await;
    let upstream = upstream(&pki, Verb::Post, addr, settings());
    for (name, want) in [
        ("ok", ""),
        ("busy", "HTTP status 503 Service Unavailable"),
        ("moved", "HTTP status 302 Found"),
        ("html", "the reply is no application/dns-message but \"text/html\""),
        ("bare", "the reply is no application/dns-message but \"\""),
        ("empty", "the reply is no message"),
        ("short", "the reply is no message"),
        ("other", "the reply is to another question"),
        ("id", "the reply is to another question"),
        ("said", "the reply is longer than 65535 octets"),
        ("endless", "the reply is longer than 65535 octets"),
        ("reset", "the server reset the stream: unexpected internal error encountered"),
        ("drip", "i/o timeout"),
        ("fields", "HTTP"),
        ("ok", ""),
    ] {
        let text = match ask(&upstream, Protocol::Tcp, &format!("{name}.test")).await {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(text.is_empty() == want.is_empty() && text.contains(want), "{name}: {text}");
        assert!(text.is_empty() || text.starts_with("read https 127.0.0.1:"), "{name}: {text}");
    }
    assert!(seen.connections.load(Ordering::Relaxed) <= 3);
}

#[tokio::test]
async fn many_queries_share_a_connection_and_take_replies_in_any_order() {
    let pki = Pki::new();
    let waiting = Arc::new(tokio::sync::Barrier::new(100));
    let (addr, seen) = serve(config(&pki), move |asked, out| {
        let waiting = Arc::clone(&waiting);
        async move {
            waiting.wait().await;
            tokio::time::sleep(Duration::from_millis(100 - asked.number as u64 % 100)).await;
            echo(asked, out).await
        }
    })
    .await;
    let upstream = upstream(&pki, Verb::Post, addr, patient());
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..100 {
        let upstream = Arc::clone(&upstream);
        tasks.spawn(async move {
            let name = format!("n{at}.test");
            let got = ask(&upstream, Protocol::Tcp, &name).await.unwrap();
            assert!(got[10..].starts_with(super::request(&name).name.wire()));
        });
    }
    tasks.join_all().await;
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn fwd_04_connections_that_leave_or_are_cut_lose_no_query() {
    let pki = Pki::new();
    for then in [Then::Leave, Then::Cut] {
        // Every tenth request ends its connection; those that come along with it are lost.
        let (addr, seen) = serve(config(&pki), move |asked, out| async move {
            if asked.number % 10 == 9 {
                if then == Then::Leave {
                    echo(asked, out).await;
                }
                return then;
            }
            echo(asked, out).await
        })
        .await;
        let upstream = upstream(&pki, Verb::Post, addr, patient());
        for at in 0..100 {
            let got = ask(&upstream, Protocol::Tcp, &format!("n{at}.test")).await;
            assert!(got.is_ok(), "{then:?} {at}: {got:?}");
        }
        assert!(seen.connections.load(Ordering::Relaxed) > 5, "{then:?}");
    }
}

#[tokio::test]
async fn queries_that_a_server_refuses_or_loses_are_sent_once_more() {
    let pki = Pki::new();
    for cut in [false, true] {
        // The first connection answers one request and loses 80.
        let lost = Arc::new(tokio::sync::Barrier::new(80));
        let (addr, seen) = serve(config(&pki), move |asked, mut out| {
            let lost = Arc::clone(&lost);
            async move {
                if asked.number == 0 || asked.connection > 0 {
                    return echo(asked, out).await;
                }
                lost.wait().await;
                if cut {
                    return Then::Cut;
                }
                out.send_reset(Reason::REFUSED_STREAM);
                Then::Keep
            }
        })
        .await;
        let upstream = upstream(&pki, Verb::Post, addr, patient());
        ask(&upstream, Protocol::Tcp, "first.test").await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..80 {
            let upstream = Arc::clone(&upstream);
            tasks.spawn(async move { ask(&upstream, Protocol::Tcp, &format!("n{at}.test")).await });
        }
        let got = tasks.join_all().await;
        assert!(got.iter().all(Result::is_ok), "{cut} {got:?}");
        assert_eq!(seen.connections.load(Ordering::Relaxed), 2, "{cut}");
    }
}

#[tokio::test]
async fn queries_that_nobody_waits_for_are_cancelled() {
    let pki = Pki::new();
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    let (addr, seen) = serve(config(&pki), move |asked, mut out| {
        let tell = tell.lock().unwrap().take();
        async move {
            let Some(tell) = tell else { return echo(asked, out).await };
            let reason = std::future::poll_fn(|cx| out.poll_reset(cx)).await.unwrap();
            tell.send(reason).unwrap();
            Then::Keep
        }
    })
    .await;
    let upstream = upstream(&pki, Verb::Post, addr, patient());
    let gone =
        tokio::time::timeout(Duration::from_millis(300), ask(&upstream, Protocol::Tcp, "a.test"));
    assert!(gone.await.is_err());
    assert_eq!(told.await.unwrap(), Reason::CANCEL);
    // The connection is as good as before.
    ask(&upstream, Protocol::Tcp, "b.test").await.unwrap();
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn connections_end_in_time_and_sessions_are_resumed() {
    let pki = Pki::new();
    let (addr, seen) = serve(config(&pki), echo).await;
    let short = Settings { expire: Duration::from_millis(50), ..settings() };
    let kept = upstream(&pki, Verb::Post, addr, short);
    for _ in 0..3 {
        ask(&kept, Protocol::Tcp, "a.test").await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
        // On a busy machine both times are over at once: the connection has its turn first.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    let kinds = std::mem::take(&mut *seen.kinds.lock().unwrap());
    assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]);
    // max_age ends a connection that is in use.
    let aged = Settings { max_age: Some(Duration::from_millis(100)), ..settings() };
    let aged = upstream(&pki, Verb::Post, addr, aged);
    for _ in 0..30 {
        ask(&aged, Protocol::Tcp, "a.test").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let count = seen.kinds.lock().unwrap().len();
    assert!((3..10).contains(&count), "{count} connections");
}

#[tokio::test]
async fn who_speaks_no_http2_is_told() {
    let pki = Pki::new();
    for (alpn, want) in [
        (&[][..], "the server does not speak HTTP/2"),
        (
            &[&b"http/1.1"[..]][..],
            "the server refuses: it does not speak this protocol (NoApplicationProtocol)",
        ),
    ] {
        let (addr, _) = serve(pki.server(&["127.0.0.1"], alpn), echo).await;
        let got = ask(&upstream(&pki, Verb::Post, addr, settings()), Protocol::Tcp, "a.test").await;
        let Err(Error::Tls(Protocol::Https, to, why)) = got else { panic!("{got:?}") };
        assert_eq!((to, &*why), (addr, want));
    }
}
