//! DNS over TLS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::pki::Pki;
use super::{LOOPBACK, ask, reply, settings};
use crate::upstream::{Error, Identity, Protocol, Settings, Speech, Upstream};

/// What a server does with a connection that stands.
type Act = dyn Fn(TlsStream<TcpStream>) -> futures::future::BoxFuture<'static, ()> + Send + Sync;

/// A server that does the same with each connection.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    config: ServerConfig,
    act: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let act: Arc<Act> = Arc::new(move |stream| Box::pin(act(stream)));
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, act) = (acceptor.clone(), Arc::clone(&act));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    act(stream).await;
                }
            });
        }
    });
    addr
}

/// Reads a query.
async fn read(stream: &mut TlsStream<TcpStream>) -> Option<Vec<u8>> {
    let len = stream.read_u16().await.ok()?;
    let mut query = vec![0; usize::from(len)];
    stream.read_exact(&mut query).await.ok().map(|_| query)
}

/// Sends the replies to queries.
async fn answer(stream: &mut TlsStream<TcpStream>, queries: &[Vec<u8>]) {
    for query in queries {
        let framed = [&(query.len() as u16).to_be_bytes()[..], &reply(query)].concat();
        stream.write_all(&framed).await.unwrap();
    }
    stream.flush().await.unwrap();
}

/// Answers each query.
async fn echo(mut stream: TlsStream<TcpStream>) {
    while let Some(query) = read(&mut stream).await {
        answer(&mut stream, &[query]).await;
    }
}

/// The upstream at `addr`, to be `name` or its address.
fn upstream(pki: &Pki, name: Option<&str>, addr: SocketAddr, settings: Settings) -> Arc<Upstream> {
    let identity = Identity::new(pki.client(), name, addr).unwrap();
    Upstream::new(addr, &Speech::Tls(identity), settings)
}

#[tokio::test]
async fn fwd_04_names_and_addresses_are_verified_and_what_is_wrong_is_told() {
    let (pki, other) = (Pki::new(), Pki::new());
    let both = &["dns.example.org", "127.0.0.1"][..];
    for (trusts, config, name, want) in [
        (&pki, pki.server(both, &[b"dot"]), None, Ok(())),
        (&pki, pki.server(both, &[]), Some("dns.example.org"), Ok(())),
        (&pki, pki.server(both, &[]), Some("dns.example.org."), Ok(())),
        (
            &pki,
            pki.server(both, &[]),
            Some("dns.example.com"),
            Err(
                "the server's certificate is for dns.example.org, 127.0.0.1, not for dns.example.com",
            ),
        ),
        (
            &pki,
            pki.server(&["dns.example.org"], &[]),
            None,
            Err("the server's certificate is for dns.example.org, not for 127.0.0.1"),
        ),
        (
            &other,
            pki.server(both, &[]),
            None,
            Err("the server's certificate is signed by an unknown authority"),
        ),
        (&pki, pki.expired(both, &[]), None, Err("the server's certificate has expired")),
        (
            &pki,
            pki.server(both, &[b"h2"]),
            None,
            Err("the server refuses: it does not speak this protocol (NoApplicationProtocol)"),
        ),
    ] {
        let addr = serve(config, echo).await;
        let upstream = upstream(trusts, name, addr, settings());
        // Whatever the query came by, it goes by TLS.
        match (ask(&upstream, Protocol::Udp, "a.test").await, want) {
            (Ok(_), Ok(())) => {}
            (Err(Error::Tls(Protocol::Tls, to, why)), Err(want)) => {
                assert!(to == addr && why.starts_with(want), "{why}, not {want}");
                let text = Error::Tls(Protocol::Tls, to, why).to_string();
                assert!(text.starts_with(&format!("dial tcp-tls {addr}: tls: {want}")), "{text}");
            }
            (got, want) => panic!("{got:?}, not {want:?}"),
        }
    }
    assert!(Identity::new(pki.client(), Some("no name"), LOOPBACK).is_none());
}

