//! Upstreams against scripted servers on loopback.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use wire::{Flags, Request, rtype};

use super::{Check, Error, Protocol, Settings, Speech, Upstream};

mod https;
mod pki;
mod quic;
mod tls;

/// An address of loopback, its port to be chosen.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Short times, and no checks.
fn settings() -> Settings {
    Settings {
        proxy: "test",
        read_timeout: Duration::from_millis(200),
        expire: Duration::from_secs(10),
        max_age: None,
        max_idle: 0,
        source: None,
        max_fails: 0,
        check: Check::default(),
    }
}

/// A query for the address of `name`.
fn request(name: &str) -> Request {
    Request { name: name.parse().unwrap(), rtype: rtype::A, flags: Flags::RD, ..Request::default() }
}

/// Asks for `name` and gives the reply without its id.
async fn ask(upstream: &Upstream, protocol: Protocol, name: &str) -> Result<Vec<u8>, Error> {
    let request = request(name);
    let write = |id: u16, out: &mut Vec<u8>| wire::encode_query(&request, id, out);
    upstream.exchange(protocol, &write).await.map(|reply| reply[2..].to_vec())
}

/// The reply to a query: the query itself, marked as one.
fn reply(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply
}

/// A UDP server that sends what `script` makes of each query, one datagram after another.
async fn udp(script: impl Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind(LOOPBACK).await.unwrap();
    let addr = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer).await {
            for datagram in script(&buffer[..len], peer) {
                socket.send_to(&datagram, peer).await.unwrap();
            }
        }
    });
    addr
}

#[tokio::test]
async fn fwd_02_only_the_reply_to_the_query_counts() {
    let addr = udp(|query, _| {
        let right = reply(query);
        let (mut id, mut question, mut kind, mut no_response) =
            (right.clone(), right.clone(), right.clone(), right.clone());
        id[0] ^= 0xff;
        question[13] = b'x';
        kind[right.len() - 3] = 0x1c;
        no_response[2] &= 0x7f;
        vec![
            id,
            question,
            kind,
            no_response,
            right[..5].to_vec(),
            right.to_ascii_uppercase(),
            right,
        ]
    })
    .await;
    let upstream = Upstream::new(addr, &Speech::Plain, settings());
    for _ in 0..20 {
        let got = ask(&upstream, Protocol::Udp, "www.example.org").await.unwrap();
        assert_eq!(got[0], 0x81);
        assert!(got[10..].eq_ignore_ascii_case(b"\x03www\x07example\x03org\x00\x00\x01\x00\x01"));
    }
}

#[tokio::test]
async fn fwd_02_many_wrong_replies_end_the_wait_and_late_ones_do_not() {
    let addr = udp(|query, _| {
        let right = reply(query);
        let wrong = |bit: u8| {
            let mut wrong = right.clone();
            wrong[0] ^= bit;
            wrong
        };
        match query[13] {
            b'g' => (1..=8).map(wrong).collect(),
            // A few are passed over, however often a query that was answered is answered again.
            _ => (1..=5).map(wrong).chain(vec![right.clone(); 20]).collect(),
        }
    })
    .await;
    let upstream = Upstream::new(addr, &Speech::Plain, settings());
    for _ in 0..100 {
        ask(&upstream, Protocol::Udp, "few.test").await.unwrap();
    }
    let error = ask(&upstream, Protocol::Udp, "guess.test").await.unwrap_err();
    assert!(matches!(error, Error::Strays(_)), "{error}");
    let line =
        format!("causeway_upstream_stray_replies_total{{proxy_name=\"test\",to=\"{addr}\"}} ");
    let text = engine::metrics::render();
    let count = text.split(&line).nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(count.parse::<u64>().unwrap() >= 508, "{count}");
}

#[tokio::test]
async fn an_error_without_a_question_is_a_reply() {
    let addr =
        udp(|query, _| vec![vec![query[0], query[1], 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]]).await;
    let upstream = Upstream::new(addr, &Speech::Plain, settings());
    assert_eq!(ask(&upstream, Protocol::Udp, "a.test").await.unwrap()[1], 0x81);
}

