//! An etcd that misbehaves.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::stub::{Mood, Stub};
use super::{ask, bench};
use crate::shared::testing::logged;

/// One key.
const KEYS: &[(&str, &str)] = &[("/org/example/www", r#"{"host": "198.51.100.1"}"#)];
/// Its answer.
const GOOD: &str = "NOERROR aa rd | www.example.org. 300 A 198.51.100.1";

/// Asks for the key by a chain that logs errors; the reply, and what was logged.
async fn told(stub: &Stub, lines: &str) -> (String, String) {
    let endpoint = stub.endpoint();
    let corefile =
        format!("example.org {{\n errors\n etcd {{\n endpoint {endpoint}\n {lines}\n }}\n}}\n");
    let bench = engine::testing::Bench::new(crate::CHAIN, &corefile);
    logged();
    let reply = ask(&bench, "www.example.org +edns").await;
    (reply, logged().join("\n"))
}

#[tokio::test]
async fn what_etcd_says_wrong_is_a_failure_with_its_reason() {
    let stub = Stub::new(KEYS).await;
    for (mood, want) in [
        (Mood::State(7), "grpc-status 7: as told"),
        (Mood::State(13), "grpc-status 13: as told"),
        (Mood::State(14), "grpc-status 14: as told"),
        (Mood::State(16), "grpc-status 16: as told"),
        (Mood::Http(503), "HTTP status 503"),
        (Mood::Short, "the reply is not one message"),
        (Mood::Packed, "the reply is compressed"),
        (Mood::Garbage, "the reply cannot be read"),
        (Mood::Stateless, "the reply has no grpc-status"),
        (Mood::Gone, &stub.endpoint()),
    ] {
        stub.be(mood);
        let (reply, log) = told(&stub, "").await;
        assert_eq!(reply, "SERVFAIL rd | EDE 23 etcd did not answer the question", "{mood:?}");
        assert!(log.contains("[ERROR] plugin/errors: 2 www.example.org. A: "), "{mood:?}: {log}");
        assert!(log.contains(want), "{mood:?}: {log}");
    }
}

#[tokio::test]
async fn values_that_make_no_sense_are_a_failure_with_their_key() {
    for (value, want) in [
        ("{", "EOF"),
        ("[]", "is no JSON object"),
        (r#"{"host": 1}"#, "host is no text"),
        (r#"{"host": "a..b"}"#, "host is neither an address nor a name"),
        (r#"{"host": "a.test", "port": 70000}"#, "port is no number for this"),
        (r#"{"host": "a.test", "port": "80"}"#, "port is no number for this"),
        (r#"{"host": "a.test", "mail": 1}"#, "mail is neither true nor false"),
        (r#"{"host": "a.test", "ttl": -1}"#, "ttl is no number for this"),
    ] {
        let stub = Stub::new(&[("/org/example/www", value)]).await;
        let (reply, log) = told(&stub, "").await;
        assert_eq!(reply, "SERVFAIL rd | EDE 0 a value in etcd is no record", "{value}");
        assert!(log.contains("/skydns/org/example/www: ") && log.contains(want), "{value}: {log}");
    }
}

#[tokio::test]
async fn a_silent_etcd_costs_five_seconds() {
    let stub = Stub::new(KEYS).await;
    let bench = bench(&stub, "");
    assert_eq!(ask(&bench, "www.example.org").await, GOOD);
    stub.be(Mood::Silent);
    tokio::time::pause();
    let begun = Instant::now();
    assert!(ask(&bench, "www.example.org").await.starts_with("SERVFAIL"));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(4) && took <= Duration::from_secs(6), "{took:?}");
    tokio::time::resume();
    stub.be(Mood::Good);
    assert_eq!(ask(&bench, "www.example.org").await, GOOD);
}

#[tokio::test]
async fn another_server_answers_for_one_that_does_not() {
    let (first, second) = (Stub::new(KEYS).await, Stub::new(KEYS).await);
    first.be(Mood::State(14));
    let both = bench(&first, &format!("endpoint {} {}", first.endpoint(), second.endpoint()));
    assert_eq!(ask(&both, "www.example.org").await, GOOD);
    assert_eq!(ask(&both, "www.example.org").await, GOOD);
    // The good one is asked first from then on.
    assert_eq!((first.count(0), second.count(0)), (1, 4));
    second.be(Mood::Gone);
    first.be(Mood::Good);
    assert_eq!(ask(&both, "www.example.org").await, GOOD);
    // What makes no sense to one makes none to the others.
    let before = second.count(0);
    first.be(Mood::State(7));
    second.be(Mood::Good);
    assert!(ask(&both, "www.example.org").await.starts_with("SERVFAIL"));
    assert_eq!(second.count(0), before);
}

#[tokio::test]
async fn tokens_are_taken_once_and_anew_when_they_count_no_more() {
    let stub = Stub::new(KEYS).await;
    stub.protect("s3cret");
    let bench = bench(&stub, "credentials dns s3cret");
    for _ in 0..3 {
        assert_eq!(ask(&bench, "www.example.org").await, GOOD);
    }
    assert_eq!(stub.count(2), 1);
    // As after a restart.
    stub.protect("s3cret");
    for _ in 0..3 {
        assert_eq!(ask(&bench, "www.example.org").await, GOOD);
    }
    assert_eq!(stub.count(2), 2);
}

#[tokio::test]
async fn credentials_that_are_not_taken_are_told_of_and_not_tried_for_a_while() {
    let stub = Stub::new(KEYS).await;
    stub.protect("right");
    let (reply, log) = told(&stub, "credentials dns wr0ng").await;
    assert!(reply.starts_with("SERVFAIL"), "{reply}");
    assert!(
        log.contains("credentials of \"dns\"") && log.contains("authentication failed"),
        "{log}"
    );
    assert!(!log.contains("wr0ng"), "{log}");
    let bench = bench(&stub, "credentials dns wr0ng2");
    let before = stub.count(2);
    for _ in 0..5 {
        assert!(ask(&bench, "www.example.org").await.starts_with("SERVFAIL"));
    }
    assert_eq!(stub.count(2) - before, 1);
    // Once it is another password there, the pause ends it.
    stub.protect("wr0ng2");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert_eq!(ask(&bench, "www.example.org").await, GOOD);
    // Without any, the servers say so.
    let (reply, log) = told(&stub, "").await;
    assert!(reply.starts_with("SERVFAIL") && log.contains("user name is empty"), "{log}");
}

#[tokio::test]
async fn no_more_queries_wait_than_there_is_room_for() {
    let stub = Stub::new(KEYS).await;
    let bench = Arc::new(bench(&stub, ""));
    assert_eq!(ask(&bench, "www.example.org").await, GOOD);
    stub.be(Mood::Silent);
    tokio::time::pause();
    let mut waiting = JoinSet::new();
    for _ in 0..520 {
        let bench = Arc::clone(&bench);
        waiting.spawn(async move {
            let begun = Instant::now();
            let reply = bench.ask("www.example.org").await;
            assert!(reply.starts_with("SERVFAIL"), "{reply}");
            begun.elapsed() < Duration::from_secs(1)
        });
    }
    let refused = waiting.join_all().await.into_iter().filter(|at_once| *at_once).count();
    assert_eq!(refused, 8);
    tokio::time::resume();
    stub.be(Mood::Good);
    assert_eq!(ask(&bench, "www.example.org").await, GOOD);
}