#[tokio::test]
async fn what_speaks_no_tls_or_nothing_at_all_is_told() {
    let pki = Pki::new();
    let garbage = TcpListener::bind(LOOPBACK).await.unwrap();
    let silent = TcpListener::bind(LOOPBACK).await.unwrap();
    let (garbage_at, silent_at) = (garbage.local_addr().unwrap(), silent.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = garbage.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let got = ask(&upstream(&pki, None, garbage_at, settings()), Protocol::Tls, "a.test").await;
    let text = got.unwrap_err().to_string();
    assert!(text.contains("tls: the server does not speak TLS"), "{text}");
    // Making a connection is not waited for longer than a reply.
    let begun = std::time::Instant::now();
    let got = ask(&upstream(&pki, None, silent_at, settings()), Protocol::Tls, "a.test").await;
    let text = got.unwrap_err().to_string();
    assert_eq!(text, format!("dial tcp-tls {silent_at}: i/o timeout"));
    assert!(begun.elapsed() < Duration::from_millis(1500));
}

#[tokio::test]
async fn sessions_are_resumed_and_data_is_never_early() {
    let pki = Pki::new();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&kinds);
    let mut config = pki.server(&["127.0.0.1"], &[]);
    config.max_early_data_size = 16_384;
    let addr = serve(config, move |mut stream| {
        noted.lock().unwrap().push(stream.get_ref().1.handshake_kind().unwrap());
        async move {
            if let Some(query) = read(&mut stream).await {
                answer(&mut stream, &[query]).await;
            }
        }
    })
    .await;
    let upstream = upstream(&pki, None, addr, settings());
    for _ in 0..3 {
        ask(&upstream, Protocol::Tls, "a.test").await.unwrap();
    }
    let kinds = kinds.lock().unwrap();
    assert_eq!(kinds[..], [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]);
}

#[tokio::test]
async fn many_queries_share_few_connections_and_take_replies_in_any_order() {
    let pki = Pki::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let addr = serve(pki.server(&["127.0.0.1"], &[]), move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut queries: Vec<Vec<u8>> = Vec::new();
            // Whatever comes within 50 ms is answered backwards.
            while let Ok(Some(query)) =
                tokio::time::timeout(Duration::from_millis(50), read(&mut stream)).await
            {
                assert!(queries.iter().all(|other| other[..2] != query[..2]), "an id twice");
                queries.push(query);
            }
            queries.reverse();
            answer(&mut stream, &queries).await;
        }
    })
    .await;
    let long = Settings { read_timeout: Duration::from_secs(5), ..settings() };
    let upstream = upstream(&pki, None, addr, long);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..300 {
        let upstream = Arc::clone(&upstream);
        tasks.spawn(async move {
            let name = format!("n{at}.test");
            let got = ask(&upstream, Protocol::Tls, &name).await.unwrap();
            assert!(got[10..].starts_with(super::request(&name).name.wire()));
        });
    }
    tasks.join_all().await;
    assert_eq!(connections.load(Ordering::Relaxed), 8);
}

