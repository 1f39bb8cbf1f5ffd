//! *nomad* with a server of ours in Nomad's place, which hands out pages, is silent, and answers with errors on demand.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::{Folder, Gateway, Query, free_port, until};

/// How long a change may take to be seen.
const SOON: Duration = Duration::from_secs(10);

/// What the stub does beside its duty.
#[derive(Clone, Debug, Default)]
enum Mood {
    /// Nothing.
    #[default]
    Good,
    /// It reads and says nothing.
    Silent,
    /// It answers with this status and this body.
    Status(u16, &'static str),
    /// It answers with this body.
    Body(&'static str),
    /// It says that a body is longer than it is, and closes.
    Cut,
    /// It closes without a word.
    Gone,
}

/// What the stub holds.
#[derive(Debug, Default)]
struct Held {
    /// Instances by namespace and service, each with address and port.
    services: BTreeMap<(String, String), Vec<(String, u16)>>,
    /// How many instances a page has; 0 for all.
    page: usize,
    /// The token that it asks for; may be empty.
    token: String,
    mood: Mood,
    /// The requests that it has got: their first lines.
    asked: Vec<String>,
    /// The headers of the last one.
    headers: BTreeMap<String, String>,
}

/// A server in Nomad's place; it ends with the test.
#[derive(Clone)]
struct Stub {
    held: Arc<Mutex<Held>>,
}

impl Stub {
    /// One with a service.
    fn new() -> Self {
        let stub = Self { held: Arc::default() };
        stub.register(
            "default",
            "web",
            &[("198.51.100.1", 8080), ("198.51.100.2", 8081), ("2001:db8::1", 8082)],
        );
        stub
    }

    /// Has it serve on a port; its URL.
    fn serve(&self) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stub = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let stub = stub.clone();
                std::thread::spawn(move || {
                    stub.talk(&mut BufReader::new(stream.try_clone().unwrap()), stream)
                });
            }
        });
        format!("http://127.0.0.1:{port}")
    }

    /// Has it serve at a socket in the file system.
    fn serve_at(&self, path: &std::path::Path) {
        let listener = UnixListener::bind(path).unwrap();
        let stub = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let stub = stub.clone();
                std::thread::spawn(move || {
                    stub.talk(&mut BufReader::new(stream.try_clone().unwrap()), stream)
                });
            }
        });
    }

    /// Takes the lock.
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// Registers a service.
    fn register(&self, namespace: &str, service: &str, instances: &[(&str, u16)]) {
        let instances = instances.iter().map(|(ip, port)| ((*ip).to_owned(), *port)).collect();
        self.held().services.insert((namespace.to_owned(), service.to_owned()), instances);
    }

    /// Changes its mood.
    fn be(&self, mood: Mood) {
        self.held().mood = mood;
    }

    /// The requests for services since the last look.
    fn asked(&self) -> Vec<String> {
        let all = std::mem::take(&mut self.held().asked);
        all.into_iter().filter(|line| line.contains("/v1/service/")).collect()
    }

    /// Answers the requests of a connection.
    fn talk(&self, input: &mut impl BufRead, mut output: impl Write) {
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if input.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                match line.trim_end() {
                    "" => break,
                    line => lines.push(line.to_owned()),
                }
            }
            let mood = {
                let mut held = self.held();
                held.asked.push(lines[0].clone());
                let pair = |line: &String| {
                    line.split_once(": ")
                        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                };
                held.headers = lines.iter().skip(1).filter_map(pair).collect();
                held.mood.clone()
            };
            let (status, body, next) = match mood {
                Mood::Silent => {
                    // Until the other side gives up.
                    drop(input.read(&mut [0]));
                    return;
                }
                Mood::Gone => return,
                Mood::Cut => {
                    drop(write!(output, "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n[{{"));
                    return;
                }
                Mood::Status(status, body) => (status, body.to_owned(), String::new()),
                Mood::Body(body) => (200, body.to_owned(), String::new()),
                Mood::Good => self.answer(&lines[0]),
            };
            let len = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n{next}\r\n"
            );
            if output.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).is_err() {
                return;
            }
        }
    }

    /// What it says to `GET /v1/…`: status, body, and a header for the next page.
    fn answer(&self, line: &str) -> (u16, String, String) {
        let held = self.held();
        let target = line.split(' ').nth(1).unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !held.token.is_empty() && held.headers.get("x-nomad-token") != Some(&held.token) {
            return (403, "Permission denied".to_owned(), String::new());
        }
        let Some(service) = path.strip_prefix("/v1/service/") else {
            return (200, "{}".to_owned(), String::new());
        };
        let of = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
        };
        let key = (of("namespace").unwrap_or_default(), service.to_owned());
        let all = held.services.get(&key).cloned().unwrap_or_default();
        let from: usize = of("next_token").map_or(0, |token| token.parse().unwrap());
        let size = if held.page == 0 { all.len() } else { held.page };
        let shown: Vec<String> = all.iter().skip(from).take(size).map(|(ip, port)| {
            format!(r#"{{"ID": "x", "ServiceName": "{service}", "Address": "{ip}", "Port": {port}, "Tags": null}}"#)
        }).collect();
        let next = from + size;
        let header =
            if next < all.len() { format!("x-nomad-nexttoken: {next}\r\n") } else { String::new() };
        (200, format!("[{}]", shown.join(",")), header)
    }
}

