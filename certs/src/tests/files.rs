//! Files that are wrong, and files that change.

use std::sync::Arc;

use crate::testing::{Ca, Folder, Issued, Wish, name_for};
use crate::{Options, ServerTls, Source};

/// What is wrong with a chain and a key, with what helps.
fn wrong(chain: &str, key: &str) -> String {
    let folder = Folder::new();
    let (chain, key) = (folder.write("chain.pem", chain), folder.write("key.pem", key));
    let error = ServerTls::files(chain, key).map(drop).expect_err("they are wrong");
    let file = error.file.as_ref().and_then(|file| file.file_name()).unwrap_or_default();
    let help = error.help.as_deref().unwrap_or_default();
    format!("{}: {} ({help})", file.display(), error.what)
}

#[test]
fn what_is_refused_says_the_file_the_cause_and_the_remedy() {
    // tls.err, TLS-08, DOT-04.
    let ca = Ca::new("ca");
    let good = ca.server(&["example.org"]);
    let other = ca.server(&["example.org"]);
    let stapled = ca.issue(&Wish { must_staple: true, ..Wish::default() });
    let half = good.chain.split_at(good.chain.len() / 3).0;
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let junk_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let request = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    for (chain, key, want) in [
        (&*good.chain, &*other.key, "key.pem: is not the key of the certificate in "),
        (
            &*good.key,
            &*good.key,
            "chain.pem: holds a private key and no certificate (the certificate comes first",
        ),
        (
            &*good.chain,
            &*good.chain,
            "key.pem: holds a certificate and no private key (the certificate comes first",
        ),
        ("", &*good.key, "chain.pem: is empty"),
        (&*good.chain, "", "key.pem: is empty"),
        ("hello", &*good.key, "chain.pem: holds no certificate (a certificate begins with"),
        (&*good.chain, "hello", "key.pem: holds no private key (a key begins with"),
        (request, &*good.key, "chain.pem: holds PEM, and no certificate in it"),
        (half, &*good.key, "chain.pem: is PEM that breaks off before its END line"),
        (junk, &*good.key, "chain.pem: holds a certificate that cannot be read"),
        (
            &*good.chain,
            junk_key,
            "key.pem: holds a private key that cannot be used (use ECDSA P-256",
        ),
        (
            &*good.chain,
            encrypted,
            "key.pem: holds an encrypted key, and there is nobody to ask (take the password off",
        ),
        (&*good.chain, old, "key.pem: holds an encrypted key"),
        ("0\u{7f}", &*good.key, "chain.pem: holds no certificate"),
        (
            &*stapled.chain,
            &*stapled.key,
            "chain.pem: the certificate demands a stapled OCSP response (must-staple, RFC 7633), which is not offered (ask the CA",
        ),
    ] {
        let text = wrong(chain, key);
        assert!(text.starts_with(want), "{text}\n{want}");
        assert!(!text.contains("AAAA"), "{text}");
    }
    let folder = Folder::new();
    let (chain, key) = good.write(&folder, "good");
    for (chain, key, want) in [
        (folder.path("none"), key.clone(), "none: no such file"),
        (chain.clone(), folder.path("none"), "none: no such file"),
        (folder.path(""), key.clone(), "is a folder"),
        ("/dev/zero".into(), key, "/dev/zero: is no regular file"),
    ] {
        let error = ServerTls::files(chain, key).expect_err("it is wrong").to_string();
        assert!(error.ends_with(want), "{error}");
    }
    let der = folder.path("der");
    std::fs::write(&der, [0x30, 0x82, 1, 0, 0xff]).unwrap();
    let error = ServerTls::files(der, chain).expect_err("it is wrong");
    assert!(error.what.contains("looks like DER") && error.help.is_some(), "{error:?}");
}

#[test]
fn what_is_odd_is_said_and_served() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let oddities = |issued: &Issued| {
        let pair = issued.write(&folder, "odd");
        Source::files(pair.0, pair.1, "test").expect("a pair").oddities().join(" ")
    };
    assert_eq!(oddities(&ca.server(&["example.org"])), "");
    let expired = ca.issue(&Wish { valid: (-7200, -60), ..Wish::default() });
    assert!(oddities(&expired).contains("the certificate has expired on 20"));
    let early = ca.issue(&Wish { valid: (3600, 7200), ..Wish::default() });
    assert!(oddities(&early).contains("the certificate is not valid before 20"));
    assert!(
        oddities(&ca.issue(&Wish { names: &[], ..Wish::default() })).contains("subjectAltName")
    );
    let good = ca.server(&["example.org"]).write(&folder, "good");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&good.1, std::fs::Permissions::from_mode(0o644)).unwrap();
    let source = Source::files(good.0, good.1, "test").expect("a pair");
    assert!(
        source.oddities().join(" ").contains("may be read by everybody on this machine (mode 644)")
    );
}

