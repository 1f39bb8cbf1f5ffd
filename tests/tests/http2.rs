//! HTTP/2 connections that ask for more than they may, or nothing at all, by raw frames. The names of tests begin with the IDs of
//! the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tests::web::{ENHANCE_YOUR_CALM, Page, Raw, fields, frame, get, kind, post, target};
use tests::{Gateway, Query, Scripted};

/// How long the gateway may take to do what it has to.
const SOON: Duration = Duration::from_secs(10);

/// How much more memory the gateway may hold when a misbehaving client is gone, in bytes.
const ROOM: u64 = 24 << 20;

/// A gateway in clear text with short timeouts; `never.test` is never answered, `large.test TXT` is 60 KB.
struct Place {
    gateway: Gateway,
    upstream: Scripted,
    /// The memory that it held at first.
    resident: u64,
}

impl Place {
    /// Starts it.
    fn new() -> Self {
        let upstream = Scripted::moody(230);
        let corefile = format!(
            "https://.:@PORT@ {{\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n timeouts {{\n  read 2s\n  write 1s\n  idle 5s\n }}\n \
             hosts {{\n  203.0.113.1 www.test\n  fallthrough\n }}\n forward . {}\n}}\n",
            upstream.address()
        );
        let gateway = Gateway::new(&corefile).start();
        let place = Self { gateway, upstream, resident: 0 };
        place.alive();
        Self { resident: place.gateway.resident(), ..place }
    }

    /// A connection with these settings.
    fn connect(&self, settings: &[(u16, u32)]) -> Raw {
        Raw::http2(self.gateway.address(), settings)
    }

    /// Looks whether another client is answered.
    fn alive(&self) {
        let mut raw = Raw::open(self.gateway.address());
        let path = target(&Query::from("www.test"));
        raw.send(
            format!("GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n").as_bytes(),
        );
        assert_eq!(Page::parse(&raw.rest(SOON)).unwrap().reply().answers().len(), 1);
    }

    /// How often clients were told to calm down, or what they did not take was given up, for a reason.
    fn count(&self, reason: &str) -> f64 {
        let key = format!("causeway_http2_abuse_total{{reason=\"{reason}\"}}");
        self.gateway.metrics("metrics").get(&key).copied().unwrap_or_default()
    }

    /// Looks whether a client that sends this is told to calm down and loses its connection, for this reason, and nobody and
    /// nothing else is harmed.
    fn calm(&self, what: &str, reason: &str, octets: &[u8]) {
        let before = self.count(reason);
        let mut raw = self.connect(&[]);
        // It may have seen enough before all is sent.
        raw.send(octets);
        assert_eq!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM), "{what}");
        assert!(raw.closed_within(SOON), "{what}");
        self.alive();
        self.counted(&[reason], before + 1.0);
        self.lean(what);
    }

    /// Waits until so many were counted, which for some is when the connection is gone.
    fn counted(&self, reasons: &[&str], want: f64) {
        let sum = || reasons.iter().map(|reason| self.count(reason)).sum::<f64>();
        let found = tests::until(SOON, || (sum() >= want).then_some(()));
        assert!(found.is_some() && sum() == want, "{reasons:?}: {} in place of {want}", sum());
    }

    /// Looks whether the memory is given back.
    fn lean(&self, what: &str) {
        let fine =
            tests::until(SOON, || (self.gateway.resident() < self.resident + ROOM).then_some(()));
        assert!(fine.is_some(), "{what}: {} from {}", self.gateway.resident(), self.resident);
    }
}

/// The octets of one part after another for so many streams.
fn streams(count: u32, part: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(|at| part(2 * at + 1)).collect()
}

