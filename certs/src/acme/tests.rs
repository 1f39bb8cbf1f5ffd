//! Schedules, answers, what is kept, and a CA that is away; whole orders are tests of the program.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::answers::Proof;
use super::client::retry_after;
use super::schedule::{due, wait};
use super::storage::Storage;
use super::{Acme, Answers, Challenge, LETS_ENCRYPT};
use crate::testing::{Ca, Folder, Wish, name_for, shake};
use crate::{ACME_ALPN, Options, ServerTls, Source};

/// What the tests ask for.
fn acme(folder: &Folder, domain: &str, challenge: Challenge, answers: &Arc<Answers>) -> Acme {
    Acme {
        domain: domain.to_owned(),
        email: None,
        directory: "https://acme.test:14000/dir".to_owned(),
        storage: folder.path("acme"),
        ca_root: None,
        resolve: None,
        challenge,
        answers: Arc::clone(answers),
    }
}

/// A proof with these texts.
fn proof<'a>(challenge: Challenge, domain: &'a str, token: &'a str, text: &'a str) -> Proof<'a> {
    Proof { challenge, domain, token, text, digest: &[7; 32], encoded: text }
}

#[test]
fn a_certificate_is_replaced_when_two_thirds_of_its_time_are_over() {
    for (from, until) in [(0, 90 * 86_400), (1_800_000_000, 1_800_000_000 + 6 * 86_400), (100, 115)]
    {
        let lifetime = until - from;
        for _ in 0..100 {
            let after = due(from, until) - from;
            assert!(
                (lifetime / 3 * 2..=lifetime / 3 * 2 + lifetime / 50).contains(&after),
                "{after}"
            );
        }
    }
    assert_eq!(due(7, 7), 7);
    assert_eq!(due(7, 3), 7, "one that makes no sense is replaced at once");
}

#[test]
fn attempts_come_later_and_later_and_when_the_ca_wants_them() {
    let near = |got: Duration, want: u64| {
        let want = Duration::from_secs(want);
        assert!(got >= want.mul_f64(0.89) && got <= want.mul_f64(1.11), "{got:?} {want:?}");
    };
    for (failures, refused, want) in [
        (1, false, 5),
        (2, false, 10),
        (3, false, 20),
        (8, false, 600),
        (1000, false, 600),
        (1, true, 60),
        (2, true, 180),
        (3, true, 540),
        (4, true, 1620),
        (7, true, 21_600),
        (u32::MAX, true, 21_600),
    ] {
        near(wait(failures, refused, None), want);
    }
    // No more than five refusals an hour.
    let hour: Duration = (1..=4).map(|failures| wait(failures, true, None)).sum();
    let fifth = hour + wait(5, true, None);
    assert!(fifth > Duration::from_secs(3600), "{fifth:?}");
    assert_eq!(wait(1, true, Some(Duration::from_secs(7200))), Duration::from_secs(7200));
    near(wait(2, true, Some(Duration::from_secs(1))), 180);
    assert_eq!(wait(1, true, Some(Duration::MAX)), Duration::from_secs(8 * 86_400));
}

#[test]
fn retry_after_is_a_number_of_seconds_or_a_date() {
    assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
    assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let wait = retry_after(&later).expect("a date");
    assert!((98..=100).contains(&wait.as_secs()), "{wait:?}");
    for junk in ["", "-1", "soon", "1.5"] {
        assert_eq!(retry_after(junk), None, "{junk}");
    }
}

#[test]
fn answers_are_shown_as_long_as_they_are_needed() {
    let answers = Arc::new(Answers::default());
    let texts = |name: &str| {
        let mut all = Vec::new();
        let known = answers.records(name, |text| all.push(text.to_owned()));
        assert_eq!(known, !all.is_empty());
        all
    };
    assert!(answers.has_no_records());
    // A domain and its wildcard are asked for by the same name.
    let one = answers.show(&proof(Challenge::Dns, "Example.org", "t", "one")).expect("shown");
    let two = answers.show(&proof(Challenge::Dns, "example.org", "t", "two")).expect("shown");
    assert!(!answers.has_no_records());
    assert_eq!(texts("_acme-challenge.example.org"), ["one", "two"]);
    let again = answers.show(&proof(Challenge::Dns, "example.org", "t", "one")).expect("shown");
    assert_eq!(texts("_acme-challenge.example.org"), ["one", "two"]);
    drop(again);
    assert!(texts("example.org").is_empty() && texts("_acme-challenge.example.com").is_empty());
    drop(one);
    assert_eq!(texts("_acme-challenge.example.org"), ["two"]);
    drop(two);
    assert!(answers.has_no_records() && texts("_acme-challenge.example.org").is_empty());

    let page =
        answers.show(&proof(Challenge::Http, "example.org", "token", "text")).expect("shown");
    assert_eq!(answers.page("token").as_deref(), Some("text"));
    assert_eq!(answers.page("other"), None);
    drop(page);
    assert_eq!(answers.page("token"), None);
}

