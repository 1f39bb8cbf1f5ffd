//! Programs that hand out credentials.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::{Config, Probe, Quiet, Source, client::Connection};

/// A user's program, which is this shell line.
fn program(line: &str) -> ExecConfig {
    let exec = json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", line] });
    serde_json::from_value(exec).unwrap()
}

#[tokio::test]
async fn certificates_are_taken_as_a_kubeconfig_has_them() {
    let status = r#"{"status":{"clientCertificateData":"-----BEGIN\nC","clientKeyData":"-----BEGIN\nK","expirationTimestamp":"2030-01-02T03:04:05Z"}}"#;
    let mut auth = AuthInfo::default();
    let end = crate::exec::run(&program(&format!("printf %s '{status}'")), &mut auth).await;
    assert_eq!(end.unwrap(), Some(1_893_553_445));
    let key = auth.client_key_data.as_ref().map(|key| key.expose_secret());
    let decode = |text: Option<&str>| BASE64_STANDARD.decode(text.unwrap()).unwrap();
    assert_eq!(decode(auth.client_certificate_data.as_deref()), b"-----BEGIN\nC");
    assert_eq!(decode(key), b"-----BEGIN\nK");
}

#[tokio::test]
async fn no_error_has_what_a_program_printed() {
    for (line, expected) in [
        ("echo secret; exit 3", "failed: exit status: 3"),
        ("echo secret", "printed no ExecCredential"),
        ("echo '{\"status\":{\"token\":[\"secret\"]}}'", "printed no ExecCredential"),
        (
            "echo '{\"status\":{\"token\":\"secret\",\"expirationTimestamp\":\"secret\"}}'",
            "printed an expirationTimestamp that is no time",
        ),
        ("echo '{\"status\":{\"secret\":1}}'", "printed neither a token nor a client certificate"),
    ] {
        let wrong = crate::exec::run(&program(line), &mut AuthInfo::default()).await.unwrap_err();
        let wrong = wrong.to_string();
        assert!(wrong.contains(expected) && !wrong.contains("secret"), "{line}: {wrong}");
    }
}

/// How long something may take on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Where a program notes the process that it has started.
fn note(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("causeway-k8s-{name}-{}", std::process::id()));
    drop(fs::remove_file(&path));
    path
}

/// The process that a program has noted, as soon as it has.
async fn noted(path: &Path) -> String {
    let start = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(start.elapsed() < LONG, "the program has started nothing"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process runs. One that has ended may have nobody who asks how.
fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits for the end of a process.
fn ended(process: &str) -> bool {
    let start = Instant::now();
    while runs(process) && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    !runs(process)
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_what_it_started() {
    for dropped in [false, true] {
        let file = note("hangs");
        let exec = program(&format!("sleep 60 & echo $! > '{}'; wait", file.display()));
        let running =
            tokio::spawn(async move { crate::exec::run(&exec, &mut AuthInfo::default()).await });
        let child = noted(&file).await;
        assert!(runs(&child));
        if dropped {
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
        } else {
            tokio::time::pause();
            tokio::time::advance(crate::exec::LIMIT).await;
            let wrong = running.await.unwrap().unwrap_err().to_string();
            assert!(wrong.ends_with("was ended: it took longer than 30 s"), "{wrong}");
            tokio::time::resume();
        }
        assert!(ended(&child), "{dropped}: process {child} goes on");
        fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_stays_if_it_ended_well() {
    for (code, stays) in [(0, true), (3, false)] {
        let file = note("leaves");
        let line = format!(
            "sleep 60 > /dev/null & echo $! > '{}'; echo '{{\"status\":{{\"token\":\"t\"}}}}'; exit {code}",
            file.display()
        );
        let result = crate::exec::run(&program(&line), &mut AuthInfo::default()).await;
        assert_eq!(result.is_ok(), stays, "{result:?}");
        let child = noted(&file).await;
        if stays {
            assert!(runs(&child), "process {child} has ended");
            let pid = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        assert!(ended(&child), "process {child} goes on");
        fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn a_program_that_prints_too_much_is_ended() {
    let most = crate::program::MOST;
    let good = "{\"status\":{\"token\":\"t\"}}";
    for (more, room) in [(0, true), (1, false)] {
        let spaces = most - good.len() as u64 + more;
        let line = format!("printf '%s' '{good}'; head -c {spaces} /dev/zero | tr '\\0' ' '");
        let result = crate::exec::run(&program(&line), &mut AuthInfo::default()).await;
        assert_eq!(result.is_ok(), room, "{result:?}");
    }
    let file = note("prints");
    let line = format!("echo $$ > '{}'; exec yes secret", file.display());
    let wrong = crate::exec::run(&program(&line), &mut AuthInfo::default()).await.unwrap_err();
    assert!(wrong.to_string().ends_with("was ended: it printed more than 1 MiB"), "{wrong}");
    assert!(ended(&noted(&file).await));
    fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_program_is_not_run_for_each_request_that_fails() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-runs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (runs, good) = (folder.join("runs"), folder.join("good"));
    fs::write(&good, "").unwrap();
    // Nothing listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!(
        "echo run >> '{}'; cat '{}' && printf '{{\"status\":{{\"token\":\"t\"}}}}'",
        runs.display(),
        good.display()
    );
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "u", "user": { "exec": program(&line) } }],
        "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "edge",
    });
    fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let probe: Arc<dyn Probe> = Arc::new(Quiet);
    let connection = Connection::open(&Config::new(source), &probe);
    let count = || fs::read_to_string(&runs).unwrap().lines().count();
    let ask = async || {
        let failed = connection.get("/version", true, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failed, crate::client::Failure::Network(_)), "{failed}");
    };
    ask().await;
    // What it issued has no end: no request that fails is a reason to run it again.
    fs::remove_file(&good).unwrap();
    for _ in 0..5 {
        ask().await;
        assert_eq!(count(), 1);
    }
    // A refusal by the server is one, once for all kinds.
    connection.reject(1);
    for _ in 0..5 {
        let failed = connection.get("/version", true, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failed, crate::client::Failure::Credentials(_)), "{failed}");
        assert_eq!(count(), 2);
    }
    fs::remove_dir_all(&folder).unwrap();
}
