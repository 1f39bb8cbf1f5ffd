//! What *limits* reads and refuses.

use std::time::Duration;

use engine::testing::Bench;
use engine::{LimitSpec, Rate};

/// What a Corefile says of its only listener.
fn spec(corefile: &str) -> LimitSpec {
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    live.groups().next().unwrap().spec.limits.clone()
}

#[test]
fn what_is_stated_counts_and_the_first_block_of_a_listener_decides() {
    let all = "a.test {\n limits {\n  connections 5000\n  connections_per_client 25\n  queries_per_client 100 300\n  handshake 3s\n  age 1h\n }\n whoami\n}\n\
        b.test {\n limits {\n  connections 1\n  queries_per_client 7\n }\n whoami\n}\n";
    let want = LimitSpec {
        connections: Some(5000),
        connections_per_client: Some(25),
        queries_per_client: Some(Rate { per_second: 100, burst: 300 }),
        handshake: Some(Duration::from_secs(3)),
        age: Some(Duration::from_secs(3600)),
    };
    assert_eq!(spec(all), want);
    let one = spec("a.test {\n limits {\n  queries_per_client 7\n }\n whoami\n}\n");
    assert_eq!(one.queries_per_client, Some(Rate { per_second: 7, burst: 7 }));
    let none = spec("a.test {\n whoami\n}\n");
    assert_eq!(none, LimitSpec::default());
    assert_eq!(none.handshake(), Duration::from_secs(5));
    assert_eq!(none.age(), Duration::from_secs(24 * 3600));
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("limits", "has no limit in its block"),
        ("limits {\n }", "write at least one of: connections, connections_per_client"),
        ("limits 5", "Wrong argument count"),
        ("limits {\n age 1h\n }\n limits {\n age 1h\n }", "only be used once"),
        ("limits {\n clients 5\n }", "'clients' is not a property"),
        ("limits {\n connections\n }", "Wrong argument count"),
        ("limits {\n connections 0\n }", "write 1 or more"),
        ("limits {\n connections many\n }", "is no number of connections"),
        ("limits {\n connections 1\n connections 2\n }", "is stated twice"),
        ("limits {\n connections_per_client -1\n }", "is no number of connections"),
        ("limits {\n queries_per_client\n }", "Wrong argument count"),
        ("limits {\n queries_per_client 0\n }", "write 1 to 1000000"),
        ("limits {\n queries_per_client 5 0\n }", "write 1 to 1000000"),
        ("limits {\n queries_per_client 5 5 5\n }", "Wrong argument count"),
        ("limits {\n handshake soon\n }", "not a duration"),
        ("limits {\n handshake 2m\n }", "needs to be between 100ms and 60s"),
        ("limits {\n age 1s\n }", "needs to be between 60s and 2592000s"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n whoami\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
