//! TLS towards upstreams.

use std::sync::Arc;

use crate::testing::{Ca, Folder, shake};
use crate::{ClientAuth, ClientTls, Options, ServerTls, Source};

#[test]
fn cas_and_certificates_are_replaced_while_they_are_in_use() {
    // xc.tlsargs.
    let (ca, other, folder) = (Ca::new("ca"), Ca::new("other"), Folder::new());
    let serve = |ca: &Ca, clients: &Ca| {
        let (chain, key) = ca.server(&["example.org"]).write(&folder, "server");
        let source = Source::files(chain, key, "test").expect("a pair");
        let client_ca = Some(folder.write("clients.pem", &clients.pem));
        let client_auth = ClientAuth::RequireAndVerify;
        let options =
            Options { sources: vec![source], client_auth, client_ca, ..Options::default() };
        ServerTls::new(options).expect("a server").stream(&[b"dot"], None)
    };
    let (old, new) = (serve(&ca, &ca), serve(&other, &other));
    let file = folder.write("ca.pem", &ca.pem);
    let pair = ca.client("gateway").write(&folder, "client");
    let tls = ClientTls::new(Some(file), Some(pair)).expect("a client");
    let config = tls.config(&[b"dot"]);
    let resumed = |server| shake(server, &config, "example.org").map(|seen| seen.resumed);
    assert_eq!((resumed(&old), resumed(&old)), (Ok(false), Ok(true)));
    assert!(resumed(&new).is_err());
    // Kept elsewhere, so that nothing but the CA is changed.
    folder.write("ca.pem", &other.pem);
    tls.look();
    assert!(resumed(&old).is_err(), "a session of before is not resumed");
    assert!(resumed(&new).is_err(), "its own certificate is still the old one");
    other.client("gateway").write(&folder, "client");
    tls.look();
    assert_eq!((resumed(&new), resumed(&new)), (Ok(false), Ok(true)));
    let seen = shake(&new, &config, "example.org").expect("a handshake");
    assert_eq!((seen.alpn.as_deref(), seen.shown), (Some("dot"), 1));
    assert!(shake(&new, &config, "example.com").is_err(), "the name is checked");
}

#[test]
fn what_is_refused() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let file = folder.write("ca.pem", &ca.pem);
    let (chain, key) = ca.client("gateway").write(&folder, "client");
    let (_, other) = ca.client("gateway").write(&folder, "other");
    for (ca, pair, want) in [
        (Some(folder.path("none")), None, "none: no such file"),
        (Some(key.clone()), None, "client.key: holds a private key and no certificate"),
        (
            Some(file.clone()),
            Some((key, chain.clone())),
            "client.key: holds a private key and no certificate",
        ),
        (Some(file), Some((chain, other)), "client.pem"),
    ] {
        let error = ClientTls::new(ca, pair).expect_err("it is wrong").to_string();
        assert!(error.ends_with(want), "{error}");
    }
    let _system: Arc<ClientTls> = ClientTls::new(None, None).expect("the system's CAs");
}
