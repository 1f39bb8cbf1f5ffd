//! Spans as collectors get them.
#![allow(clippy::unwrap_used)]

mod collector;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::testing::Bench;
use engine::{Descriptor, Exchange};
use prost::Message as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;

use self::collector::Collector;
use crate::shared::scripted::{Say, Scripted};
use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[
    &crate::metadata::PLUGIN,
    &crate::bind::PLUGIN,
    &super::PLUGIN,
    &crate::errors::PLUGIN,
    &crate::log::PLUGIN,
    &crate::rewrite::PLUGIN,
    &crate::minimal::PLUGIN,
    &ANSWERS,
    &crate::forward::PLUGIN,
];

/// The spans of a request in Zipkin's form.
fn spans(body: &[u8]) -> Vec<Value> {
    serde_json::from_slice::<Vec<Value>>(body).unwrap()
}

/// The names of spans, each with that of its parent.
fn tree(spans: &[Value]) -> Vec<String> {
    let name = |span: &Value| span["name"].as_str().unwrap().to_owned();
    let of = |id: &Value| spans.iter().find(|span| span["id"] == *id).map(name);
    let line = |span: &Value| match of(&span["parentId"]) {
        Some(parent) => format!("{}<{parent}", name(span)),
        None => name(span),
    };
    spans.iter().map(line).collect()
}

/// The lines that the plugin has logged.
fn said() -> Vec<String> {
    logged().into_iter().filter(|line| line.contains("plugin/trace")).collect()
}

