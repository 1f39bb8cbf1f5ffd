//! DNS over HTTP/3 (RFC 8484 on RFC 9114). The names of tests begin with the IDs of the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use hickory_proto::op::ResponseCode;
use http::{HeaderMap, Method, Request, StatusCode};
use quinn::{Connection, RecvStream, SendStream};
use rustix::process::Signal;
use tests::client::Reply;
use tests::quic::{Client, End, closed, code, end, soon};
use tests::web::base64url;
use tests::{Gateway, Pki, Query, Scripted, scripted};

/// What sends requests on a connection.
type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// A gateway with what its certificate comes from.
struct Place {
    pki: Pki,
    gateway: Gateway,
}

impl Place {
    /// A gateway with more lines in the block of its `https3` key; `slow.test` takes a second.
    fn new(lines: &str) -> Self {
        let pki = Pki::new();
        let server = pki.server("server", &["dns.example.org", "127.0.0.1"]);
        let upstream = Scripted::start(|query, _| {
            match &*scripted::asked(query) {
                "slow.test" => std::thread::sleep(Duration::from_secs(1)),
                "never.test" => return None,
                "none.test" => {
                    let soa = "test. 300 IN SOA ns.test. host.test. 1 2 3 4 60";
                    return Some(scripted::denial(
                        query,
                        ResponseCode::NXDomain,
                        &[&soa.replace(" IN", "")],
                    ));
                }
                _ => {}
            }
            let name = query.queries[0].name().to_string();
            Some(scripted::reply(query, &[&format!("{name} 77 A 203.0.113.7")]))
        });
        let corefile = format!(
            "https3://.:@PORT@ {{\n tls {server}\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n \
             template IN A fixed.test {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n \
             forward . {}\n}}\n",
            upstream.address()
        );
        Self { gateway: Gateway::new(&corefile).start(), pki }
    }

    /// A QUIC connection of a new client.
    async fn connect(&self) -> (Client, Connection) {
        let client = Client::new(self.pki.ca(), &["h3"]);
        let connection = client.connect(self.address()).await.unwrap();
        (client, connection)
    }

    /// A connection that speaks HTTP/3.
    async fn browser(&self) -> Browser {
        let (client, connection) = self.connect().await;
        let (mut driver, sender) =
            soon(h3::client::new(h3_quinn::Connection::new(connection.clone()))).await.unwrap();
        let driver = tokio::spawn(async move { driver.wait_idle().await.to_string() });
        Browser { _client: client, connection, sender, driver }
    }

    /// Its address.
    fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Its counter of this name, with a label.
    fn count(&self, name: &str, label: &str) -> f64 {
        let server = format!("server=\"https3://{}\"", self.address());
        let mut labels = [server.as_str(), label];
        labels.sort_unstable();
        let key = format!("{name}{{{}}}", labels.join(","));
        let metrics = self.gateway.metrics("metrics");
        *metrics.get(&key).unwrap_or_else(|| panic!("no {key}"))
    }

    /// Whether another client is served.
    async fn still_serves(&self) {
        let mut browser = self.browser().await;
        assert_eq!(browser.ask("fixed.test A").await.addresses(), [IpAddr::from([203, 0, 113, 1])]);
    }
}

/// A connection that speaks HTTP/3.
struct Browser {
    _client: Client,
    connection: Connection,
    sender: Sender,
    driver: tokio::task::JoinHandle<String>,
}

/// A response.
#[derive(Debug)]
struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Response {
    /// The message in its body.
    fn reply(&self) -> Reply {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/dns-message");
        assert_eq!(self.headers["content-length"], self.body.len().to_string());
        Reply::decode(self.body.clone(), Duration::ZERO)
    }
}

impl Browser {
    /// Sends a request, and gives the response.
    async fn send(
        &mut self,
        request: Request<()>,
        body: &[u8],
    ) -> Result<Response, h3::error::StreamError> {
        let mut stream = soon(self.sender.send_request(request)).await?;
        if !body.is_empty() {
            // A server that does not want the rest says so.
            drop(soon(stream.send_data(Bytes::copy_from_slice(body))).await);
        }
        drop(soon(stream.finish()).await);
        let head = soon(stream.recv_response()).await?;
        let mut body = Vec::new();
        while let Some(mut data) = soon(stream.recv_data()).await? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok(Response { status: head.status(), headers: head.headers().clone(), body })
    }

    /// Sends a request without a body.
    async fn request(&mut self, method: Method, target: &str) -> Response {
        let request =
            Request::builder().method(method).uri(format!("https://dns.example.org{target}"));
        self.send(request.body(()).unwrap(), b"").await.unwrap()
    }