#[tokio::test]
async fn what_is_wrong_is_told_in_known_words() {
    let silent = udp(|_, _| Vec::new()).await;
    let wrong = udp(|query, _| {
        let mut other = reply(query);
        other[13] = b'x';
        vec![other]
    })
    .await;
    let nobody = TcpListener::bind(LOOPBACK).await.unwrap().local_addr().unwrap();
    for (addr, protocol, want) in [
        (silent, Protocol::Udp, "i/o timeout"),
        (wrong, Protocol::Udp, "the reply is to another question"),
        (nobody, Protocol::Udp, "connection refused"),
        (nobody, Protocol::Tcp, "connection refused"),
    ] {
        let error = ask(&Upstream::new(addr, &Speech::Plain, settings()), protocol, "a.test")
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with(&format!("{addr}: {want}")), "{text}, not {want}");
        let begin = if protocol == Protocol::Tcp { "dial tcp 127" } else { "read udp 127.0.0.1:" };
        assert!(text.starts_with(begin), "{text}");
    }
}

#[tokio::test]
async fn fwd_01_ids_and_ports_are_many() {
    let seen = Arc::new(Mutex::new((HashSet::new(), HashSet::new())));
    let noted = Arc::clone(&seen);
    let addr = udp(move |query, peer| {
        let mut seen = noted.lock().unwrap();
        seen.0.insert([query[0], query[1]]);
        seen.1.insert(peer.port());
        vec![reply(query)]
    })
    .await;
    let upstream = Upstream::new(addr, &Speech::Plain, settings());
    for _ in 0..1000 {
        ask(&upstream, Protocol::Udp, "a.test").await.unwrap();
    }
    let seen = seen.lock().unwrap();
    // Of 1,000 out of 65,536 some eight are drawn twice.
    assert!(seen.0.len() > 960, "{} ids", seen.0.len());
    assert_eq!(seen.1.len(), 32);
}

/// How a TCP server ends a connection.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// After one answer.
    AfterOne,
    /// After one answer, without a farewell.
    Reset,
    /// When it has read a second query.
    AtSecond,
}

