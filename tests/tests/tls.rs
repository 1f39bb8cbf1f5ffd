//! What *tls* promises, seen from outside: which certificate is served and when it is replaced, who has to show one, sessions, and
//! what `causeway check` says. The names of tests begin with the IDs of the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests::pki::{Leaf, Pair};
use tests::tls::Client;
use tests::{Folder, Gateway, Pki, Query, gateway, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A gateway with these words of `tls` at `@PORT@`, and metrics.
fn start(tls: &str) -> Gateway {
    Gateway::new(&format!(
        "tls://.:@PORT@ {{\n bind 127.0.0.1\n tls {tls}\n prometheus 127.0.0.1:@PORT:metrics@\n whoami\n}}\n"
    ))
    .start()
}

/// Asks over TLS on a connection of its own; the certificate that came, unless there is no answer.
fn ask(client: &Client, server: SocketAddr) -> Option<Vec<u8>> {
    let mut connection = client.connect(server).ok()?;
    connection.send(&Query::from("www.example.org"));
    connection.receive()?;
    Some(connection.session.peer_certificates()?.first()?.to_vec())
}

/// What `openssl s_client` says, with nothing to say itself.
fn openssl(server: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &server.to_string()]).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, wrong) = (output.stdout, output.stderr);
    format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&wrong))
}

/// What `causeway check` says of a Corefile, and whether it is right.
fn check(folder: &Folder, tls: &str) -> (bool, String) {
    let corefile = format!("tls://. {{\n tls {tls}\n whoami\n}}\n");
    let path = folder.write("Corefile", corefile);
    let mut command = Command::new(gateway::binary());
    command.env("CAUSEWAY_DATA_DIR", folder.path().join("data"));
    let output = command.arg("check").arg(path).output().unwrap();
    let (out, wrong) = (output.stdout, output.stderr);
    let text = format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&wrong));
    (output.status.success(), text)
}

/// A sample of the gateway's metrics.
fn metric(gateway: &Gateway, name: &str, source: &Path) -> f64 {
    let source = format!("source=\"{}\"", source.display());
    let samples = gateway.metrics("metrics");
    let found = samples.iter().find(|(key, _)| key.starts_with(name) && key.contains(&source));
    *found.unwrap_or_else(|| panic!("no {name} of {source}: {samples:#?}")).1
}

/// Puts a pair into a folder of its own, and has the link lead there, as Kubernetes does.
fn put(pair: &Pair, folder: &Path, version: &str) {
    let place = folder.join(version);
    std::fs::create_dir(&place).unwrap();
    std::fs::copy(&pair.chain, place.join("tls.crt")).unwrap();
    std::fs::copy(&pair.key, place.join("tls.key")).unwrap();
    symlink(version, folder.join("..new")).unwrap();
    std::fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
}

