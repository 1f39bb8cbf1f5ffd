//! Certificates that are signed by themselves.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::testing::{Folder, shake};
use crate::{ClientTls, Options, ServerTls, Source, Subject};

/// What the tests ask for.
fn subject(names: &[&str], addresses: &[&str]) -> Subject {
    Subject {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        passing: vec!["198.51.100.7".parse().unwrap()],
    }
}

#[test]
fn it_is_made_once_and_kept_for_its_owner() {
    let folder = Folder::new();
    let path = folder.path("data/tls");
    let make = |subject: &Subject| {
        Source::self_signed(&path, "self-signed", subject.clone(), "test").expect("a certificate")
    };
    let fingerprint = |source: &Source| source.pair().expect("it is there").fingerprint();
    let asked = subject(&["dns.example.org", "localhost"], &["127.0.0.1", "::1"]);
    let first = make(&asked);
    assert!(!path.exists(), "nothing is written by making it");
    assert_ne!(fingerprint(&first), fingerprint(&make(&asked)));
    first.keep();
    for (name, mode) in [("", 0o700), ("self-signed.pem", 0o600), ("self-signed.key", 0o600)] {
        let found = std::fs::metadata(path.join(name)).expect("it is there").permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "nothing is left behind");
    assert_eq!(fingerprint(&first).len(), 32 * 3 - 1);
    let again = make(&asked);
    assert_eq!(fingerprint(&first), fingerprint(&again));
    // Fewer names are no reason for another one, nor are addresses that come and go; a new name is.
    assert_eq!(fingerprint(&first), fingerprint(&make(&subject(&["localhost"], &["127.0.0.1"]))));
    let more = make(&subject(&["dns.example.org", "dns2.example.org"], &[]));
    assert_ne!(fingerprint(&first), fingerprint(&more));
    let facts = &again.pair().expect("it is there").facts;
    assert_eq!(facts.names, ["dns.example.org", "localhost"]);
    let addresses: Vec<_> = facts.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1", "::1", "198.51.100.7"]);
    let left = facts.not_after - crate::now();
    assert!((396 * 86_400..=397 * 86_400).contains(&left), "{left}");
    // Its key stays when it is made again.
    more.keep();
    let key = |source: &Source| {
        let pair = source.pair().expect("it is there");
        pair.key.key.public_key().map(|key| key.as_ref().to_vec())
    };
    assert_eq!(key(&first), key(&more));
    assert_ne!(key(&first), None);
}

#[test]
fn one_that_is_broken_is_made_again_and_one_that_cannot_be_kept_is_served() {
    let folder = Folder::new();
    let asked = subject(&["localhost"], &[]);
    let make = || Source::self_signed(&folder.path(""), "own", asked.clone(), "test");
    let fingerprint = |source: &Source| source.pair().expect("it is there").fingerprint();
    let first = make().expect("a certificate");
    first.keep();
    for (file, text) in [("own.pem", "junk"), ("own.key", "junk"), ("own.key", "")] {
        folder.write(file, text);
        let next = make().expect("a certificate");
        assert_ne!(fingerprint(&first), fingerprint(&next), "{file}");
        next.keep();
        assert_eq!(fingerprint(&next), fingerprint(&make().expect("a certificate")));
    }
    let nowhere = folder.write("file", "");
    let source = Source::self_signed(&nowhere, "own", asked, "test").expect("a certificate");
    source.keep();
    assert!(source.pair().is_some());
}

#[test]
fn clients_that_know_it_take_it() {
    let folder = Folder::new();
    let asked = subject(&["dns.example.org", "localhost"], &["127.0.0.1"]);
    let source = Source::self_signed(&folder.path("tls"), "own", asked, "test").expect("it");
    source.keep();
    let options = Options { sources: vec![source], ..Options::default() };
    let tls = ServerTls::new(options).expect("a server");
    let client = ClientTls::new(Some(folder.path("tls/own.pem")), None).expect("a client");
    let (server, client) = (tls.stream(&[], None), client.config(&[]));
    for (name, good) in [
        ("dns.example.org", true),
        ("localhost", true),
        ("127.0.0.1", true),
        ("198.51.100.7", true),
        ("127.0.0.2", false),
        ("example.org", false),
    ] {
        assert_eq!(shake(&server, &client, name).is_ok(), good, "{name}");
        assert_eq!(tls.covers(name), good, "{name}");
    }
    let pem = std::fs::read(folder.path("tls/own.pem")).unwrap();
    assert!(CertificateDer::from_pem_slice(&pem).is_ok());
    let _shared: Arc<ServerTls> = tls;
}
