//! Admin listeners, asked over loopback.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::admin::Handler;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Answers with its text and what was asked.
#[derive(Debug)]
struct Says(&'static str, AtomicUsize);

impl Handler for Says {
    fn handle(&self, ask: Ask<'_>) -> Told {
        self.1.fetch_add(1, Ordering::Relaxed);
        let query = ask.query.unwrap_or("-");
        Told::text(200, format!("{} {} {query}", self.0, ask.method))
    }
}

/// A page at `addr`.
fn page(addr: &str, path: &str, text: &'static str) -> Page {
    let handler = Arc::new(Says(text, AtomicUsize::new(0)));
    Page {
        addr: addr.parse().unwrap(),
        path: path.to_owned(),
        plugin: "health",
        handler,
        tls: None,
    }
}

/// Where an address of the configuration is listened on.
fn local(admin: &Admin, addr: &str) -> SocketAddr {
    let wanted = addr.parse().unwrap();
    admin.addrs().find(|(own, _)| *own == wanted).unwrap().1
}

/// Sends `request` and reads until `until` comes or the connection ends.
async fn send(stream: &mut TcpStream, request: &str, until: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let mut chunk = [0; 1024];
    while !String::from_utf8_lossy(&got).contains(until) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(len) => got.extend_from_slice(&chunk[..len]),
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// One request on a connection of its own; status line and body.
async fn get(addr: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let got = send(&mut stream, &request, "\u{0}").await;
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    format!("{} | {body}", head.lines().next().unwrap())
}

#[tokio::test]
async fn pages_are_found_by_address_and_path() {
    let mut admin = Admin::new();
    let one = "127.0.0.1:0";
    let two = "[::]:0";
    let below = page(one, "/below/", "d");
    admin
        .replace(vec![page(one, "/a", "a"), below, page(one, "/b", "b"), page(two, "/a", "c")])
        .unwrap();
    let (first, second) = (local(&admin, one), local(&admin, two));
    assert_eq!(admin.addrs().count(), 2);
    for (addr, method, path, want) in [
        (first, "GET", "/a", "HTTP/1.1 200 OK | a GET -"),
        (first, "GET", "/a?x=1", "HTTP/1.1 200 OK | a GET x=1"),
        (first, "HEAD", "/b", "HTTP/1.1 200 OK | "),
        (first, "POST", "/b", "HTTP/1.1 200 OK | b POST -"),
        (first, "GET", "/below/token?x", "HTTP/1.1 200 OK | d GET x"),
        (first, "GET", "/below", "HTTP/1.1 404 Not Found | 404 page not found\n"),
        (first, "GET", "/c", "HTTP/1.1 404 Not Found | 404 page not found\n"),
        (first, "GET", "/", "HTTP/1.1 404 Not Found | 404 page not found\n"),
    ] {
        assert_eq!(get(addr, method, path).await, want, "{method} {path}");
    }
    // The unspecified address of IPv6 is that of IPv4 too.
    let mapped = SocketAddr::from(([127, 0, 0, 1], second.port()));
    assert_eq!(get(mapped, "GET", "/a").await, "HTTP/1.1 200 OK | c GET -");
}

#[tokio::test]
async fn a_reload_keeps_equal_listeners_and_open_connections_see_the_new_pages() {
    let mut admin = Admin::new();
    let (kept, gone) = ("127.0.0.1:0", "127.0.0.2:0");
    admin.replace(vec![page(kept, "/a", "old"), page(gone, "/a", "old")]).unwrap();
    let (kept_at, gone_at) = (local(&admin, kept), local(&admin, gone));
    let mut open = TcpStream::connect(kept_at).await.unwrap();
    let request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    assert!(send(&mut open, request, "GET -").await.contains("old GET"));
    admin.replace(vec![page(kept, "/a", "new")]).unwrap();
    assert_eq!(local(&admin, kept), kept_at);
    assert!(send(&mut open, request, "GET -").await.contains("new GET"));
    assert_eq!(get(kept_at, "GET", "/a").await, "HTTP/1.1 200 OK | new GET -");
    assert!(eventually_refused(gone_at).await);
    admin.close();
    assert!(eventually_refused(kept_at).await);
    assert_eq!(send(&mut open, request, "GET -").await, "");
}

/// Whether connections are refused before long.
async fn eventually_refused(addr: SocketAddr) -> bool {
    for _ in 0..100 {
        if TcpStream::connect(addr).await.is_err() {
            return true;
        }
        sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn what_cannot_be_bound_changes_nothing_and_says_what_helps() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|addr| (taken, addr.to_string())).unwrap();
    let mut admin = Admin::new();
    admin.replace(vec![page("127.0.0.1:0", "/a", "old")]).unwrap();
    let at = local(&admin, "127.0.0.1:0");
    let wrong = admin
        .replace(vec![page("127.0.0.1:0", "/a", "new"), page(&taken.1, "/a", "new")])
        .unwrap_err();
    let text = wrong.to_string();
    assert!(text.starts_with(&format!("plugin/health: cannot listen on {}: ", taken.1)), "{text}");
    assert!(text.ends_with("or give the directive another address)"), "{text}");
    assert_eq!(get(at, "GET", "/a").await, "HTTP/1.1 200 OK | old GET -");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let mut admin = Admin::new();
    admin.replace(vec![page("127.0.0.1:0", "/a", "a")]).unwrap();
    let mut stream = TcpStream::connect(local(&admin, "127.0.0.1:0")).await.unwrap();
    let long = "x".repeat(HEAD * 2);
    let request = format!("GET /a HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n");
    let got = send(&mut stream, &request, "\u{0}").await;
    assert!(got.starts_with("HTTP/1.1 431 ") || got.is_empty(), "{got}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_no_whole_head_is_closed() {
    let mut admin = Admin::new();
    admin.replace(vec![page("127.0.0.1:0", "/a", "a")]).unwrap();
    let mut idle = TcpStream::connect(local(&admin, "127.0.0.1:0")).await.unwrap();
    let begin = tokio::time::Instant::now();
    assert!(!send(&mut idle, "GET /a", "\u{0}").await.contains(" 200 "));
    assert!((READ..LIFE).contains(&begin.elapsed()));
}