#[test]
fn tls_01_old_versions_and_weak_suites_are_not_there() {
    let pki = Pki::new();
    let gateway = start(&pki.server("server", &["dns.example.org"]).to_string());
    for old in ["-tls1", "-tls1_1"] {
        let said = openssl(gateway.address(), &[old, "-cipher", "ALL:@SECLEVEL=0"]);
        assert!(said.contains("alert"), "{old}: {said}");
        assert!(!said.contains("Cipher is ECDHE"), "{old}: {said}");
    }
    // Each suite that this openssl has for TLS 1.2, alone.
    let listed =
        Command::new("openssl").args(["ciphers", "-tls1_2", "-s", "ALL:@SECLEVEL=0"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let suites: Vec<&str> =
        listed.trim().split(':').filter(|name| !name.starts_with("TLS_")).collect();
    assert!(suites.len() > 20, "{suites:?}");
    let taken = suites.iter().filter(|suite| {
        let cipher = format!("{suite}:@SECLEVEL=0");
        let said = openssl(gateway.address(), &["-tls1_2", "-cipher", &cipher]);
        said.contains(&format!("Cipher is {suite}"))
    });
    let taken: Vec<_> = taken.copied().collect();
    assert!(!taken.is_empty());
    for suite in taken {
        assert!(
            suite.starts_with("ECDHE-") && (suite.contains("GCM") || suite.contains("CHACHA20")),
            "{suite}"
        );
    }
}

#[test]
fn tls_03_tickets_are_good_at_one_listener_and_for_one_kind_of_client() {
    let pki = Pki::new();
    let folder = Folder::new("sessions");
    let pair = pki.server("server", &["dns.example.org"]);
    let gateway = Gateway::new(&format!(
        "tls://.:@PORT@ {{\n bind 127.0.0.1\n tls {pair}\n whoami\n}}\n\
         tls://.:@PORT:mutual@ {{\n bind 127.0.0.1\n tls {pair} {{\n  client_auth request\n }}\n whoami\n}}\n"
    ))
    .start();
    for version in ["-tls1_2", "-tls1_3"] {
        let file = folder.path().join(version).display().to_string();
        // The ticket of TLS 1.3 comes behind the handshake: with the first reply at the latest.
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-connect",
            &gateway.address().to_string(),
            version,
            "-sess_out",
            &file,
        ]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let kept = until(LIMIT, || std::fs::metadata(&file).ok().filter(|file| file.len() > 0));
        assert!(kept.is_some(), "{version}: no ticket");
        drop(child.stdin.take());
        child.wait().unwrap();
        let session =
            Command::new("openssl").args(["sess_id", "-text", "-noout", "-in", &file]).output();
        let session = String::from_utf8(session.unwrap().stdout).unwrap();
        let hint = session.lines().find_map(|line| {
            line.trim()
                .strip_prefix("TLS session ticket lifetime hint: ")?
                .split(' ')
                .next()?
                .parse::<u32>()
                .ok()
        });
        assert!((1..=24 * 3600).contains(&hint.unwrap()), "{session}");
        let again = |name: &str| openssl(gateway.address_of(name), &[version, "-sess_in", &file]);
        assert!(again("").contains("Reused, TLSv1"), "{version}");
        let other = again("mutual");
        assert!(other.contains("New, TLSv1") && !other.contains("Reused"), "{version}: {other}");
    }
}

#[test]
fn tls_06_certificates_are_swapped_under_load_without_a_query_lost() {
    // As a Kubernetes secret is mounted: the files are links through `..data`.
    let pki = Pki::new();
    let folder = Folder::new("secret");
    let here = folder.path();
    let names = &["dns.example.org", "127.0.0.1"];
    put(&pki.server("v0", names), here, "..v0");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), here.join(name)).unwrap();
    }
    let chain = here.join("tls.crt");
    let gateway = start(&format!("{} {}", chain.display(), here.join("tls.key").display()));
    // A session that is resumed shows the certificate that it began with, so every client is a new one.
    let new_client = || Client::new(pki.ca());
    let (server, stop) = (gateway.address(), AtomicBool::new(false));
    let (good, bad) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (stop, good, bad, new_client) = (&stop, &good, &bad, &new_client);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let count = if ask(&new_client(), server).is_some() { good } else { bad };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Whatever happens, the threads end.
        let swapped = catch_unwind(AssertUnwindSafe(|| {
            for version in 1..=4 {
                let pair = pki.server(&format!("v{version}"), names);
                let before = ask(&new_client(), server).unwrap();
                put(&pair, here, &format!("..v{version}"));
                let begin = Instant::now();
                let new = until(LIMIT, || ask(&new_client(), server).filter(|now| *now != before));
                assert!(new.is_some(), "it is taken up");
                assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
                assert_eq!(ask(&new_client(), server), new, "the old one does not come back");
            }
        }));
        stop.store(true, Ordering::Relaxed);
        swapped.unwrap();
    });
    assert_eq!(bad.into_inner(), 0);
    assert!(good.into_inner() > 20);
    assert_eq!(metric(&gateway, "causeway_tls_swaps_total", &chain), 4.0);
    assert_eq!(metric(&gateway, "causeway_tls_broken", &chain), 0.0);
}