#[test]
fn h2_01_streams_that_are_reset_at_once_end_the_connection() {
    let place = Place::new();
    for name in ["www.test", "never.test"] {
        let get = get(&target(&Query::from(name)));
        let octets = streams(4_000, |id| {
            let cancel = 8_u32.to_be_bytes();
            [frame(kind::HEADERS, 5, id, &get), frame(kind::RST_STREAM, 0, id, &cancel)].concat()
        });
        let before = place.count("flood") + place.count("protocol");
        let mut raw = place.connect(&[]);
        raw.send(&octets);
        assert_eq!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM));
        assert!(raw.closed_within(SOON));
        place.counted(&["flood", "protocol"], before + 1.0);
        place.alive();
        place.lean("rapid reset");
    }
    // Slower, so that each is at work before it is reset: the work ends, and is no more than it may be.
    let mut raw = place.connect(&[]);
    let get = get(&target(&Query::from("never.test")));
    for id in (1..4_001).step_by(2) {
        if !raw.frame(kind::HEADERS, 5, id, &get)
            || !raw.frame(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes())
        {
            break;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    assert_eq!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM));
    place.alive();
    // A client that now and then does not want an answer any more goes on.
    let mut raw = place.connect(&[]);
    let good = tests::web::get(&target(&Query::from("www.test")));
    for id in (1..1_601).step_by(8) {
        raw.frame(kind::HEADERS, 5, id, &get);
        raw.frame(kind::RST_STREAM, 0, id, &8_u32.to_be_bytes());
        for id in [id + 2, id + 4, id + 6] {
            raw.frame(kind::HEADERS, 5, id, &good);
            assert!(
                raw.wait(SOON, |frame| frame.kind == kind::DATA && frame.stream == id).is_some()
            );
        }
    }
    assert!(place.upstream.count("never.test") > 0);
}

#[test]
fn h2_02_resets_that_the_client_provokes_are_bounded() {
    let place = Place::new();
    let head = post();
    // A stream that depends on itself (RFC 7540 5.3.1).
    let own = streams(2_000, |id| {
        let block = [&id.to_be_bytes(), &[0][..], &head].concat();
        frame(kind::HEADERS, 0x24, id, &block)
    });
    place.calm("streams that depend on themselves", "protocol", &own);
    // More data than was said.
    let length = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/dns-query"),
        (":authority", "a.test"),
        ("content-length", "1"),
    ]);
    let more = streams(2_000, |id| {
        [frame(kind::HEADERS, 4, id, &length), frame(kind::DATA, 1, id, b"abc")].concat()
    });
    place.calm("more data than was said", "protocol", &more);
}

#[test]
fn h2_03_a_head_has_an_end() {
    let place = Place::new();
    let get = get(&target(&Query::from("www.test")));
    for (what, part) in [
        ("empty", Vec::new()),
        ("small", fields(&[("x", "y")])),
        ("large", fields(&[("x", &"y".repeat(4_000))])),
    ] {
        let mut octets = frame(kind::HEADERS, 1, 1, &get);
        for _ in 0..20_000 / (part.len() / 100 + 1) {
            octets.extend(frame(kind::CONTINUATION, 0, 1, &part));
        }
        let before = place.count("protocol");
        let mut raw = place.connect(&[]);
        raw.send(&octets);
        // Headers that are too many may end it as well.
        assert!(matches!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM | 9)), "{what}");
        assert!(raw.closed_within(SOON), "{what}");
        place.counted(&["protocol"], before + 1.0);
        place.alive();
        place.lean(what);
    }
}

#[test]
fn h2_04_data_of_nothing_is_bounded() {
    let place = Place::new();
    let mut octets = frame(kind::HEADERS, 4, 1, &post());
    for _ in 0..20_000 {
        octets.extend(frame(kind::DATA, 0, 1, b""));
    }
    let before = place.count("protocol") + place.count("flood");
    let mut raw = place.connect(&[]);
    raw.send(&octets);
    assert_eq!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM));
    assert!(raw.closed_within(SOON));
    place.counted(&["flood", "protocol"], before + 1.0);
    place.alive();
    place.lean("empty DATA");
}

