//! Programs that hand out credentials.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret as _;
use serde_json::json;

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
