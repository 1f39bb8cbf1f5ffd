//! DNS over HTTPS (RFC 8484) by HTTP/2 and HTTP/1.1. The names of tests begin with the IDs of the requirements that they look
//! at.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::web::{Page, Raw, base64url, curl, get, kind, target};
use tests::{Gateway, Pki, Query, Scripted};

/// The two versions.
const VERSIONS: [&str; 2] = ["--http2", "--http1.1"];

/// A gateway with what its certificate comes from.
struct Place {
    pki: Pki,
    gateway: Gateway,
    upstream: Scripted,
}

impl Place {
    /// A gateway with more lines in its blocks: one with TLS, and one in clear text.
    fn new(lines: &str) -> Self {
        let pki = Pki::new();
        let server = pki.server("server", &["dns.example.org", "127.0.0.1"]);
        let upstream = Scripted::moody(230);
        let corefile = format!(
            "(all) {{\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n \
             template IN A fixed.test {{\n  answer \"{{{{ .Name }}}} 300 IN A 203.0.113.1\"\n  \
             answer \"{{{{ .Name }}}} 30 IN A 203.0.113.2\"\n  additional \"ns.fixed.test. 5 IN A 203.0.113.3\"\n }}\n \
             template IN A gone.test {{\n  rcode NXDOMAIN\n  \
             authority \"gone.test. 600 IN SOA ns.gone.test. host.gone.test. 1 60 60 60 90\"\n }}\n \
             template IN A none.test {{\n  authority \"none.test. 45 IN SOA ns.none.test. host.none.test. 1 60 60 60 90\"\n }}\n \
             template IN A broken.test {{\n  rcode SERVFAIL\n }}\n \
             template IN A refused.test {{\n  rcode REFUSED\n }}\n \
             forward . {}\n}}\n\
             https://.:@PORT@ {{\n tls {server}\n import all\n}}\nhttps://.:@PORT:clear@ {{\n import all\n}}\n",
            upstream.address()
        );
        Self { gateway: Gateway::new(&corefile).start(), pki, upstream }
    }

    /// An address of the listener with TLS.
    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.gateway.address())
    }

    /// What curl gets with these words.
    fn curl(&self, words: &[&str], path: &str, body: &[u8]) -> Page {
        let url = self.url(path);
        let words: Vec<&str> = words.iter().copied().chain([&*url]).collect();
        curl(self.pki.ca(), &words, body)
    }

    /// What a GET request with a query gets.
    fn get(&self, version: &str, query: &Query) -> Page {
        self.curl(&[version], &target(query), b"")
    }

    /// What a POST request with a message gets.
    fn post(&self, version: &str, message: &[u8]) -> Page {
        let kind = "content-type: application/dns-message";
        self.curl(&[version, "--data-binary", "@-", "-H", kind], "/dns-query", message)
    }

    /// A raw connection to the listener in clear text.
    fn raw(&self) -> Raw {
        Raw::open(self.gateway.address_of("clear"))
    }

    /// What raw octets get, until the server closes or two seconds are over.
    fn octets(&self, octets: &str) -> Vec<u8> {
        let mut raw = self.raw();
        raw.send(octets.as_bytes());
        raw.rest(Duration::from_secs(2))
    }
}

/// A query for an address.
fn query(name: &str) -> Query {
    Query::from(name).with(|message| message.metadata.id = 0)
}

