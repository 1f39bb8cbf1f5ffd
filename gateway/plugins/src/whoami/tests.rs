//! The facts `whoami.*`.

use engine::Transport;
use engine::testing::{Bench, show};

#[test]
fn everybody_learns_who_they_are() {
    let mut bench = Bench::new(crate::CHAIN, ". {\n whoami\n chaos\n}\n");
    bench.peer.set_port(40212);
    bench.from([203, 0, 113, 7].into());
    for (line, want) in [
        (
            "example.org",
            "NOERROR aa rd |  |  | example.org. 0 A 203.0.113.7; _udp.example.org. 0 SRV 0 0 40212 .",
        ),
        (
            "nx.example.org MX +tcp +norec +cd",
            "NOERROR aa cd |  |  | nx.example.org. 0 A 203.0.113.7; _tcp.nx.example.org. 0 SRV 0 0 40212 .",
        ),
        (". ANY", "NOERROR aa rd |  |  | . 0 A 203.0.113.7; _udp. 0 SRV 0 0 40212 ."),
        ("example.org CH A", "NOERROR aa rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    bench.from("2001:db8::7".parse().unwrap());
    assert!(bench.now("a").contains("| a. 0 AAAA 2001:db8::7; _udp.a. 0 SRV"));
    bench.from("::ffff:203.0.113.7".parse().unwrap());
    assert!(bench.now("a").contains("| a. 0 A 203.0.113.7; _udp.a. 0 SRV"));
}

#[test]
fn a_name_without_room_for_the_label_goes_without() {
    let bench = Bench::new(crate::CHAIN, ". {\n whoami\n}\n");
    let long =
        format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
    let reply = bench.now(&long);
    assert!(reply.ends_with(&format!("| {long}. 0 A 127.0.0.1")), "{reply}");
}

#[test]
fn the_label_says_what_lies_below_the_transport() {
    let bench = Bench::new(crate::CHAIN, ". {\n whoami\n}\n");
    for (transport, want) in [
        (Transport::Udp, "_udp"),
        (Transport::Quic, "_udp"),
        (Transport::Https3, "_udp"),
        (Transport::Tcp, "_tcp"),
        (Transport::Tls, "_tcp"),
        (Transport::Https, "_tcp"),
        (Transport::Grpc, "_tcp"),
    ] {
        let mut x = bench.exchange("a");
        x.query.transport = transport;
        let reply = show(&bench.serve(&mut x));
        assert!(reply.contains(&format!("{want}.a. 0 SRV")), "{transport:?}: {reply}");
    }
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [("whoami x", "Wrong argument count"), ("whoami {\n }", "takes no block")] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
