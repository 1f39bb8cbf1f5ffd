//! Which certificate, protocol and version a client gets.

use std::sync::Arc;

use rustls::ProtocolVersion;

use crate::testing::{Ca, Folder, Wish, name_for, shake};
use crate::{ClientAuth, Options, ServerTls, Source};

/// A server with certificates of these names, each the first of its own.
fn server(ca: &Ca, folder: &Folder, all: &[&[&str]]) -> Arc<ServerTls> {
    let sources = all.iter().map(|names| {
        let name = names[0].replace('*', "any");
        let (chain, key) = ca.server(names).write(folder, &name);
        Source::files(chain, key, "test").expect("a pair")
    });
    let options = Options { sources: sources.collect(), ..Options::default() };
    ServerTls::new(options).expect("a server")
}

#[test]
fn tls_05_the_certificate_is_chosen_by_name_and_the_first_serves_the_rest() {
    // tx.tls.pick, tls.acme.sni.
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let all: &[&[&str]] = &[
        &["first.example", "127.0.0.1", "second.example"],
        &["*.wild.example", "second.example"],
        &["a.wild.example"],
    ];
    let one = server(&ca, &folder, all);
    let two = [server(&ca, &folder, &all[..1]), server(&ca, &folder, &all[1..])];
    for tls in [one, ServerTls::merge(&two).expect("they agree")] {
        let config = tls.stream(&[], None);
        for (name, want) in [
            ("first.example", "first.example"),
            ("FIRST.example", "first.example"),
            ("second.example", "first.example"),
            ("b.wild.example", "*.wild.example"),
            ("a.wild.example", "a.wild.example"),
            ("127.0.0.1", "first.example"),
            // The client refuses these, but it is shown the first.
            (
                "b.b.wild.example",
                "client: invalid peer certificate: certificate not valid for name \"b.b.wild.example\"; certificate is only valid for DnsName(\"first.example\"), IpAddress(127.0.0.1) or DnsName(\"second.example\")",
            ),
            (
                "wild.example",
                "client: invalid peer certificate: certificate not valid for name \"wild.example\"; certificate is only valid for DnsName(\"first.example\"), IpAddress(127.0.0.1) or DnsName(\"second.example\")",
            ),
        ] {
            assert_eq!(name_for(&config, &ca, name), want, "{name}");
        }
        for (name, want) in [
            ("first.example", true),
            ("First.Example.", true),
            ("x.wild.example", true),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("wild.example", false),
            ("other.example", false),
            ("not a name", false),
        ] {
            assert_eq!(tls.covers(name), want, "{name}");
            let first = want && name != "x.wild.example";
            assert_eq!(tls.first_covers(name), first, "{name}");
        }
    }
}

#[test]
fn a_client_that_sends_no_name_gets_the_first() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let config = server(&ca, &folder, &[&["first.example"], &["second.example"]]).stream(&[], None);
    let mut client = ca.trusted_by(None);
    client.enable_sni = false;
    let seen = shake(&config, &Arc::new(client), "first.example").expect("a handshake");
    assert_eq!(seen.name, "first.example");
}

#[test]
fn a_gate_ends_handshakes_by_their_name() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let tls = server(&ca, &folder, &[&["*.wild.example"]]);
    let gate: crate::Gate = Arc::new(|name| name == Some("good.wild.example"));
    let config = tls.stream(&[], Some(gate));
    assert_eq!(name_for(&config, &ca, "good.wild.example"), "*.wild.example");
    let refused = name_for(&config, &ca, "bad.wild.example");
    assert!(refused.starts_with("server: unexpected error: no server certificate"), "{refused}");
}