#[test]
fn tls_06_what_is_wrong_is_not_taken_and_said_once() {
    let pki = Pki::new();
    let names = &["dns.example.org", "127.0.0.1"];
    let pair = pki.server("server", names);
    let gateway = start(&pair.to_string());
    let new_client = || Client::new(pki.ca());
    let first = ask(&new_client(), gateway.address()).unwrap();
    let whole = std::fs::read_to_string(&pair.chain).unwrap();
    let other = pki.server("other", names);
    let late = pki.issue("late", Leaf::server(names).expired());
    for (count, (text, said)) in [
        (whole[..whole.len() / 2].to_owned(), "is PEM that breaks off before its END line"),
        (String::new(), "is empty"),
        (std::fs::read_to_string(&other.chain).unwrap(), "is not the key of the certificate in"),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&pair.chain, text).unwrap();
        let line = gateway.line(said);
        assert!(line.starts_with("[WARNING] plugin/tls: "), "{line}");
        assert!(line.contains("; what was read before stays in use"), "{line}");
        assert_eq!(ask(&new_client(), gateway.address()).as_ref(), Some(&first));
        let refused = metric(&gateway, "causeway_tls_refused_swaps_total", &pair.chain);
        assert_eq!(refused, [1.0, 2.0, 3.0][count]);
        assert_eq!(metric(&gateway, "causeway_tls_broken", &pair.chain), 1.0);
        assert_eq!(gateway.output().matches(said).count(), 1);
    }
    std::fs::copy(&late.key, &pair.key).unwrap();
    std::fs::copy(&late.chain, &pair.chain).unwrap();
    gateway.line("the certificate has expired on 20");
    std::fs::remove_file(&pair.chain).unwrap();
    gateway.line("no such file");
    assert_eq!(ask(&new_client(), gateway.address()).as_ref(), Some(&first));
    std::fs::copy(&other.key, &pair.key).unwrap();
    std::fs::copy(&other.chain, &pair.chain).unwrap();
    let new = until(LIMIT, || ask(&new_client(), gateway.address()).filter(|now| *now != first));
    assert!(new.is_some(), "{}", gateway.output());
    assert!(!gateway.output().contains("PRIVATE KEY"));
}

#[test]
fn tls_07_cas_of_clients_are_replaced_while_they_are_in_use() {
    let (pki, strangers) = (Pki::new(), Pki::new());
    let folder = Folder::new("cas");
    let cas = folder.write("cas.pem", std::fs::read(pki.ca()).unwrap());
    let pair = pki.server("server", &["127.0.0.1"]);
    let gateway =
        start(&format!("{pair} {} {{\n client_auth require_and_verify\n }}", cas.display()));
    let known = Client::known(pki.ca(), &pki.issue("one", Leaf::client("one", &[])));
    let other = Client::known(pki.ca(), &strangers.issue("two", Leaf::client("two", &[])));
    let server = gateway.address();
    assert!(ask(&known, server).is_some() && ask(&other, server).is_none());
    assert!(ask(&known, server).is_some(), "by its ticket");
    folder.write("cas.pem", std::fs::read(strangers.ca()).unwrap());
    until(LIMIT, || ask(&other, server)).expect("the new ones are taken up");
    assert!(ask(&known, server).is_none(), "its ticket ended with its CA");
    assert_eq!(metric(&gateway, "causeway_tls_swaps_total", &cas), 1.0);
}

