//! Probes of our own (`tests/clients/probes`), which send what no good client does, against a gateway that serves over all
//! seven transports. They share no code with it: a second look at what the tests of each transport look at.
#![allow(clippy::unwrap_used)]

use tests::Edge;

/// Runs a probe, whose cases all have to be right, and gives what it said.
fn probe(edge: &Edge<'_>, words: &str, cases: usize) -> String {
    let seen = edge.shell(&format!("python $SCRIPTS/probes/{words}"));
    let right = seen.lines().filter(|l| l.starts_with("ok ")).count();
    let wrong = seen.lines().filter(|l| l.starts_with("BAD")).count();
    assert!(right >= cases && wrong == 0, "{right} of {cases} cases, {wrong} wrong:\n{seen}");
    assert!(!edge.gateway.output().contains("panicked"), "{}", edge.gateway.output());
    seen
}

#[test]
fn messages_over_udp_tcp_and_tls() {
    let edge = Edge::start();
    for (transport, cases) in [("udp", 70), ("tcp", 75), ("tls", 75)] {
        probe(&edge, &format!("plain.py {transport}"), cases);
    }
}

#[test]
fn dns_over_quic() {
    let edge = Edge::start();
    let before = edge.gateway.resident();
    probe(&edge, "doq.py", 45);
    assert!(edge.gateway.resident() < before + (64 << 20), "{} octets", edge.gateway.resident());
}

#[test]
fn dns_over_https() {
    let edge = Edge::start();
    for (version, cases) in [("h1", 75), ("h2", 50), ("h3", 50)] {
        probe(&edge, &format!("doh.py {version}"), cases);
    }
    assert!(edge.asked("https") > 20 && edge.asked("https3") > 10);
}

#[test]
fn abuse_of_http_2() {
    let edge = Edge::start();
    let before = edge.gateway.resident();
    probe(&edge, "h2abuse.py", 30);
    assert!(
        edge.gateway.resident() < before + (64 << 20),
        "H2-08: {} octets",
        edge.gateway.resident()
    );
}

#[test]
fn abuse_of_http_3() {
    let edge = Edge::start();
    let before = edge.gateway.resident();
    probe(&edge, "h3abuse.py", 35);
    assert!(
        edge.gateway.resident() < before + (64 << 20),
        "Q-06: {} octets",
        edge.gateway.resident()
    );
}
