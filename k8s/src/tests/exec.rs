//! Programs that hand out credentials.

use std::{net::TcpListener, sync::Arc, time::Duration};

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

#[tokio::test]
async fn a_program_is_not_run_for_each_request_that_fails() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-runs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (runs, good) = (folder.join("runs"), folder.join("good"));
    std::fs::write(&good, "").unwrap();
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
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let probe: Arc<dyn Probe> = Arc::new(Quiet);
    let connection = Connection::open(&Config::new(source), &probe);
    let count = || std::fs::read_to_string(&runs).unwrap().lines().count();
    let ask = async || {
        let failed = connection.get("/version", true, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failed, crate::client::Failure::Network(_)), "{failed}");
    };
    ask().await;
    // What it issued has no end: no request that fails is a reason to run it again.
    std::fs::remove_file(&good).unwrap();
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
    std::fs::remove_dir_all(&folder).unwrap();
}
