//! Credentials that are replaced again and again while clients ask: no answer fails, and each new one is used.

mod authority;
mod bench;
mod moved;
mod pod;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use tests::{Api, Folder, until};

use crate::authority::{Authority, LONG, certified};
use crate::bench::{Bench, LIMIT, cluster, issue, objects, project, rotations, seen};

/// The gauge of when credentials end.
const EXPIRY: &str = "causeway_kubernetes_credential_expiry_timestamp_seconds";

/// How long the certificate is good that ends while it is in use, in seconds.
const SHORT: u64 = 8;

#[test]
fn tokens_are_replaced_and_no_client_notices() {
    let cluster = cluster();
    cluster.apply(&objects("tokens"));
    let mut session = Api::new(cluster, "admin").session();
    let mut issue = || issue(&mut session, "tokens");
    let folder = Folder::new("token");
    project(&folder, 0, &[("token", &issue())]);
    let user = format!("{{tokenFile: '{}'}}", folder.path().join("token").display());
    let mut bench = Bench::start("tokens", &folder, &user);
    for number in 1..=rotations() {
        project(&folder, number, &[("token", &issue())]);
        // Requests that run are not touched by a token; those that come bring the new one.
        bench.relay.cut();
        bench.turn();
    }
    let count = bench.watchman.end(&bench.gateway);
    let used = seen("system:serviceaccount:tokens:gateway").len();
    println!("{} rotations of a token: {count} answers, none failed", rotations());
    assert_eq!(used, rotations() + 1, "tokens that the API server saw\n{}", bench.gateway.output());
    assert!(!bench.gateway.output().contains("eyJ"), "a token is in the log");
}

#[test]
fn certificates_are_replaced_and_no_client_notices() {
    let (folder, mut bench) = certified("certificates", LONG);
    for number in 1..=rotations() {
        let (certificate, key) = Authority::get().issue("certificates", LONG);
        // They are read again after a request that failed, which may be between the two files.
        let before = bench.failures();
        bench.relay.close();
        let failed = || (bench.failures() > before).then_some(());
        until(LIMIT, failed).unwrap_or_else(|| panic!("no failure:\n{}", bench.gateway.output()));
        folder.write("me.crt", certificate);
        sleep(Duration::from_millis(if number % 2 == 0 { 300 } else { 50 }));
        folder.write("me.key", key);
        bench.relay.open();
        bench.turn();
    }
    let count = bench.watchman.end(&bench.gateway);
    println!("{} rotations of a certificate: {count} answers, none failed", rotations());
    let (used, log) = (seen("certificates").len(), bench.gateway.output());
    assert_eq!(used, rotations() + 1, "certificates that the API server saw\n{log}");
    assert!(!log.contains("PRIVATE KEY"), "a key is in the log");
}

#[test]
fn a_certificate_that_has_ended_gives_way_to_the_one_on_disk() {
    let (folder, mut bench) = certified("ended", SHORT);
    // It is told beforehand: by the gauge from the first moment on, and by the log while it is good.
    let file = folder.path().join("me.crt");
    let first = end(&file);
    assert_eq!(expiry(&bench, "client_certificate"), Some(first), "{}", bench.gateway.output());
    let warning = bench.gateway.line("the client certificate of the file");
    assert!(warning.starts_with("[WARNING]"), "{warning}");
    for part in [&*file.to_string_lossy(), " ends in ", " s: replace it, it is taken over without"]
    {
        assert!(warning.contains(part), "{part:?} is not in {warning:?}");
    }
    // It ends, and nothing else is there yet: whoever comes with it now is nobody that the API server knows.
    sleep(Duration::from_secs(SHORT + 1));
    bench.relay.cut();
    bench.gateway.line("401");
    assert!(bench.gateway.line("has ended: replace it").contains("client certificate"));
    assert_eq!(expiry(&bench, "client_certificate"), Some(first), "it ends when it has ended");
    assert_eq!(seen("ended").len(), 1, "{}", bench.gateway.output());
    let (certificate, key) = Authority::get().issue("ended", LONG);
    folder.write("me.crt", certificate);
    folder.write("me.key", key);
    bench.turn();
    let second = end(&file);
    assert!(second > first + 1000.0);
    let moved =
        until(LIMIT, || (expiry(&bench, "client_certificate") == Some(second)).then_some(()));
    assert!(moved.is_some(), "the gauge is of the old one:\n{}", bench.gateway.output());
    bench.watchman.end(&bench.gateway);
    assert_eq!(seen("ended").len(), 2, "{}", bench.gateway.output());
    let said = bench.gateway.output().matches("the client certificate of the file").count();
    assert_eq!(said, 2, "each once, and nothing of the new one:\n{}", bench.gateway.output());
}

/// When a certificate in a file ends, in Unix seconds.
fn end(certificate: &std::path::Path) -> f64 {
    let line = "date -d \"$(openssl x509 -noout -enddate -in \"$0\" | cut -d= -f2)\" +%s";
    let seconds = tests::process::run(Command::new("sh").args(["-ec", line]).arg(certificate));
    seconds.trim().parse().expect("a number of seconds")
}

/// When the credentials of a kind end, as the gateway says.
fn expiry(bench: &Bench, kind: &str) -> Option<f64> {
    let label = format!("kind=\"{kind}\"");
    let mut samples = bench.gateway.metrics("metrics").into_iter();
    samples.find(|(name, _)| name.starts_with(EXPIRY) && name.contains(&label)).map(|(_, v)| v)
}
