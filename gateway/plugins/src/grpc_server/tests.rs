//! The facts `grpc_server.*`.

use engine::GrpcSpec;
use engine::testing::Bench;

/// What a Corefile says of its listeners, which all say the same.
fn spec(corefile: &str) -> GrpcSpec {
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    let mut all = live.groups().map(|group| group.spec.grpc.clone());
    let first = all.next().unwrap();
    // Fact core.block.propagate: for every key of the block, which in CoreDNS is for the first alone.
    assert!(all.all(|other| other == first));
    first
}

#[test]
fn what_is_stated_counts_for_every_key() {
    let both = "grpc://a.test grpc://b.test:8443 {\n grpc_server {\n  max_streams 5\n  max_connections 0\n }\n}\n";
    assert_eq!(spec(both), GrpcSpec { max_streams: Some(5), max_connections: Some(0) });
    // Fact grpc_server.elsewhere.
    assert_eq!(spec("a.test {\n grpc_server\n}\n"), GrpcSpec::default());
}

#[test]
fn wrong_lines_are_refused() {
    for (lines, want) in [
        ("grpc_server 5", "Wrong argument count"),
        ("grpc_server {\n  max_streams\n }", "Wrong argument count"),
        ("grpc_server {\n  max_streams 1 2\n }", "Wrong argument count"),
        ("grpc_server {\n  max_streams -1\n }", "write 0 for no limit, or 1 or more"),
        ("grpc_server {\n  max_streams x\n }", "is no number"),
        ("grpc_server {\n  max_streams 1\n  max_streams 2\n }", "is stated twice"),
        ("grpc_server {\n  max_connections 1.5\n }", "is no number"),
        ("grpc_server {\n  max_connections 1\n  max_connections 1\n }", "is stated twice"),
        ("grpc_server {\n  streams 1\n }", "'streams' is not a property"),
        ("grpc_server\n grpc_server", "once"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("grpc://test {{\n {lines}\n}}\n"));
        assert!(text.contains(want), "{lines}: {text}");
    }
}