#[tokio::test]
async fn queries_that_connections_lose_are_sent_once_more() {
    let pki = Pki::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    // Each of the first eight answers one query, reads more, and goes without a word.
    let addr = serve(pki.server(&["127.0.0.1"], &[]), move |mut stream| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if number >= 8 {
                return echo(stream).await;
            }
            let first = read(&mut stream).await.unwrap();
            answer(&mut stream, &[first]).await;
            for _ in 0..20 {
                read(&mut stream).await.unwrap();
            }
            stream.get_ref().0.set_zero_linger().unwrap();
        }
    })
    .await;
    let long = Settings { read_timeout: Duration::from_secs(5), ..settings() };
    let upstream = upstream(&pki, None, addr, long);
    let all = async |count| {
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..count {
            let upstream = Arc::clone(&upstream);
            tasks.spawn(async move { ask(&upstream, Protocol::Tls, &format!("n{at}.test")).await });
        }
        let got = tasks.join_all().await;
        assert!(got.iter().all(Result::is_ok), "{got:?}");
    };
    all(8).await;
    assert_eq!(connections.load(Ordering::Relaxed), 8);
    all(400).await;
    assert!(connections.load(Ordering::Relaxed) <= 16);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_not_waited_for_again() {
    let pki = Pki::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let addr = serve(pki.server(&["127.0.0.1"], &[]), move |mut stream| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if number > 0 {
                return echo(stream).await;
            }
            let first = read(&mut stream).await.unwrap();
            answer(&mut stream, &[first]).await;
            std::future::pending().await
        }
    })
    .await;
    let upstream = upstream(&pki, None, addr, settings());
    ask(&upstream, Protocol::Tls, "a.test").await.unwrap();
    let error = ask(&upstream, Protocol::Tls, "b.test").await.unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    ask(&upstream, Protocol::Tls, "c.test").await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn dot_05_idle_connections_are_closed_with_a_farewell() {
    let pki = Pki::new();
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    let addr = serve(pki.server(&["127.0.0.1"], &[]), move |mut stream| {
        let tell = tell.lock().unwrap().take();
        async move {
            let query = read(&mut stream).await.unwrap();
            answer(&mut stream, &[query]).await;
            let mut rest = Vec::new();
            // Without close_notify this is an error (RFC 8446 §6.1).
            let ended = stream.read_to_end(&mut rest).await.map_err(|error| error.to_string());
            tell.unwrap().send(ended).unwrap();
        }
    })
    .await;
    let short = Settings { expire: Duration::from_millis(50), ..settings() };
    ask(&upstream(&pki, None, addr, short), Protocol::Tls, "a.test").await.unwrap();
    assert_eq!(told.await.unwrap(), Ok(0));
}

#[tokio::test]
async fn fwd_21_checks_go_by_tls_and_end_with_the_outage() {
    let pki = Pki::new();
    let good = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&good);
    let addr = serve(pki.server(&["127.0.0.1"], &[]), move |stream| {
        let good = switch.load(Ordering::Relaxed) > 0;
        async move {
            if good {
                echo(stream).await;
            }
        }
    })
    .await;
    let mut watched = settings();
    watched.max_fails = 1;
    watched.check.interval = Duration::from_millis(10);
    let upstream = upstream(&pki, None, addr, watched);
    upstream.suspect();
    let until = async |down| {
        let changed = async {
            while upstream.is_down() != down {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), changed).await.unwrap();
    };
    until(true).await;
    good.store(1, Ordering::Relaxed);
    until(false).await;
}

#[tokio::test]
async fn fwd_21_checks_of_a_server_that_hangs_end_when_it_serves_again() {
    let pki = Pki::new();
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let (counted, acceptor) =
        (Arc::clone(&accepted), TlsAcceptor::from(Arc::new(pki.server(&["127.0.0.1"], &[]))));
    let good = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&good);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            if switch.load(Ordering::Relaxed) == 0 {
                // It takes connections, and nothing comes of them.
                held.push(stream);
                continue;
            }
            let acceptor = acceptor.clone();
            tokio::spawn(async move { echo(acceptor.accept(stream).await.unwrap()).await });
        }
    });
    let mut watched = settings();
    watched.max_fails = 1;
    watched.check.interval = Duration::from_millis(1);
    let upstream = upstream(&pki, None, addr, watched);
    upstream.suspect();
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert!(upstream.is_down());
    let count = accepted.load(Ordering::Relaxed);
    assert!((2..=4).contains(&count), "{count} connections");
    good.store(1, Ordering::Relaxed);
    let up = async {
        while upstream.is_down() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3), up).await.unwrap();
    ask(&upstream, Protocol::Tls, "a.test").await.unwrap();
}