#[test]
fn tls_06_a_changed_pair_is_taken_and_a_wrong_one_is_not() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let (chain, key) = ca.server(&["one.example"]).write(&folder, "pair");
    let source = Source::files(chain, key.clone(), "test").expect("a pair");
    let options = Options { sources: vec![source.clone()], ..Options::default() };
    let tls = ServerTls::new(options).expect("a server");
    let config = tls.stream(&[], None);
    let served = |name: &str| name_for(&config, &ca, name);
    let looks = || (0..3).for_each(|_| source.look());
    let counts = || {
        let status = source.status();
        (status.taken, status.refused, status.broken)
    };
    looks();
    assert_eq!((served("one.example").as_str(), counts()), ("one.example", (0, 0, false)));

    let two = ca.server(&["two.example"]);
    folder.write("pair.pem", &two.chain);
    source.look();
    // The first look at a wrong pair says nothing: its other half may be on the way.
    assert_eq!((served("one.example").as_str(), counts()), ("one.example", (0, 0, false)));
    looks();
    assert_eq!((served("one.example").as_str(), counts()), ("one.example", (0, 1, true)));
    looks();
    assert_eq!(counts(), (0, 1, true), "it is said once");
    folder.write("pair.key", &two.key);
    source.look();
    assert_eq!((served("two.example").as_str(), counts()), ("two.example", (1, 1, false)));

    let expired =
        ca.issue(&Wish { names: &["old.example"], valid: (-7200, -60), ..Wish::default() });
    for (name, chain, key) in [
        ("half", &*two.chain[..200].to_owned(), &*two.key),
        ("expired", &expired.chain, &expired.key),
        ("junk", "junk", "junk"),
    ] {
        let (_, before, _) = counts();
        folder.write("pair.pem", chain);
        folder.write("pair.key", key);
        looks();
        assert_eq!(
            (served("two.example").as_str(), counts()),
            ("two.example", (1, before + 1, true)),
            "{name}"
        );
    }
    std::fs::remove_file(&key).unwrap();
    looks();
    assert_eq!((served("two.example").as_str(), counts()), ("two.example", (1, 5, true)));
    two.write(&folder, "pair");
    looks();
    assert_eq!(
        (served("two.example").as_str(), counts()),
        ("two.example", (1, 5, false)),
        "as it was"
    );
}

#[test]
fn tls_06_a_link_that_leads_elsewhere_is_a_change() {
    // As a secret of Kubernetes is mounted: FILE -> ..data/FILE, ..data -> a folder that is replaced.
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let put = |version: &str, name: &str| {
        std::fs::create_dir(folder.path(version)).unwrap();
        let issued = ca.server(&[name]);
        folder.write(&format!("{version}/tls.crt"), &issued.chain);
        folder.write(&format!("{version}/tls.key"), &issued.key);
        let new = folder.path("..data_tmp");
        std::os::unix::fs::symlink(version, &new).unwrap();
        std::fs::rename(new, folder.path("..data")).unwrap();
    };
    put("..2026_1", "one.example");
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), folder.path(name)).unwrap();
    }
    let source =
        Source::files(folder.path("tls.crt"), folder.path("tls.key"), "test").expect("a pair");
    let options = Options { sources: vec![source.clone()], ..Options::default() };
    let config = ServerTls::new(options).expect("a server").stream(&[], None);
    assert_eq!(name_for(&config, &ca, "one.example"), "one.example");
    put("..2026_2", "two.example");
    std::fs::remove_dir_all(folder.path("..2026_1")).unwrap();
    source.look();
    assert_eq!(name_for(&config, &ca, "two.example"), "two.example");
}

#[tokio::test]
async fn tls_06_files_are_watched_as_long_as_somebody_has_the_server() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let (chain, key) = ca.server(&["one.example"]).write(&folder, "pair");
    let tls = ServerTls::files(chain, key).expect("a server");
    let config = tls.stream(&[], None);
    ca.server(&["two.example"]).write(&folder, "pair");
    let begin = std::time::Instant::now();
    while name_for(&config, &ca, "two.example") != "two.example" {
        assert!(begin.elapsed().as_secs() < 10, "the new certificate is not taken");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let weak = Arc::downgrade(&tls);
    drop(tls);
    assert!(
        weak.upgrade().is_none() || {
            // A look may be under way.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            weak.upgrade().is_none()
        }
    );
}

#[test]
fn tls_09_nothing_of_a_key_is_shown() {
    let (ca, folder) = (Ca::new("ca"), Folder::new());
    let issued = ca.server(&["example.org"]);
    let (chain, key) = issued.write(&folder, "pair");
    let source = Source::files(chain.clone(), key.clone(), "test").expect("a pair");
    let tls = ServerTls::files(chain, key).expect("a server");
    let text = format!("{source:?} {tls:?} {:?} {:?}", tls.stream(&[], None), source.pair());
    for line in issued.key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!text.contains(line), "{text}");
    }
    assert!(!text.contains("PRIVATE"), "{text}");
}