#[test]
fn the_certificate_for_validation_is_shown_to_those_who_ask_for_it_alone() {
    // RFC 8737 §3; the gate does not stop it.
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let answers = Arc::new(Answers::default());
    let mut managed = acme(&folder, "dns.example.org", Challenge::TlsAlpn, &answers);
    let storage = Storage::new(&managed.storage, &managed.directory, None);
    let issued = ca.server(&["dns.example.org"]);
    let path = storage.certificate("dns.example.org");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{}{}", issued.chain, issued.key)).unwrap();
    let source = Source::acme(managed.clone(), "test").expect("a source");
    let gate: crate::Gate = Arc::new(|name| name == Some("dns.example.org"));
    let make = |source| {
        let options = Options { sources: vec![source], ..Options::default() };
        ServerTls::new(options).expect("a server").stream(&[b"dot"], Some(Arc::clone(&gate)))
    };
    let config = make(source);
    let _showing =
        answers.show(&proof(Challenge::TlsAlpn, "Shown.example.org", "t", "text")).expect("shown");
    let seen = |config: &Arc<rustls::ServerConfig>, alpn: &[&[u8]], name: &'static str| {
        let mut client = ca.trusted_by(None);
        let seen = Arc::new(Taker::default());
        client.dangerous().set_certificate_verifier(Arc::clone(&seen) as _);
        client.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        shake(config, &Arc::new(client), name).map(|_| seen.0.lock().unwrap().clone())
    };
    let der = seen(&config, &[ACME_ALPN], "shown.example.org").expect("it is shown");
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap().value.general_names.len();
    assert_eq!(names, 1);
    let extension = certificate
        .extensions()
        .iter()
        .find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
        .expect("acmeIdentifier");
    assert!(extension.critical && extension.value == [&[4, 32][..], &[7; 32]].concat());
    for (alpn, name) in [
        (&[ACME_ALPN][..], "other.example.org"),
        (&[ACME_ALPN], "dns.example.org"),
        (&[ACME_ALPN, b"dot"], "shown.example.org"),
        (&[b"dot"], "shown.example.org"),
        (&[b"h2"], "dns.example.org"),
    ] {
        assert!(seen(&config, alpn, name).is_err(), "{alpn:?} {name}");
    }
    assert_eq!(seen(&config, &[b"dot"], "dns.example.org").map(|der| der.is_empty()), Ok(false));
    assert!(
        ServerTls::new(Options {
            sources: vec![Source::acme(managed.clone(), "test").expect("it")],
            ..Options::default()
        })
        .expect("a server")
        .quic(&[b"doq"], None, false)
        .alpn_protocols
        .iter()
        .all(|name| name != ACME_ALPN)
    );
    // Another challenge does not speak that protocol.
    managed.challenge = Challenge::Http;
    let config = make(Source::acme(managed, "test").expect("a source"));
    assert!(seen(&config, &[ACME_ALPN], "shown.example.org").is_err());
}

/// Takes every certificate, and keeps the last one.
#[derive(Debug, Default)]
struct Taker(std::sync::Mutex<Vec<u8>>);

