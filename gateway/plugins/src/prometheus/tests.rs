//! Labels, values, and the page.

use engine::admin::Ask;
use engine::testing::Bench;
use engine::{Descriptor, metrics};

use crate::shared::testing::ANSWERS;

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[
    &crate::metadata::PLUGIN,
    &super::PLUGIN,
    &crate::errors::PLUGIN,
    &crate::log::PLUGIN,
    &ANSWERS,
];

/// The lines of the metrics that hold `part`, without `server` and `view`, sorted. Metrics are the whole process's, so each
/// test has a zone of its own.
fn lines(part: &str) -> Vec<String> {
    let text = metrics::render();
    let lines = text.lines().filter(|line| line.contains(part) && !line.contains("_bucket"));
    let mut lines: Vec<_> = lines
        .map(|line| {
            line.replace("server=\"dns://:53\",", "")
                .replace("view=\"\",", "")
                .replace("coredns_dns_", "")
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn queries_are_counted_by_their_labels() {
    // prometheus.M.requests, .types, .do, .responses, xc.metric.labels, prometheus.fail, prometheus.position.
    let mut bench = Bench::new(PLUGINS, "one.test {\nprometheus\nerrors\nanswers\n}\n");
    for query in [
        "a.one.test",
        "A.One.test",
        "a.one.test AAAA +tcp +do",
        "nx.one.test MX",
        "refused.one.test TYPE999",
        "fail.one.test TYPE998",
        "pass.one.test HTTPS",
        "drop.one.test ANY",
    ] {
        bench.now(query);
    }
    bench.from("2001:db8::1".parse().unwrap()).now("a.one.test");
    let zone = "zone=\"one.test.\"";
    let counters: Vec<_> =
        lines(zone).into_iter().filter(|line| line.contains("_total{")).collect();
    let want = [
        "do_requests_total{zone=\"one.test.\"} 1",
        "requests_total{family=\"1\",proto=\"tcp\",type=\"AAAA\",zone=\"one.test.\"} 1",
        "requests_total{family=\"1\",proto=\"udp\",type=\"A\",zone=\"one.test.\"} 2",
        "requests_total{family=\"1\",proto=\"udp\",type=\"ANY\",zone=\"one.test.\"} 1",
        "requests_total{family=\"1\",proto=\"udp\",type=\"HTTPS\",zone=\"one.test.\"} 1",
        "requests_total{family=\"1\",proto=\"udp\",type=\"MX\",zone=\"one.test.\"} 1",
        "requests_total{family=\"1\",proto=\"udp\",type=\"other\",zone=\"one.test.\"} 2",
        "requests_total{family=\"2\",proto=\"udp\",type=\"A\",zone=\"one.test.\"} 1",
        "responses_total{plugin=\"\",rcode=\"SERVFAIL\",zone=\"one.test.\"} 2",
        "responses_total{plugin=\"answers\",rcode=\"NOERROR\",zone=\"one.test.\"} 4",
        "responses_total{plugin=\"answers\",rcode=\"NXDOMAIN\",zone=\"one.test.\"} 1",
        "responses_total{plugin=\"answers\",rcode=\"REFUSED\",zone=\"one.test.\"} 1",
    ];
    assert_eq!(counters, want);
}

#[test]
fn times_and_sizes_are_histograms() {
    // prometheus.M.duration, .reqsize, .respsize, prometheus.size0.
    let bench = Bench::new(PLUGINS, "two.test {\nprometheus\nanswers\n}\n");
    bench.now("a.two.test");
    bench.now("a.two.test +edns");
    bench.now("fail.two.test +tcp");
    let text = metrics::render();
    let has = |line: &str| {
        let line = line.replace("ZONE", "server=\"dns://:53\",view=\"\",zone=\"two.test.\"");
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    };
    has("coredns_dns_request_duration_seconds_count{ZONE} 3");
    has("# TYPE coredns_dns_request_duration_seconds histogram");
    has("coredns_dns_request_duration_seconds_bucket{ZONE,le=\"8.192\"} 3");
    // 12 of header, 16 of question, 11 of OPT.
    has("coredns_dns_request_size_bytes_sum{proto=\"udp\",ZONE} 67");
    has("coredns_dns_request_size_bytes_bucket{proto=\"udp\",ZONE,le=\"0\"} 0");
    has("coredns_dns_request_size_bytes_bucket{proto=\"udp\",ZONE,le=\"100\"} 2");
    has("coredns_dns_request_size_bytes_bucket{proto=\"udp\",ZONE,le=\"64000\"} 2");
    has("coredns_dns_response_size_bytes_sum{proto=\"udp\",ZONE} 108");
    has("coredns_dns_response_size_bytes_bucket{proto=\"tcp\",ZONE,le=\"0\"} 1");
}

#[test]
fn what_no_block_takes_is_dropped() {
    // core.metrics.dropped; the label's other value is of a listener that no other test has.
    let bench = Bench::new(PLUGINS, "lost.test:5311 {\nprometheus\nanswers\n}\n");
    for query in ["other", "a.lost.test CH A", "a.lost.test", "elsewhere +tcp +do"] {
        bench.now(query);
    }
    let text = metrics::render();
    let lost: Vec<_> = text
        .lines()
        .filter(|line| {
            line.contains("dns://:5311") && line.contains("dropped") && line.contains("_total")
        })
        .map(|line| {
            line.replace("server=\"dns://:5311\",", "")
                .replace("view=\"\",zone=\"dropped\"", "DROPPED")
        })
        .collect();
    let want = [
        "coredns_dns_requests_total{family=\"1\",proto=\"udp\",type=\"A\",DROPPED} 2",
        "coredns_dns_requests_total{family=\"1\",proto=\"tcp\",type=\"A\",DROPPED} 1",
        "coredns_dns_responses_total{plugin=\"\",rcode=\"REFUSED\",DROPPED} 3",
        "coredns_dns_do_requests_total{DROPPED} 1",
    ];
    for line in want {
        assert!(lost.contains(&line.to_owned()), "{line} is not in {lost:#?}");
    }
    assert_eq!(lost.len(), want.len(), "{lost:#?}");
}

#[test]
fn plugins_that_take_part_are_shown_as_long_as_their_block() {
    // prometheus.M.enabled
    let enabled = || {
        lines("zone=\"three.test.\"")
            .into_iter()
            .filter(|line| line.starts_with("coredns_plugin_enabled{"))
            .collect::<Vec<_>>()
    };
    let row = |name| format!("coredns_plugin_enabled{{name=\"{name}\",zone=\"three.test.\"}} 1");
    let mut bench =
        Bench::new(PLUGINS, "three.test {\nprometheus\nerrors\nlog x\nmetadata\nanswers\n}\n");
    let all = ["answers", "errors", "log", "metadata", "prometheus"];
    assert_eq!(enabled(), all.map(row));
    bench.reload("three.test {\nprometheus\nanswers\n}\n").unwrap();
    assert_eq!(enabled(), ["answers", "prometheus"].map(row));
    bench.reload("four.test {\nprometheus\nanswers\n}\n").unwrap();
    assert_eq!(enabled(), [""; 0]);
}

#[test]
fn labels_do_not_grow_with_what_clients_send() {
    let bench = Bench::new(PLUGINS, "five.test {\nprometheus\nanswers\n}\n");
    let count = || lines("zone=\"five.test.\"").len();
    let ask = || {
        for kind in 1..400 {
            bench.now(&format!("n{kind}.five.test TYPE{kind}"));
        }
    };
    ask();
    let before = count();
    assert!(before < 60, "{before}");
    ask();
    assert_eq!(count(), before);
}

#[test]
fn response_codes_have_their_names_or_none() {
    use super::handler::rcode_label;
    for (rcode, want) in [(0, "NOERROR"), (11, "DSOTYPENI"), (16, "BADVERS"), (23, "BADCOOKIE")] {
        assert_eq!(rcode_label(rcode), want);
    }
    for rcode in [12, 15, 24, 4095] {
        assert_eq!(rcode_label(rcode), "other");
    }
}

#[test]
fn one_page_an_address() {
    // prometheus.addr, prometheus.once, prometheus.runtime_metrics, prometheus.http.
    let bench = Bench::new(
        PLUGINS,
        "a {\nprometheus\nanswers\n}\nb {\nprometheus localhost:9153 {\nruntime_metrics\n}\nanswers\n}\nc {\nprometheus :9154\nanswers\n}\n",
    );
    let pages = &bench.built.pages;
    let at: Vec<_> = pages.iter().map(|page| format!("{}{}", page.addr, page.path)).collect();
    assert_eq!(at, ["127.0.0.1:9153/metrics", "[::]:9154/metrics"]);
    let ask = Ask { method: "GET", path: "/metrics", query: None, accept: None };
    let told = pages[0].handler.handle(ask);
    let text = String::from_utf8(told.body).unwrap();
    assert_eq!((told.status, told.content_type), (200, "text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.contains("coredns_build_info{goversion=\"\",revision=\""), "{text}");
    assert!(text.contains("# TYPE coredns_panics_total counter\n"), "{text}");
}

#[test]
fn what_is_refused() {
    for (text, want) in [
        ("prometheus 1 2", "'1' has no port"),
        ("prometheus :1 :2", "':2' is one too many"),
        ("prometheus nohost:x", "'nohost:x' has no port"),
        ("prometheus\nprometheus", "can only be used once per Server Block"),
        ("prometheus {\nfoo\n}", "'foo' is not a property"),
        ("prometheus {\ntls web.yml\n}", "'tls' is not served"),
        ("prometheus {\nruntime_metrics x\n}", "'x' is one too many"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{text}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/prometheus: ") && wrong.contains(want), "{wrong}");
    }
}
