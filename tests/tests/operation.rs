//! What operators use beside the answers: profiles that Go's tool opens, databases that another program writes, commands that a
//! shutdown waits for.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use rustix::process::Signal;
use tests::process::{Folder, Process, free_port, run, target, until};
use tests::{Gateway, Pki};

/// Writes databases: a file, then pairs of network and country, or of network and number.
const WRITER: &str = r#"
import sys
from netaddr import IPSet
from mmdb_writer import MMDBWriter
path, kind, *pairs = sys.argv[1:]
writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type=kind, languages=["en"], description="test")
for pair in pairs:
    network, value = pair.split("=")
    if kind.endswith("ASN"):
        entry = {"autonomous_system_number": int(value), "autonomous_system_organization": "Example " + value}
    else:
        entry = {"country": {"iso_code": value, "names": {"en": "Land " + value}}, "location": {"latitude": 52.5, "longitude": -0.25}}
    writer.insert_network(IPSet([network]), entry)
writer.to_db_file(path)
"#;

/// Writes a database with Python's mmdb-writer.
fn database(path: &Path, kind: &str, pairs: &[&str]) {
    let python = target().join("venv/bin/python");
    assert!(python.exists(), "{} is missing: run tests/run --only setup", python.display());
    run(Command::new(python).args(["-c", WRITER]).arg(path).arg(kind).args(pairs));
}

/// Waits until the answer is this one.
fn until_text(gateway: &Gateway, name: &str, want: &str) {
    let last = until(Duration::from_secs(30), || {
        let answers = gateway.ask(&*format!("{name} TXT")).answers().join("");
        answers.contains(want).then_some(())
    });
    let answers = gateway.ask(&*format!("{name} TXT")).answers();
    assert!(last.is_some(), "{answers:?} is not {want}:\n{}", gateway.output());
}

#[test]
fn databases_of_another_writer_are_taken_up_while_it_serves() {
    // geoip.md.city, geoip.md.asn, geoip.needs.
    let folder = Folder::new("geoip");
    let (city, asn) = (folder.path().join("city.mmdb"), folder.path().join("asn.mmdb"));
    database(&city, "GeoLite2-City", &["127.0.0.0/8=GB", "2001:db8::/32=NL"]);
    database(&asn, "GeoLite2-ASN", &["127.0.0.0/8=64500"]);
    let block = |zone: &str, file: &Path, labels: &str| {
        format!(
            "{zone}:@PORT@ {{\n metadata\n geoip {}\n template IN TXT {{\n  answer \"{{{{ .Name }}}} 0 IN TXT \\\"{labels}\\\"\"\n }}\n prometheus 127.0.0.1:@PORT:metrics@\n}}\n",
            file.display()
        )
    };
    let gateway = Gateway::new(&format!(
        "{}{}",
        block("city.test", &city, r#"{{ .Meta \"geoip/country/code\" }} {{ .Meta \"geoip/country/name\" }} {{ .Meta \"geoip/longitude\" }}"#),
        block("asn.test", &asn, r#"{{ .Meta \"geoip/asn/number\" }} {{ .Meta \"geoip/asn/org\" }}"#),
    ))
    .start();
    until_text(&gateway, "a.city.test", "GB Land GB -0.25");
    until_text(&gateway, "a.asn.test", "64500 Example 64500");
    // A later edition, as an updater puts it there.
    let next = folder.path().join("next");
    database(&next, "GeoLite2-City", &["127.0.0.0/8=FR"]);
    std::fs::rename(&next, &city).unwrap();
    until_text(&gateway, "a.city.test", "FR Land FR -0.25");
    // One that was cut on its way.
    let whole = std::fs::read(&asn).unwrap();
    std::fs::write(&asn, &whole[..whole.len() / 2]).unwrap();
    gateway.line("stays in use");
    until_text(&gateway, "a.asn.test", "64500 Example 64500");
    let broken = format!("causeway_geoip_broken{{file=\"{}\"}}", asn.display());
    assert_eq!(gateway.metrics("metrics").get(&broken), Some(&1.0));
    std::fs::write(&asn, &whole).unwrap();
    until(Duration::from_secs(30), || (gateway.metrics("metrics")[&broken] == 0.0).then_some(()))
        .unwrap();
    assert_eq!(gateway.output().matches("stays in use").count(), 1, "{}", gateway.output());
}

#[test]
fn go_opens_the_profiles() {
    // pprof.paths, pprof.rust.
    let gateway = Gateway::new(
        ".:@PORT@ {\n pprof 127.0.0.1:@PORT:pprof@\n template IN A {\n  answer \"{{ .Name }} 60 IN A 203.0.113.1\"\n }\n}",
    )
    .start();
    let url = format!("http://{}/debug/pprof", gateway.address_of("pprof"));
    let folder = Folder::new("pprof");
    let top = |page: &str| {
        let file = folder.path().join("profile");
        let page = format!("{url}/{page}");
        run(Command::new("curl").args(["-sSf", "-o"]).arg(&file).arg(page));
        run(Command::new("go")
            .args(["tool", "pprof", "-top", "-nodecount=500", "-nodefraction=0"])
            .arg(&file))
    };
    let stop = AtomicBool::new(false);
    let profile = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                gateway.ask("www.example.org A");
            }
        });
        let profile = top("profile?seconds=3");
        stop.store(true, Ordering::Relaxed);
        profile
    });
    assert!(profile.contains("Type: cpu"), "{profile}");
    assert!(profile.contains("engine::live::Live"), "{profile}");
    let heap = top("heap");
    assert!(heap.contains("Type: resident") && heap.contains("[heap]"), "{heap}");
    assert!(heap.contains("causeway"), "{heap}");
    // Where there is none, Go's tool is told so.
    let (status, text) = gateway.get("pprof", "/debug/pprof/goroutine").unwrap();
    assert_eq!(status, 501, "{text}");
}

