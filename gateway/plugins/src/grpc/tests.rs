//! `grpc` against scripted upstreams.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::metrics;
use engine::testing::Bench;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use wire::{Answer, Flags, Request, rcode};

use crate::CHAIN;
use crate::shared::scripted::{Asked, encode};

/// What an upstream makes of a call.
enum Say {
    /// This message.
    Reply(Vec<u8>),
    /// A status, in a head alone.
    Status(u8),
    /// The same behind an empty body.
    Late(u8),
    /// This body with a good status behind it.
    Body(Vec<u8>),
    /// A message and no status.
    Bare(Vec<u8>),
    /// A status of HTTP.
    Http(u16),
    /// Nothing.
    Nothing,
}

/// A script.
type Script = dyn Fn(&Asked, &mut Answer) -> Say + Send + Sync;

/// A frame with a packet with a message.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x0a];
    let mut len = message.len();
    while len >= 0x80 {
        packet.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    packet.push(len as u8);
    packet.extend_from_slice(message);
    [&[0][..], &(packet.len() as u32).to_be_bytes(), &packet].concat()
}

/// Answers the calls of a connection.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, script: Arc<Script>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut number = 0;
    while let Some(Ok((request, out))) = connection.accept().await {
        let (script, count) = (Arc::clone(&script), number);
        number += 1;
        tokio::spawn(async move {
            assert_eq!(request.uri().path(), "/coredns.dns.DnsService/Query");
            assert_eq!(request.headers()["content-type"], "application/grpc");
            assert_eq!(request.headers()["te"], "trailers");
            assert!(request.headers()["grpc-timeout"].to_str().unwrap().ends_with('m'));
            let mut body = request.into_body();
            let mut octets = Vec::new();
            while let Some(Ok(data)) = body.data().await {
                octets.extend_from_slice(&data);
            }
            // Queries of the tests are short: a tag, one octet of length.
            let wire = octets[7..].to_vec();
            assert_eq!(framed(&wire), octets);
            let mut request = Request::default();
            request.read(&wire).unwrap();
            let asked = Asked { request, wire, tcp: true, number: count };
            let mut answer = Answer::default();
            answer.flags = asked.request.flags.only(Flags::RD.with(Flags::CD)).with(Flags::RA);
            answer.a(&asked.request.name.clone(), 60, Ipv4Addr::new(198, 51, 100, 1));
            say(out, script(&asked, &mut answer)).await;
        });
    }
}

/// Sends what is said.
async fn say(mut out: SendResponse<Bytes>, said: Say) {
    let head = || Response::builder().header("content-type", "application/grpc");
    let status = |number: u8| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", number.to_string().parse().unwrap());
        trailers.insert("grpc-message", "as scripted".parse().unwrap());
        trailers
    };
    let (body, trailers) = match said {
        Say::Nothing => return std::future::pending().await,
        Say::Http(code) => {
            out.send_response(Response::builder().status(code).body(()).unwrap(), true).unwrap();
            return;
        }
        Say::Status(number) => {
            let mut response = head().body(()).unwrap();
            response.headers_mut().extend(status(number));
            out.send_response(response, true).unwrap();
            return;
        }
        Say::Late(number) => (Vec::new(), Some(status(number))),
        Say::Reply(message) => (framed(&message), Some(status(0))),
        Say::Body(body) => (body, Some(status(0))),
        Say::Bare(message) => (framed(&message), None),
    };
    let mut stream = out.send_response(head().body(()).unwrap(), false).unwrap();
    stream.send_data(body.into(), trailers.is_none()).unwrap();
    if let Some(trailers) = trailers {
        stream.send_trailers(trailers).unwrap();
    }
}

/// An upstream at an address; counts its connections.
async fn upstream(
    script: impl Fn(&Asked, &mut Answer) -> Say + Send + Sync + 'static,
) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let script: Arc<Script> = Arc::new(script);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, Arc::clone(&script)));
        }
    });
    (addr, connections)
}

/// Answers by the first label of a name.
fn usual(asked: &Asked, answer: &mut Answer) -> Say {
    let message = encode(asked, answer);
    match &*asked.label() {
        "gone" => Say::Status(5),
        "late" => Say::Late(5),
        "nx" => {
            answer.clear_records();
            answer.rcode = rcode::NXDOMAIN;
            Say::Reply(encode(asked, answer))
        }
        "busy" => Say::Status(14),
        "bare" => Say::Bare(message),
        "http" => Say::Http(502),
        "empty" => Say::Body(Vec::new()),
        "squeezed" => Say::Body([&[1][..], &framed(&message)[1..]].concat()),
        "more" => Say::Body([&framed(&message)[..], &[0]].concat()),
        "endless" => Say::Body(vec![0; 70_000]),
        "short" => Say::Reply(message[..11].to_vec()),
        "wrong" => {
            let mut other = message;
            other[13] ^= 1;
            Say::Reply(other)
        }
        "cut" => Say::Reply(message[..message.len() - 2].to_vec()),
        "silent" => Say::Nothing,
        _ => Say::Reply(message),
    }
}