/// A gateway that asks these addresses, with what the directive says besides; `here.test` needs nobody.
fn gateway(addresses: &str, lines: &str) -> Gateway {
    start(&format!("address {addresses}\n {lines}"), &[])
}

/// The same without an address, with an environment.
fn start(lines: &str, environment: &[(&str, &str)]) -> Gateway {
    let corefile = format!(
        "service.nomad:@PORT@ {{\n bind 127.0.0.1\n errors\n ready 127.0.0.1:@PORT:ready@\n prometheus 127.0.0.1:@PORT:metrics@\n \
         nomad {{\n {lines}\n }}\n}}\nhere.test:@PORT@ {{\n bind 127.0.0.1\n hosts {{\n 203.0.113.1 www.here.test\n }}\n}}\n"
    );
    let gateway = Gateway::new(&corefile);
    environment.iter().fold(gateway, |gateway, (name, value)| gateway.env(name, value)).start()
}

/// The response code of a question.
fn code(gateway: &Gateway, query: &str) -> ResponseCode {
    gateway.ask(query).rcode()
}

#[test]
fn services_are_answered_by_name_and_namespace() {
    let stub = Stub::new();
    stub.register("prod", "web", &[("198.51.100.9", 443), ("198.51.100.9", 443)]);
    let gateway = gateway(&stub.serve(), "ttl 12");
    for (query, want, more) in [
        (
            "web.default.service.nomad A",
            &[
                "web.default.service.nomad. 12 IN A 198.51.100.1",
                "web.default.service.nomad. 12 IN A 198.51.100.2",
            ][..],
            &[][..],
        ),
        (
            "web.default.service.nomad AAAA",
            &["web.default.service.nomad. 12 IN AAAA 2001:db8::1"],
            &[],
        ),
        ("web.prod.service.nomad A", &["web.prod.service.nomad. 12 IN A 198.51.100.9"], &[]),
        // What is between namespace and zone does not matter.
        (
            "web.prod.dc1.service.nomad A",
            &["web.prod.dc1.service.nomad. 12 IN A 198.51.100.9"],
            &[],
        ),
        (
            "web.prod.service.nomad SRV",
            &["web.prod.service.nomad. 12 IN SRV 10 10 443 web.prod.service.nomad."],
            &["web.prod.service.nomad. 12 IN A 198.51.100.9"],
        ),
    ] {
        let reply = gateway.ask(query);
        let mut answers = reply.answers();
        answers.sort();
        assert_eq!(
            (reply.rcode(), reply.flags()),
            (ResponseCode::NoError, "qr aa rd".to_owned()),
            "{query}"
        );
        assert_eq!(answers, want, "{query}");
        assert_eq!(reply.additionals(), more, "{query}");
    }
    let soa =
        "service.nomad. 12 IN SOA ns1.service.nomad. hostmaster.service.nomad. 0 3600 600 86400 30";
    for (query, want) in [
        ("nope.default.service.nomad A", ResponseCode::NXDomain),
        ("web.nope.service.nomad A", ResponseCode::NXDomain),
        ("web.prod.service.nomad AAAA", ResponseCode::NoError),
        ("web.prod.service.nomad TXT", ResponseCode::NoError),
    ] {
        let reply = gateway.ask(query);
        assert_eq!((reply.rcode(), reply.answers()), (want, Vec::new()), "{query}");
        assert_eq!(reply.authorities(), [soa], "{query}");
    }
    let metrics = gateway.metrics("metrics");
    let count = |kind: &str, namespace: &str| {
        let sample = metrics.iter().find(|(name, _)| {
            name.starts_with(&format!("coredns_nomad_{kind}_requests_total{{"))
                && name.contains(&format!("namespace=\"{namespace}\""))
                && name.contains("server=\"dns://127.0.0.1:")
        });
        sample.map_or(0.0, |(_, value)| *value)
    };
    assert_eq!((count("success", "prod"), count("failed", "prod")), (5.0, 0.0));
    assert_eq!((count("success", "default"), count("failed", "default")), (2.0, 1.0));
    assert_eq!(count("failed", "nope"), 1.0);
    // Nothing is kept: every query is one request.
    stub.asked();
    gateway.ask("web.prod.service.nomad A");
    gateway.ask("web.prod.service.nomad A");
    assert_eq!(stub.asked(), ["GET /v1/service/web?namespace=prod HTTP/1.1"; 2]);
    stub.register("prod", "web", &[("198.51.100.10", 443)]);
    assert_eq!(
        gateway.ask("web.prod.service.nomad A").addresses(),
        ["198.51.100.10".parse::<std::net::IpAddr>().unwrap()]
    );
}

