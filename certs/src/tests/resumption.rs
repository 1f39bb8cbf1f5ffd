//! Tickets, and secrets in a file.

use std::sync::Arc;

use rustls::server::ProducesTickets as _;

use crate::testing::{Ca, Folder, shake};
use crate::{ClientAuth, Options, ServerTls, Source};

/// A server.
fn server(ca: &Ca, folder: &Folder, client_auth: ClientAuth, keylog: bool) -> Arc<ServerTls> {
    let (chain, key) = ca.server(&["example.org"]).write(folder, "pair");
    let source = Source::files(chain, key, "test").expect("a pair");
    let keylog = keylog.then(|| folder.path("log"));
    let options = Options { sources: vec![source], client_auth, keylog, ..Options::default() };
    ServerTls::new(options).expect("a server")
}

#[test]
fn tls_03_sessions_are_resumed_at_one_server_and_at_no_other() {
    // tls.resumption.
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let one = server(&ca, &folder, ClientAuth::None, false);
    let two = server(&ca, &folder, ClientAuth::Request, false);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut client = ca.trusted_by(None);
        if version.version == rustls::ProtocolVersion::TLSv1_2 {
            use rustls::pki_types::pem::PemObject as _;
            let mut roots = rustls::RootCertStore::empty();
            let root = rustls::pki_types::CertificateDer::from_pem_slice(ca.pem.as_bytes());
            roots.add(root.unwrap()).unwrap();
            client = rustls::ClientConfig::builder_with_provider(crate::provider())
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        }
        let client = Arc::new(client);
        let resumed = |tls: &Arc<ServerTls>| {
            shake(&tls.stream(&[], None), &client, "example.org").expect("a handshake").resumed
        };
        assert!(!resumed(&one));
        assert!(resumed(&one));
        // Another listener of the same server may know it; another server never does.
        assert!(resumed(&one));
        assert!(!resumed(&two));
    }
    let tickets = crate::tickets::Tickets::new();
    assert!(
        tickets.lifetime() <= 24 * 3600 && tickets.lifetime() >= 6 * 3600,
        "{}",
        tickets.lifetime()
    );
}

#[test]
fn tls_02_streams_have_no_early_data_and_quic_has_it_if_told() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let tls = server(&ca, &folder, ClientAuth::None, false);
    assert_eq!(tls.stream(&[], None).max_early_data_size, 0);
    assert_eq!(tls.quic(&[], None, false).max_early_data_size, 0);
    let early = tls.quic(&[], None, true);
    assert_eq!(early.max_early_data_size, u32::MAX);
    assert!(!early.ticketer.enabled(), "sessions are kept, so that each is used once");
    early.session_storage.put(vec![1], vec![2, 3]);
    assert_eq!(early.session_storage.take(&[1]), Some(vec![2, 3]));
    assert_eq!(early.session_storage.take(&[1]), None);
}

#[test]
fn secrets_are_appended_to_a_file_of_its_owner_alone() {
    // tls.keylog.
    use std::os::unix::fs::PermissionsExt as _;
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    std::fs::write(folder.path("log"), "before\n").unwrap();
    let tls = server(&ca, &folder, ClientAuth::None, true);
    shake(&tls.stream(&[], None), &Arc::new(ca.trusted_by(None)), "example.org")
        .expect("a handshake");
    let text = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(text.starts_with("before\n"), "{text}");
    for label in ["CLIENT_HANDSHAKE_TRAFFIC_SECRET ", "SERVER_TRAFFIC_SECRET_0 "] {
        assert!(text.lines().any(|line| line.starts_with(label) && line.len() > 128), "{text}");
    }
    std::fs::remove_file(folder.path("log")).unwrap();
    let _tls = server(&ca, &folder, ClientAuth::None, true);
    let mode = std::fs::metadata(folder.path("log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let missing = Options { keylog: Some(folder.path("no/log")), ..Options::default() };
    assert!(ServerTls::new(missing).is_err());
}