    /// Posts a body.
    async fn post(&mut self, kind: &str, body: &[u8]) -> Response {
        let request = Request::post("https://dns.example.org/dns-query");
        let request = if kind.is_empty() { request } else { request.header("content-type", kind) };
        self.send(request.body(()).unwrap(), body).await.unwrap()
    }

    /// Asks by GET.
    async fn ask(&mut self, query: impl Into<Query>) -> Reply {
        self.request(Method::GET, &format!("/dns-query?dns={}", base64url(&query.into().encode())))
            .await
            .reply()
    }
}

#[tokio::test]
async fn doh_01_08_13_get_and_post_have_the_same_answer() {
    let place = Place::new("");
    let mut browser = place.browser().await;
    let mut octets = Query::from("fixed.test A").encode();
    for id in [[0, 0], [0x12, 0x34]] {
        octets[..2].copy_from_slice(&id);
        let get = browser
            .request(Method::GET, &format!("/dns-query?ct&dns={}", base64url(&octets)))
            .await;
        let post = browser.post("application/dns-message", &octets).await;
        assert_eq!(get.body, post.body);
        assert_eq!(get.body[..2], id);
        assert_eq!(get.reply().addresses(), [IpAddr::from([203, 0, 113, 1])]);
        assert_eq!(get.headers["cache-control"], "max-age=60");
        // DOH-16: both sides say where HTTP/3 is.
        assert!(
            get.headers["alt-svc"]
                .to_str()
                .unwrap()
                .starts_with(&format!("h3=\":{}\"", place.address().port()))
        );
    }
    let denied = browser
        .request(
            Method::GET,
            &format!("/dns-query?dns={}", base64url(&Query::from("none.test A").encode())),
        )
        .await;
    assert_eq!(denied.reply().rcode(), ResponseCode::NXDomain);
    assert_eq!(denied.headers["cache-control"], "max-age=60");
    assert_eq!(place.count("coredns_dns_https3_responses_total", "status=\"200\""), 5.0);
    assert_eq!(place.count("causeway_https3_requests_total", "result=\"answered\""), 5.0);
}

#[tokio::test]
async fn doh_02_to_07_wrong_requests_get_their_status() {
    let place = Place::new("https3 {\n  path /dns-query /team\n }");
    let mut browser = place.browser().await;
    let octets = Query::from("fixed.test A").encode();
    let good = base64url(&octets);
    for (method, target, status) in [
        (Method::GET, "/", 404),
        (Method::GET, "/dns-query/", 404),
        (Method::GET, "/dns-query", 400),
        (Method::GET, "/dns-query?dns=", 400),
        (Method::GET, "/dns-query?dns=A===", 400),
        (Method::GET, &format!("/dns-query?dns={good}&dns={good}"), 400),
        (Method::GET, &format!("/team?dns={good}"), 200),
        (Method::HEAD, &format!("/dns-query?dns={good}"), 200),
        (Method::GET, &format!("/dns-query?dns={}", "A".repeat(9000)), 414),
        (Method::PUT, "/dns-query", 405),
        (Method::DELETE, "/dns-query", 405),
        (Method::OPTIONS, "/dns-query", 204),
    ] {
        let got = browser.request(method.clone(), target).await;
        assert_eq!(got.status, status, "{method} {}: {got:?}", &target[..target.len().min(60)]);
        assert!(method != Method::HEAD || got.body.is_empty());
        assert!(status != 405 || got.headers.contains_key("allow"));
    }
    assert_eq!(browser.post("text/plain", &octets).await.status, 415);
    assert_eq!(browser.post("", &octets).await.status, 415);
    assert_eq!(browser.post("application/dns-message", &octets[..11]).await.status, 400);
    assert_eq!(browser.post("application/dns-message", &vec![0; 70_000]).await.status, 413);
    let large = Query::from("fixed.test A").option(65001, &vec![1; 65535 - 19 - 28]).encode();
    assert!((65_000..=65_535).contains(&large.len()), "{}", large.len());
    assert_eq!(browser.post("application/dns-message", &large).await.reply().answers().len(), 1);
    // A body that is not as long as it says is malformed (SMUG-02, RFC 9114 §4.1.2).
    let request = Request::post("https://dns.example.org/dns-query")
        .header("content-type", "application/dns-message")
        .header("content-length", octets.len() + 1);
    let error = browser.send(request.body(()).unwrap(), &octets).await.unwrap_err();
    assert!(error.to_string().contains("H3_MESSAGE_ERROR"), "{error}");
    assert_eq!(browser.ask("fixed.test A").await.answers().len(), 1);
}