/// A gateway with one block for the root.
fn bench(body: &str) -> Bench {
    Bench::new(CHAIN, &format!(". {{\n{body}\n}}\n"))
}

#[tokio::test]
async fn calls_are_made_and_what_is_no_reply_fails() {
    let (addr, connections) = upstream(usual).await;
    let bench = bench(&format!("grpc . {addr} {{\n except ex.test\n}}"));
    let good = |name: &str| format!("NOERROR rd ra | {name}.test. 60 A 198.51.100.1");
    assert_eq!(bench.ask("www.test +edns").await, good("www"));
    for name in ["gone", "late", "nx"] {
        assert_eq!(bench.ask(&format!("{name}.test")).await, "NXDOMAIN rd ra", "{name}");
    }
    for (name, code) in [
        ("busy", 23),
        ("bare", 23),
        ("http", 23),
        ("empty", 23),
        ("squeezed", 23),
        ("more", 23),
        ("endless", 23),
        ("short", 23),
        ("cut", 24),
    ] {
        let got = bench.ask(&format!("{name}.test +edns")).await;
        assert!(got.starts_with(&format!("SERVFAIL rd | EDE {code} ")), "{name}: {got}");
    }
    assert_eq!(bench.ask("wrong.test").await, "FORMERR rd");
    assert_eq!(bench.ask("www.test").await, good("www"));
    // There is no next plugin.
    assert_eq!(bench.ask("ex.test").await, "SERVFAIL rd");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    let text = metrics::render();
    for line in [
        format!("coredns_grpc_requests_total{{to=\"{addr}\"}} 15"),
        format!("coredns_grpc_responses_total{{rcode=\"NXDOMAIN\",to=\"{addr}\"}} 3"),
        format!("coredns_grpc_responses_total{{rcode=\"NOERROR\",to=\"{addr}\"}} 2"),
        format!("coredns_grpc_request_duration_seconds_count{{to=\"{addr}\"}} 5"),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn an_upstream_that_fails_or_hangs_is_followed_by_the_next() {
    let (bad, _) = upstream(|asked, answer| match &*asked.label() {
        "hang" => Say::Nothing,
        _ => usual(asked, answer),
    })
    .await;
    let (good, _) = upstream(|asked, answer| Say::Reply(encode(asked, answer))).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bench = bench(&format!("grpc . {closed} {bad} {good} {{\n policy sequential\n}}"));
    for name in ["busy", "cut", "hang"] {
        let begun = Instant::now();
        let want = format!("NOERROR rd ra | {name}.test. 60 A 198.51.100.1");
        assert_eq!(bench.ask(&format!("{name}.test")).await, want);
        assert!(begun.elapsed() < Duration::from_secs(3), "{name}");
    }
    // NOT_FOUND is an answer.
    assert_eq!(bench.ask("gone.test").await, "NXDOMAIN rd ra");
}

#[tokio::test]
async fn calls_end_after_five_seconds() {
    let (addr, _) = upstream(usual).await;
    let bench = bench(&format!("grpc . {addr}"));
    let begun = Instant::now();
    assert_eq!(bench.ask("silent.test +edns").await, "SERVFAIL rd | EDE 23 no upstream replied");
    let took = begun.elapsed().as_secs_f32();
    assert!((4.5..6.0).contains(&took), "{took}");
}

#[tokio::test]
async fn what_falls_through_goes_to_the_next_plugin() {
    let (addr, _) = upstream(usual).await;
    for (line, names) in [
        ("fallthrough", &["gone", "nx", "busy", "cut", "http"][..]),
        ("fallthrough test", &["gone"]),
    ] {
        let bench = bench(&format!("grpc . {addr} {{\n {line}\n}}\nwhoami"));
        for name in names {
            let got = bench.ask(&format!("{name}.test")).await;
            assert!(got.starts_with("NOERROR aa rd"), "{line} {name}: {got}");
        }
        assert!(bench.ask("www.test").await.contains("198.51.100.1"));
    }
    let other = bench(&format!("grpc . {addr} {{\n fallthrough example\n}}\nwhoami"));
    assert_eq!(other.ask("gone.test").await, "NXDOMAIN rd ra");
}

#[tokio::test]
async fn sockets_in_the_file_system_are_called() {
    let path = std::env::temp_dir().join(format!("causeway-grpc-{}.sock", std::process::id()));
    drop(std::fs::remove_file(&path));
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::new(usual)));
        }
    });
    let bench = bench(&format!("grpc . unix://{}", path.display()));
    assert_eq!(bench.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
    let line = format!("coredns_grpc_requests_total{{to=\"unix://{}\"}} 1", path.display());
    assert!(metrics::render().contains(&line));
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn equal_questions_under_way_are_one_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (addr, connections) = upstream(move |asked, answer| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(30));
        Say::Reply(encode(asked, answer))
    })
    .await;
    let bench = Arc::new(bench(&format!("grpc . {addr}")));
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..300 {
        let bench = Arc::clone(&bench);
        let line = if at < 150 { "www.test" } else { "WWW.test +tcp" };
        tasks.spawn(async move { bench.ask(line).await });
    }
    assert!(tasks.join_all().await.iter().all(|got| got.contains("198.51.100.1")));
    assert_eq!((calls.load(Ordering::Relaxed), connections.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn connections_that_end_lose_no_call() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Each connection is cut some time after it was made.
            let served = serve(stream, Arc::new(usual));
            tokio::spawn(tokio::time::timeout(Duration::from_millis(150), served));
        }
    });
    let bench = bench(&format!("grpc . {addr}"));
    for at in 0..60 {
        let got = bench.ask(&format!("n{at}.test")).await;
        assert!(got.starts_with("NOERROR"), "{at}: {got}");
        tokio::time::sleep(Duration::from_millis(at % 7 * 10)).await;
    }
}