#[test]
fn a_shutdown_waits_for_the_commands_that_it_runs() {
    // on.run, sig.term.
    let mut gateway = Gateway::new(
        ".:@PORT@ {\n on startup sh -c 'echo it begins'\n on shutdown sh -c 'sleep 1; echo it ends >@DIR@/end'\n whoami\n}",
    )
    .start();
    gateway.line("it begins");
    let end = gateway.folder().join("end");
    assert!(!end.exists());
    gateway.signal(Signal::TERM);
    // It serves while the command runs.
    gateway.line("Blocking Command \"sh -c sleep 1;");
    assert_eq!(gateway.ask("example.org A").rcode(), ResponseCode::NoError);
    let begin = Instant::now();
    let status = gateway.process().wait(Duration::from_secs(20)).unwrap();
    assert!(status.success() && begin.elapsed() > Duration::from_millis(300), "{status}");
    assert_eq!(std::fs::read_to_string(end).unwrap(), "it ends\n");
}

/// What a Prometheus is told: to scrape the gateway over TLS, as a user.
const SCRAPE: &str = "\
global: {scrape_interval: 1s}
scrape_configs:
- job_name: gateway
  scheme: https
  tls_config: {ca_file: CA, server_name: dns.example.org}
  basic_auth: {username: scraper, password: secret}
  static_configs: [{targets: ['TARGET']}]
";

/// Of the password `secret`.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

#[test]
fn prometheus_scrapes_native_histograms_over_tls() {
    // prometheus.tls, xc.metric.ns: with success, without a password, with an outage.
    let pki = Pki::new();
    let pair = pki.server("server", &["dns.example.org"]);
    let folder = Folder::new("prometheus");
    let web = format!(
        "tls_server_config: {{cert_file: {}, key_file: {}}}\nbasic_auth_users: {{scraper: '{HASH}'}}\n",
        pair.chain.display(),
        pair.key.display()
    );
    let web = folder.write("web.yml", web);
    let corefile = format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@ {{\n  tls {}\n }}\n whoami\n}}",
        web.display()
    );
    let mut gateway = Gateway::new(&corefile).start();
    let target = gateway.address_of("metrics");
    for _ in 0..10 {
        gateway.ask("example.org A");
    }
    // Who has no password, or does not speak TLS, sees nothing.
    let ca = pki.ca().display().to_string();
    let curl = |words: &[&str]| {
        let resolve = format!("dns.example.org:{}:127.0.0.1", target.port());
        let url = format!("https://dns.example.org:{}/metrics", target.port());
        let output = Command::new("curl")
            .args([
                "-sS",
                "--cacert",
                &ca,
                "--resolve",
                &resolve,
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
            ])
            .args(words)
            .arg(url)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(curl(&["-u", "scraper:secret"]), "200");
    assert_eq!(curl(&["-u", "scraper:wrong"]), "401");
    assert_eq!(curl(&[]), "401");
    assert_eq!(curl(&["--tls-max", "1.1"]), "000");
    let (status, answer) = gateway.get("metrics", "/metrics").unwrap_or_default();
    assert_ne!(status, 200, "{answer}");

    let config = SCRAPE.replace("CA", &ca).replace("TARGET", &target.to_string());
    let config = folder.write("prometheus.yml", config);
    let port = free_port();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--enable-feature=native-histograms");
    let prometheus = Process::start("prometheus", command);
    let query = |text: &str| -> Option<f64> {
        let url = format!("http://127.0.0.1:{port}/api/v1/query");
        let output = Command::new("curl")
            .args(["-sS", "-G", &url, "--data-urlencode", &format!("query={text}")])
            .output()
            .ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let wait = |text: &str, good: &dyn Fn(f64) -> bool| {
        let found = until(Duration::from_secs(60), || query(text).filter(|value| good(*value)));
        found.unwrap_or_else(|| panic!("{text} is {:?}:\n{}", query(text), prometheus.output()))
    };
    wait("up", &|up| up == 1.0);
    // Only native histograms can be asked so.
    wait("histogram_count(coredns_dns_request_duration_seconds{zone=\".\"})", &|count| {
        count == 10.0
    });
    let half = "histogram_quantile(0.5, coredns_dns_request_size_bytes{zone=\".\"})";
    wait(half, &|size| (25.0..60.0).contains(&size));
    wait("sum(coredns_dns_requests_total{type=\"A\"})", &|count| count == 10.0);
    gateway.stop();
    wait("up", &|up| up == 0.0);
}