/// A TCP server that answers one query a connection.
async fn fickle(ending: Ending, connections: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let read = async |stream: &mut tokio::net::TcpStream| {
                    let len = stream.read_u16().await.ok()?;
                    let mut query = vec![0; usize::from(len)];
                    stream.read_exact(&mut query).await.ok().map(|_| query)
                };
                let Some(query) = read(&mut stream).await else { return };
                let framed = [&(query.len() as u16).to_be_bytes()[..], &reply(&query)].concat();
                stream.write_all(&framed).await.unwrap();
                match ending {
                    Ending::AfterOne => {}
                    Ending::Reset => stream.set_zero_linger().unwrap(),
                    Ending::AtSecond => drop(read(&mut stream).await),
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn a_kept_connection_that_is_closed_is_replaced_within_the_query() {
    for ending in [Ending::AfterOne, Ending::Reset, Ending::AtSecond] {
        let connections = Arc::new(AtomicUsize::new(0));
        let addr = fickle(ending, Arc::clone(&connections)).await;
        let upstream = Upstream::new(addr, &Speech::Plain, settings());
        for at in 0..20 {
            let got = ask(&upstream, Protocol::Tcp, &format!("n{at}.test")).await;
            assert!(got.is_ok(), "{ending:?} {at}: {got:?}");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 20, "{ending:?}");
    }
}

#[tokio::test]
async fn many_queries_share_few_connections_and_take_replies_in_any_order() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut queries = Vec::new();
                // Whatever comes within 50 ms is answered backwards.
                while let Ok(Ok(len)) =
                    tokio::time::timeout(Duration::from_millis(50), stream.read_u16()).await
                {
                    let mut query = vec![0; usize::from(len)];
                    stream.read_exact(&mut query).await.unwrap();
                    queries.push(query);
                }
                for query in queries.iter().rev() {
                    let framed = [&(query.len() as u16).to_be_bytes()[..], &reply(query)].concat();
                    stream.write_all(&framed).await.unwrap();
                }
            });
        }
    });
    let upstream = Upstream::new(
        addr,
        &Speech::Plain,
        Settings { read_timeout: Duration::from_secs(5), ..settings() },
    );
    let mut tasks = Vec::new();
    for at in 0..100 {
        let upstream = Arc::clone(&upstream);
        tasks.push(tokio::spawn(async move {
            let name = format!("n{at}.test");
            let got = ask(&upstream, Protocol::Tcp, &name).await.unwrap();
            assert!(got[10..].starts_with(request(&name).name.wire()));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(connections.load(Ordering::Relaxed), 8);
}

#[tokio::test]
async fn an_upstream_is_down_after_failed_checks_and_up_after_any_reply() {
    let talks = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&talks);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let addr = udp(move |query, _| {
        noted.lock().unwrap().push(query[2..].to_vec());
        match switch.load(Ordering::Relaxed) {
            0 => Vec::new(),
            // A bare refusal will do.
            _ => vec![vec![query[0], query[1], 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0]],
        }
    })
    .await;
    let check = Check {
        interval: Duration::from_millis(10),
        recursion: false,
        domain: "example.org".parse().unwrap(),
        ..Check::default()
    };
    let upstream =
        Upstream::new(addr, &Speech::Plain, Settings { max_fails: 1, check, ..settings() });
    upstream.suspect();
    upstream.suspect();
    assert!(!upstream.is_down());
    tokio::time::sleep(Duration::from_millis(2300)).await;
    assert!(upstream.is_down());
    talks.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(!upstream.is_down());
    let seen = seen.lock().unwrap();
    assert!((3..=4).contains(&seen.len()), "{} checks", seen.len());
    let query = b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x02\x00\x01";
    assert_eq!(seen[0], query);
}

#[tokio::test]
async fn without_checks_an_upstream_is_never_down() {
    let addr = udp(|_, _| Vec::new()).await;
    let upstream = Upstream::new(addr, &Speech::Plain, settings());
    upstream.suspect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!upstream.is_down());
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let closed = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let len = stream.read_u16().await.unwrap();
        let mut query = vec![0; usize::from(len)];
        stream.read_exact(&mut query).await.unwrap();
        let framed = [&len.to_be_bytes()[..], &reply(&query)].concat();
        stream.write_all(&framed).await.unwrap();
        stream.read_u16().await.unwrap_err().kind()
    });
    let expire = Duration::from_millis(50);
    let upstream = Upstream::new(addr, &Speech::Plain, Settings { expire, ..settings() });
    ask(&upstream, Protocol::Tcp, "a.test").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(2), closed).await.unwrap().unwrap();
    assert_eq!(ended, std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn idle_connections_beyond_the_number_are_closed() {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (opened, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&opened), Arc::clone(&closed));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counts.0.fetch_add(1, Ordering::Relaxed);
            let closed = Arc::clone(&counts.1);
            tokio::spawn(async move {
                while let Ok(len) = stream.read_u16().await {
                    let mut query = vec![0; usize::from(len)];
                    stream.read_exact(&mut query).await.unwrap();
                    // The others are asked meanwhile.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let framed = [&(query.len() as u16).to_be_bytes()[..], &reply(&query)].concat();
                    stream.write_all(&framed).await.unwrap();
                }
                closed.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    let upstream = Upstream::new(addr, &Speech::Plain, Settings { max_idle: 1, ..settings() });
    let mut tasks = Vec::new();
    for at in 0..4 {
        let upstream = Arc::clone(&upstream);
        tasks.push(tokio::spawn(async move {
            ask(&upstream, Protocol::Tcp, &format!("n{at}.test")).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for _ in 0..50 {
        if closed.load(Ordering::Relaxed) == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((opened.load(Ordering::Relaxed), closed.load(Ordering::Relaxed)), (4, 3));
    ask(&upstream, Protocol::Tcp, "again.test").await.unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 4, "the one that is left serves");
}
