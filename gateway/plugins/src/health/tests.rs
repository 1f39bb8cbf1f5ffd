//! The page, the probe, and what the directive takes.

use std::time::Duration;

use engine::admin::Ask;
use engine::testing::Bench;
use engine::{Descriptor, Stage, Stopper};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::handler::{Probe, watch};
use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &ANSWERS];

#[test]
fn the_page_says_ok_also_of_a_lame_duck() {
    // health.addr, health.lameduck, health.multi.
    let bench = Bench::new(
        PLUGINS,
        "a {\nhealth\nanswers\n}\nb {\nhealth :8080\nanswers\n}\nc {\nhealth localhost:8081 {\nlameduck 5s\n}\nanswers\n}\n",
    );
    let pages = &bench.built.pages;
    let at: Vec<_> = pages.iter().map(|page| format!("{}{}", page.addr, page.path)).collect();
    assert_eq!(at, ["[::]:8080/health", "127.0.0.1:8081/health"]);
    for stage in [Stage::Running, Stage::LameDuck, Stage::Draining] {
        bench.process().stopper().reach(stage);
        let ask = Ask { method: "GET", path: "/health", ..Ask::default() };
        let told = pages[0].handler.handle(ask);
        assert_eq!((told.status, &*told.body), (200, &b"OK"[..]), "{stage:?}");
    }
}

/// Accepts connections and replies to each with the next of `replies`, then not at all.
async fn serve(listener: TcpListener, replies: &'static [&'static str]) {
    let mut held = Vec::new();
    let mut replies = replies.iter();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let len = stream.read(&mut request).await.unwrap();
        assert!(request[..len].starts_with(b"GET /health HTTP/1.1\r\n"));
        match replies.next() {
            Some(reply) => stream.write_all(reply.as_bytes()).await.unwrap(),
            None => held.push(stream),
        }
    }
}

#[tokio::test]
async fn the_process_asks_itself_and_says_what_is_wrong() {
    // health.self, health.M; the metrics are the process's, so only this test looks at them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve(
        listener,
        &["HTTP/1.1 200 OK\r\n\r\nOK", "HTTP/1.1 503 Service Unavailable\r\n\r\n"],
    ));
    tokio::time::pause();
    let stopper = Stopper::new(Duration::ZERO);
    let watching = tokio::spawn(watch(Probe::new(addr, "/health"), stopper.stop()));
    logged();
    let mut lines = Vec::new();
    while lines.len() < 2 {
        sleep(Duration::from_millis(50)).await;
        lines.extend(logged());
    }
    let line = |why: &str| {
        format!(
            "[WARNING] plugin/health: Local health request to \"http://{addr}/health\" failed: {why}"
        )
    };
    // The clock is paused and jumps to the next timer, so that a reply may come too late for it.
    let late = line("no reply within 3s");
    let bad = line("the reply begins with \"HTTP/1.1 503\"");
    assert!(lines.iter().all(|line| *line == late || *line == bad), "{lines:#?}");
    let text = engine::metrics::render();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(value("coredns_health_request_failures_total") >= 2);
    assert!(value("coredns_health_request_duration_seconds_count") >= 2);
    stopper.reach(Stage::Draining);
    watching.await.unwrap();
    serving.abort();
}

#[test]
fn what_is_refused() {
    // health.err
    for (health, want) in [
        ("health :1 :2", "':2' is one too many"),
        ("health 8080", "'8080' has no port"),
        ("health {\nfoo\n}", "'foo' is not a property"),
        ("health {\nlameduck\n}", "Wrong argument count"),
        ("health {\nlameduck 5\n}", "a duration needs a unit"),
        ("health {\nlameduck 5s 6s\n}", "'6s' is one too many"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{health}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/health: ") && wrong.contains(want), "{wrong}");
    }
}