#[test]
fn tls_08_tls_09_check_says_what_is_wrong_with_files() {
    let pki = Pki::new();
    let folder = Folder::new("check");
    let names = &["dns.example.org"];
    let good = pki.server("good", names);
    let other = pki.server("other", names);
    let staple = |params: &mut rcgen::CertificateParams| {
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 24];
        let extension = rcgen::CustomExtension::from_oid_content(&oid, vec![0x30, 3, 2, 1, 5]);
        params.custom_extensions.push(extension);
    };
    let stapled = pki.issue("stapled", Leaf::server(names).change(staple));
    let encrypted = folder.path().join("encrypted.key").display().to_string();
    let made = Command::new("openssl")
        .args([
            "pkey",
            "-in",
            &good.key.display().to_string(),
            "-aes128",
            "-passout",
            "pass:secret",
            "-out",
            &encrypted,
        ])
        .status();
    assert!(made.unwrap().success());
    let (is_right, said) = check(&folder, &good.to_string());
    assert!(is_right && said.contains("is right: 1 block\n"), "{said}");
    let (chain, key) = (good.chain.display(), good.key.display());
    for (words, cause, remedy) in [
        (
            format!("{chain} {}", other.key.display()),
            "other.key: is not the key of the certificate in",
            "the first certificate of the chain",
        ),
        (
            format!("{key} {chain}"),
            "good.key: holds a private key and no certificate",
            "the certificate comes first",
        ),
        (
            format!("{chain} {encrypted}"),
            "encrypted.key: holds an encrypted key",
            "openssl pkey -in FILE -out NEW",
        ),
        (format!("{chain} /none"), "/none: no such file", ""),
        (
            stapled.to_string(),
            "the certificate demands a stapled OCSP response (must-staple, RFC 7633)",
            "ask the CA",
        ),
    ] {
        let (is_right, said) = check(&folder, &words);
        assert!(!is_right && said.contains(cause) && said.contains(remedy), "{said}\n{cause}");
        assert!(said.contains("Corefile:2"), "{said}");
    }
    let late = pki.issue("late", Leaf::server(names).expired());
    let early = pki.issue("early", Leaf::server(names).early());
    let open = pki.server("open", names);
    std::fs::set_permissions(&open.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (pair, odd) in [
        (&late, "the certificate has expired on 20"),
        (&early, "the certificate is not valid before 20"),
        (&open, "the key may be read by everybody on this machine (mode 644): chmod 600 or 640"),
    ] {
        let (is_right, said) = check(&folder, &pair.to_string());
        assert!(is_right && said.contains(odd) && said.contains("[WARNING]"), "{said}\n{odd}");
    }
    // Nothing is made by a check.
    let (is_right, said) = check(&folder, "{\n self_signed\n }");
    assert!(is_right, "{said}");
    assert!(!folder.path().join("data").exists());
}

#[test]
fn tls_09_expiry_is_a_metric_and_is_warned_of() {
    let pki = Pki::new();
    let soon = pki.issue(
        "soon",
        Leaf::server(&["dns.example.org"]).ends_in(Duration::from_secs(6 * 86_400)).change(
            |params| {
                params.not_before =
                    (std::time::SystemTime::now() - Duration::from_secs(84 * 86_400)).into();
            },
        ),
    );
    let gateway = start(&soon.to_string());
    let line = gateway.line("the certificate of dns.example.org expires on 20");
    assert!(
        line.starts_with("[WARNING] plugin/tls: ") && line.ends_with("in 6 days or less"),
        "{line}"
    );
    let until = metric(&gateway, "causeway_tls_certificate_expiry_timestamp_seconds", &soon.chain);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((until - now.as_secs_f64() - 6.0 * 86_400.0).abs() < 600.0, "{until}");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(gateway.output().matches("expires on 20").count(), 1, "it is said once");
}

