//! Certificates of clients.

use std::sync::Arc;

use crate::testing::{Ca, Folder, Issued, Wish, shake};
use crate::{ClientAuth, Options, ServerTls, Source};

/// A server that asks this of clients, and the folder with its files; `ca.pem` are the CAs.
fn server(ca: &Ca, folder: &Folder, client_auth: ClientAuth) -> Arc<ServerTls> {
    let (chain, key) = ca.server(&["example.org"]).write(folder, "pair");
    let source = Source::files(chain, key, "test").expect("a pair");
    let client_ca = Some(folder.write("ca.pem", &ca.pem));
    let options = Options { sources: vec![source], client_auth, client_ca, ..Options::default() };
    ServerTls::new(options).expect("a server")
}

#[test]
fn tls_07_modes_of_client_auth() {
    // tls.client_auth: each mode with no certificate, one that verifies, and those that do not.
    let (ca, other, folder) = (Ca::new("ca"), Ca::new("other"), Folder::new());
    let good = ca.client("phone");
    let wish = |valid| Wish { names: &["phone"], client: true, valid, ..Wish::default() };
    let shown: [(&str, Option<Issued>); 6] = [
        ("none", None),
        ("good", Some(good)),
        ("of another CA", Some(other.client("phone"))),
        ("expired", Some(ca.issue(&wish((-7200, -60))))),
        ("not yet valid", Some(ca.issue(&wish((3600, 7200))))),
        ("of a server", Some(ca.server(&["phone"]))),
    ];
    // How many certificates the server has seen: two are the client's own and its CA; none is a failed handshake.
    let (absent, seen, failed) = (Some(0), Some(2), None);
    for (mode, want) in [
        (ClientAuth::None, [absent; 6]),
        (ClientAuth::Request, [absent, seen, seen, seen, seen, seen]),
        (ClientAuth::Require, [failed, seen, seen, seen, seen, seen]),
        (ClientAuth::VerifyIfGiven, [absent, seen, failed, failed, failed, failed]),
        (ClientAuth::RequireAndVerify, [failed, seen, failed, failed, failed, failed]),
    ] {
        let config = server(&ca, &folder, mode).stream(&[], None);
        for ((name, shown), want) in shown.iter().zip(want) {
            let client = Arc::new(ca.trusted_by(shown.as_ref()));
            let got = shake(&config, &client, "example.org");
            assert_eq!(got.as_ref().ok().map(|seen| seen.shown), want, "{mode:?} {name} {got:?}");
        }
    }
}

#[test]
fn tls_07_a_certificate_without_its_key_is_refused_in_every_mode() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let (mine, theirs) = (ca.client("mine"), ca.client("theirs"));
    let stolen = Issued { chain: theirs.chain, key: mine.key };
    // A library refuses to put them together, so the pair is put together by hand.
    use rustls::pki_types::pem::PemObject as _;
    let chain = rustls::pki_types::CertificateDer::pem_slice_iter(stolen.chain.as_bytes());
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(stolen.key.as_bytes()).unwrap();
    let key = crate::provider().key_provider.load_private_key(key).unwrap();
    let pair = rustls::sign::CertifiedKey::new(chain.collect::<Result<_, _>>().unwrap(), key);
    let mut client = ca.trusted_by(None);
    client.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(pair));
    let client = Arc::new(client);
    for mode in [
        ClientAuth::Request,
        ClientAuth::Require,
        ClientAuth::VerifyIfGiven,
        ClientAuth::RequireAndVerify,
    ] {
        let config = server(&ca, &folder, mode).stream(&[], None);
        let error = shake(&config, &client, "example.org").expect_err("it is not its own");
        assert!(error.starts_with("server: invalid peer certificate"), "{mode:?}: {error}");
    }
}

#[test]
fn tls_07_cas_are_replaced_while_they_are_in_use_and_sessions_of_before_end() {
    let (ca, other, folder) = (Ca::new("ca"), Ca::new("other"), Folder::new());
    let tls = server(&ca, &folder, ClientAuth::RequireAndVerify);
    let config = tls.stream(&[], None);
    let one = Arc::new(ca.trusted_by(Some(&ca.client("one"))));
    let two = Arc::new(ca.trusted_by(Some(&other.client("two"))));
    let shakes = |client| shake(&config, client, "example.org").map(|seen| seen.resumed);
    assert_eq!(shakes(&one), Ok(false));
    assert_eq!(shakes(&one), Ok(true));
    assert!(shakes(&two).is_err());
    folder.write("ca.pem", &other.pem);
    tls.look();
    assert!(shakes(&one).is_err(), "neither its certificate nor its ticket is good now");
    assert_eq!(shakes(&two), Ok(false));
    folder.write("ca.pem", "nothing");
    (0..3).for_each(|_| tls.look());
    assert_eq!(shakes(&two), Ok(true), "what was read before stays");
    let status = tls.status();
    assert_eq!((status[1].taken, status[1].refused, status[1].broken), (1, 1, true));
}