#[test]
fn directives_are_read_as_coredns_reads_them() {
    for line in [
        "grpc . 127.0.0.1",
        "grpc example.org 127.0.0.1:443 [::1]:443 grpc://127.0.0.1",
        "grpc . 127.0.0.1 {\n tls\n}",
        "grpc . 127.0.0.1 {\n tls_servername dns.example.org\n}",
        "grpc . unix:///run/dns.sock {\n tls_servername dns.example.org\n}",
        "grpc . 127.0.0.1 {\n except a.example b.example\n policy round_robin\n fallthrough\n}",
        "grpc 10.0.0.0/15 127.0.0.1",
    ] {
        Bench::new(CHAIN, &format!(". {{\n {line}\n}}\n"));
    }
    let many: String = (1..=16).map(|port| format!(" 127.0.0.1:{port}")).collect();
    for (line, want) in [
        ("grpc".to_owned(), "Wrong argument count"),
        ("grpc .".to_owned(), "Wrong argument count"),
        (format!("grpc .{many}"), "more than 15 TOs configured: 16"),
        ("grpc . 127.0.0.1\n grpc example.org 127.0.0.1".to_owned(), "grpc"),
        ("grpc . ./nofile".to_owned(), "neither an address nor a file"),
        ("grpc . 127.0.0.1:0".to_owned(), "has no port between 1 and 65535"),
        ("grpc . tls://127.0.0.1".to_owned(), "a scheme that gRPC does not go by"),
        ("grpc . unix://".to_owned(), "names no socket"),
        ("grpc . 127.0.0.1%name".to_owned(), "behind a %"),
        ("grpc . unix:///run/dns.sock {\n tls\n}".to_owned(), "add tls_servername"),
        ("grpc . 127.0.0.1 {\n tls a b c d\n}".to_owned(), "'d' is one too many"),
        ("grpc . 127.0.0.1 {\n tls nofile.pem\n}".to_owned(), "tls: nofile.pem: "),
        ("grpc . 127.0.0.1 {\n tls_servername\n}".to_owned(), "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n tls_servername a..b\n}".to_owned(), "cannot be the name"),
        ("grpc . 127.0.0.1 {\n policy best\n}".to_owned(), "is not known here"),
        ("grpc . 127.0.0.1 {\n except\n}".to_owned(), "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n max_fails 3\n}".to_owned(), "is not a property"),
    ] {
        let got = Bench::refused(CHAIN, &format!(". {{\n {line}\n}}\n"));
        assert!(got.starts_with("plugin/grpc: ") && got.contains(want), "{line}: {got}");
    }
}

#[tokio::test]
async fn what_grpc_does_is_no_metadata() {
    let (addr, _) = upstream(usual).await;
    let bench = bench(&format!(
        "metadata\nlog . \"M={{/grpc/upstream}}{{/forward/upstream}}\"\ngrpc . {addr}"
    ));
    crate::shared::testing::logged();
    assert!(bench.ask("www.test").await.starts_with("NOERROR"));
    let lines = crate::shared::testing::logged();
    assert!(lines.iter().any(|line| line == "[INFO] M=--"), "{lines:?}");
}

#[tokio::test]
async fn a_deadline_ends_a_call() {
    let (addr, _) = upstream(usual).await;
    let mut bench = bench(&format!("cancel 200ms\ngrpc . {addr}"));
    let begun = Instant::now();
    assert!(bench.ask("silent.test").await.starts_with("SERVFAIL"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    bench.pass(begun.elapsed());
    assert!(bench.ask("www.test").await.contains("198.51.100.1"));
}
