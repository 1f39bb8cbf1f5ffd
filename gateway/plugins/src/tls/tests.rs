//! The facts `tls.*`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use certs::{Answers, Challenge, ClientAuth, Proof, ServerTls};
use engine::Descriptor;
use engine::testing::Bench;
use rcgen::{CertificateParams, KeyPair};

use crate::shared::testing::{ANSWERS, logged};

/// A folder of its own with `cert.pem`, `key.pem`, `other.pem`, `other.key` and `ca.pem`; gone afterwards.
struct Folder(PathBuf);

impl Folder {
    /// With its files.
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Self(
            std::env::temp_dir().join(format!("causeway-tls-{}-{number}", std::process::id())),
        );
        std::fs::create_dir_all(&folder.0).unwrap();
        folder.pair("cert.pem", "key.pem", "one.example");
        folder.pair("other.pem", "other.key", "two.example");
        folder.pair("ca.pem", "ca.key", "ca.example");
        folder
    }

    /// Writes a certificate and its key.
    fn pair(&self, chain: &str, key_file: &str, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        self.write(chain, &params.self_signed(&key).unwrap().pem());
        self.write(key_file, &key.serialize_pem());
    }

    /// Writes a file for its owner alone.
    fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A Corefile with a block of this text at `tls://.`, whose root is this folder.
    fn corefile(&self, tls: &str) -> String {
        format!("tls://.:8853 {{\nroot {}\n{tls}\nwhoami\n}}\n", self.0.display())
    }

    /// What the listeners have, a list for each.
    fn served(&self, bench: &Bench) -> Vec<Vec<Arc<ServerTls>>> {
        let live = bench.gateway.live();
        live.groups()
            .map(|group| group.spec.tls.iter().filter_map(engine::Tls::get).collect())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn certificates_come_from_files_below_root() {
    // tls.manual, xc.root
    let folder = Folder::new();
    for (tls, auth, covers) in [
        ("tls cert.pem key.pem", ClientAuth::None, &["one.example"][..]),
        ("tls cert.pem key.pem ca.pem", ClientAuth::None, &["one.example"]),
        ("tls cert.pem key.pem {\nclient_auth request\n}", ClientAuth::Request, &["one.example"]),
        (
            "tls cert.pem key.pem {\nclient_auth nocert\nclient_auth require\n}",
            ClientAuth::Require,
            &["one.example"],
        ),
        (
            "tls cert.pem key.pem ca.pem {\nclient_auth verify_if_given\n}",
            ClientAuth::VerifyIfGiven,
            &["one.example"],
        ),
        (
            "tls {\ncertificate other.pem other.key\nclient_ca ca.pem\nclient_auth require_and_verify\n}",
            ClientAuth::RequireAndVerify,
            &["two.example"],
        ),
        (
            "tls cert.pem key.pem {\ncertificate other.pem other.key\n}",
            ClientAuth::None,
            &["one.example", "two.example"],
        ),
    ] {
        let bench = Bench::new(crate::CHAIN, &folder.corefile(tls));
        let served = folder.served(&bench);
        let [group] = &served[..] else { panic!("one listener: {served:?}") };
        let [one] = &group[..] else { panic!("one for the listener: {group:?}") };
        assert_eq!(one.client_auth(), auth, "{tls}");
        for name in ["one.example", "two.example"] {
            assert_eq!(one.covers(name), covers.contains(&name), "{tls} {name}");
        }
    }
}

#[test]
fn what_is_refused() {
    // tls.err, tls.client_auth
    let folder = Folder::new();
    folder.write("junk.pem", "junk");
    for (tls, want) in [
        (
            "tls",
            "Wrong argument count or unexpected line ending after 'tls' (write `tls CERT KEY [CA]`, or in the block",
        ),
        ("tls {\n}", "Wrong argument count or unexpected line ending after 'tls'"),
        ("tls cert.pem", "Wrong argument count or unexpected line ending after 'cert.pem'"),
        ("tls cert.pem key.pem ca.pem more", "Wrong argument count: 'more' is one too many"),
        ("tls cert.pem key.pem\ntls cert.pem key.pem", "TLS already configured"),
        ("tls cert.pem key.pem {\nfoo\n}", "'foo' is not a property"),
        ("tls cert.pem key.pem {\nclient_auth\n}", "Wrong argument count"),
        ("tls cert.pem key.pem {\nclient_auth maybe\n}", "'maybe' is not known here"),
        ("tls cert.pem key.pem {\nclient_auth request require\n}", "'require' is one too many"),
        (
            "tls cert.pem key.pem {\nclient_auth require_and_verify\n}",
            "'require_and_verify' needs a CA to check clients by (write `tls CERT KEY CA`",
        ),
        (
            "tls cert.pem key.pem ca.pem {\nclient_ca ca.pem\n}",
            "'ca.pem' is a second file of client CAs",
        ),
        ("tls cert.pem key.pem {\nkeylog\n}", "Wrong argument count"),
        ("tls cert.pem key.pem {\nkeylog none/log\n}", "none/log: cannot be written"),
        ("tls cert.pem other.key", "other.key: is not the key of the certificate in"),
        ("tls none.pem key.pem", "none.pem: no such file"),
        (
            "tls key.pem cert.pem",
            "key.pem: holds a private key and no certificate (the certificate comes first, then its key)",
        ),
        (
            "tls cert.pem key.pem junk.pem {\nclient_auth verify_if_given\n}",
            "junk.pem: holds no certificate",
        ),
        ("tls {\ncertificate cert.pem\n}", "Wrong argument count"),
        (
            "tls cert.pem key.pem {\nself_signed\n}",
            "'self_signed' stands beside certificates that come from elsewhere (keep one of them",
        ),
        (
            "tls {\nself_signed\nacme example.org\n}",
            "'acme' stands beside certificates that come from elsewhere",
        ),
        (
            "tls cert.pem key.pem {\nacme example.org\n}",
            "'acme' stands beside certificates that come from elsewhere",
        ),
        (
            "tls cert.pem key.pem {\nemail a@example.org\n}",
            "'email' is a property of ACME (write a line: acme DOMAIN...)",
        ),
        ("tls {\nself_signed\nchallenge dns-01\n}", "'challenge' is a property of ACME"),
        ("tls {\nacme\n}", "Wrong argument count"),
        ("tls {\nacme a.example.org\nacme b.example.org\n}", "'acme' stands here twice"),
        (
            "tls {\nacme example.org\nemail a@example.org\nemail b@example.org\n}",
            "'email' stands here twice",
        ),
        ("tls {\nacme example.org\nemail nobody\n}", "'nobody' is no address of mail"),
        (
            "tls {\nacme 198.51.100.1\n}",
            "'198.51.100.1' is an address: certificates by ACME are for domains",
        ),
        ("tls {\nacme [2001:db8::1]\n}", "'[2001:db8::1]' is an address"),
        ("tls {\nacme localhost\n}", "'localhost' is no domain that a CA can look at"),
        ("tls {\nacme a.*.example.org\n}", "'a.*.example.org' is no domain that a CA can look at"),
        ("tls {\nacme a_b.example.org\n}", "'a_b.example.org' is no domain"),
        (
            "tls {\nacme *.example.org\nchallenge http-01\n}",
            "'*.example.org' is a wildcard, which http-01 is not for (use dns-01",
        ),
        (
            "tls {\nacme *.example.org\nchallenge tls-alpn-01\n}",
            "'*.example.org' is a wildcard, which tls-alpn-01 is not for",
        ),
        ("tls {\nacme example.org\nchallenge dns-02\n}", "'dns-02' is not known here"),
        ("tls {\nacme example.org\nchallenge dns-01 :80\n}", "':80' is one too many"),
        ("tls {\nacme example.org\nchallenge http-01 80\n}", "'80' has no port"),
        (
            "tls {\nacme example.org\nchallenge tls-alpn-01\nclient_auth require\n}",
            "'tls-alpn-01' cannot work with client_auth require: the CA shows no certificate",
        ),
        (
            "tls {\nacme example.org\nca http://ca.example.org/dir\n}",
            "'http://ca.example.org/dir' is no https URL",
        ),
        ("tls {\nacme example.org\nca https://\n}", "'https://' is no https URL"),
        ("tls {\nacme example.org\nca https://ca.example.org:0/dir\n}", "is no https URL"),
        ("tls {\nacme example.org\nca https://ca.example.org:70000/dir\n}", "is no https URL"),
        ("tls {\nacme example.org\nca_root none.pem\n}", "none.pem: no such file"),
        ("tls {\nacme example.org\nca_root junk.pem\n}", "junk.pem: holds no certificate"),
        ("tls {\nacme example.org\nresolver 198.51.100.1\n}", "'198.51.100.1' is not HOST:PORT"),
        (
            "tls {\nacme example.org\nresolver 198.51.100.1:0\n}",
            "'198.51.100.1:0' is not HOST:PORT",
        ),
        (
            "tls {\nacme example.org\nresolver 2001:db8::1:53\n}",
            "'2001:db8::1:53' is not HOST:PORT",
        ),
        (
            "tls {\nclient_auth nocert\n}",
            "Wrong argument count or unexpected line ending after 'tls'",
        ),
    ] {
        let wrong = Bench::refused(crate::CHAIN, &folder.corefile(tls));
        assert!(wrong.starts_with("plugin/tls: ") && wrong.contains(want), "{wrong}\n{want}");
    }
    // All pairs that are wrong are told at once, each at its place.
    let corefile = folder.corefile("tls cert.pem none.key {\ncertificate none.pem other.key\n}");
    let wrong = Bench::try_new(crate::CHAIN, &corefile).expect_err("two are wrong");
    let lines: Vec<_> =
        wrong.iter().filter_map(|one| one.place.as_ref()).map(|place| place.line).collect();
    assert_eq!(lines, [3, 4]);
}

#[test]
fn a_certificate_signed_by_itself_is_for_names_and_addresses() {
    let folder = Folder::new();
    for (bind, names, covers) in [
        ("", "", &["localhost", "127.0.0.1", "::1"][..]),
        (
            "",
            " DNS.example.org *.id.example.org 198.51.100.1",
            &["dns.example.org", "a.id.example.org", "198.51.100.1", "localhost"],
        ),
        (
            "bind 127.0.0.5 2001:db8::1\n",
            " dns.example.org",
            &["dns.example.org", "127.0.0.5", "2001:db8::1"],
        ),
    ] {
        let tls = format!("{bind}tls {{\nself_signed{names}\n}}");
        let bench = Bench::new(crate::CHAIN, &folder.corefile(&tls));
        let served = folder.served(&bench).concat();
        for name in covers {
            assert!(served[0].covers(name), "{tls} {name}");
        }
        let host = crate::shared::host::hostname().to_ascii_lowercase();
        assert!(served[0].covers(&host) && !served[0].covers("other.example"), "{tls}");
    }
    // Blocks and reloads have the same one, whatever else they say.
    let two = "tls://a:8853 {\ntls {\nself_signed\n}\nwhoami\n}\ntls://b:8854 {\ntls {\nself_signed\nclient_auth request\n}\nwhoami\n}\n";
    let mut bench = Bench::new(crate::CHAIN, two);
    let before = folder.served(&bench).concat();
    assert!(!Arc::ptr_eq(&before[0], &before[1]));
    assert_eq!(before[0].status(), before[1].status());
    bench.reload(two).expect("it is the same");
    assert!(Arc::ptr_eq(&before[0], &folder.served(&bench).concat()[0]));
}

#[tokio::test]
async fn domains_have_a_certificate_each() {
    // tls.acme, tls.acme.conflict, tls.acme.async: nobody is asked before the configuration is live, and handshakes fail.
    let folder = Folder::new();
    let acme = |tls: &str| format!("tls {{\nca https://127.0.0.1:1/dir\nstorage acme\n{tls}\n}}");
    let bench = Bench::new(
        crate::CHAIN,
        &folder.corefile(&acme(
            "acme dns.example.org *.Example.org. b\u{fc}cher.example dns.example.org",
        )),
    );
    let served = folder.served(&bench).concat();
    let names: Vec<_> = served[0].status().into_iter().map(|one| one.source).collect();
    assert_eq!(names, ["acme/dns.example.org", "acme/*.example.org", "acme/xn--bcher-kva.example"]);
    assert!(!served[0].covers("dns.example.org"));
    // The same options share what sees to a domain; other ones are refused.
    let root = folder.0.display();
    let two = |one: &str, other: &str| {
        format!(
            "tls://a:8853 {{\nroot {root}\n{}\nwhoami\n}}\ntls://b:8854 {{\nroot {root}\n{}\nwhoami\n}}\n",
            acme(one),
            acme(other)
        )
    };
    Bench::new(crate::CHAIN, &two("acme a.example.org", "acme b.example.org a.example.org"));
    for other in ["email a@example.org", "challenge tls-alpn-01", "resolver 127.0.0.1:53"] {
        let wrong = Bench::refused(
            crate::CHAIN,
            &two("acme a.example.org", &format!("acme a.example.org\n{other}")),
        );
        assert!(
            wrong.contains("'a.example.org' has other options of ACME in another block"),
            "{wrong}"
        );
    }
    // tls.acme.defaults: Let's Encrypt is asked if nobody else is named.
    let with = |ca: &str| {
        let block = |port: u16, ca: &str| {
            format!(
                "tls://a:{port} {{\nroot {root}\ntls {{\nstorage acme\n{ca}\nacme a.example.org\n}}\nwhoami\n}}\n"
            )
        };
        block(8853, "") + &block(8854, ca)
    };
    Bench::new(crate::CHAIN, &with("ca https://acme-v02.api.letsencrypt.org/directory"));
    let other = "ca https://acme-staging-v02.api.letsencrypt.org/directory";
    assert!(Bench::refused(crate::CHAIN, &with(other)).contains("has other options of ACME"));
    // A reload may change them.
    let mut bench = Bench::new(crate::CHAIN, &folder.corefile(&acme("acme a.example.org")));
    bench
        .reload(&folder.corefile(&acme("acme a.example.org\nemail a@example.org")))
        .expect("it is good");
    // Pages of http-01 are there once.
    let http = "challenge http-01 127.0.0.1:8080";
    let bench = Bench::new(
        crate::CHAIN,
        &two(&format!("acme a.example.org\n{http}"), &format!("acme b.example.org\n{http}")),
    );
    let pages: Vec<_> =
        bench.built.pages.iter().map(|page| format!("{}{}", page.addr, page.path)).collect();
    assert_eq!(pages, ["127.0.0.1:8080/.well-known/acme-challenge/"]);
    let bench =
        Bench::new(crate::CHAIN, &folder.corefile(&acme("acme a.example.org\nchallenge http-01")));
    assert_eq!(bench.built.pages[0].addr.to_string(), "[::]:80");
}

/// What the plugin of the next test shows.
static SHOWN: std::sync::LazyLock<Arc<Answers>> = std::sync::LazyLock::new(Arc::default);

/// Answers for domains as `tls` does.
static SHOWS: Descriptor = Descriptor {
    name: "tls",
    readme: "",
    setup: |setup| {
        super::challenge::Records::install(setup, Arc::clone(&SHOWN));
        super::challenge::Records::install(setup, Arc::clone(&SHOWN));
        Ok(())
    },
};

#[test]
fn records_of_a_challenge_are_answered_in_every_block() {
    // tls.acme.dns01, tls.name
    static PLUGINS: &[&Descriptor] = &[&SHOWS, &ANSWERS];
    let bench = Bench::new(PLUGINS, "a.test:5301 {\ntls\nanswers\n}\n.:5302 {\nanswers\n}\n");
    let other = "NOERROR aa rd | _acme-challenge.b.test. 30 A 198.51.100.1";
    assert_eq!(bench.now("_acme-challenge.b.test TXT +port=5302"), other);
    let digest = [0; 32];
    let proof = |domain, encoded| Proof {
        challenge: Challenge::Dns,
        domain,
        token: "token",
        text: "text",
        digest: &digest,
        encoded,
    };
    let first = SHOWN.show(&proof("b.test", "one")).expect("shown");
    let second = SHOWN.show(&proof("b.test", "two")).expect("shown");
    for (line, want) in [
        (
            "_acme-challenge.b.test TXT +port=5302",
            "NOERROR aa rd | _acme-challenge.b.test. 0 TXT \"one\"; _acme-challenge.b.test. 0 TXT \"two\"",
        ),
        (
            "_ACME-Challenge.B.test TXT +port=5302",
            "NOERROR aa rd | _acme-challenge.b.test. 0 TXT \"one\"; _acme-challenge.b.test. 0 TXT \"two\"",
        ),
        // That the name does not exist is not said by any type.
        ("_acme-challenge.b.test A +port=5302", "NOERROR aa rd"),
        ("_acme-challenge.b.test CH TXT +port=5302", "REFUSED rd"),
        (
            "_acme-challenge.c.test TXT +port=5302",
            "NOERROR aa rd | _acme-challenge.c.test. 30 A 198.51.100.1",
        ),
        ("b.test TXT +port=5302", "NOERROR aa rd | b.test. 30 A 198.51.100.1"),
        // A block has to take the name.
        ("_acme-challenge.b.test TXT +port=5301", "REFUSED rd"),
    ] {
        assert!(bench.now(line).starts_with(want), "{line}: {}", bench.now(line));
    }
    drop((first, second));
    assert_eq!(bench.now("_acme-challenge.b.test TXT +port=5302"), other);
    let live = bench.gateway.live();
    for site in live.sites() {
        let names: Vec<_> = site.chain.iter().map(|link| link.name).collect();
        assert_eq!(names, ["tls", "answers"]);
    }
}

#[test]
fn what_is_odd_is_said() {
    // tls.keylog, TLS-09
    let folder = Folder::new();
    let warnings = |tls: &str| {
        let bench = Bench::new(crate::CHAIN, &folder.corefile(tls));
        bench.built.warnings.iter().map(|one| one.what.clone()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warnings("tls cert.pem key.pem"), "");
    let log = folder.0.join("log");
    assert_eq!(
        warnings("tls cert.pem key.pem {\nkeylog log\n}"),
        format!("plugin/tls: Writing TLS Key Log to \"{}\"", log.display())
    );
    assert!(log.exists());
    assert!(warnings("tls cert.pem key.pem ca.pem").starts_with(
        "plugin/tls: 'ca.pem' is not used: client_auth is nocert, and only verify_if_given"
    ));
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(folder.0.join("key.pem"), open).unwrap();
    assert!(warnings("tls cert.pem key.pem").contains("key.pem: the key may be read by everybody"));
}

#[test]
fn equal_directives_are_one_over_blocks_and_reloads() {
    // tls.resumption, tls.plain: a plain block has it without effect.
    let folder = Folder::new();
    let corefile = |tls: &str| {
        let root = folder.0.display();
        format!(
            "tls://.:8853 https://.:8443 {{\nroot {root}\n{tls}\nwhoami\n}}\n.:8053 {{\nroot {root}\n{tls}\nwhoami\n}}\n"
        )
    };
    let mut bench = Bench::new(crate::CHAIN, &corefile("tls cert.pem key.pem"));
    let all = |bench: &Bench| folder.served(bench).concat();
    let before = all(&bench);
    assert!(before.len() >= 3);
    bench.reload(&corefile("tls cert.pem key.pem")).expect("it is the same");
    for one in before.iter().chain(&all(&bench)) {
        assert!(Arc::ptr_eq(one, &before[0]));
    }
    bench.reload(&corefile("tls cert.pem key.pem {\nclient_auth request\n}")).expect("it is good");
    assert!(all(&bench).iter().all(|one| !Arc::ptr_eq(one, &before[0])));
}

#[test]
fn blocks_of_a_listener_are_served_together() {
    // tx.tls.pick
    let folder = Folder::new();
    let root = folder.0.display();
    let corefile = format!(
        "tls://a.example:8853 {{\nroot {root}\ntls cert.pem key.pem\nwhoami\n}}\n\
         tls://b.example:8853 {{\nroot {root}\ntls other.pem other.key\nwhoami\n}}\n"
    );
    let bench = Bench::new(crate::CHAIN, &corefile);
    let served = folder.served(&bench);
    assert_eq!(served.len(), 1);
    let merged = ServerTls::merge(&served[0]).expect("they agree");
    assert!(merged.covers("one.example") && merged.covers("two.example"));
}

#[test]
fn certificates_have_metrics() {
    let folder = Folder::new();
    let _bench = Bench::new(
        crate::CHAIN,
        &folder.corefile("tls cert.pem key.pem ca.pem {\nclient_auth verify_if_given\n}"),
    );
    let text = engine::metrics::render();
    let (cert, ca) = (folder.0.join("cert.pem"), folder.0.join("ca.pem"));
    let expiry = format!(
        "causeway_tls_certificate_expiry_timestamp_seconds{{name=\"one.example\",source=\"{}\"}} ",
        cert.display()
    );
    let line = text.lines().find_map(|line| line.strip_prefix(&expiry)).expect("an expiry");
    assert!(line.parse::<f64>().unwrap() > 4e9, "{line}");
    for file in [&cert, &ca] {
        for (name, value) in [
            ("causeway_tls_swaps_total", 0),
            ("causeway_tls_refused_swaps_total", 0),
            ("causeway_tls_broken", 0),
        ] {
            let want = format!("{name}{{source=\"{}\"}} {value}", file.display());
            assert!(text.lines().any(|line| line == want), "{want}\n{text}");
        }
    }
    assert!(logged().iter().all(|line| !line.contains("PRIVATE")));
}
