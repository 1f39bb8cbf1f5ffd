//! Browsers that resolve by the gateway alone, each in a network of its own where nothing else could answer.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::process::run;
use tests::{Edge, Folder, Namespace, Process, until};

/// How long a browser may take, its first start on a busy machine included.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the page says.
const PAGE: &str = "<!doctype html><title>found</title><p>resolved by the gateway</p>";

/// Serves the page on 127.0.0.80, where `www.example.test` is, in a namespace; gives its port.
fn website(namespace: &Namespace) -> u16 {
    let listener = namespace.enter(|| TcpListener::bind(("127.0.0.80", 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 4096];
                // A browser opens connections ahead of its requests.
                if matches!(stream.read(&mut request), Ok(1..)) {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
                    drop(write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{PAGE}", PAGE.len()));
                }
            });
        }
    });
    port
}

/// Makes the store of certificates of a browser's user, with the test's authority in it.
fn trust(edge: &Edge<'_>, folder: &std::path::Path) {
    std::fs::create_dir_all(folder).unwrap();
    let store = format!("sql:{}", folder.display());
    run(Command::new("certutil").args(["-d", &store, "-N", "--empty-password"]));
    run(Command::new("certutil")
        .args(["-d", &store, "-A", "-t", "C,,", "-n", "test", "-i"])
        .arg(edge.pki.ca()));
}

/// Fails unless the gateway was asked for the page's address over this transport, and over no other.
fn resolved(edge: &Edge<'_>, scheme: &str, output: &str) {
    let log = edge.gateway.output();
    assert!(log.contains("asked www.example.test. A "), "{output}\n{log}");
    for other in ["dns", "tls", "quic", "https", "https3", "grpc"] {
        let asked = edge.asked(other);
        assert_eq!(asked > 0, other == scheme, "{other}: {asked}\n{output}\n{log}");
    }
}

/// Opens the page in Chromium, whose only resolver is the gateway's template, and gives what it printed.
fn chromium(edge: &Edge<'_>, template: &str, port: u16, flags: &[&str]) -> String {
    let home = Folder::new("chromium");
    for store in [".pki/nssdb", ".local/share/pki/nssdb"] {
        trust(edge, &home.path().join(store));
    }
    home.write(
        "data/Local State",
        format!(r#"{{"dns_over_https":{{"mode":"secure","templates":"{template}"}}}}"#),
    );
    let mut command = edge.command("timeout");
    command
        .args(["--kill-after=5", "60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .args(["--disable-sync", "--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}/data", home.path().display()))
        .args(flags)
        .arg(format!("http://www.example.test:{port}/"))
        .env("HOME", home.path())
        .stdin(Stdio::null());
    let mut process = Process::start("chromium", command);
    let ended = process.wait(PATIENCE);
    let output = process.rest();
    assert!(
        ended.is_some() && output.contains("resolved by the gateway"),
        "{output}\n{}",
        edge.gateway.output()
    );
    output
}

#[test]
fn chromium_over_h2() {
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let port = website(&namespace);
    let https = edge.gateway.address_of("https").port();
    let get = format!("https://127.0.0.1:{https}/dns-query{{?dns}}");
    let output = chromium(&edge, &get, port, &["--disable-quic"]);
    resolved(&edge, "https", &output);
    // Without a variable in the template it posts.
    let before = edge.asked("https");
    let output =
        chromium(&edge, &format!("https://127.0.0.1:{https}/dns-query"), port, &["--disable-quic"]);
    resolved(&edge, "https", &output);
    assert!(edge.asked("https") > before);
}

#[test]
fn chromium_over_h3() {
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let port = website(&namespace);
    let https = edge.gateway.address_of("https").port();
    // Over QUIC it trusts private authorities only if the key is named.
    let hash = run(Command::new("sh").arg("-ec").arg(format!(
        "openssl x509 -in {} -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
        edge.pair.chain.display()
    )));
    let output = chromium(
        &edge,
        &format!("https://127.0.0.1:{https}/dns-query{{?dns}}"),
        port,
        &[
            "--enable-quic",
            &format!("--origin-to-force-quic-on=127.0.0.1:{https}"),
            &format!("--ignore-certificate-errors-spki-list={}", hash.trim()),
        ],
    );
    resolved(&edge, "https3", &output);
}

/// Opens the page in Firefox, whose only resolver is the gateway.
fn firefox(edge: &Edge<'_>, port: u16, mode: u8, more: &str) -> String {
    let profile = Folder::new("firefox");
    trust(edge, profile.path());
    let https = edge.gateway.address_of("https").port();
    profile.write(
        "user.js",
        format!(
            r#"
user_pref("network.trr.mode", {mode});
user_pref("network.trr.uri", "https://dns.test:{https}/dns-query");
user_pref("network.trr.custom_uri", "https://dns.test:{https}/dns-query");
user_pref("network.trr.bootstrapAddr", "127.0.0.1");
user_pref("network.trr.confirmationNS", "example.com");
user_pref("network.trr.allow-rfc1918", true);
user_pref("network.trr.excluded-domains", "");
user_pref("network.trr.builtin-excluded-domains", "");
user_pref("network.dns.skipTRR-when-parental-control-enabled", false);
user_pref("app.update.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
{more}
"#
        ),
    );
    let picture = profile.path().join("page.png");
    let mut command = edge.command("timeout");
    command
        .args(["--kill-after=5", "60", "firefox-esr", "--headless", "--no-remote", "--profile"])
        .arg(profile.path())
        .arg("--screenshot")
        .arg(&picture)
        .arg(format!("http://www.example.test:{port}/"))
        .env("HOME", profile.path())
        .env("MOZ_DISABLE_CONTENT_SANDBOX", "1")
        .stdin(Stdio::null());
    let mut process = Process::start("firefox", command);
    let ended = process.wait(PATIENCE);
    let output = process.rest();
    assert!(
        ended.is_some_and(|s| s.success()) && picture.exists(),
        "{output}\n{}",
        edge.gateway.output()
    );
    output
}

#[test]
fn firefox_over_h2() {
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let port = website(&namespace);
    let output = firefox(&edge, port, 3, "user_pref(\"network.http.http3.enable\", false);");
    resolved(&edge, "https", &output);
}

#[test]
fn firefox_confirms_the_resolver_and_prefers_it() {
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let port = website(&namespace);
    // There is no other resolver, so the page shows that the confirmation was good.
    let output = firefox(&edge, port, 2, "user_pref(\"network.http.http3.enable\", false);");
    let confirmed = || edge.gateway.output().contains("asked example.com. NS ").then_some(());
    assert!(
        until(Duration::from_secs(1), confirmed).is_some(),
        "{output}\n{}",
        edge.gateway.output()
    );
    resolved(&edge, "https", &output);
}

#[test]
fn firefox_over_h3() {
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let port = website(&namespace);
    let more = r#"
user_pref("network.trr.force_http3_first", true);
user_pref("network.http.http3.enable", true);
user_pref("network.http.http3.disable_when_third_party_roots_found", false);
"#;
    let output = firefox(&edge, port, 3, more);
    resolved(&edge, "https3", &output);
}