impl rustls::client::danger::ServerCertVerifier for Taker {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap() = end_entity.to_vec();
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        crate::provider().signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn challenges_of_another_replica_are_answered_here_too() {
    let folder = Folder::new();
    let (place, answers) = (folder.path("challenges"), Arc::new(Answers::default()));
    let others = super::shared::Others::default();
    let look = || others.look(&place, "example.org", &answers);
    let count = || {
        let mut count = 0;
        answers.records("_acme-challenge.example.org", |_| count += 1);
        count
    };
    look();
    let dns = proof(Challenge::Dns, "example.org", "t", "encoded");
    let one = super::shared::write(&place, "example.org", &dns).expect("written");
    let other = super::shared::write(&place, "www.example.org", &dns).expect("written");
    let wildcard = super::shared::write(&place, "_.example.org", &dns).expect("written");
    (0..3).for_each(|_| look());
    assert_eq!(count(), 1, "each domain looks for its own, once");
    let http = proof(Challenge::Http, "example.org", "token", "text");
    let two = super::shared::write(&place, "example.org", &http).expect("written");
    folder.write("challenges/example.org.0123456789abcdef", "junk");
    look();
    assert_eq!(answers.page("token").as_deref(), Some("text"));
    drop((one, two, other, wildcard));
    look();
    assert_eq!((count(), answers.page("token")), (0, None));
    // What was left behind is not shown for ever.
    let old = super::shared::write(&place, "example.org", &dns).expect("written");
    let file = std::fs::read_dir(&place).unwrap().flatten().map(|entry| entry.path());
    let file = file.filter(|path| !path.ends_with("example.org.0123456789abcdef")).last().unwrap();
    let before = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(before).unwrap();
    look();
    assert_eq!(count(), 0);
    drop(old);
}

#[test]
fn what_is_kept_lies_apart_by_ca_account_and_domain() {
    let folder = Folder::new();
    let root = folder.path("acme");
    let storage = Storage::new(&root, LETS_ENCRYPT, None);
    let name =
        |path: std::path::PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let first = name(storage.certificate("*.example.org"));
    assert!(first.starts_with("acme-v02.api.letsencrypt.org-"), "{first}");
    assert!(first.ends_with("/_.example.org.pem"), "{first}");
    for other in [
        Storage::new(&root, LETS_ENCRYPT, Some("a@example.org")),
        Storage::new(&root, "https://acme-v02.api.letsencrypt.org/other", None),
    ] {
        assert_ne!(other.account(), storage.account());
    }
    let odd = Storage::new(&root, "https://[2001:db8::1]:14000/../dir", None);
    assert_eq!(odd.account().strip_prefix(&root).unwrap().components().count(), 2);
    // One has the lock, in this process or another.
    let lock = storage.lock().expect("a lock").expect("nobody has it");
    assert!(Storage::new(&root, LETS_ENCRYPT, None).lock().expect("a lock").is_none());
    drop(lock);
    assert!(storage.lock().expect("a lock").is_some());
    std::fs::write(folder.path("file"), "").unwrap();
    assert!(Storage::new(&folder.path("file"), LETS_ENCRYPT, None).lock().is_err());
}

#[test]
fn what_another_replica_has_obtained_is_taken() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let managed = acme(&folder, "dns.example.org", Challenge::Dns, &Arc::default());
    let storage = Storage::new(&managed.storage, &managed.directory, None);
    let source = Source::acme(managed, "test").expect("a source");
    let options = Options { sources: vec![source.clone()], ..Options::default() };
    let tls = ServerTls::new(options).expect("a server");
    let config = tls.stream(&[], None);
    let none = "server: unexpected error: no server certificate chain resolved";
    assert!(name_for(&config, &ca, "dns.example.org").starts_with(&none[..20]));
    assert!(!tls.covers("dns.example.org") && tls.status()[0].not_after.is_none());
    let path = storage.certificate("dns.example.org");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for (text, want) in [("junk".to_owned(), false), (both(&ca), true)] {
        std::fs::write(&path, text).unwrap();
        source.look();
        assert_eq!(name_for(&config, &ca, "dns.example.org") == "dns.example.org", want);
        assert_eq!(tls.covers("dns.example.org"), want);
    }
    assert_eq!(tls.status()[0].source, "acme/dns.example.org");
}

/// A certificate with its key in one text.
fn both(ca: &Ca) -> String {
    let issued = ca.issue(&Wish { names: &["dns.example.org"], ..Wish::default() });
    format!("{}{}", issued.chain, issued.key)
}

#[tokio::test]
async fn a_ca_that_is_away_is_asked_again_and_stopping_ends_that() {
    let folder = Folder::new();
    let mut managed = acme(&folder, "dns.example.org", Challenge::Dns, &Arc::default());
    managed.resolve = Some(Arc::new(|name| {
        Box::pin(async move {
            assert_eq!(name, "acme.test");
            Err(std::io::Error::other("the resolver does not know it"))
        })
    }));
    let source = Source::acme(managed, "test").expect("a source");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn({
        let source = source.clone();
        async move {
            source.run(async { drop(stopped.await) }).await;
        }
    });
    let begin = std::time::Instant::now();
    while source.status().refused == 0 {
        assert!(begin.elapsed().as_secs() < 20, "nobody tries");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(source.status().broken && source.pair().is_none());
    // A second one waits for its turn, and ends when it is told to.
    source.run(async { tokio::time::sleep(Duration::from_millis(50)).await }).await;
    drop(stop);
    running.await.expect("it ends");
}