#[test]
fn h2_05_frames_that_ask_nothing_are_bounded() {
    let place = Place::new();
    for (what, one) in [
        ("SETTINGS", frame(kind::SETTINGS, 0, 0, &[])),
        ("SETTINGS with values", frame(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 16, 0])),
        ("PING", frame(kind::PING, 0, 0, &[7; 8])),
        ("answers to PING", frame(kind::PING, 1, 0, &[7; 8])),
        ("PRIORITY", frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        ("WINDOW_UPDATE", frame(kind::WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("unknown frames", frame(0xfe, 0, 0, &[0; 100])),
    ] {
        place.calm(what, "flood", &one.repeat(5_000));
    }
    place.calm("large unknown frames", "flood", &frame(0xfe, 0, 0, &[0; 16_000]).repeat(200));
}

#[test]
fn h2_05_answers_that_are_not_taken_are_given_up() {
    let place = Place::new();
    let large = get(&target(&Query::from("large.test TXT")));
    // A client that gives no room for answers: its streams are reset, and the connection goes on.
    let mut raw = place.connect(&[(4, 0)]);
    for id in (1..201).step_by(2) {
        raw.frame(kind::HEADERS, 5, id, &large);
    }
    let begun = Instant::now();
    for _ in 0..100 {
        assert!(raw.wait(SOON, |frame| frame.kind == kind::RST_STREAM).is_some());
    }
    assert!((800..6000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(place.count("not_taken"), 100.0);
    raw.frame(kind::PING, 0, 0, &[1; 8]);
    assert!(raw.wait(SOON, |frame| frame.kind == kind::PING && frame.flags == 1).is_some());
    place.alive();
    // A client that gives room but does not read: its connection is closed.
    let mut raw = place.connect(&[(4, 0x7fff_ffff)]);
    raw.frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    for id in (1..4_001).step_by(2) {
        if !raw.frame(kind::HEADERS, 5, id, &large) {
            break;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    let closed = tests::until(SOON, || {
        let metrics = place.gateway.metrics("metrics");
        let count = metrics.get("causeway_connections_closed_total{reason=\"write\"}").copied();
        count.filter(|count| *count >= 1.0)
    });
    assert!(closed.is_some());
    place.alive();
    drop(raw);
    place.lean("a client that does not read");
}

#[test]
fn h2_06_headers_are_bounded_by_what_they_mean() {
    let place = Place::new();
    let path = target(&Query::from("www.test"));
    // What is less is taken.
    let mut raw = place.connect(&[]);
    let some = [get(&path), fields(&[("x-large", &"y".repeat(9_000))])].concat();
    raw.frame(kind::HEADERS, 5, 1, &some);
    assert!(raw.wait(SOON, |frame| frame.kind == kind::DATA && frame.stream == 1).is_some());
    // Crumbs of a cookie each count as a field.
    let crumbs = fields(&vec![("cookie", "a"); 600]);
    raw.frame(kind::HEADERS, 5, 3, &[get(&path), crumbs].concat());
    let head = raw.wait(SOON, |frame| frame.kind == kind::HEADERS && frame.stream == 3).unwrap();
    // :status is no index of a usual status, and there is no body.
    assert!(head.flags & 1 != 0 && head.payload[0] != 0x88, "{head:?}");
    place.alive();
    // One field of 3.9 KB is kept in the table, and then named again and again: 60 MB in one frame.
    let mut bomb = get(&path);
    bomb.extend([0x40, 1, b'x', 127]);
    let value = "y".repeat(3_900);
    let mut length = value.len() - 127;
    while length >= 128 {
        bomb.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    bomb.push(u8::try_from(length).unwrap());
    bomb.extend(value.as_bytes());
    bomb.resize(16_384, 0xbe);
    place.calm(
        "headers out of the table",
        "protocol",
        &frame(kind::HEADERS, 5, 1, &bomb).repeat(20),
    );
}

#[test]
fn h2_07_streams_are_bounded_and_bodies_are_not_waited_for() {
    let place = Place::new();
    let mut raw = place.connect(&[]);
    assert!(raw.wait(SOON, |frame| frame.kind == kind::SETTINGS && frame.flags == 1).is_some());
    let head = post();
    for id in (1..401).step_by(2) {
        raw.frame(kind::HEADERS, 4, id, &head);
    }
    let refused = raw.wait(SOON, |frame| frame.kind == kind::RST_STREAM).unwrap();
    // REFUSED_STREAM, from the first that is too many.
    assert_eq!((refused.stream, &refused.payload[..]), (257, &[0, 0, 0, 7][..]));
    let begun = Instant::now();
    let mut late = 0;
    while late < 128 {
        let head = raw.wait(SOON, |frame| frame.kind == kind::HEADERS).unwrap();
        assert_ne!(head.payload[0], 0x88);
        late += 1;
    }
    assert!((800..6000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    // There is room again.
    let path = target(&Query::from("www.test"));
    raw.frame(kind::HEADERS, 5, 1_001, &get(&path));
    assert!(raw.wait(SOON, |frame| frame.kind == kind::DATA && frame.stream == 1_001).is_some());
    let metrics = place.gateway.metrics("metrics");
    let server = place.gateway.address();
    let key =
        format!("coredns_dns_https_responses_total{{server=\"https://{server}\",status=\"408\"}}");
    assert_eq!(metrics.get(&key), Some(&128.0));
    // Far too many are more than being busy.
    let mut raw = place.connect(&[]);
    raw.send(&streams(1_500, |id| frame(kind::HEADERS, 4, id, &head)));
    assert_eq!(raw.goaway(SOON), Some(ENHANCE_YOUR_CALM));
    place.alive();
    place.lean("open posts");
}

#[test]
fn h2_08_a_connection_without_requests_ends() {
    let place = Place::new();
    for octets in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut raw = Raw::open(place.gateway.address());
        raw.send(octets);
        let begun = Instant::now();
        assert!(raw.closed_within(SOON), "{octets:?}");
        assert!((800..7000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }
    // What is no request does not keep it either.
    let mut raw = place.connect(&[]);
    raw.frame(kind::HEADERS, 5, 1, &get(&target(&Query::from("www.test"))));
    let begun = Instant::now();
    while begun.elapsed() < SOON && raw.frame(kind::PING, 0, 0, &[0; 8]) {
        if raw.wait(Duration::from_millis(200), |frame| frame.kind == kind::GOAWAY).is_some() {
            break;
        }
    }
    assert!((3800..10000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}

#[test]
fn smug_02_fields_that_have_no_place_in_http2_are_errors() {
    let place = Place::new();
    let path = target(&Query::from("www.test"));
    let usual =
        [(":method", "GET"), (":scheme", "http"), (":path", &*path), (":authority", "a.test")];
    let with = |more: &[(&str, &str)]| fields(&[&usual[..], more].concat());
    let without_slash = path.trim_start_matches('/');
    let mut raw = place.connect(&[]);
    let mut id = 1;
    for (what, block) in [
        ("connection", with(&[("connection", "close")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("upgrade", with(&[("upgrade", "h2c")])),
        ("te", with(&[("te", "gzip")])),
        ("an upper-case letter", with(&[("X-Large", "a")])),
        ("CR LF in a value", with(&[("x", "a\r\nb: c")])),
        ("a zero octet in a value", with(&[("x", "a\0b")])),
        ("LF in a name", with(&[("x\ny", "a")])),
        ("a pseudo field behind others", with(&[("x", "a"), (":path", "/")])),
        ("an unknown pseudo field", with(&[(":other", "a")])),
        ("a path without slash", fields(&[usual[0], usual[1], (":path", without_slash), usual[3]])),
        ("an empty path", fields(&[usual[0], usual[1], (":path", ""), usual[3]])),
        ("two lengths", with(&[("content-length", "1"), ("content-length", "2")])),
        ("a length without a body", with(&[("content-length", "5")])),
    ] {
        raw.frame(kind::HEADERS, 5, id, &block);
        let ours = |frame: &tests::web::Frame| {
            matches!(frame.kind, kind::HEADERS | kind::RST_STREAM | kind::GOAWAY)
        };
        let got = raw.wait(SOON, ours).unwrap_or_else(|| panic!("{what}: nothing"));
        let is_refusal = match got.kind {
            kind::HEADERS => got.payload.first().is_some_and(|first| *first != 0x88),
            _ => true,
        };
        assert!(is_refusal, "{what}: {got:?}");
        if got.kind == kind::GOAWAY {
            raw = place.connect(&[]);
            id = 1;
        } else {
            id += 2;
        }
    }
    place.alive();
}