#[test]
fn tls_10_a_listener_speaks_its_own_protocol_alone() {
    let pki = Pki::new();
    let pair = pki.server("server", &["dns.example.org"]);
    let gateway = Gateway::new(&format!(
        "tls://.:@PORT:dot@ https://.:@PORT:doh@ {{\n bind 127.0.0.1\n tls {pair}\n whoami\n}}\n"
    ))
    .start();
    for (name, asked, want) in [
        ("dot", "dot", "ALPN protocol: dot"),
        ("dot", "h2", "no application protocol"),
        ("dot", "acme-tls/1", "no application protocol"),
        ("doh", "h2", "ALPN protocol: h2"),
        ("doh", "http/1.1", "ALPN protocol: http/1.1"),
        ("doh", "dot", "no application protocol"),
    ] {
        let said = openssl(gateway.address_of(name), &["-alpn", asked]);
        assert!(said.contains(want), "{name} {asked}: {said}");
    }
    let said = openssl(gateway.address_of("dot"), &[]);
    assert!(said.contains("No ALPN negotiated") && said.contains("Cipher is TLS_"), "{said}");
}

#[test]
fn a_certificate_signed_by_itself_is_kept_over_starts() {
    let data = Folder::new("data");
    let place = data.path().display();
    let run = || {
        Gateway::new("tls://.:@PORT@ {\n bind 127.0.0.1\n tls {\n  self_signed dns.example.org\n }\n whoami\n}\n")
            .argument("-set")
            .argument(&format!("data_dir={place}"))
            .start()
    };
    let fingerprint = |gateway: &Gateway| {
        let line = gateway.line("SHA-256 fingerprint ");
        assert_eq!(gateway.output().matches("SHA-256 fingerprint ").count(), 1);
        assert!(
            line.contains("dns.example.org, localhost, ") && line.contains("127.0.0.1, ::1"),
            "{line}"
        );
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    let mut gateway = run();
    let first = fingerprint(&gateway);
    let said = openssl(gateway.address(), &["-showcerts"]);
    let pem = said.split_inclusive("-----END CERTIFICATE-----").next().unwrap();
    let pem = &pem[pem.find("-----BEGIN").unwrap()..];
    let file = data.write("shown.pem", pem);
    let shown = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in", &file.display().to_string()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&first), "{shown} {first}");
    let port = gateway.address().port().to_string();
    for name in ["dns.example.org", "localhost"] {
        let asked = Command::new("kdig")
            .args(["@127.0.0.1", "-p", &port, &format!("+tls-ca={}", file.display())])
            .args([&format!("+tls-hostname={name}"), "www.example.org"])
            .output()
            .unwrap();
        let asked = String::from_utf8(asked.stdout).unwrap();
        assert!(asked.contains("status: NOERROR"), "{name}: {asked}");
    }
    gateway.reload();
    gateway.line("Reloading complete");
    gateway.stop();
    let again = run();
    assert_eq!(fingerprint(&again), first);
}

#[test]
fn what_is_sent_to_a_client_without_a_name_is_small() {
    let pki = Pki::new();
    let gateway = start(&pki.server("server", &["dns.example.org"]).to_string());
    let said = openssl(gateway.address(), &["-noservername"]);
    let read = said.lines().find_map(|line| line.strip_prefix("SSL handshake has read "));
    let octets: usize = read.unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(octets < 3000, "{octets} octets with a chain of two");
}

#[test]
fn dot_04_names_and_addresses_are_in_the_certificate_and_its_chain_comes_whole() {
    let pki = Pki::new();
    let pair = pki.server("server", &["dns.example.org", "127.0.0.1"]);
    let gateway = start(&pair.to_string());
    // The client knows the root alone, so that what is between has to come, and the root need not.
    let connection = Client::new(pki.ca()).connect(gateway.address()).unwrap();
    assert_eq!(connection.session.peer_certificates().unwrap().len(), 2);
    assert!(ask(&Client::new(pki.ca()).named("127.0.0.1"), gateway.address()).is_some());
    for stranger in ["other.example.org", "127.0.0.2"] {
        assert!(
            ask(&Client::new(pki.ca()).named(stranger), gateway.address()).is_none(),
            "{stranger}"
        );
    }
}
