//! *trace* from outside: a Zipkin that keeps what it gets, Datadog's own test agent, and both of them away.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tests::process::target;
use tests::web::target as doh_target;
use tests::{Gateway, Process, Query, Scripted, client, free_port, scripted, until};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A Zipkin: takes spans at `/api/v2/spans`, and says no to all else.
struct Zipkin {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Zipkin {
    /// Starts one at a port.
    fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let address = listener.local_addr().unwrap();
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some((line, body)) = request(&mut stream) {
                        let good = line == "POST /api/v2/spans HTTP/1.1";
                        if good {
                            let spans: Vec<Value> = serde_json::from_slice(&body).unwrap();
                            kept.lock().unwrap().extend(spans);
                        }
                        let status = if good { "202 Accepted" } else { "404 Not Found" };
                        let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                        if stream.get_mut().write_all(reply.as_bytes()).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { address, spans }
    }

    /// The spans of the trace whose outermost one is about `name`.
    fn trace(&self, name: &str) -> Vec<Value> {
        let found = until(LIMIT, || {
            let spans = self.spans.lock().unwrap();
            let root = spans.iter().find(|span| span["tags"]["coredns.io/name"] == name)?;
            let own = spans.iter().filter(|span| span["traceId"] == root["traceId"]);
            Some(own.cloned().collect::<Vec<_>>())
        });
        found.unwrap_or_else(|| panic!("no trace of {name}: {:?}", self.spans.lock().unwrap()))
    }
}

/// A request's first line and its body; none at the end.
fn request(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    stream.read_line(&mut first).ok().filter(|len| *len > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((first.trim_end().to_owned(), body))
}

/// The names of spans.
fn names(spans: &[Value]) -> Vec<&str> {
    spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
}

/// An upstream that has one address for every name.
fn upstream() -> Scripted {
    Scripted::start(|query, _| {
        let name = query.queries[0].name().to_string();
        Some(scripted::reply(query, &[&format!("{name} 60 A 203.0.113.1")]))
    })
}

#[test]
fn zipkin_gets_the_way_of_each_query() {
    let (zipkin, upstream) = (Zipkin::start(0), upstream());
    let block = format!(
        " bind 127.0.0.1\n metadata\n prometheus 127.0.0.1:@PORT:metrics@\n trace {} {{\n  service edge\n }}\n log . \"{{name}} trace={{/trace/traceid}}\"\n cache 30\n forward . {}\n",
        zipkin.address,
        upstream.address()
    );
    let gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n{block}}}\nhttps://.:@PORT:doh@ {{\n{block}}}\ngrpc://.:@PORT:grpc@ {{\n{block}}}\n"
    ))
    .start();
    gateway.ask("one.example.org A");
    let spans = zipkin.trace("one.example.org.");
    assert_eq!(names(&spans), ["servedns", "cache", "forward", "connect"]);
    assert_eq!(spans[3]["tags"]["peer.address"], upstream.address().to_string());
    assert_eq!(spans[0]["localEndpoint"]["serviceName"], "edge");
    assert_eq!(spans[0]["localEndpoint"]["ipv4"], "127.0.0.1");
    assert_eq!(spans[0]["localEndpoint"]["port"], gateway.address().port());
    let trace = spans[0]["traceId"].as_str().unwrap();
    gateway.line(&format!("one.example.org. trace={trace}"));
    // What comes from the cache has been to nobody.
    gateway.ask(Query::from("one.example.org A").tcp());
    let cached = until(LIMIT, || {
        let spans = zipkin.spans.lock().unwrap();
        let root = spans.iter().find(|span| span["tags"]["coredns.io/proto"] == "tcp")?;
        let own = spans.iter().filter(|span| span["traceId"] == root["traceId"]);
        Some(own.map(|span| span["name"].to_string()).collect::<Vec<_>>())
    });
    assert_eq!(cached.unwrap(), ["\"servedns\"", "\"cache\""]);
    // A client of HTTPS that is part of a trace.
    let query = Query::from("two.example.org A");
    let url = format!("http://{}{}", gateway.address_of("doh"), doh_target(&query));
    let status = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "--http1.1"])
        .args(["-H", "X-B3-TraceId: 463ac35c9f6413ad48485a3953bb6124"])
        .args(["-H", "X-B3-SpanId: a2fb4a1d1a96d312", &url])
        .status()
        .unwrap();
    assert!(status.success());
    let spans = zipkin.trace("two.example.org.");
    assert_eq!(spans[0]["traceId"], "463ac35c9f6413ad48485a3953bb6124");
    assert_eq!(spans[0]["parentId"], "a2fb4a1d1a96d312");
    // And one of gRPC.
    grpc(gateway.address_of("grpc"), "three.example.org A");
    let spans = zipkin.trace("three.example.org.");
    assert_eq!(spans[0]["traceId"], "463ac35c9f6413ad");
    assert_eq!(spans[0]["parentId"], "a2fb4a1d1a96d312");
}

