//! Credentials of roles, given by the Security Token Service.

use std::time::{Duration, SystemTime};

use ::http::Method;

use super::chain::partition;
use super::sign::{Scope, seconds};
use super::xml::texts;
use super::{Ask, Credentials};
use crate::shared::cloud::Made;
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, Reply, form, request};
use crate::shared::file;

/// The version of the API.
const VERSION: &str = "2011-06-15";
/// The form of bodies.
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A role to be taken.
#[derive(Clone, Debug, Default)]
pub(super) struct RoleWish {
    /// Its name: `arn:aws:iam::123456789012:role/dns`.
    pub(super) arn: String,
    /// What the session is called.
    pub(super) session: Option<String>,
    /// What its owner wants to hear.
    pub(super) external: Option<String>,
    /// For how many seconds.
    pub(super) duration: Option<String>,
}

impl RoleWish {
    /// What the session is called.
    fn session(&self) -> &str {
        self.session.as_deref().unwrap_or("causeway")
    }
}

/// Where the service is, and which region signatures are for.
fn endpoint(env: &Environment, region: Option<&str>) -> (String, String) {
    let region = region.unwrap_or("us-east-1").to_owned();
    let named = env.get("AWS_ENDPOINT_URL_STS").or_else(|| env.get("AWS_ENDPOINT_URL"));
    let usual = || format!("https://sts.{region}.{}", partition(&region).suffix);
    let endpoint = named.unwrap_or_else(usual);
    (endpoint.trim_end_matches('/').to_owned(), region)
}

/// Takes a role by what a file says: a token of somebody whom the role's owner trusts.
pub(super) async fn by_token(
    env: &Environment,
    fetch: &Fetch,
    region: Option<&str>,
    role: &RoleWish,
    path: &str,
) -> Result<Made<Credentials>, Failure> {
    let token = file::text(path.as_ref())
        .map_err(|error| Failure::refused(format!("cannot read the token {path}: {error}")))?;
    let token = token.trim();
    let body = form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", VERSION),
        ("RoleArn", &role.arn),
        ("RoleSessionName", role.session()),
        ("WebIdentityToken", token),
    ]);
    let (endpoint, _) = endpoint(env, region);
    let reply = fetch.send(request(Method::POST, &format!("{endpoint}/"), &[FORM], body)?).await?;
    read(&reply, &[token]).map_err(|failure| failure.while_doing(format!("role {}", role.arn)))
}

/// Takes a role by the credentials of another.
pub(super) async fn by_credentials(
    env: &Environment,
    fetch: &Fetch,
    region: Option<&str>,
    role: &RoleWish,
    by: &Credentials,
) -> Result<Made<Credentials>, Failure> {
    let mut pairs = vec![
        ("Action", "AssumeRole"),
        ("Version", VERSION),
        ("RoleArn", &role.arn),
        ("RoleSessionName", role.session()),
    ];
    pairs.extend(role.external.as_deref().map(|external| ("ExternalId", external)));
    pairs.extend(role.duration.as_deref().map(|seconds| ("DurationSeconds", seconds)));
    let body = form(&pairs);
    let (endpoint, region) = endpoint(env, region);
    let ask = Ask {
        method: Method::POST,
        endpoint: &endpoint,
        path: "/",
        query: "",
        headers: &[FORM],
        body: body.as_bytes(),
    };
    let scope = Scope { region: &region, service: "sts" };
    let reply = fetch.send(ask.signed(&scope, by)?).await?;
    read(&reply, &by.secrets()).map_err(|failure| failure.while_doing(format!("role {}", role.arn)))
}

/// Reads the credentials in a reply.
fn read(reply: &Reply, secrets: &[&str]) -> Result<Made<Credentials>, Failure> {
    if !reply.status.is_success() {
        let [code, message] = texts(reply.text()?, ["Code", "Message"]).unwrap_or_default();
        let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
        return Err(reply.failure(&code, &message, secrets));
    }
    let names = ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"];
    let [id, secret, token, end] = texts(reply.text()?, names)?;
    let lives = end.as_deref().and_then(lives);
    match (id, secret, token, lives) {
        (Some(id), Some(secret), Some(token), Some(lives)) => {
            Ok(made(&id, &secret, Some(&token), Some(lives)))
        }
        _ => Err(Failure::away("the service gives no credentials")),
    }
}

/// How long it is until a time such as `2030-01-02T03:04:05Z`.
pub(super) fn lives(end: &str) -> Option<Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(seconds(end)?.saturating_sub(now)))
}

/// Credentials of these parts.
pub(super) fn made(
    id: &str,
    secret: &str,
    token: Option<&str>,
    lives: Option<Duration>,
) -> Made<Credentials> {
    let value =
        Credentials { id: id.to_owned(), secret: secret.into(), token: token.map(Into::into) };
    Made { value, lives }
}
