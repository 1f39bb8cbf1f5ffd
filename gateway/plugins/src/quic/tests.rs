//! The facts `quic.*`.

use engine::testing::Bench;
use engine::{QuicSpec, Retry};

/// What a Corefile says of its only listener.
fn spec(corefile: &str) -> QuicSpec {
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    live.groups().next().unwrap().spec.quic.clone()
}

#[test]
fn what_is_stated_counts() {
    let all = "a.test {\n quic {\n  max_streams 10\n  worker_pool_size 20\n  max_connections 0\n  retry always\n  early_data\n }\n}\n";
    let want = QuicSpec {
        max_streams: Some(10),
        worker_pool_size: Some(20),
        max_connections: Some(0),
        retry: Some(Retry::Always),
        early_data: true,
    };
    assert_eq!(spec(all), want);
    // Fact quic.err: a block that serves no QUIC takes it as well; and nothing need be stated.
    assert_eq!(spec("a.test {\n quic\n}\n"), QuicSpec::default());
    assert_eq!(spec("a.test {\n quic {\n }\n}\n"), QuicSpec::default());
    // Blocks that share a listener: the first that states a value.
    let two = "a.test {\n quic {\n  max_streams 1\n }\n}\nb.test {\n quic {\n  max_streams 2\n  worker_pool_size 3\n }\n}\n";
    assert_eq!(spec(two).max_streams, Some(1));
    assert_eq!(spec(two).worker_pool_size, Some(3));
}

#[test]
fn wrong_lines_are_refused() {
    for (lines, want) in [
        ("quic 5", "Wrong argument count"),
        ("quic {\n  max_streams\n }", "Wrong argument count"),
        ("quic {\n  max_streams 1 2\n }", "Wrong argument count"),
        ("quic {\n  max_streams 0\n }", "write 1 or more"),
        ("quic {\n  max_streams -1\n }", "write 1 or more"),
        ("quic {\n  max_streams many\n }", "is no number"),
        ("quic {\n  max_streams 1\n  max_streams 1\n }", "is stated twice"),
        ("quic {\n  worker_pool_size 0\n }", "write 1 or more"),
        ("quic {\n  worker_pool_size 1\n  worker_pool_size 2\n }", "is stated twice"),
        ("quic {\n  max_connections -1\n }", "write 0 or more"),
        ("quic {\n  max_connections 1\n  max_connections 1\n }", "is stated twice"),
        ("quic {\n  retry sometimes\n }", "is none of never, load and always"),
        ("quic {\n  retry load\n  retry load\n }", "is stated twice"),
        ("quic {\n  early_data on\n }", "Wrong argument count"),
        ("quic {\n  streams 1\n }", "'streams' is not a property"),
        ("quic\n quic", "once"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {lines}\n}}\n"));
        assert!(text.contains(want), "{lines}: {text}");
    }
}