#[test]
fn all_pages_of_an_answer_count() {
    let stub = Stub::new();
    let ips: Vec<String> = (1..=23).map(|host| format!("198.51.100.{host}")).collect();
    let all: Vec<(&str, u16)> = ips.iter().map(|ip| (&**ip, 80)).collect();
    stub.register("default", "many", &all);
    stub.held().page = 5;
    let gateway = gateway(&stub.serve(), "");
    assert_eq!(
        gateway.ask(Query::from("many.default.service.nomad A").tcp()).addresses().len(),
        23
    );
    let asked = stub.asked();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert!(asked[4].contains("&next_token=20 "), "{asked:?}");
    // One page for ever is an end as well.
    stub.held().page = 0;
    assert_eq!(gateway.ask("web.default.service.nomad A").addresses().len(), 2);
}

#[test]
fn errors_are_one_failure_each_and_one_line_of_the_log() {
    let stub = Stub::new();
    let gateway = gateway(&stub.serve(), "token s3cret-word");
    assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
    for (mood, why) in [
        (
            Mood::Status(403, "Permission denied for s3cret-word"),
            "HTTP status 403 Forbidden: Permission denied for …",
        ),
        (Mood::Status(500, "rpc error\n"), "HTTP status 500 Internal Server Error: rpc error"),
        (Mood::Status(404, ""), "HTTP status 404 Not Found"),
        (Mood::Body("{}"), "the answer makes no sense: it is no list"),
        (Mood::Body("[{"), "the answer makes no sense"),
        (Mood::Cut, "error"),
        (Mood::Gone, "connection closed"),
    ] {
        stub.be(mood);
        for _ in 0..3 {
            let reply = gateway.ask("web.default.service.nomad A");
            assert_eq!(
                (reply.rcode(), reply.answers()),
                (ResponseCode::ServFail, Vec::new()),
                "{why}"
            );
        }
        gateway.line(why);
        stub.be(Mood::Good);
        assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
    }
    let count = |text: &str| gateway.output().matches(text).count();
    let told = || count("[INFO] plugin/nomad: services are answered again") >= 7;
    until(Duration::from_secs(10), || told().then_some(())).expect("the last end is told");
    let output = gateway.output();
    let all = (count("[WARNING] plugin/nomad: "), count("services are answered again"));
    assert_eq!(all, (7, 7), "{output}");
    assert!(!output.contains("s3cret-word"), "{output}");
    // What is no address is left out.
    stub.be(Mood::Body(r#"[{"Address": "a.test", "Port": 1}, {"Port": 1}, 7, {"Address": "198.51.100.7", "Port": 99999999}, {"Address": "198.51.100.8"}]"#));
    assert_eq!(
        gateway.ask("web.default.service.nomad A").answers(),
        ["web.default.service.nomad. 30 IN A 198.51.100.8"]
    );
}

#[test]
fn a_silent_agent_holds_nobody_else_up() {
    let stub = Stub::new();
    let gateway = gateway(&stub.serve(), "");
    stub.be(Mood::Silent);
    let address = gateway.address();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            std::thread::spawn(move || {
                let begun = Instant::now();
                let query =
                    Query::from("web.default.service.nomad A").patience(Duration::from_secs(9));
                (query.ask(address).map(|reply| reply.rcode()), begun.elapsed())
            })
        })
        .collect();
    for _ in 0..10 {
        let begun = Instant::now();
        assert_eq!(code(&gateway, "www.here.test A"), ResponseCode::NoError);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    for one in waiting {
        let (code, took) = one.join().unwrap();
        assert_eq!(code, Some(ResponseCode::ServFail), "{took:?}");
        assert!(took > Duration::from_secs(4) && took < Duration::from_secs(8), "{took:?}");
    }
    gateway.line("no answer in time");
    stub.be(Mood::Good);
    assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
}

#[test]
fn another_agent_is_asked_where_one_fails() {
    let (first, second) = (Stub::new(), Stub::new());
    let gone = format!("http://127.0.0.1:{}", free_port());
    let gateway =
        gateway(&format!("{gone} {}", first.serve()), &format!("address {}", second.serve()));
    assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
    assert_eq!((first.asked().len(), second.asked().len()), (1, 0));
    first.be(Mood::Status(500, ""));
    for _ in 0..3 {
        assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
    }
    // The one that answered is asked first from then on.
    assert_eq!((first.asked().len(), second.asked().len()), (1, 3));
    second.be(Mood::Silent);
    first.be(Mood::Good);
    let begun = Instant::now();
    let query = Query::from("web.default.service.nomad A").patience(SOON);
    assert_eq!(gateway.ask(query).rcode(), ResponseCode::NoError);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn it_is_ready_once_an_agent_has_been_reached() {
    let port = free_port();
    let gateway = gateway(&format!("http://127.0.0.1:{port}"), "");
    let status = |gateway: &Gateway| gateway.get("ready", "/ready").unwrap();
    assert_eq!(status(&gateway), (503, "nomad".to_owned()));
    let stub = Stub::new();
    // Who refuses is there as well.
    stub.be(Mood::Status(403, ""));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stub = stub.clone();
            std::thread::spawn(move || {
                stub.talk(&mut BufReader::new(stream.try_clone().unwrap()), stream)
            });
        }
    });
    let ready = until(SOON, || (status(&gateway).0 == 200).then_some(()));
    assert!(ready.is_some());
}