#[tokio::test]
async fn answers_do_not_wait_for_one_another() {
    let place = Place::new("");
    let mut browser = place.browser().await;
    let slow = format!(
        "https://dns.example.org/dns-query?dns={}",
        base64url(&Query::from("slow.test A").encode())
    );
    let mut slow =
        soon(browser.sender.send_request(Request::get(slow).body(()).unwrap())).await.unwrap();
    soon(slow.finish()).await.unwrap();
    let begin = Instant::now();
    browser.ask("fixed.test A").await;
    assert!(begin.elapsed() < Duration::from_millis(500));
    assert_eq!(soon(slow.recv_response()).await.unwrap().status(), 200);
}

/// A client that sends what it likes: octets on streams.
struct Raw {
    _client: Client,
    connection: Connection,
    control: SendStream,
}

/// The beginning of a control stream: its type, and settings without any.
const SETTINGS: [u8; 3] = [0, 4, 0];

impl Raw {
    /// A connection with its control stream.
    async fn new(place: &Place) -> Self {
        let (client, connection) = place.connect().await;
        let mut control = soon(connection.open_uni()).await.unwrap();
        soon(control.write_all(&SETTINGS)).await.unwrap();
        Self { _client: client, connection, control }
    }

    /// Sends octets on a request's stream.
    async fn request(&self, octets: &[u8], fin: bool) -> (SendStream, RecvStream) {
        tests::quic::send(&self.connection, octets, fin).await
    }
}

/// A frame (RFC 9114 §7.1).
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32 | 0x8000_0000).to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

/// A header list without indexing (RFC 9204 §4.5.6), in its frame.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        integer(&mut block, name.len(), 3, 0x20);
        block.extend_from_slice(name.as_bytes());
        integer(&mut block, value.len(), 7, 0);
        block.extend_from_slice(value.as_bytes());
    }
    frame(1, &block)
}

/// A number with a prefix of so many bits (RFC 7541 §5.1).
fn integer(out: &mut Vec<u8>, value: usize, bits: u32, first: u8) {
    let most = (1 << bits) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The head of a good request.
fn good() -> Vec<u8> {
    with(&[])
}

/// The same with further fields.
fn with(more: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("/dns-query?dns={}", base64url(&Query::from("fixed.test A").encode()));
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "dns.example.org"),
        (":path", &path),
    ];
    headers(&[&fields, more].concat())
}

/// Whether a stream brings a response: a frame with headers first.
fn is_response(end: &End) -> bool {
    matches!(end, End::Fin(octets) if octets.first() == Some(&1))
}

#[tokio::test]
async fn doh_24_settings_are_small() {
    let place = Place::new("");
    let raw = Raw::new(&place).await;
    let mut control = soon(raw.connection.accept_uni()).await.unwrap();
    let octets = soon(control.read_chunk(4096, true)).await.unwrap().unwrap().bytes.to_vec();
    // The type of the stream, the type of the frame, its length, then pairs of numbers.
    assert_eq!(octets[..2], [0, 4]);
    let mut rest = &octets[3..3 + usize::from(octets[2])];
    let mut number = || {
        let length = 1 << (rest.first()? >> 6);
        let (own, more) = rest.split_at(length);
        rest = more;
        Some(own.iter().skip(1).fold(u64::from(own[0] & 63), |n, octet| n << 8 | u64::from(*octet)))
    };
    let mut settings = std::collections::BTreeMap::new();
    while let (Some(id), Some(value)) = (number(), number()) {
        settings.insert(id, value);
    }
    assert_eq!(
        settings.get(&6),
        Some(&(16 << 10)),
        "SETTINGS_MAX_FIELD_SECTION_SIZE in {settings:?}"
    );
    for (id, what) in [
        (1, "QPACK_MAX_TABLE_CAPACITY"),
        (7, "QPACK_BLOCKED_STREAMS"),
        (0x33, "H3_DATAGRAM"),
        (8, "CONNECT"),
    ] {
        assert_eq!(settings.get(&id).copied().unwrap_or(0), 0, "{what}");
    }
    // No other stream of ours: none of QPACK is needed, none is pushed.
    let other = tokio::time::timeout(Duration::from_millis(300), raw.connection.accept_uni()).await;
    assert!(other.is_err());
    assert!(raw.connection.max_datagram_size().is_none(), "datagrams are on");
}

