//! Accounts of other clouds (workload identity federation): whose token is exchanged for one of Google's (RFC 8693).

use std::time::Duration;

use ::http::Method;
use k8s::program::{Failed, print};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::process::Command;

use super::auth::{address, needed, read, text};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, request};
use crate::shared::file;

/// How long a program that gives tokens may take if the credentials do not say.
const PROGRAM: Duration = Duration::from_secs(30);

/// Where the other cloud's token comes from.
#[derive(Debug)]
enum From {
    /// A file.
    File(String),
    /// A server, with these lines in the header.
    Server { url: String, headers: Vec<(String, String)> },
    /// What a program prints.
    Program { line: String, limit: Duration },
}

/// An account of another cloud.
#[derive(Debug)]
pub(super) struct External {
    tokens: String,
    audience: String,
    kind: String,
    from: From,
    /// The member that is the token, where it stands in JSON.
    member: Option<String>,
    /// The project that pays for accounts of people.
    project: Option<String>,
}

impl External {
    /// Reads one.
    pub(super) fn read(value: &Value) -> Result<Self, Failure> {
        let source = value
            .get("credential_source")
            .ok_or_else(|| Failure::refused("they have no credential_source"))?;
        let from = if let Some(path) = text(source, "file") {
            From::File(path.to_owned())
        } else if let Some(program) = source.get("executable") {
            let limit = program.get("timeout_millis").and_then(Value::as_u64);
            let limit = limit.map_or(PROGRAM, Duration::from_millis);
            From::Program { line: needed(program, "command")?.to_owned(), limit }
        } else if let (Some(url), None) = (text(source, "url"), text(source, "environment_id")) {
            let headers = source.get("headers").and_then(Value::as_object);
            let headers = headers.into_iter().flatten();
            let headers = headers.filter_map(|(name, value)| {
                Some((name.to_ascii_lowercase(), value.as_str()?.to_owned()))
            });
            From::Server { url: url.to_owned(), headers: headers.collect() }
        } else {
            return Err(Failure::refused(
                "their credential_source is neither file, url nor executable",
            ));
        };
        let format = source.get("format");
        let member = format.filter(|format| text(format, "type") == Some("json"));
        let member = member.map(|format| needed(format, "subject_token_field_name")).transpose()?;
        Ok(Self {
            tokens: address(needed(value, "token_url")?)?,
            audience: needed(value, "audience")?.to_owned(),
            kind: needed(value, "subject_token_type")?.to_owned(),
            from,
            member: member.map(str::to_owned),
            project: text(value, "workforce_pool_user_project").map(str::to_owned),
        })
    }

    /// Where tokens are exchanged.
    pub(super) fn tokens(&self) -> &str {
        &self.tokens
    }

    /// The form that exchanges a token.
    pub(super) fn fields(&self, subject: &str, scope: &str) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange".to_owned()),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token".to_owned()),
            ("audience", self.audience.clone()),
            ("scope", scope.to_owned()),
            ("subject_token_type", self.kind.clone()),
            ("subject_token", subject.to_owned()),
        ];
        let options = self.project.as_ref().map(|project| json!({"userProject": project}));
        fields.extend(options.map(|options| ("options", options.to_string())));
        fields
    }

    /// The other cloud's token.
    pub(super) async fn subject(
        &self,
        env: &Environment,
        fetch: &Fetch,
    ) -> Result<SecretString, Failure> {
        let found = match &self.from {
            From::File(path) => file::text(path.as_ref())
                .map_err(|error| Failure::refused(format!("cannot read {path}: {error}")))?,
            From::Server { url, headers } => {
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                let reply = fetch.send(request(Method::GET, url, &headers, "")?).await?;
                if !reply.status.is_success() {
                    read(&reply, &[])?;
                }
                reply.text()?.to_owned()
            }
            From::Program { line, limit } => {
                return of_program(env, line, *limit, &self.audience, &self.kind).await;
            }
        };
        let Some(member) = &self.member else { return Ok(found.trim().into()) };
        let value: Value =
            serde_json::from_str(&found).map_err(|_| Failure::away("the token is no JSON"))?;
        let token = text(&value, member).map(Into::into);
        token.ok_or_else(|| Failure::away(format!("the token has no member {member}")))
    }
}

/// Runs a program that prints a token. The environment has to allow it, as with Google's own libraries.
async fn of_program(
    env: &Environment,
    line: &str,
    limit: Duration,
    audience: &str,
    kind: &str,
) -> Result<SecretString, Failure> {
    if env.get("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES").as_deref() != Some("1") {
        return Err(Failure::refused(
            "programs that give tokens are not run unless GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES is 1",
        ));
    }
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command.env("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", audience);
    command.env("GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE", kind);
    command.env("GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE", "0");
    let printed = match print(&mut command, limit).await {
        Err(why @ Failed::Unusable(_)) => {
            return Err(Failure::refused(format!("the program {why}")));
        }
        Err(why) => return Err(Failure::away(format!("the program {why}"))),
        Ok(printed) => printed,
    };
    let value: Value = serde_json::from_slice(&printed)
        .map_err(|_| Failure::away("what the program prints is no JSON"))?;
    let token = text(&value, "id_token").or_else(|| text(&value, "saml_response"));
    token.map(Into::into).ok_or_else(|| Failure::away("the program gives no token"))
}
