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
    let ask = Ask { method: "GET", path: "/metrics", ..Ask::default() };
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
        ("prometheus {\ntls no-such-file.yml\n}", "cannot be read: No such file"),
        ("prometheus {\ntls\n}", "Wrong argument count"),
        ("prometheus {\ntls a b\n}", "'b' is one too many"),
        ("prometheus {\nruntime_metrics x\n}", "'x' is one too many"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{text}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/prometheus: ") && wrong.contains(want), "{wrong}");
    }
}

/// A folder with a certificate, its key, and `web.yml` with this text.
fn folder(web: &str) -> std::path::PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("causeway-web-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let made = rcgen::generate_simple_self_signed(["dns.example.org".to_owned()]).unwrap();
    std::fs::write(path.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(path.join("web.yml"), web).unwrap();
    path
}

/// Of the password `secret`, with the fewest rounds that there are.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

#[test]
fn the_file_says_how_metrics_are_served() {
    // prometheus.tls
    let tls = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";
    for (web, is_tls, warnings) in [
        ("", false, 0),
        ("http_server_config: {http2: false}\n", false, 0),
        (tls, true, 0),
        (&*format!("{tls}  min_version: TLS13\n  max_version: TLS13\n"), true, 0),
        (&*format!("{tls}  client_auth_type: RequireAnyClientCert\n"), true, 0),
        (
            &*format!(
                "{tls}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n"
            ),
            true,
            0,
        ),
        (
            &*format!(
                "{tls}  cipher_suites: [TLS_AES_128_GCM_SHA256]\nhttp_server_config:\n  headers: {{X-Frame-Options: deny}}\n"
            ),
            true,
            2,
        ),
    ] {
        let folder = folder(web);
        let file = folder.join("web.yml");
        let text = format!(
            "a {{\nprometheus {{\ntls {0}\n}}\nanswers\n}}\nb {{\nprometheus {{\ntls {0}\n}}\nanswers\n}}\n",
            file.display()
        );
        let bench = Bench::new(PLUGINS, &text);
        assert_eq!(bench.built.pages.len(), 1, "{web}");
        assert_eq!(bench.built.pages[0].tls.is_some(), is_tls, "{web}");
        assert_eq!(bench.built.warnings.len(), warnings, "{web}: {:?}", bench.built.warnings);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_wrong_file_stops_the_start() {
    let tls = "tls_server_config: {cert_file: cert.pem, key_file: key.pem";
    for (web, want) in [
        ("tls_server_config: {cert_file: cert.pem}", "has no cert_file or no key_file"),
        (&*format!("{tls}, foo: bar}}"), "is wrong: "),
        ("tls_server_config: {cert_file: gone.pem, key_file: key.pem}", "TLS files that are wrong"),
        (&*format!("{tls}, client_auth_type: Maybe}}"), "client_auth_type that is not known"),
        (&*format!("{tls}, client_auth_type: RequireAndVerifyClientCert}}"), "needs a CA"),
        (&*format!("{tls}, client_ca_file: cert.pem}}"), "without a client_auth_type"),
        (&*format!("{tls}, client_allowed_sans: [a]}}"), "are not checked here"),
        (&*format!("{tls}, min_version: SSL30}}"), "min_version that is not known"),
        ("basic_auth_users: {alice: secret}", "no bcrypt hash for the user alice"),
        ("nonsense", "is wrong: "),
    ] {
        let folder = folder(web);
        let file = folder.join("web.yml");
        let text = format!("a {{\nprometheus {{\ntls {}\n}}\nanswers\n}}\n", file.display());
        let wrong = Bench::refused(PLUGINS, &text);
        assert!(wrong.contains(want) && !wrong.contains("secret"), "{web}: {wrong}");
        std::fs::remove_dir_all(folder).unwrap();
    }
    // One address is served in one way.
    let folder = folder("");
    std::fs::write(folder.join("tls.yml"), format!("{tls}}}")).unwrap();
    let text = format!(
        "a {{\nprometheus\nanswers\n}}\nb {{\nprometheus {{\ntls {}\n}}\nanswers\n}}\n",
        folder.join("tls.yml").display()
    );
    assert!(Bench::refused(PLUGINS, &text).contains("another block serves without it"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn only_users_see_the_metrics() {
    let folder = folder(&format!("basic_auth_users: {{alice: '{HASH}'}}\n"));
    let file = folder.join("web.yml");
    let text = format!("a {{\nprometheus {{\ntls {}\n}}\nanswers\n}}\n", file.display());
    let bench = Bench::new(PLUGINS, &text);
    let handler = &bench.built.pages[0].handler;
    // alice:secret, alice:wrong, bob:secret
    for (authorization, want) in [
        (None, 401),
        (Some("Basic YWxpY2U6c2VjcmV0"), 200),
        (Some("basic YWxpY2U6c2VjcmV0"), 200),
        (Some("Basic YWxpY2U6d3Jvbmc="), 401),
        (Some("Basic Ym9iOnNlY3JldA=="), 401),
        (Some("Bearer YWxpY2U6c2VjcmV0"), 401),
        (Some("Basic !"), 401),
        (Some("Basic"), 401),
    ] {
        let ask = Ask { method: "GET", path: "/metrics", authorization, ..Ask::default() };
        let told = match handler.later(ask) {
            Some(later) => later.await,
            None => handler.handle(ask),
        };
        assert_eq!(told.status, want, "{authorization:?}");
        assert!(!format!("{ask:?}").contains("YWxp"), "{ask:?}");
    }
    // What was right once is known at once.
    let authorization = Some("Basic YWxpY2U6c2VjcmV0");
    assert!(
        handler
            .later(Ask { method: "GET", path: "/metrics", authorization, ..Ask::default() })
            .is_none()
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn protobuf_is_for_those_who_prefer_it() {
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for (accept, want) in [
        (protobuf.to_owned(), true),
        (
            format!(
                "{protobuf},application/openmetrics-text;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
            ),
            true,
        ),
        (format!("{protobuf};q=0.3,text/plain;version=0.0.4;q=0.5"), false),
        (format!("text/plain, {protobuf}"), true),
        (format!("{protobuf};q=0"), false),
        (format!("{protobuf};q=x"), false),
        ("application/vnd.google.protobuf;encoding=text".to_owned(), false),
        ("text/plain".to_owned(), false),
        ("*/*".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(super::page::prefers_protobuf(&accept), want, "{accept}");
    }
    let bench = Bench::new(PLUGINS, "test {\nprometheus\nanswers\n}\n");
    bench.now("a.test");
    let ask = Ask { method: "GET", path: "/metrics", accept: Some(protobuf), ..Ask::default() };
    let told = bench.built.pages[0].handler.handle(ask);
    assert!(told.content_type.starts_with("application/vnd.google.protobuf"));
    // Each message has its length in front.
    let (mut rest, mut names) = (&*told.body, Vec::new());
    while !rest.is_empty() {
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let octet = rest[0];
            rest = &rest[1..];
            length |= usize::from(octet & 0x7f) << shift;
            shift += 7;
            if octet & 0x80 == 0 {
                break;
            }
        }
        // Its first field is the name.
        assert_eq!(rest[0], 0x0a);
        let name = &rest[2..2 + usize::from(rest[1])];
        names.push(String::from_utf8(name.to_vec()).unwrap());
        rest = &rest[length..];
    }
    for name in
        ["coredns_dns_requests_total", "coredns_dns_request_duration_seconds", "process_open_fds"]
    {
        assert!(names.iter().any(|own| own == name), "{names:?}");
    }
    assert!(names.is_sorted(), "{names:?}");
}