/// Calls by gRPC, as part of a trace.
fn grpc(address: SocketAddr, query: &str) {
    let message = Query::from(query).encode();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{address}/coredns.dns.DnsService/Query"))
            .header("content-type", "application/grpc")
            .header("b3", "463ac35c9f6413ad-a2fb4a1d1a96d312-1")
            .body(())
            .unwrap();
        let (reply, mut body) = send.send_request(request, false).unwrap();
        let mut packet = vec![0];
        let inner = message.len();
        let head = if inner < 128 { vec![10, inner as u8] } else { panic!("too long for a test") };
        packet.extend_from_slice(&((head.len() + inner) as u32).to_be_bytes());
        packet.extend_from_slice(&head);
        packet.extend_from_slice(&message);
        body.send_data(packet.into(), true).unwrap();
        assert_eq!(reply.await.unwrap().status(), 200);
    });
}

#[test]
fn a_zipkin_that_is_away_costs_no_query() {
    let (port, upstream) = (free_port(), upstream());
    let gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n trace http://127.0.0.1:{port}/api/v2/spans\n forward . {}\n}}",
        upstream.address()
    ))
    .start();
    for number in 0..50 {
        assert_eq!(gateway.ask(format!("a{number}.example.org A").as_str()).answers().len(), 1);
    }
    gateway.line("[WARNING] plugin/trace: Cannot send spans to");
    let figure = |name: &str| {
        let all = gateway.metrics("metrics");
        let key = format!("{name}{{collector=\"http://127.0.0.1:{port}/api/v2/spans\"}}");
        all.get(&key).copied().unwrap_or_else(|| panic!("{key}: {all:?}"))
    };
    let dropped = || figure("causeway_trace_dropped_spans_total");
    assert!(until(LIMIT, || (dropped() == 150.0).then_some(())).is_some(), "{}", dropped());
    let zipkin = Zipkin::start(port);
    gateway.ask("back.example.org A");
    assert_eq!(zipkin.trace("back.example.org.").len(), 3);
    gateway.line("Spans are taken again");
    assert_eq!((dropped(), figure("causeway_trace_spans_total")), (150.0, 3.0));
}

/// Starts Datadog's test agent at a port.
fn agent(port: u16) -> Process {
    let program = target().join("clients/venv/bin/ddapm-test-agent");
    assert!(program.exists(), "{} is missing: run tests/clients/setup", program.display());
    let (http, grpc) = (free_port().to_string(), free_port().to_string());
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--web-ui-port", "0"]);
    command.args(["--otlp-http-port", &http, "--otlp-grpc-port", &grpc]);
    command.env("ENABLED_CHECKS", "trace_content_length,trace_count_header");
    command.stdin(Stdio::null());
    let process = Process::start("ddapm-test-agent", command);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let up =
        until(LIMIT, || client::http_get(address, "/info").filter(|(status, _)| *status == 200));
    assert!(up.is_some(), "the agent does not start: {}", process.output());
    process
}

/// The traces that an agent has, once there are so many.
fn traces(port: u16, count: usize) -> Vec<Vec<Value>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let found = until(LIMIT, || {
        let (_, text) = client::http_get(address, "/test/traces")?;
        let traces: Vec<Vec<Value>> = serde_json::from_str(&text).ok()?;
        (traces.len() >= count).then_some(traces)
    });
    found.unwrap_or_else(|| panic!("{:?}", client::http_get(address, "/test/traces")))
}

#[test]
fn datadogs_agent_takes_traces() {
    let (port, upstream) = (free_port(), upstream());
    let mut first = agent(port);
    let gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n trace datadog 127.0.0.1:{port} {{\n  service edge\n  datadog_analytics_rate 0.25\n }}\n forward . {}\n}}",
        upstream.address()
    ))
    .start();
    gateway.ask("one.example.org A");
    let all = traces(port, 1);
    let names: Vec<_> = all[0].iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["servedns", "forward", "connect"]);
    let (root, forward) = (&all[0][0], &all[0][1]);
    assert_eq!(root["service"], "edge");
    assert_eq!(root["meta"]["coredns.io@name"], "one.example.org.");
    assert_eq!(root["meta"]["coredns.io@rcode"], "NOERROR");
    assert_eq!(root["metrics"]["_dd1.sr.eausr"], 0.25);
    assert_eq!((&root["error"], &forward["parent_id"]), (&0.into(), &root["span_id"]));
    // The agent's own checks of what it got.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (status, text) = client::http_get(address, "/test/trace_check/failures").unwrap();
    assert_eq!(status, 200, "{text}");
    // Gone and back.
    first.kill();
    gateway.ask("two.example.org A");
    gateway.line("[WARNING] plugin/trace: Cannot send spans to");
    let _second = agent(port);
    gateway.ask("three.example.org A");
    let all = traces(port, 1);
    assert_eq!(all[0][0]["meta"]["coredns.io@name"], "three.example.org.");
}
