//! Credentials from a program that a kubeconfig names (`client.authentication.k8s.io`).

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::config::{AuthInfo, ExecConfig};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use crate::{client::Refusal, program};

/// How long the program may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What the program prints.
#[derive(Deserialize)]
struct Printed {
    /// The credentials.
    status: Option<Issued>,
}

/// Credentials as the program prints them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    /// A bearer token.
    token: Option<String>,
    /// A client certificate in PEM.
    client_certificate_data: Option<String>,
    /// Its key in PEM.
    client_key_data: Option<String>,
    /// When they end.
    expiration_timestamp: Option<String>,
}

/// Runs the program and puts what it prints in the place of the program. Gives the Unix time in seconds at which the
/// credentials end, if they do.
///
/// # Errors
///
/// The program can not be run, fails, takes longer than 30 seconds, prints more than 1 MiB, or prints something else. No error
/// has anything of what it printed.
pub(crate) async fn run(exec: &ExecConfig, auth: &mut AuthInfo) -> Result<Option<u64>, Refusal> {
    let name = exec.command.as_deref().unwrap_or_default();
    let refuse = |what: String| Refusal(format!("the credential program {name:?} {what}"));
    if name.is_empty() {
        return Err(Refusal("the kubeconfig's user has `exec` without a command".to_owned()));
    }
    let mut command = Command::new(name);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    let mut spec = json!({ "interactive": false });
    if let Some(cluster) = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info) {
        spec["cluster"] =
            serde_json::to_value(cluster).map_err(|error| refuse(error.to_string()))?;
    }
    let info = json!({ "kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    let text = program::print(&mut command, LIMIT).await.map_err(|why| refuse(why.to_string()))?;
    // The error is not shown: it may quote the credentials.
    let printed: Printed = serde_saphyr::from_slice(&text)
        .map_err(|_| refuse("printed no ExecCredential".to_owned()))?;
    let issued = printed
        .status
        .ok_or_else(|| refuse("printed an ExecCredential without a status".to_owned()))?;
    let expires = match &issued.expiration_timestamp {
        None => None,
        Some(text) => {
            let time: k8s_openapi::jiff::Timestamp = text
                .parse()
                .map_err(|_| refuse("printed an expirationTimestamp that is no time".to_owned()))?;
            Some(u64::try_from(time.as_second()).unwrap_or_default())
        }
    };
    if issued.token.is_none() && issued.client_certificate_data.is_none() {
        return Err(refuse("printed neither a token nor a client certificate".to_owned()));
    }
    auth.token = issued.token.map(SecretString::from);
    // The program prints PEM as it is, a kubeconfig has it in base64.
    auth.client_certificate_data =
        issued.client_certificate_data.map(|pem| BASE64_STANDARD.encode(pem));
    auth.client_key_data =
        issued.client_key_data.map(|pem| SecretString::from(BASE64_STANDARD.encode(pem)));
    Ok(expires)
}