#[tokio::test]
async fn doh_24_errors_have_their_codes() {
    let place = Place::new("");
    let grease = frame(0x21, &[1; 300]);
    // On a request's stream: what comes of it.
    for (what, octets, want) in [
        ("no headers", Vec::new(), End::Reset(0x10d)),
        ("a body first", frame(0, b"abc"), End::Closed(0x105)),
        ("settings", frame(4, &[]), End::Closed(0x105)),
        ("a push", frame(5, &[0]), End::Closed(0x105)),
        ("a frame of HTTP/2", frame(6, &[0; 8]), End::Closed(0x105)),
        ("an end within a frame", good()[..20].to_vec(), End::Closed(0x106)),
        ("a dynamic table", frame(1, &[4, 0, 0x80]), End::Closed(0x200)),
        (
            "no method",
            headers(&[(":scheme", "https"), (":path", "/"), (":authority", "a")]),
            End::Reset(0x10e),
        ),
        (
            "SMUG-02 a field of connections",
            with(&[("connection", "keep-alive")]),
            End::Reset(0x10e),
        ),
        ("SMUG-02 a coding of transfers", with(&[("te", "gzip")]), End::Reset(0x10e)),
    ] {
        let raw = Raw::new(&place).await;
        let (_send, mut recv) = raw.request(&octets, true).await;
        let got = end(&mut recv).await;
        assert_eq!(got, want, "{what}");
        if let End::Reset(_) = want {
            let (_send, mut recv) = raw.request(&good(), true).await;
            assert!(is_response(&end(&mut recv).await), "{what}");
        }
    }
    // Frames that are reserved mean nothing (RFC 9114 §7.2.8).
    let raw = Raw::new(&place).await;
    let (_send, mut recv) = raw.request(&[&grease[..], &good(), &grease].concat(), true).await;
    assert!(is_response(&end(&mut recv).await));
    // So do streams that are.
    let mut unknown = soon(raw.connection.open_uni()).await.unwrap();
    soon(unknown.write_all(&[0x21, 1, 2, 3])).await.unwrap();
    let (_send, mut recv) = raw.request(&good(), true).await;
    assert!(is_response(&end(&mut recv).await));
    // On the control stream.
    for (what, octets, want) in [
        ("settings again", frame(4, &[]), 0x105),
        ("a body", frame(0, &[]), 0x105),
        ("an identifier of HTTP/2", vec![], 0x104),
    ] {
        let mut raw = Raw::new(&place).await;
        soon(raw.control.write_all(&octets)).await.unwrap();
        if octets.is_empty() {
            raw.control.finish().unwrap();
        }
        assert_eq!(closed(&raw.connection).await, End::Closed(want), "{what}");
    }
    place.still_serves().await;
}

#[tokio::test]
async fn doh_07_large_headers_get_431() {
    let place = Place::new("");
    let raw = Raw::new(&place).await;
    let long = "x".repeat(20_000);
    let path = "/dns-query";
    let octets = headers(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "dns.example.org"),
        (":path", path),
        ("x-long", &long),
    ]);
    let (_send, mut recv) = raw.request(&octets, true).await;
    let got = end(&mut recv).await;
    assert!(is_response(&got), "{got:?}");
    let End::Fin(octets) = got else { panic!() };
    // `:status` is literal with the name of the static table: the code stands there, plain or by Huffman.
    assert!(octets.len() < 40, "{octets:?}");
    let has = |code: &[u8]| octets.windows(3).any(|three| three == code);
    assert!(has(b"431") || has(&[0x69, 0x90, 0xff]), "{octets:?}");
    let (_send, mut recv) = raw.request(&good(), true).await;
    assert!(is_response(&end(&mut recv).await));
}

#[tokio::test]
async fn q_06_rapid_resets_end_the_connection() {
    let place = Place::new("");
    let raw = Raw::new(&place).await;
    let mut begun = 0;
    let how = loop {
        let Ok((mut own, mut answer)) = soon(raw.connection.open_bi()).await else {
            break closed(&raw.connection).await;
        };
        drop(soon(own.write_all(&good())).await);
        drop(own.reset(code(0x10c)));
        drop(answer.stop(code(0x10c)));
        begun += 1;
        assert!(begun < 5000, "still there after {begun}");
    };
    assert_eq!(how, End::Closed(0x107));
    assert!(begun >= 256);
    assert_eq!(place.count("causeway_https3_requests_total", "result=\"load\""), 1.0);
    place.still_serves().await;
}