#[test]
fn doh_01_get_and_post_are_answered_alike_by_both_versions() {
    let place = Place::new("");
    let mut seen = Vec::new();
    for (version, want) in VERSIONS.into_iter().zip(["HTTP/2", "HTTP/1.1"]) {
        for page in [
            place.get(version, &query("fixed.test")),
            place.post(version, &query("fixed.test").encode()),
        ] {
            assert_eq!(page.version, want);
            assert_eq!(page.reply().answers().len(), 2, "{page:?}");
            // The gateway rotates nothing here, so that all are the same to the octet.
            let date = |(name, _): &&(String, String)| name != "date";
            seen.push((page.headers.iter().filter(date).cloned().collect::<Vec<_>>(), page.body));
        }
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
}

#[test]
fn doh_02_the_parameter_is_there_once_and_readable_and_others_are_passed_over() {
    let place = Place::new("");
    let dns = base64url(&query("fixed.test").encode());
    for version in VERSIONS {
        for (parameters, want) in [
            (format!("?dns={dns}"), 200),
            (format!("?ct=application/dns-message&dns={dns}"), 200),
            (format!("?dns={dns}&x=1&&y"), 200),
            (format!("?DNS=1&xdns=2&dns={dns}"), 200),
            (String::new(), 400),
            ("?".to_owned(), 400),
            ("?dns".to_owned(), 400),
            ("?dns=".to_owned(), 400),
            ("?dns=!!!!".to_owned(), 400),
            (format!("?dns={dns}&dns={dns}"), 400),
            (format!("?dns=&dns={dns}"), 400),
            (format!("?DNS={dns}"), 400),
        ] {
            let page = place.curl(&[version], &format!("/dns-query{parameters}"), b"");
            assert_eq!(page.status, want, "{version} {parameters}");
        }
    }
}

#[test]
fn doh_03_padding_and_the_other_alphabet_are_refused() {
    let place = Place::new("");
    // A query with octets that the alphabets write differently, and one that has to be padded.
    let differs = query("fixed.test").option(65001, &[0xff; 9]).encode();
    let (dns, short) = (base64url(&differs), query("fixed.test").encode());
    assert!(dns.contains('_') && short.len() % 3 == 1);
    for (dns, want) in [
        (dns.clone(), 200),
        (dns.replace('_', "/"), 400),
        (dns.replace('_', "%2F"), 400),
        (dns.replace('_', "%5F"), 400),
        (base64url(&short), 200),
        (format!("{}==", base64url(&short)), 400),
    ] {
        assert_eq!(
            place.curl(&["--http2"], &format!("/dns-query?dns={dns}"), b"").status,
            want,
            "{dns}"
        );
    }
}

#[test]
fn doh_04_a_body_says_that_it_is_a_message() {
    let place = Place::new("");
    let message = query("fixed.test").encode();
    for version in VERSIONS {
        for (header, want) in [
            ("content-type: application/dns-message", 200),
            ("content-type: Application/DNS-Message", 200),
            ("content-type: application/dns-message; charset=utf-8", 200),
            ("content-type: application/dns-message ;x", 200),
            ("content-type: application/json", 415),
            ("content-type: application/dns-message2", 415),
            ("content-type;", 415),
            ("content-type:", 415),
        ] {
            let words = [version, "--data-binary", "@-", "-H", header];
            assert_eq!(
                place.curl(&words, "/dns-query", &message).status,
                want,
                "{version} {header}"
            );
        }
        let kind = "content-type: application/dns-message";
        let words = [version, "--data-binary", "@-", "-H", kind, "-H", "content-encoding: gzip"];
        assert_eq!(place.curl(&words, "/dns-query", &message).status, 415);
    }
}

#[test]
fn doh_05_what_a_client_accepts_changes_nothing() {
    let place = Place::new("");
    for accept in [
        "accept:",
        "accept: */*",
        "accept: application/json",
        "accept: text/html,*/*;q=0.1",
        "accept: application/dns-json",
    ] {
        let page = place.curl(&["--http2", "-H", accept], &target(&query("fixed.test")), b"");
        assert_eq!(page.reply().answers().len(), 2, "{accept}");
    }
}

#[test]
fn doh_06_other_methods_are_refused_and_head_has_no_body() {
    let place = Place::new("");
    let path = target(&query("fixed.test"));
    for version in VERSIONS {
        for method in ["PUT", "DELETE", "PATCH", "TRACE", "QUERY", "get"] {
            let page = place.curl(&[version, "-X", method], &path, b"");
            assert_eq!(page.status, 405, "{method}");
            assert_eq!(page.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
        }
        let page = place.curl(&[version, "-X", "OPTIONS"], &path, b"");
        assert_eq!((page.status, page.body.len()), (204, 0));
        assert_eq!(page.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
        let full = place.curl(&[version], &path, b"");
        let head = place.curl(&[version, "--head"], &path, b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        for name in ["content-type", "content-length", "cache-control"] {
            assert_eq!(head.header(name), full.header(name), "{name}");
        }
        assert_eq!(place.curl(&[version, "--head"], "/dns-query", b"").status, 400);
    }
}

#[test]
fn doh_07_sizes_have_a_limit_each() {
    let place = Place::new("");
    for version in VERSIONS {
        // As large as a message gets: 65,535 octets in the query, and nearly so in the answer.
        let room = 65_535 - query("large.test TXT").option(65001, &[]).encode().len();
        let largest = query("large.test TXT").option(65001, &vec![0; room]);
        assert_eq!(largest.encode().len(), 65_535);
        let page = place.post(version, &largest.encode());
        assert_eq!(page.reply().answers().len(), 230);
        assert_eq!(page.header("content-length"), Some(&*page.body.len().to_string()));
        assert_eq!(place.post(version, &vec![0; 65_536]).status, 413);
        // Without a length that is said, too; of what is said only the first is read.
        let words = [
            version,
            "--data-binary",
            "@-",
            "-H",
            "content-type: application/dns-message",
            "-H",
            "transfer-encoding: chunked",
        ];
        let words = if version == "--http2" { &words[..5] } else { &words };
        assert_eq!(place.curl(words, "/dns-query", &vec![0; 70_000]).status, 413);
        let words = [
            version,
            "--data-binary",
            "@-",
            "-H",
            "content-type: application/dns-message",
            "-H",
            "expect: 100-continue",
        ];
        let begun = Instant::now();
        assert_eq!(place.curl(&words, "/dns-query", &vec![0; 5_000_000]).status, 413);
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert_eq!(place.post(version, &[0; 11]).status, 400);
        assert_eq!(place.post(version, b"").status, 400);
        // A message without a question is one still.
        let page = place.post(version, &[0; 12]);
        assert_eq!(page.reply().rcode(), ResponseCode::FormErr);
        // A response is no query.
        assert_eq!(place.post(version, b"\0\0\x80\0\0\0\0\0\0\0\0\0").status, 400);
        let long = format!("/dns-query?dns={}", "A".repeat(8_192));
        assert_eq!(place.curl(&[version], &long, b"").status, 414, "{version}");
        let header = format!("x-large: {}", "a".repeat(17_000));
        assert_eq!(
            place.curl(&[version, "-H", &header], "/dns-query", b"").status,
            431,
            "{version}"
        );
    }
}

#[test]
fn doh_08_every_answer_is_200() {
    let place = Place::new("");
    for (name, want) in [
        ("fixed.test", ResponseCode::NoError),
        ("gone.test", ResponseCode::NXDomain),
        ("broken.test", ResponseCode::ServFail),
        ("refused.test", ResponseCode::Refused),
    ] {
        assert_eq!(place.get("--http2", &query(name)).reply().rcode(), want, "{name}");
    }
    let status =
        query("fixed.test").with(|m| m.metadata.op_code = hickory_proto::op::OpCode::Status);
    assert_eq!(place.get("--http2", &status).reply().rcode(), ResponseCode::NotImp);
}

#[test]
fn doh_09_an_answer_says_how_long_it_holds() {
    let place = Place::new("");
    for (name, want) in [
        // The smallest of the answer section; what is beside it does not count.
        ("fixed.test", "max-age=30"),
        // What the SOA record says, and its own time to live.
        ("gone.test", "max-age=90"),
        ("none.test", "max-age=45"),
        ("broken.test", "no-store"),
        ("refused.test", "no-store"),
    ] {
        let page = place.get("--http2", &query(name));
        assert_eq!(page.header("cache-control"), Some(want), "{name}");
        assert!(page.header("date").is_some_and(|date| date.ends_with(" GMT")));
    }
    // From the cache it is what is left.
    let place = Place::new("cache");
    let page = place.get("--http2", &query("kept.test"));
    assert_eq!(page.header("cache-control"), Some("max-age=60"));
    std::thread::sleep(Duration::from_millis(2_100));
    let page = place.get("--http2", &query("kept.test"));
    let left = page.header("cache-control").unwrap().strip_prefix("max-age=").unwrap();
    assert!((56..=58).contains(&left.parse::<u32>().unwrap()), "{left}");
    assert_eq!(place.upstream.count("kept.test"), 1);
}

#[test]
fn doh_10_what_depends_on_the_client_is_private() {
    let acl = Place::new("acl {\n  allow net 127.0.0.0/8\n  block\n }");
    let page = acl.get("--http2", &query("fixed.test"));
    assert_eq!(page.header("cache-control"), Some("private, max-age=30"));
    let view = "https://.:@PORT@ {\n view a {\n  expr client_ip() == '127.0.0.9'\n }\n whoami\n}\n\
        https://.:@PORT@ {\n hosts {\n  203.0.113.1 www.test\n  ttl 20\n }\n}\n";
    let gateway = Gateway::new(view).start();
    let mut raw = Raw::open(gateway.address());
    raw.send(
        format!(
            "GET {} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n",
            target(&query("www.test"))
        )
        .as_bytes(),
    );
    let page = Page::parse(&raw.rest(Duration::from_secs(5))).unwrap();
    // Not of the block with the view, but had the client been another one, it would have been.
    assert_eq!(page.header("cache-control"), Some("private, max-age=20"));
}

#[test]
fn doh_11_only_the_paths_that_are_stated_are_there() {
    let place = Place::new("https {\n  path /dns-query /team/dns{?dns}\n }");
    let dns = base64url(&query("fixed.test").encode());
    for version in VERSIONS {
        for (path, want) in [
            ("/dns-query", 200),
            ("/team/dns", 200),
            ("/dns-query/", 404),
            ("/dns-query/secret", 404),
            ("/DNS-Query", 404),
            ("/team", 404),
            ("/team/dns2", 404),
            ("/dns-quer%79", 404),
            ("//dns-query", 404),
            ("/", 404),
        ] {
            let page = place.curl(&[version, "--path-as-is"], &format!("{path}?dns={dns}"), b"");
            assert_eq!(page.status, want, "{path}");
            assert!(want == 200 || page.body.is_empty());
        }
        // Nothing is looked at before the path.
        for words in [
            &[version, "-X", "PUT"][..],
            &[version, "--data-binary", "@-"],
            &[version, "-X", "OPTIONS"],
        ] {
            assert_eq!(place.curl(words, "/other", &vec![0; 70_000]).status, 404);
        }
    }
}

#[test]
fn doh_12_zones_are_not_handed_out() {
    let place = Place::new("transfer {\n  to *\n }");
    let page = place.get("--http2", &query("fixed.test AXFR"));
    let reply = page.reply();
    assert_eq!(reply.rcode(), ResponseCode::Refused);
    assert_eq!(page.header("cache-control"), Some("no-store"));
}

#[test]
fn doh_13_the_message_id_comes_back() {
    let place = Place::new("");
    for id in [0, 0x1234, 0xffff] {
        let page = place.get("--http2", &query("fixed.test").with(|m| m.metadata.id = id));
        assert_eq!(page.reply().message.metadata.id, id);
    }
}

#[test]
fn doh_14_and_edns_09_sizes_of_datagrams_do_not_count() {
    let place = Place::new("");
    for version in VERSIONS {
        let reply = place.get(version, &query("large.test TXT").bufsize(512)).reply();
        assert_eq!(reply.answers().len(), 230);
        assert!(!reply.message.metadata.truncation);
    }
}

#[test]
fn doh_15_a_response_says_its_length_and_nothing_that_tells_clients_apart() {
    let place = Place::new("");
    for version in VERSIONS {
        for page in
            [place.get(version, &query("fixed.test")), place.curl(&[version], "/other", b"")]
        {
            assert_eq!(page.header("content-length"), Some(&*page.body.len().to_string()));
            for name in ["server", "set-cookie", "etag", "x-powered-by", "via"] {
                assert_eq!(page.header(name), None, "{name}");
            }
        }
    }
}

#[test]
fn doh_17_clear_text_is_for_proxies_and_said_at_the_start() {
    let place = Place::new("");
    place.gateway.line("has no `tls`: it speaks clear text, as behind a proxy that ends TLS");
    // Where TLS is spoken, nothing else is.
    let mut raw = Raw::open(place.gateway.address());
    raw.send(b"GET /dns-query HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let got = raw.rest(Duration::from_secs(5));
    assert!(!got.starts_with(b"HTTP/"), "{got:?}");
}

#[test]
fn doh_18_settings_bound_what_a_client_may_take() {
    let place = Place::new("");
    let mut raw = Raw::http2(place.gateway.address_of("clear"), &[]);
    let frame = raw.next(Duration::from_secs(5)).unwrap();
    assert_eq!(frame.kind, kind::SETTINGS);
    let settings: Vec<(u16, u32)> = frame
        .payload
        .chunks(6)
        .map(|six| {
            (
                u16::from_be_bytes([six[0], six[1]]),
                u32::from_be_bytes([six[2], six[3], six[4], six[5]]),
            )
        })
        .collect();
    let value = |id| settings.iter().find(|(own, _)| *own == id).map(|(_, value)| *value);
    // MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE.
    assert_eq!(value(3), Some(128));
    assert!(value(4).unwrap() > 65_535);
    assert_eq!(value(6), Some(16_384));
}

#[test]
fn doh_19_and_smug_01_a_request_is_one_for_every_reader() {
    let place = Place::new("");
    let message = query("fixed.test").encode();
    let body = String::from_utf8(message).unwrap();
    let head =
        "POST /dns-query HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/dns-message\r\n";
    let length = format!("content-length: {}\r\n", body.len());
    let chunks = format!(
        "{:x}\r\n{}\r\n{:X};ext=1\r\n{}\r\n0\r\n\r\n",
        10,
        &body[..10],
        body.len() - 10,
        &body[10..]
    );
    let second = format!(
        "GET {} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n",
        target(&query("gone.test"))
    );
    // Both forms of a body, one request behind the other.
    for one in [
        format!("{head}{length}\r\n{body}"),
        format!("{head}transfer-encoding: Chunked\r\n\r\n{chunks}"),
    ] {
        let got = place.octets(&format!("{one}{one}{second}"));
        let text = String::from_utf8_lossy(&got);
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{one}: {text}");
    }
    let other = format!("GET {} HTTP/1.1\r\nhost: a.test\r\n", target(&query("fixed.test")));
    for (name, wrong) in [
        ("CL.TE", format!("{head}{length}transfer-encoding: chunked\r\n\r\n{body}")),
        ("TE.CL", format!("{head}transfer-encoding: chunked\r\n{length}\r\n{chunks}")),
        (
            "TE.TE",
            format!(
                "{head}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n{chunks}"
            ),
        ),
        (
            "TE twice",
            format!(
                "{head}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"
            ),
        ),
        ("TE list", format!("{head}transfer-encoding: gzip, chunked\r\n\r\n{chunks}")),
        ("TE unknown", format!("{head}transfer-encoding: xchunked\r\n\r\n{chunks}")),
        (
            "TE of HTTP/1.0",
            format!("{}transfer-encoding: chunked\r\n\r\n{chunks}", head.replace("1.1", "1.0")),
        ),
        ("CL.CL", format!("{head}content-length: 3\r\n{length}\r\n{body}")),
        ("CL.CL alike", format!("{head}{length}{length}\r\n{body}")),
        ("CL list", format!("{head}content-length: 3, 3\r\n\r\n{body}")),
        ("CL signed", format!("{head}content-length: +{}\r\n\r\n{body}", body.len())),
        ("CL hexadecimal", format!("{head}content-length: 0x1f\r\n\r\n{body}")),
        ("CL empty", format!("{head}content-length:\r\n\r\n{body}")),
        ("CL negative", format!("{head}content-length: -1\r\n\r\n{body}")),
        ("folded line", format!("{other}x: a\r\n b\r\n\r\n")),
        ("folded length", format!("{head}content-length:\r\n {}\r\n\r\n{body}", body.len())),
        ("bare LF", format!("{other}x: a\n\r\n")),
        ("bare LF at the end", format!("{other}\n")),
        ("bare LF everywhere", other.replace("\r\n", "\n") + "\n"),
        ("bare CR", format!("{other}x: a\rb\r\n\r\n")),
        ("space before the colon", format!("{other}x : a\r\n\r\n")),
        (
            "space before the colon of a length",
            format!("{head}content-length : {}\r\n\r\n{body}", body.len()),
        ),
        ("space before a name", format!("{other} x: a\r\n\r\n")),
        ("no name", format!("{other}: a\r\n\r\n")),
        ("no colon", format!("{other}x\r\n\r\n")),
        ("a zero octet", format!("{other}x: a\0b\r\n\r\n")),
        ("no host", other.replace("host: a.test\r\n", "") + "\r\n"),
        ("two hosts", format!("{other}host: b.test\r\n\r\n")),
        (
            "a wrong chunk",
            format!("{head}transfer-encoding: chunked\r\n\r\n5 \r\n{body}\r\n0\r\n\r\n"),
        ),
        (
            "a chunk with a sign",
            format!("{head}transfer-encoding: chunked\r\n\r\n+5\r\n{body}\r\n0\r\n\r\n"),
        ),
        (
            "a chunk by 0x",
            format!("{head}transfer-encoding: chunked\r\n\r\n0x5\r\n{body}\r\n0\r\n\r\n"),
        ),
        (
            "a chunk that is too long",
            format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n{body}\r\n0\r\n\r\n"),
        ),
        (
            "a chunk with a bare LF",
            format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunks.replace("\r\n", "\n")),
        ),
        (
            "a huge chunk",
            format!("{head}transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{body}"),
        ),
        ("no version", format!("GET {}\r\n\r\n", target(&query("fixed.test")))),
        ("another protocol", other.replace("HTTP/1.1", "HTTP/3.1") + "\r\n"),
    ] {
        // What follows must never be answered, nor be taken for a body of the first one that is then answered.
        let mut raw = place.raw();
        raw.send(format!("{wrong}{second}").as_bytes());
        let got = raw.rest(Duration::from_secs(5));
        let text = String::from_utf8_lossy(&got);
        assert!(
            text.starts_with("HTTP/1.1 400 ") || text.is_empty() && name == "another protocol",
            "{name}: {text}"
        );
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{name}: {text}");
        assert!(text.to_lowercase().contains("connection: close"), "{name}: {text}");
    }
    // No way out of HTTP/1.1 in the middle.
    let upgrade = format!(
        "{other}connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n"
    );
    let page = Page::parse(&place.octets(&upgrade)).unwrap();
    assert_eq!((page.status, page.version.as_str()), (200, "HTTP/1.1"));
}

#[test]
fn smug_01_a_body_that_was_not_read_ends_the_connection() {
    let place = Place::new("");
    let second = format!("GET {} HTTP/1.1\r\nhost: a.test\r\n\r\n", target(&query("fixed.test")));
    for (path, kind, want) in
        [("/other", "application/dns-message", 404), ("/dns-query", "text/plain", 415)]
    {
        // The length says more than what comes: the second request is in the body.
        let one = format!(
            "POST {path} HTTP/1.1\r\nhost: a.test\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{second}",
            second.len()
        );
        let mut raw = place.raw();
        raw.send(format!("{one}{second}").as_bytes());
        let got = raw.rest(Duration::from_secs(5));
        let text = String::from_utf8_lossy(&got);
        assert!(text.starts_with(&format!("HTTP/1.1 {want} ")), "{text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        assert!(text.to_lowercase().contains("connection: close"), "{text}");
    }
}

#[test]
fn slow_01_heads_and_bodies_that_drip_are_not_waited_for() {
    let place = Place::new("timeouts {\n  read 1s\n  idle 2s\n  write 1s\n }");
    // A connection of which nothing comes; one whose head does not end; one that is idle.
    for octets in ["", "GET /dns-query HTTP/1.1\r\nx: "] {
        let mut raw = place.raw();
        raw.send(octets.as_bytes());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) && (octets.is_empty() || raw.send(b"a")) {
            if raw.closed_within(Duration::from_millis(200)) {
                break;
            }
        }
        assert!(
            (800..5000).contains(&begun.elapsed().as_millis()),
            "{octets}: {:?}",
            begun.elapsed()
        );
    }
    let mut raw = place.raw();
    raw.send(
        format!("GET {} HTTP/1.1\r\nhost: a.test\r\n\r\n", target(&query("fixed.test"))).as_bytes(),
    );
    let begun = Instant::now();
    assert!(raw.closed_within(Duration::from_secs(10)));
    assert!((800..5000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    // A body that does not come.
    let mut raw = place.raw();
    raw.send(b"POST /dns-query HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/dns-message\r\ncontent-length: 30\r\n\r\nabc");
    let page = Page::parse(&raw.rest(Duration::from_secs(5))).unwrap();
    assert_eq!(page.status, 408);
}

#[test]
fn doh_20_http2_takes_an_agreement_and_hosts_are_not_told_apart() {
    let place = Place::new("");
    // TLS without ALPN is HTTP/1.1, and with another protocol than ours it is nothing.
    let address = place.gateway.address().to_string();
    let openssl = |alpn: &[&str]| {
        let mut command = std::process::Command::new("sh");
        let words = alpn.join(" ");
        command.args(["-c", &format!(
            "printf 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' | timeout 5 openssl s_client -quiet -connect {address} {words} 2>&1"
        )]);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let text = openssl(&[]);
    // HTTP/2 would begin with a SETTINGS frame.
    let settings = "\u{4}\0\0\0\0\0";
    assert!(text.contains("CN = dns.example.org") && !text.contains(settings), "{text:?}");
    let page = place.curl(&["--no-alpn"], &target(&query("fixed.test")), b"");
    assert_eq!((&*page.version, page.reply().answers().len()), ("HTTP/1.1", 2));
    assert!(openssl(&["-alpn", "dot"]).contains("no application protocol"));
    // Which host is asked for makes no difference; a target may be absolute.
    let words = ["--http2", "-H", "host: other.test"];
    assert_eq!(place.curl(&words, &target(&query("fixed.test")), b"").status, 200);
    let path = target(&query("fixed.test"));
    let got = place.octets(&format!(
        "GET http://b.test{path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n"
    ));
    assert_eq!(Page::parse(&got).unwrap().reply().answers().len(), 2);
}

#[test]
fn doh_21_json_is_there_if_it_is_asked_for() {
    let place = Place::new("https {\n  json\n }");
    let json =
        |path: &str| place.curl(&["--http2", "-H", "accept: application/dns-json"], path, b"");
    let page = json("/dns-query?name=fixed.test&type=A&do=0&cd=false");
    assert_eq!(page.header("content-type"), Some("application/dns-json"));
    assert_eq!(page.header("cache-control"), Some("max-age=30"));
    let value: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
    assert_eq!(value["Status"], 0);
    assert_eq!(value["Question"][0]["name"], "fixed.test.");
    assert_eq!(value["Question"][0]["type"], 1);
    assert_eq!(value["Answer"][1]["data"], "203.0.113.2");
    assert_eq!(value["Answer"][1]["TTL"], 30);
    assert_eq!(value["RD"], true);
    let value: serde_json::Value =
        serde_json::from_slice(&json("/dns-query?name=gone.test").body).unwrap();
    assert_eq!(value["Status"], 3);
    assert_eq!(value["Authority"][0]["data"], "ns.gone.test. host.gone.test. 1 60 60 60 90");
    let txt: serde_json::Value =
        serde_json::from_slice(&json("/dns-query?name=large.test&type=16").body).unwrap();
    assert_eq!(txt["Answer"].as_array().unwrap().len(), 230);
    for (path, want) in [
        ("/dns-query", 400),
        ("/dns-query?name=", 200),
        ("/dns-query?name=a..b", 400),
        ("/dns-query?name=a.test&name=b.test", 400),
        ("/dns-query?name=a.test&type=NOTYPE", 400),
        ("/dns-query?name=a.test&do=maybe", 400),
        ("/dns-query?name=%zz", 400),
        ("/resolve?name=fixed.test", 404),
    ] {
        assert_eq!(json(path).status, want, "{path}");
    }
    // Neither without being asked for by the client, nor without being stated.
    assert_eq!(place.curl(&["--http2"], "/dns-query?name=fixed.test", b"").status, 400);
    let other = Place::new("");
    let words = ["--http2", "-H", "accept: application/dns-json"];
    assert_eq!(other.curl(&words, "/dns-query?name=fixed.test", b"").status, 400);
}

#[test]
fn doh_22_no_page_of_the_web_may_ask() {
    let place = Place::new("");
    let words = [
        "--http2",
        "-X",
        "OPTIONS",
        "-H",
        "origin: https://example.org",
        "-H",
        "access-control-request-method: POST",
    ];
    let page = place.curl(&words, "/dns-query", b"");
    assert!(page.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{page:?}");
    let page = place.curl(
        &["--http2", "-H", "origin: https://example.org"],
        &target(&query("fixed.test")),
        b"",
    );
    assert!(page.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{page:?}");
}

#[test]
fn doh_23_nothing_under_way_is_lost_when_it_ends() {
    for version in [2, 1] {
        let mut place = Place::new("");
        let mut raw = match version {
            2 => Raw::http2(place.gateway.address_of("clear"), &[]),
            _ => place.raw(),
        };
        let path = target(&query("slow.test"));
        if version == 2 {
            for stream in [1, 3] {
                raw.frame(kind::HEADERS, 5, stream, &get(&path));
            }
        } else {
            raw.send(format!("GET {path} HTTP/1.1\r\nhost: a.test\r\n\r\n").as_bytes());
        }
        assert!(
            tests::until(Duration::from_secs(5), || (place.upstream.count("slow.test") > 0)
                .then_some(()))
            .is_some()
        );
        place.gateway.signal(rustix::process::Signal::TERM);
        if version == 1 {
            let page = Page::parse(&raw.rest(Duration::from_secs(5))).unwrap();
            assert_eq!(page.reply().answers().len(), 1);
            assert_eq!(page.header("connection"), Some("close"));
        } else {
            let (mut answers, mut last) = (0, None);
            while let Some(frame) = raw.next(Duration::from_secs(5)) {
                match frame.kind {
                    kind::PING if frame.flags == 0 => {
                        raw.frame(kind::PING, 1, 0, &frame.payload);
                    }
                    kind::GOAWAY => last = Some(frame.payload),
                    kind::DATA => answers += 1,
                    _ => {}
                }
            }
            assert_eq!(answers, 2);
            // The last stream that was taken, and no error.
            assert_eq!(last.unwrap()[..8], [0, 0, 0, 3, 0, 0, 0, 0]);
        }
        assert!(place.gateway.stop().success());
    }
}

#[test]
fn doh_23_a_reload_keeps_connections() {
    let mut gateway =
        Gateway::new("https://.:@PORT@ {\n hosts {\n  203.0.113.1 www.test\n }\n}\n").start();
    let mut raw = Raw::open(gateway.address());
    let get = format!("GET {} HTTP/1.1\r\nhost: a.test\r\n\r\n", target(&query("www.test")));
    let mut ask = |want: &str| {
        raw.send(get.as_bytes());
        let mut octets = Vec::new();
        let page = tests::until(Duration::from_secs(5), || {
            octets.extend(raw.rest(Duration::from_millis(50)));
            Page::parse(&octets).filter(|page| !page.body.is_empty())
        });
        assert_eq!(page.unwrap().reply().addresses(), [want.parse::<std::net::IpAddr>().unwrap()]);
    };
    ask("203.0.113.1");
    gateway.write("Corefile", "https://.:@PORT@ {\n hosts {\n  203.0.113.2 www.test\n }\n}\n");
    gateway.reload();
    gateway.line("Reloading complete");
    ask("203.0.113.2");
}

#[test]
fn doh_23_a_client_that_asks_too_fast_is_told_to_wait() {
    let place = Place::new("limits {\n  queries_per_client 1 3\n }");
    let pages: Vec<Page> = (0..6).map(|_| place.get("--http2", &query("fixed.test"))).collect();
    let late = pages.iter().find(|page| page.status == 429).unwrap();
    assert_eq!(late.header("retry-after"), Some("1"));
    assert_eq!(pages[0].status, 200);
}

#[test]
fn prx_05_only_trusted_proxies_speak_for_clients() {
    let with = |lines: &str| {
        Gateway::new(&format!(
            "https://.:@PORT@ {{\n bind 127.0.0.1\n {lines}\n acl {{\n  allow net 198.51.100.0/24\n  allow net 2001:db8::/32\n  block\n }}\n \
             template IN A . {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n}}\n"
        ))
        .start()
    };
    let ask = |gateway: &Gateway, headers: &str| {
        let mut raw = Raw::open(gateway.address());
        let path = target(&query("www.test"));
        raw.send(
            format!("GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n{headers}\r\n")
                .as_bytes(),
        );
        let page = Page::parse(&raw.rest(Duration::from_secs(5))).unwrap();
        if page.status == 200 { page.reply().rcode().to_string() } else { page.status.to_string() }
    };
    let (yes, no) = (ResponseCode::NoError.to_string(), ResponseCode::Refused.to_string());
    let gateway = with("https {\n  trusted_proxies 127.0.0.0/8 10.0.0.0/8\n }");
    for (headers, want) in [
        ("", &no),
        ("x-forwarded-for: 198.51.100.7\r\n", &yes),
        ("x-forwarded-for: 203.0.113.9, 198.51.100.7\r\n", &yes),
        // What the client wrote itself.
        ("x-forwarded-for: 198.51.100.7, 203.0.113.9\r\n", &no),
        ("x-forwarded-for: 198.51.100.7\r\nx-forwarded-for: 203.0.113.9\r\n", &no),
        // Further proxies.
        ("x-forwarded-for: 203.0.113.9, 198.51.100.7, 10.0.0.1\r\n", &yes),
        ("x-forwarded-for: 198.51.100.7:4711\r\n", &yes),
        ("x-forwarded-for: 2001:db8::7\r\n", &yes),
        ("x-forwarded-for: [2001:db8::7]:4711\r\n", &yes),
        ("x-forwarded-for: 198.51.100.7, unknown\r\n", &no),
        ("x-forwarded-for:\r\n", &no),
        ("forwarded: for=198.51.100.7;proto=https\r\n", &yes),
        ("forwarded: proto=https; For=\"[2001:db8::7]:4711\"\r\n", &yes),
        ("forwarded: for=198.51.100.7, for=_hidden\r\n", &no),
        ("forwarded: for=203.0.113.9, for=198.51.100.7;by=10.0.0.1\r\n", &yes),
        ("forwarded: for=198.51.100.7\r\nx-forwarded-for: 198.51.100.7\r\n", &yes),
        // One of them is the client's own.
        ("forwarded: for=198.51.100.7\r\nx-forwarded-for: 203.0.113.9\r\n", &"400".to_owned()),
    ] {
        assert_eq!(ask(&gateway, headers), *want, "{headers}");
    }
    // Nobody else is believed, and by default nobody is.
    for lines in ["", "https {\n  trusted_proxies 10.0.0.0/8\n }"] {
        let gateway = with(lines);
        assert_eq!(ask(&gateway, "x-forwarded-for: 198.51.100.7\r\n"), no);
        assert_eq!(ask(&gateway, "forwarded: for=198.51.100.7\r\n"), no);
    }
}

#[test]
fn pad_01_and_02_padding_is_answered_with_padding() {
    let place = Place::new("");
    let padded = place.get("--http2", &query("fixed.test").option(12, &[0; 20]));
    assert_eq!(padded.body.len() % 468, 0);
    assert!(padded.reply().option(12).is_some());
    let plain = place.get("--http2", &query("fixed.test").dnssec_ok());
    assert!(plain.reply().option(12).is_none());
}

#[test]
fn keep_04_no_time_is_told_for_the_connection() {
    let place = Place::new("");
    let page = place.get("--http2", &query("fixed.test").option(11, &[]));
    assert!(page.reply().option(11).is_none());
}

#[test]
fn responses_are_counted_by_status() {
    let place = Place::new("");
    place.get("--http2", &query("fixed.test"));
    place.get("--http1.1", &query("fixed.test"));
    place.curl(&["--http2"], "/dns-query", b"");
    place.curl(&["--http2"], "/other", b"");
    let metrics = place.gateway.metrics("metrics");
    let server = format!("https://{}", place.gateway.address());
    for (status, want) in [("200", 2.0), ("400", 1.0), ("404", 1.0)] {
        let key =
            format!("coredns_dns_https_responses_total{{server=\"{server}\",status=\"{status}\"}}");
        assert_eq!(metrics.get(&key), Some(&want), "{key}");
    }
    let key = format!(
        "coredns_dns_requests_total{{family=\"1\",proto=\"tcp\",server=\"{server}\",type=\"A\",view=\"\",zone=\".\"}}"
    );
    assert_eq!(metrics.get(&key), Some(&2.0), "{key} {metrics:?}");
}
