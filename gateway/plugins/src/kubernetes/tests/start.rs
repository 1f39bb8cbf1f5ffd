//! The wait at the start, and the figures of watches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s::{Kind, Probe, State, WatchSet};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::shared::cluster::metrics::tests::of_one;
use crate::shared::cluster::source::Source;
use crate::shared::testing::logged;

/// Watches of a cluster that never answers.
fn nowhere() -> Arc<Source> {
    let folder = k8s::Source::Manifests(PathBuf::from("nosuch"));
    let watches =
        WatchSet::start(&k8s::Config::new(folder), Arc::new(k8s::Quiet), &Handle::current());
    Arc::new(Source::of(watches))
}

#[tokio::test(start_paused = true)]
async fn the_start_waits_and_says_so_twice_a_second() {
    let waiting = "[INFO] plugin/kubernetes: waiting for Kubernetes API before starting server";
    let over = "[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API";
    for (limit, reminders) in [(0, 0), (400, 0), (500, 0), (1200, 2), (5000, 9)] {
        let source = nowhere();
        logged();
        let start = Instant::now();
        // Of two blocks with the same cluster one speaks.
        tokio::join!(
            source.wait(Duration::from_millis(limit)),
            source.wait(Duration::from_millis(limit))
        );
        let passed = start.elapsed().as_millis();
        assert!(passed.abs_diff(u128::from(limit)) <= 5, "{passed} ms of {limit}");
        let lines: Vec<_> = logged().into_iter().filter(|line| !line.contains("nosuch")).collect();
        let mut wanted = vec![waiting; reminders];
        wanted.push(over);
        assert_eq!(lines, wanted, "{limit} ms");
    }
}

#[test]
fn watches_tell_their_figures() {
    let cluster = k8s::Source::Endpoint {
        url: "https://user:secret@api.example.org:6443/x".to_owned(),
        tls: None,
    };
    let (_joint, figures) = of_one(&cluster);
    figures.request("200", "GET", "api.example.org:6443");
    figures.latency("GET", "api.example.org:6443", 0.03);
    figures.limited("GET", "api.example.org:6443", 0.001);
    for kind in ["cluster_ip", "headless_with_selector", "headless_without_selector"] {
        figures.programmed(kind, 0.5);
    }
    figures.objects(Kind::Services, 7);
    figures.state(Kind::Services, State::Listing);
    figures.state(Kind::Services, State::Watching);
    let page = engine::metrics::render();
    // Labels come in any order.
    let has = |name: &str, labels: &[&str], value: &str| {
        let lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let all = |line: &&str| labels.iter().all(|label| line.contains(label));
        let found: Vec<_> = lines.filter(all).collect();
        assert!(found.iter().any(|line| line.ends_with(&format!(" {value}"))), "{name}: {found:?}");
    };
    let host = "host=\"api.example.org:6443\"";
    let rest = |name: &str| format!("coredns_kubernetes_rest_client_{name}");
    has(&rest("requests_total"), &["code=\"200\"", "method=\"GET\"", host], "1");
    has(&rest("request_duration_seconds_bucket"), &["verb=\"GET\"", host, "le=\"0.05\""], "1");
    has(&rest("rate_limiter_duration_seconds_count"), &["verb=\"GET\"", host], "1");
    let programming = "coredns_kubernetes_dns_programming_duration_seconds_bucket";
    has(programming, &["service_kind=\"headless_without_selector\"", "le=\"0.512\""], "1");
    has(programming, &["service_kind=\"cluster_ip\"", "le=\"524.288\""], "1");
    let cluster = "cluster=\"api.example.org:6443/x\"";
    let (services, watching) = ("kind=\"services\"", "state=\"watching\"");
    has("causeway_kubernetes_objects", &[cluster, services], "7");
    has("causeway_kubernetes_watch_state", &[cluster, services, watching], "1");
    has("causeway_kubernetes_watch_state", &[cluster, services, "state=\"listing\""], "0");
    assert!(!page.contains("secret"));
}
