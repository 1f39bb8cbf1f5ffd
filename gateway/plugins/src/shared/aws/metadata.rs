//! Credentials and the region of a machine or a container of Amazon's, asked of addresses that only it reaches.

use std::time::Duration;

use ::http::{Method, Uri};
use serde_json::Value;

use super::Credentials;
use super::sts::{lives, made};
use crate::shared::cloud::Made;
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, Reply, request};
use crate::shared::file;

/// Where a machine asks.
const MACHINE: &str = "http://169.254.169.254";
/// Where a container asks for what its variable names without a host.
const CONTAINER: &str = "http://169.254.170.2";
/// How long these may take: they are near, or not there at all.
const PATIENCE: Duration = Duration::from_secs(2);

/// The machine's own service (IMDS), by a session.
struct Machine {
    fetch: Fetch,
    endpoint: String,
    token: String,
}

impl Machine {
    /// Begins a session.
    async fn open(env: &Environment, fetch: &Fetch) -> Result<Self, Failure> {
        let disabled = env.get("AWS_EC2_METADATA_DISABLED");
        if disabled.is_some_and(|word| word.eq_ignore_ascii_case("true")) {
            return Err(Failure::refused("the machine is not asked: AWS_EC2_METADATA_DISABLED"));
        }
        let endpoint = env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let endpoint = endpoint.unwrap_or_else(|| MACHINE.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let fetch = fetch.within(PATIENCE);
        let ttl = [("x-aws-ec2-metadata-token-ttl-seconds", "21600")];
        let ask = request(Method::PUT, &format!("{endpoint}/latest/api/token"), &ttl, "")?;
        let reply = fetch.send(ask).await?;
        let token = success(&reply)?.trim().to_owned();
        Ok(Self { fetch, endpoint, token })
    }

    /// Reads something.
    async fn get(&self, path: &str) -> Result<String, Failure> {
        let url = format!("{}/latest/meta-data/{path}", self.endpoint);
        let ask = request(Method::GET, &url, &[("x-aws-ec2-metadata-token", &self.token)], "")?;
        success(&self.fetch.send(ask).await?).map(str::to_owned)
    }
}

/// The region of the machine.
pub(super) async fn region(env: &Environment, fetch: &Fetch) -> Result<String, Failure> {
    let region = Machine::open(env, fetch).await?.get("placement/region").await?;
    Ok(region.trim().to_owned())
}

/// The credentials of the machine's role.
pub(super) async fn machine(
    env: &Environment,
    fetch: &Fetch,
) -> Result<Made<Credentials>, Failure> {
    let machine = Machine::open(env, fetch).await?;
    let roles = machine.get("iam/security-credentials/").await?;
    let role = roles.lines().next().unwrap_or_default().trim().to_owned();
    if role.is_empty() {
        return Err(Failure::refused("the machine has no role"));
    }
    read(&machine.get(&format!("iam/security-credentials/{role}")).await?)
}

/// The credentials of the container's role; none if it has no such variables.
pub(super) async fn container(
    env: &Environment,
    fetch: &Fetch,
) -> Option<Result<Made<Credentials>, Failure>> {
    let url = match env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        Some(path) => format!("{CONTAINER}{path}"),
        None => env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")?,
    };
    Some(of_container(env, fetch, &url).await)
}

/// Asks for those.
async fn of_container(
    env: &Environment,
    fetch: &Fetch,
    url: &str,
) -> Result<Made<Credentials>, Failure> {
    if !is_near(url) {
        return Err(Failure::refused(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this host",
        ));
    }
    let token = match env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(file::text(path.as_ref()).map_err(|error| {
            Failure::refused(format!("cannot read the container's token {path}: {error}"))
        })?),
        None => env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let header = token.as_deref().map(|token| ("authorization", token.trim()));
    let ask = request(Method::GET, url, header.as_slice(), "")?;
    read(success(&fetch.within(PATIENCE).send(ask).await?)?)
}

/// Whether an address may be asked without TLS, or has TLS.
fn is_near(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let near = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost"].contains(&host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let own = bare.parse::<std::net::IpAddr>().is_ok_and(|addr| addr.is_loopback());
    uri.scheme_str() == Some("https") || near || own
}

/// The text of a reply that is a success.
fn success(reply: &Reply) -> Result<&str, Failure> {
    if reply.status.is_success() { reply.text() } else { Err(reply.failure("", "", &[])) }
}

/// Reads credentials in JSON.
pub(super) fn read(text: &str) -> Result<Made<Credentials>, Failure> {
    let garbled = || Failure::away("the credentials that were given make no sense");
    let value: Value = serde_json::from_str(text).map_err(|_| garbled())?;
    let part = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(id), Some(secret)) = (part("AccessKeyId"), part("SecretAccessKey")) else {
        return Err(garbled());
    };
    let token = part("Token").or_else(|| part("SessionToken"));
    let lives = match part("Expiration") {
        Some(end) => Some(lives(end).ok_or_else(garbled)?),
        None => None,
    };
    Ok(made(id, secret, token, lives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_ask_near_addresses() {
        for (url, good) in [
            ("http://169.254.170.2/x", true),
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("http://127.0.0.1:8080/", true),
            ("https://credentials.example.org/", true),
            ("http://credentials.example.org/", false),
            ("http://198.51.100.1/", false),
            ("", false),
        ] {
            assert_eq!(is_near(url), good, "{url}");
        }
    }
}