#[tokio::test]
async fn q_06_floods_beside_requests_end_the_connection() {
    let place = Place::new("");
    // Reserved frames, small and large, then a frame that never ends, then streams of no use.
    for size in [0, 1000, 16_000] {
        let mut raw = Raw::new(&place).await;
        let frame = frame(0x21, &vec![0; size]);
        let mut sent = 0;
        while raw.connection.close_reason().is_none() && sent < 10_000_000 {
            sent += frame.len();
            drop(soon(raw.control.write_all(&frame)).await);
            // Writing hardly ever waits, and the answer has to be heard.
            tokio::task::yield_now().await;
        }
        assert_eq!(closed(&raw.connection).await, End::Closed(0x107), "{size}");
        assert!(sent < 1_000_000, "{sent}");
    }
    let raw = Raw::new(&place).await;
    let mut opened = 0;
    while let Ok(mut other) = soon(raw.connection.open_uni()).await {
        drop(soon(other.write_all(&[0x21])).await);
        drop(other.finish());
        opened += 1;
        assert!(opened < 5000);
    }
    assert_eq!(closed(&raw.connection).await, End::Closed(0x107));
    place.still_serves().await;
}

#[tokio::test]
async fn q_06_a_frame_of_any_length_takes_no_memory() {
    let place = Place::new("");
    place.still_serves().await;
    let before = place.gateway.resident();
    let raw = Raw::new(&place).await;
    let mut streams = Vec::new();
    // A header list of a gigabyte, as it says, on each of many streams.
    for _ in 0..100 {
        let (mut own, recv) = soon(raw.connection.open_bi()).await.unwrap();
        let begin = [&[1], &0xc000_0000_4000_0000_u64.to_be_bytes()[..]].concat();
        drop(soon(own.write_all(&begin)).await);
        for _ in 0..64 {
            if soon(own.write_all(&[0; 8192])).await.is_err() {
                break;
            }
        }
        streams.push((own, recv));
    }
    let grown = place.gateway.resident().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} octets");
    place.still_serves().await;
}

#[tokio::test]
async fn tls_02_early_data_of_doq_is_nothing_to_http3() {
    let place = Place::new("quic {\n  early_data\n }");
    let mut browser = place.browser().await;
    browser.ask("fixed.test A").await;
    assert_eq!(place.count("causeway_quic_handshakes_total", "result=\"done\""), 1.0);
}

#[tokio::test]
async fn q_02_who_takes_no_goaway_is_not_waited_for() {
    let place = Place::new("timeouts {\n  idle 1s\n }");
    let raw = Raw::new(&place).await;
    let mut control = soon(raw.connection.accept_uni()).await.unwrap();
    let settings = soon(control.read_chunk(4096, true)).await.unwrap().unwrap().bytes.len();
    // Room for that on a stream, and for nothing more; and signs of life, so that QUIC itself does not end it.
    let client = Client::new(place.pki.ca(), &["h3"]).transport(|t| {
        t.stream_receive_window((settings as u32).into());
        t.keep_alive_interval(Some(Duration::from_millis(100)));
    });
    let connection = client.connect(place.address()).await.unwrap();
    assert_eq!(closed(&connection).await, End::Closed(0x100));
}

#[tokio::test]
async fn https3_max_connections_closes_those_beyond() {
    let place = Place::new("https3 {\n  max_connections 1\n }");
    let mut first = place.browser().await;
    first.ask("fixed.test A").await;
    let (_client, second) = place.connect().await;
    assert_eq!(closed(&second).await, End::Closed(0x107));
    assert_eq!(place.count("causeway_quic_handshakes_total", "result=\"excess\""), 1.0);
    first.ask("fixed.test A").await;
    // Room comes back.
    first.connection.close(code(0x100), b"");
    let begin = Instant::now();
    loop {
        let (_client, third) = place.connect().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if third.close_reason().is_none() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test]
async fn doh_23_answers_under_way_are_delivered_on_sigterm() {
    let mut place = Place::new("");
    let mut browser = place.browser().await;
    browser.ask("fixed.test A").await;
    let mut waiting = Vec::new();
    for n in 0..20 {
        let message = Query::from(if n % 2 == 0 { "slow.test A" } else { "fixed.test A" }).encode();
        let target = format!("https://dns.example.org/dns-query?dns={}", base64url(&message));
        let mut stream = soon(browser.sender.send_request(Request::get(target).body(()).unwrap()))
            .await
            .unwrap();
        soon(stream.finish()).await.unwrap();
        waiting.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    place.gateway.signal(Signal::TERM);
    for mut stream in waiting {
        assert_eq!(soon(stream.recv_response()).await.unwrap().status(), 200);
        assert!(soon(stream.recv_data()).await.unwrap().is_some());
    }
    // The client has heard that it is over before the connection ended.
    assert_eq!(closed(&browser.connection).await, End::Closed(0x100));
    assert!(soon(&mut browser.driver).await.unwrap().contains("NO_ERROR"));
    let status = tokio::task::spawn_blocking(move || place.gateway.stop()).await.unwrap();
    assert!(status.success(), "{status}");
}