#[test]
fn token_filter_region_and_environment_are_told() {
    let stub = Stub::new();
    stub.held().token = "word".to_owned();
    let url = stub.serve();
    let refused = start("", &[("NOMAD_ADDR", &url)]);
    assert_eq!(code(&refused, "web.default.service.nomad A"), ResponseCode::ServFail);
    let environment = [
        ("NOMAD_ADDR", &*url),
        ("NOMAD_TOKEN", "word"),
        ("NOMAD_REGION", "eu west"),
        ("NOMAD_HTTP_AUTH", "user:pass"),
    ];
    let told = start("filter \"ServiceName != `x`\"", &environment);
    stub.asked();
    assert_eq!(code(&told, "web.default.service.nomad A"), ResponseCode::NoError);
    assert_eq!(
        stub.asked(),
        [
            "GET /v1/service/web?namespace=default&filter=ServiceName%20%21%3D%20%60x%60&region=eu%20west HTTP/1.1"
        ]
    );
    assert_eq!(stub.held().headers["authorization"], "Basic dXNlcjpwYXNz");
    // The directive is stronger.
    let stated = start(
        &format!("address {url}\n token word"),
        &[("NOMAD_ADDR", "http://127.0.0.1:1"), ("NOMAD_TOKEN", "other")],
    );
    assert_eq!(code(&stated, "web.default.service.nomad A"), ResponseCode::NoError);
}

#[test]
fn an_agent_may_be_at_a_socket() {
    let (stub, folder) = (Stub::new(), Folder::new("nomad"));
    let socket = folder.path().join("nomad.sock");
    stub.serve_at(&socket);
    let gateway = gateway(&format!("unix://{}", socket.display()), "");
    for _ in 0..2 {
        assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::NoError);
    }
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(code(&gateway, "web.default.service.nomad A"), ResponseCode::ServFail);
}