/// The next line that the plugin logs.
async fn heard() -> String {
    for _ in 0..400 {
        if let Some(line) = said().pop() {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("nothing was said");
}

/// A gateway whose block traces to Zipkin.
fn bench(collector: &Collector, block: &str, more: &str) -> Bench {
    let addr = collector.addr;
    Bench::new(
        PLUGINS,
        &format!(
            "test {{\nmetadata\ntrace {addr} {{\nzipkin_max_batch_interval 20ms\n{block}\n}}\n{more}\n}}"
        ),
    )
}

/// A query over DoH with headers.
fn over_http(bench: &Bench, headers: &[(&'static str, &str)]) -> Box<Exchange> {
    let mut x = bench.exchange("a.test +http");
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned()));
    x.query.http.as_mut().unwrap().headers = headers.collect();
    x
}

#[tokio::test]
async fn zipkin_gets_a_span_for_each_plugin() {
    // trace.endpoint, trace.spans, trace.tags, trace.service, trace.position.
    let collector = Collector::start("202 Accepted").await;
    let bench = bench(
        &collector,
        "service edge",
        "errors\nlog\nrewrite name a.test b.test\nminimal\nanswers",
    );
    assert!(bench.now("A.test +tcp").starts_with("NOERROR"));
    let got = collector.next().await;
    assert_eq!(got.line, "POST /api/v2/spans HTTP/1.1");
    assert!(got.headers.contains(&"content-type: application/json".to_owned()), "{got:?}");
    assert!(got.headers.contains(&format!("host: {}", collector.addr)), "{got:?}");
    let spans = spans(&got.body);
    assert_eq!(
        tree(&spans),
        ["servedns", "rewrite<servedns", "minimal<rewrite", "answers<minimal"]
    );
    let root = &spans[0];
    assert_eq!(root["kind"], "SERVER");
    assert_eq!(root["localEndpoint"], serde_json::json!({"serviceName": "edge"}));
    assert_eq!(
        root["tags"],
        serde_json::json!({
            "coredns.io/name": "a.test.",
            "coredns.io/type": "A",
            "coredns.io/rcode": "NOERROR",
            "coredns.io/proto": "tcp",
            "coredns.io/remote": "127.0.0.1",
        })
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    for span in &spans {
        assert_eq!(span["traceId"].as_str().unwrap().len(), 16);
        assert_eq!(span["traceId"], root["traceId"]);
        assert_eq!(span["id"].as_str().unwrap().len(), 16);
        let (at, took) = (span["timestamp"].as_u64().unwrap(), span["duration"].as_u64().unwrap());
        assert!(at.abs_diff(now) < 10_000_000 && (1..5_000_000).contains(&took), "{span}");
    }
    let ids: std::collections::BTreeSet<_> =
        spans.iter().map(|span| span["id"].to_string()).collect();
    assert_eq!(ids.len(), spans.len());
}

#[tokio::test]
async fn faults_are_errors_and_silence_has_no_code() {
    // trace.tags.
    let collector = Collector::start("202 Accepted").await;
    let bench = bench(&collector, "", "answers");
    bench.now("fail.test");
    bench.now("drop.test");
    let mut all = Vec::new();
    while all.len() < 4 {
        all.extend(spans(&collector.next().await.body));
    }
    assert_eq!(all[0]["tags"]["error"], "true");
    assert_eq!(all[0]["tags"]["coredns.io/rcode"], "SERVFAIL");
    assert_eq!(all[2]["tags"]["coredns.io/rcode"], Value::Null);
    assert_eq!(all[2]["tags"]["error"], Value::Null);
}

#[tokio::test]
async fn forward_has_a_span_for_each_try() {
    // trace.spans, forward.trace.
    let upstream = Scripted::start(|asked, answer| {
        if asked.number == 0 {
            return Say::Nothing;
        }
        let name = asked.request.name.clone();
        answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1));
        Say::Answer
    })
    .await;
    let collector = Collector::start("202 Accepted").await;
    let more = format!("forward . {} {{\nread_timeout 200ms\nmax_fails 0\n}}", upstream.addr);
    let bench = bench(&collector, "", &more);
    assert!(bench.ask("a.test").await.starts_with("NOERROR"));
    let spans = spans(&collector.next().await.body);
    assert_eq!(
        tree(&spans),
        ["servedns", "forward<servedns", "connect<forward", "connect<forward"]
    );
    for span in &spans[2..] {
        assert_eq!(span["tags"]["peer.address"], upstream.addr.to_string());
    }
    assert!(spans[2]["duration"].as_u64().unwrap() >= 200_000, "{:?}", spans[2]);
    assert!(spans[0]["duration"].as_u64() >= spans[1]["duration"].as_u64());
}

#[tokio::test]
async fn every_nth_query_is_traced() {
    // trace.every.
    for (every, want) in [("0", 0), ("1", 6), ("2", 3), ("4", 1)] {
        let collector = Collector::start("202 Accepted").await;
        let bench = bench(&collector, &format!("every {every}"), "answers");
        for _ in 0..6 {
            bench.now("a.test");
        }
        let mut count = 0;
        while count < want {
            count += spans(&collector.next().await.body).len() / 2;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(count == want && collector.first().is_none(), "every {every}");
    }
}

#[tokio::test]
async fn parts_of_a_clients_trace() {
    // trace.parent, trace.client_server.
    let collector = Collector::start("202 Accepted").await;
    let headers = [
        ("x-b3-traceid", "000000000000000a000000000000000b"),
        ("x-b3-spanid", "00000000000000cc"),
        ("x-b3-parentspanid", "00000000000000dd"),
    ];
    for (block, id, parent) in [
        ("", None, "00000000000000cc"),
        ("client_server false", None, "00000000000000cc"),
        ("client_server", Some("00000000000000cc"), "00000000000000dd"),
        ("client_server true", Some("00000000000000cc"), "00000000000000dd"),
    ] {
        let bench = bench(&collector, block, "answers");
        bench.serve(&mut over_http(&bench, &headers));
        let spans = spans(&collector.next().await.body);
        assert_eq!(spans[0]["traceId"], "000000000000000a000000000000000b");
        assert_eq!(spans[0]["parentId"], parent, "{block}");
        assert_eq!(spans[0]["shared"], id.map_or(Value::Null, |_| true.into()), "{block}");
        if let Some(id) = id {
            assert_eq!(spans[0]["id"], id);
        }
        assert_eq!(spans[1]["parentId"], spans[0]["id"]);
    }
    let bench = bench(&collector, "", "answers");
    bench.serve(&mut over_http(&bench, &[("b3", "0")]));
    bench.serve(&mut over_http(&bench, &[("b3", "000000000000000a-000000000000000b")]));
    let spans = spans(&collector.next().await.body);
    assert_eq!(spans.len(), 2, "one of the two: {spans:?}");
    assert_eq!(spans[0]["traceId"], "000000000000000a");
}

#[tokio::test]
async fn the_local_endpoint_is_the_first_bind_address() {
    // trace.local.
    let collector = Collector::start("202 Accepted").await;
    let text = format!(
        "test:5301 {{\nbind 127.0.0.2 ::1\ntrace {} {{\nzipkin_max_batch_interval 20ms\n}}\nanswers\n}}",
        collector.addr
    );
    let bench = Bench::new(PLUGINS, &text);
    bench.now("a.test");
    let spans = spans(&collector.next().await.body);
    let want = serde_json::json!({"serviceName": "coredns", "ipv4": "127.0.0.2", "port": 5301});
    assert_eq!(spans[0]["localEndpoint"], want);
}

#[tokio::test]
async fn the_number_is_metadata() {
    // trace.MD.
    let collector = Collector::start("202 Accepted").await;
    for (kind, want) in [
        ("zipkin", "000000000000000a"),
        ("otlp", "0000000000000000000000000000000a"),
        ("datadog", "-"),
    ] {
        let text = format!(
            "test {{\nmetadata\ntrace {kind} {}\nlog . \"{{/trace/traceid}}\"\nanswers\n}}",
            collector.addr
        );
        let bench = Bench::new(PLUGINS, &text);
        logged();
        let headers = [("b3", "000000000000000a-000000000000000b")];
        bench.serve(&mut over_http(&bench, &headers));
        let line = logged().pop().unwrap();
        let shown = line.strip_prefix("[INFO] ").unwrap();
        match want {
            "-" => assert!(shown.parse::<u64>().unwrap() > 0xa, "its own: {shown}"),
            want => assert_eq!(shown, want),
        }
    }
    let bench = bench(&collector, "every 0", "log . \"{/trace/traceid}\"\nanswers");
    logged();
    bench.now("a.test");
    assert_eq!(logged(), ["[INFO] -"]);
}

/// A span in Datadog's form.
#[derive(Debug, Deserialize)]
struct Datadog {
    service: String,
    name: String,
    trace_id: u64,
    span_id: u64,
    parent_id: u64,
    start: i64,
    duration: i64,
    error: i32,
    meta: BTreeMap<String, String>,
    metrics: BTreeMap<String, f64>,
}

#[tokio::test]
async fn datadog_gets_traces() {
    // trace.endpoint, trace.tags, trace.dd_rate.
    let collector = Collector::start("200 OK").await;
    let text = format!(
        "test {{\ntrace DataDog {} {{\nzipkin_max_batch_interval 20ms\ndatadog_analytics_rate 0.5\n}}\nanswers\n}}",
        collector.addr
    );
    let bench = Bench::new(PLUGINS, &text);
    bench.now("a.test");
    bench.now("fail.test");
    let mut all: Vec<Vec<Datadog>> = Vec::new();
    while all.len() < 2 {
        let got = collector.next().await;
        assert_eq!(got.line, "PUT /v0.4/traces HTTP/1.1");
        let traces: Vec<Vec<Datadog>> = rmp_serde::from_slice(&got.body).unwrap();
        let count = format!("x-datadog-trace-count: {}", traces.len());
        assert!(got.headers.contains(&count), "{got:?}");
        all.extend(traces);
    }
    for trace in &all {
        assert_eq!([&*trace[0].name, &*trace[1].name], ["servedns", "answers"]);
        assert_eq!((trace[0].parent_id, trace[1].parent_id), (0, trace[0].span_id));
        assert_eq!(trace[0].trace_id, trace[1].trace_id);
        assert_eq!(trace[0].service, "coredns");
        assert!(trace[0].start > 1_000_000_000_000_000_000 && trace[0].duration > 0);
        assert_eq!(trace[0].metrics.get("_dd1.sr.eausr"), Some(&0.5));
        assert_eq!(trace[0].meta["coredns.io@proto"], "udp");
    }
    let (good, bad) = (&all[0][0], &all[1][0]);
    assert_eq!((good.error, good.meta.get("error.message")), (0, None));
    assert_eq!(good.meta["coredns.io@rcode"], "NOERROR");
    assert_eq!((bad.error, &*bad.meta["error.type"]), (1, "dns_error"));
    assert!(bad.meta["error.message"].contains("connection refused"));
}

#[tokio::test]
async fn otlp_gets_spans() {
    // trace.endpoint: our addition.
    let collector = Collector::start("200 OK").await;
    let text = format!(
        "test {{\ntrace otlp {} {{\nzipkin_max_batch_interval 20ms\nservice edge\n}}\nanswers\n}}",
        collector.addr
    );
    let bench = Bench::new(PLUGINS, &text);
    let parent = "00-0000000000000000000000000000000a-000000000000000b-01";
    bench.serve(&mut over_http(&bench, &[("traceparent", parent)]));
    let got = collector.next().await;
    assert_eq!(got.line, "POST /v1/traces HTTP/1.1");
    assert!(got.headers.contains(&"content-type: application/x-protobuf".to_owned()));
    let request = super::otlp::Request::decode(&*got.body).unwrap();
    let resource = &request.resource_spans[0];
    let service = &resource.resource.as_ref().unwrap().attributes[0];
    assert_eq!(service.value.as_ref().unwrap().string_value.as_deref(), Some("edge"));
    let spans = &resource.scope_spans[0].spans;
    assert_eq!([&*spans[0].name, &*spans[1].name], ["servedns", "answers"]);
    assert_eq!(spans[0].trace_id, 10u128.to_be_bytes());
    assert_eq!(spans[0].parent_span_id, 11u64.to_be_bytes());
    assert_eq!(spans[1].parent_span_id, spans[0].span_id);
    assert!(spans[0].end_time_unix_nano > spans[0].start_time_unix_nano);
    assert!(spans[0].attributes.iter().any(|one| one.key == "coredns.io/name"));
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_only() {
    // trace.err: it only warns; trace.zipkin_batch.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    said();
    let text = format!(
        "test {{\ntrace {addr} {{\nzipkin_max_batch_interval 20ms\nzipkin_max_backlog_size 4\n}}\nanswers\n}}"
    );
    let bench = Bench::new(PLUGINS, &text);
    let dropped = |count: u64| {
        let name = format!(
            "causeway_trace_dropped_spans_total{{collector=\"http://{addr}/api/v2/spans\"}} {count}\n"
        );
        engine::metrics::render().contains(&name)
    };
    for _ in 0..3 {
        assert!(bench.now("a.test").starts_with("NOERROR"));
    }
    assert!(dropped(2), "the third has no room");
    while !dropped(6) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.now("a.test");
    while !dropped(8) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let lines = said();
    assert_eq!(lines.len(), 1, "said once: {lines:?}");
    assert!(lines[0].starts_with("[WARNING] plugin/trace: Cannot send spans to http://"));
    // When it is there it gets what comes then, and one that does not want it is as good as away.
    let listener = TcpListener::bind(addr).await.unwrap();
    let collector = Collector::at(listener, "202 Accepted");
    bench.now("a.test");
    assert_eq!(spans(&collector.next().await.body).len(), 2);
    assert!(heard().await.contains("Spans are taken again"));
    let strict = Collector::start("400 Bad Request").await;
    let bench = self::bench(&strict, "", "answers");
    bench.now("a.test");
    strict.next().await;
    assert!(heard().await.ends_with("it says 400 Bad Request"));
}

#[tokio::test]
async fn a_batch_is_sent_when_it_is_full_or_due() {
    // trace.zipkin_batch.
    let collector = Collector::start("202 Accepted").await;
    let text = format!(
        "test {{\ntrace {} {{\nzipkin_max_batch_interval 1h\nzipkin_max_batch_size 4\nzipkin_max_backlog_size 0\n}}\nanswers\n}}",
        collector.addr
    );
    let bench = Bench::new(PLUGINS, &text);
    bench.now("a.test");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(collector.first().is_none());
    bench.now("a.test");
    assert_eq!(spans(&collector.next().await.body).len(), 4);
    // The end of the process is due as well.
    bench.now("a.test");
    bench.process().close(Duration::from_secs(5)).await;
    assert_eq!(spans(&collector.next().await.body).len(), 2);
}

#[test]
fn what_a_block_may_say() {
    // trace.err, trace.endpoint, trace.every, trace.dd_rate.
    for (line, want) in [
        ("trace jaeger localhost", "is no kind of collector"),
        ("trace zipkin a b", "Wrong argument count"),
        ("trace ftp://http", "is no endpoint"),
        ("trace {\nfoo\n}", "'foo' is not a property"),
        ("trace {\nevery\n}", "Wrong argument count"),
        ("trace {\nevery -1\n}", "is wrong"),
        ("trace {\nevery 1 2\n}", "Wrong argument count"),
        ("trace {\nclient_server maybe\n}", "is not known here"),
        ("trace {\ndatadog_analytics_rate 1.1\n}", "is no rate from 0 to 1"),
        ("trace {\ndatadog_analytics_rate x\n}", "is wrong"),
        ("trace {\nzipkin_max_backlog_size x\n}", "is wrong"),
        ("trace {\nzipkin_max_batch_interval 5\n}", "is wrong"),
        ("trace\ntrace", "can only be used once"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{line}\nanswers\n}}"));
        assert!(wrong.starts_with("plugin/trace: ") && wrong.contains(want), "{line}: {wrong}");
    }
    for line in [
        "trace",
        "trace localhost:9411",
        "trace http://localhost:9411/api/v2/spans",
        "trace zipkin localhost",
        "trace datadog localhost:8126",
        "trace otlp localhost:4318",
        "trace {\nevery 0\nservice x\nclient_server\ndatadog_analytics_rate 1\nzipkin_max_backlog_size 0\nzipkin_max_batch_size 0\nzipkin_max_batch_interval 0\n}",
    ] {
        let bench = Bench::new(PLUGINS, &format!("test {{\n{line}\nanswers\n}}"));
        assert!(bench.built.warnings.is_empty(), "{line}");
    }
    let bench = Bench::new(PLUGINS, "test {\ntrace datadog\nanswers\n}");
    assert!(bench.built.warnings[0].what.contains("host of a Zipkin collector"));
}
