//! Credentials from a program that a kubeconfig names (`client.authentication.k8s.io`).

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::config::{AuthInfo, ExecConfig};
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

use crate::client::Refusal;

/// How long the program may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// How much it may print, in octets: a token and a certificate with its chain are far less.
pub(crate) const MOST: u64 = 1 << 20;

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

/// A program that runs, with all that it starts: a process group of its own. Unless it has ended well all of that is ended when
/// this is dropped.
struct Running(Child);

impl Running {
    /// Starts it.
    fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }

    /// Waits for its end; gives that and what it printed, which is nothing of use where it printed too much.
    async fn end(mut self) -> io::Result<Printout> {
        let group = self.group();
        let mut text = Vec::new();
        if let Some(out) = self.0.stdout.take() {
            out.take(MOST + 1).read_to_end(&mut text).await?;
        }
        if text.len() as u64 > MOST {
            return Ok(Printout::Endless);
        }
        let status = self.0.wait().await?;
        // What a program leaves behind when it ends well is its own matter: it may be a daemon that keeps tokens. The group's number
        // is still its own: as long as one of it is left none else has it, and else numbers are given out in turn.
        if !status.success() {
            kill(group);
        }
        Ok(Printout::Whole(status, text))
    }

    /// The group's number, until the end of the program was seen.
    fn group(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(self.group());
    }
}

/// Ends all processes of a group.
fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        // They may all have ended by themselves.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
}

/// What a program printed.
enum Printout {
    /// All of it, and how it ended.
    Whole(ExitStatus, Vec<u8>),
    /// More than is read.
    Endless,
}

/// Runs the program and puts what it prints in the place of the program. Gives the Unix time in seconds at which the
/// credentials end, if they do.
///
/// A program that takes too long, prints too much or fails is ended with all that it has started, and so is one whose future is
/// dropped.
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
    // What it says on stderr is not read at all: it may quote credentials too.
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());

    let cannot = |error: io::Error| refuse(format!("can not be run: {error}"));
    let running = Running::start(&mut command).map_err(cannot)?;
    let printout = timeout(LIMIT, running.end())
        .await
        .map_err(|_| refuse(format!("was ended: it took longer than {} s", LIMIT.as_secs())))?
        .map_err(cannot)?;
    let text = match printout {
        Printout::Endless => {
            return Err(refuse(format!("was ended: it printed more than {} MiB", MOST >> 20)));
        }
        Printout::Whole(status, _) if !status.success() => {
            return Err(refuse(format!("failed: {status}")));
        }
        Printout::Whole(_, text) => text,
    };
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
