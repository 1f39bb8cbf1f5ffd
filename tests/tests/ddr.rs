//! Clients that know an address alone find the encrypted listeners of the same server (RFC 9462), by dnspython.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use hickory_proto::op::ResponseCode;
use tests::pki::Pair;
use tests::process::{run, target};
use tests::{Gateway, Pki};

/// Asks a server in clear text for its encrypted listeners, verifies them as RFC 9462 §4.2 wants, and asks each that is found for an
/// address; a line for each says what it is and what it answers.
const CLIENT: &str = r#"
import os, sys
import dns.message, dns.resolver
port, name = int(sys.argv[1]), sys.argv[2]
resolver = dns.resolver.Resolver(configure=False)
resolver.nameservers, resolver.port = ["127.0.0.1"], port
resolver.try_ddr(lifetime=60)
for server in resolver.nameservers:
    if isinstance(server, str):
        print("Do53")
        continue
    server.verify = os.environ["SSL_CERT_FILE"]
    query = dns.message.make_query(name, "A")
    reply = server.query(query, timeout=60, source=None, source_port=0, max_size=False)
    print(server.kind(), *[rr.to_text() for rrset in reply.answer for rr in rrset])
"#;

/// The rest of a block that is asked.
const ANSWERS: &str = "bind 127.0.0.1\n hosts {\n  203.0.113.1 www.example.org\n }";

/// Starts a gateway with a listener in clear text and encrypted ones; `more` stands in the block of both.
fn start(pair: &Pair, keys: &str, ddr: &str, more: &str) -> Gateway {
    let corefile = format!(
        "dns://.:@PORT@ {{\n {ddr}\n {ANSWERS}\n}}\n{keys} {{\n tls {pair}\n {more}\n {ANSWERS}\n}}"
    );
    Gateway::new(&corefile).start()
}

/// What dnspython finds.
fn found(gateway: &Gateway, pki: &Pki) -> Vec<String> {
    let python = target().join("venv/bin/python");
    assert!(python.exists(), "{} is missing: run tests/run --only setup", python.display());
    let port = gateway.address_of("").port().to_string();
    let output = run(Command::new(python)
        .args(["-c", CLIENT, &port, "www.example.org"])
        .env("SSL_CERT_FILE", pki.ca()));
    output.lines().map(str::to_owned).collect()
}

#[test]
fn ddr_01_dnspython_moves_to_every_transport_it_speaks() {
    let pki = Pki::new();
    let pair = pki.server("server", &["dns.example.org", "127.0.0.1"]);
    let keys =
        "tls://.:@PORT:tls@ quic://.:@PORT:tls@ https://.:@PORT:https@ https3://.:@PORT:https@";
    for ddr in ["ddr", "ddr dns.example.org"] {
        let gateway = start(&pair, keys, ddr, "");
        assert_eq!(
            found(&gateway, &pki),
            ["DoT 203.0.113.1", "DoH 203.0.113.1", "DoQ 203.0.113.1"],
            "{ddr}"
        );
    }
    // In the order that the operator prefers, with another path.
    let ddr = "ddr dns.example.org {\n  transports https tls\n }";
    let gateway = start(&pair, keys, ddr, "https {\n  path /q /dns-query\n }");
    assert!(
        tests::client::dig(gateway.address_of(""), "_dns.resolver.arpa TYPE64 +short")
            .contains("/q{?dns}")
    );
    assert_eq!(found(&gateway, &pki), ["DoH 203.0.113.1", "DoT 203.0.113.1"]);
}

#[test]
fn ddr_03_nothing_is_told_that_a_client_could_not_verify() {
    let pki = Pki::new();
    let keys = "tls://.:@PORT:tls@";
    for (names, ddr, more) in [
        (&["dns.example.org"][..], "ddr dns.example.org", ""),
        (&["dns.example.org", "127.0.0.2"], "ddr", ""),
        (&["other.example.org", "127.0.0.1"], "ddr dns.example.org", ""),
        // An identity is demanded.
        (
            &["dns.example.org", "127.0.0.1"],
            "ddr",
            "identity {\n  networks office 198.51.100.0/24\n }",
        ),
    ] {
        let pair = pki.server("server", names);
        let gateway = start(&pair, keys, ddr, more);
        assert_eq!(found(&gateway, &pki), ["Do53"], "{names:?} {ddr}");
        let reply = gateway.ask("_dns.resolver.arpa SVCB");
        assert_eq!((reply.rcode(), reply.answers().len()), (ResponseCode::NoError, 0), "{reply:?}");
    }
}
