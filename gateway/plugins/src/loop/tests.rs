//! `loop` with itself as its upstream, and without.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use engine::testing::Bench;
use engine::{Exchange, Gateway, Served, Transport};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::CHAIN;

/// Answers what comes to `socket` by the gateway, and notes the HINFO queries.
async fn serve(socket: UdpSocket, gateway: Arc<Gateway>) {
    let socket = Arc::new(socket);
    let listener = gateway.live().groups().next().unwrap().id;
    let local = socket.local_addr().unwrap();
    let mut buffer = [0; 512];
    loop {
        let (len, peer) = socket.recv_from(&mut buffer).await.unwrap();
        let mut x = Exchange::new(listener, Transport::Udp, local);
        x.query.peer = peer;
        x.query.wire.extend_from_slice(&buffer[..len]);
        let (socket, gateway) = (Arc::clone(&socket), Arc::clone(&gateway));
        tokio::spawn(async move {
            let mut out = Vec::new();
            if let Served::Later(live) = gateway.serve(&mut x, &mut out) {
                live.complete(&mut x, &mut out).await;
            }
            if !out.is_empty() {
                socket.send_to(&out, peer).await.unwrap();
            }
        });
    }
}

#[tokio::test]
async fn a_loop_ends_the_process() {
    for (key, zone) in [("example.org example.net", "example.org."), (".", ".")] {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let keys: Vec<_> = key.split(' ').map(|key| format!("{key}:{port}")).collect();
        let corefile = format!("{} {{\n loop\n forward . 127.0.0.1:{port}\n}}\n", keys.join(" "));
        let bench = Bench::new(CHAIN, &corefile);
        tokio::spawn(serve(socket, Arc::clone(&bench.gateway)));
        let message = timeout(Duration::from_secs(5), bench.process().fatal()).await.unwrap();
        assert!(message.starts_with("[FATAL] plugin/loop: Loop (127.0.0.1:"), "{message}");
        let want = format!(
            " -> :{port}) detected for zone \"{zone}\", see https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO "
        );
        assert!(message.contains(&want), "{message}");
        let name = message.rsplit("HINFO ").next().unwrap().trim_end_matches('"');
        let labels: Vec<_> = name.split('.').collect();
        assert!(name.ends_with(zone), "{message}");
        assert!(labels[..2].iter().all(|label| label.parse::<u64>().is_ok()), "{message}");
    }
}

#[tokio::test]
async fn a_probe_that_goes_through_is_the_end_of_it() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let bench = Bench::new(CHAIN, &format!("example.org:{port} {{\n loop\n whoami\n}}\n"));
    tokio::spawn(serve(socket, Arc::clone(&bench.gateway)));
    assert!(timeout(Duration::from_secs(1), bench.process().fatal()).await.is_err());
    let line = format!("1.2.example.org HINFO +port={port}");
    for _ in 0..5 {
        assert!(bench.ask(&line).await.starts_with("NOERROR"));
    }
    assert!(timeout(Duration::from_millis(50), bench.process().fatal()).await.is_err());
}

#[test]
fn a_wrong_directive_is_refused_with_its_place() {
    for (line, want) in [
        ("loop now", "one too many"),
        ("loop {\n}", "takes no block"),
        ("loop\nloop", "can only be used once"),
    ] {
        let got = Bench::refused(CHAIN, &format!(". {{\n {line}\n whoami\n}}\n"));
        assert!(got.starts_with("plugin/loop: ") && got.contains(want), "{line}: {got}");
    }
}

#[tokio::test]
async fn the_probe_goes_to_the_first_address_that_is_bound() {
    let socket = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let corefile =
        format!(".:{port} {{\n bind 127.0.0.3 127.0.0.4\n loop\n forward . 127.0.0.3:{port}\n}}\n");
    let bench = Bench::new(CHAIN, &corefile);
    tokio::spawn(serve(socket, Arc::clone(&bench.gateway)));
    let message = timeout(Duration::from_secs(5), bench.process().fatal()).await.unwrap();
    assert!(message.contains(&format!(" -> 127.0.0.3:{port}) detected")), "{message}");
}