#[test]
fn tls_10_the_protocol_is_agreed_on_by_alpn() {
    // tls.alpn.
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let tls = server(&ca, &folder, &[&["example.org"]]);
    for (served, asked, want) in [
        (&[&b"dot"[..]][..], &[][..], Ok(None)),
        (&[b"dot"], &["dot"][..], Ok(Some("dot"))),
        (&[b"h2", b"http/1.1"], &["http/1.1", "h2"], Ok(Some("h2"))),
        (&[b"h2"], &["dot"], Err("server: peer doesn't support any known protocol")),
        (&[b"dot"], &["h2", "acme-tls/1"], Err("server: peer doesn't support any known protocol")),
    ] {
        let mut client = ca.trusted_by(None);
        client.alpn_protocols = asked.iter().map(|name| name.as_bytes().to_vec()).collect();
        let seen = shake(&tls.stream(served, None), &Arc::new(client), "example.org");
        let got = seen.map(|seen| seen.alpn);
        assert_eq!(got, want.map(|name| name.map(str::to_owned)).map_err(str::to_owned));
    }
}

#[test]
fn tls_01_versions_and_suites_are_those_of_today() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ED25519]
    {
        let (chain, key) = ca.issue(&Wish { algorithm, ..Wish::default() }).write(&folder, "pair");
        let config = ServerTls::files(chain, key).expect("a server").stream(&[], None);
        for (version, want) in [
            (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
            (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let client = ca.trusted_by(None);
            let mut roots = rustls::RootCertStore::empty();
            use rustls::pki_types::pem::PemObject as _;
            let root = rustls::pki_types::CertificateDer::from_pem_slice(ca.pem.as_bytes());
            roots.add(root.unwrap()).unwrap();
            let only =
                rustls::ClientConfig::builder_with_provider(Arc::clone(client.crypto_provider()))
                    .with_protocol_versions(&[version])
                    .unwrap()
                    .with_root_certificates(roots)
                    .with_no_client_auth();
            let seen = shake(&config, &Arc::new(only), "example.org").expect("a handshake");
            assert_eq!(seen.version, want);
        }
        for suite in &config.crypto_provider().cipher_suites {
            let name = format!("{:?}", suite.suite());
            assert!(name.starts_with("TLS13_") || name.starts_with("TLS_ECDHE_"), "{name}");
            assert!(name.contains("_GCM_") || name.contains("_CHACHA20_POLY1305_"), "{name}");
        }
    }
}

#[test]
fn the_root_is_not_sent_and_the_servers_flight_is_small() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let (chain, key) = ca.server(&["example.org"]).write(&folder, "pair");
    let config = ServerTls::files(chain, key).expect("a server").stream(&[], None);
    let seen = shake(&config, &Arc::new(ca.trusted_by(None)), "example.org").expect("a handshake");
    assert!(seen.octets < 1200, "{} octets", seen.octets);
}

#[test]
fn blocks_of_a_listener_have_to_ask_the_same_of_clients() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let authority = folder.write("ca.pem", &ca.pem);
    let other = folder.write("other.pem", &ca.pem);
    let make =
        |client_auth: ClientAuth, ca_file: Option<&std::path::Path>, keylog: Option<&str>| {
            let (chain, key) = ca.server(&["example.org"]).write(&folder, "pair");
            let source = Source::files(chain, key, "test").expect("a pair");
            ServerTls::new(Options {
                sources: vec![source],
                client_auth,
                client_ca: ca_file.map(Into::into),
                keylog: keylog.map(|name| folder.path(name)),
                target: "test",
            })
            .expect("a server")
        };
    let verify = make(ClientAuth::RequireAndVerify, Some(&authority), None);
    for (other, want) in [
        (
            make(ClientAuth::None, None, None),
            "differ in client_auth: require_and_verify and nocert",
        ),
        (make(ClientAuth::RequireAndVerify, Some(&other), None), "differ in the CA of clients: "),
        (
            make(ClientAuth::RequireAndVerify, Some(&authority), Some("log")),
            "differ in keylog: none and ",
        ),
    ] {
        let error = ServerTls::merge(&[Arc::clone(&verify), other]).expect_err("they differ");
        assert!(error.what.contains(want), "{error}");
        assert!(error.help.expect("a remedy").contains("an address or a port of its own"));
    }
    let same = make(ClientAuth::RequireAndVerify, Some(&authority), None);
    ServerTls::merge(&[verify, same]).expect("they agree");
    assert!(ServerTls::merge(&[]).is_err());
    let none = Options { client_auth: ClientAuth::VerifyIfGiven, ..Options::default() };
    assert!(ServerTls::new(none).is_err(), "there is no certificate");
}
