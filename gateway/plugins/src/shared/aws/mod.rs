//! Amazon's APIs: who asks, and how requests are signed.

mod chain;
mod metadata;
mod profile;
mod sign;
mod sts;
pub(crate) mod xml;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, SystemTime};

use ::http::{Method, Request};
use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};

pub(crate) use chain::{Chain, Choice, partition};
pub(crate) use sign::Scope;

use crate::shared::cloud::Fresh;
use crate::shared::fetch::{Failure, Fetch, Kind, Reply, request};

/// What proves who asks.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// The name of the key, which everybody may see.
    pub(crate) id: String,
    /// The key.
    pub(crate) secret: SecretString,
    /// What goes with keys that end.
    pub(crate) token: Option<SecretString>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// The parts that nobody may see.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let secrets = std::iter::once(&self.secret).chain(&self.token);
        secrets.map(|secret| secret.expose_secret()).collect()
    }
}

/// A client of one of Amazon's services.
#[derive(Debug)]
pub(crate) struct Client {
    fetch: Fetch,
    chain: Chain,
    credentials: Fresh<Credentials>,
}

impl Client {
    /// One that finds its credentials by a chain.
    pub(crate) fn new(fetch: Fetch, chain: Chain) -> Self {
        Self { fetch, chain, credentials: Fresh::default() }
    }

    /// Where credentials and region come from.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Sends a request, signed. If its credentials are not taken, new ones are looked for, once. Replies that are no success are a
    /// failure; `said` finds the error's code and message in them.
    ///
    /// # Errors
    /// If there are no credentials, no reply, or none that is a success.
    pub(crate) async fn send(
        &self,
        scope: &Scope<'_>,
        ask: &Ask<'_>,
        said: fn(&Reply) -> (String, String),
    ) -> Result<Reply, Failure> {
        let mut again = true;
        loop {
            let credentials = self.credentials.get(|| self.chain.credentials(&self.fetch)).await;
            let credentials =
                credentials.map_err(|failure| failure.while_doing("no AWS credentials"))?;
            let reply = self.fetch.send(ask.signed(scope, &credentials)?).await?;
            if reply.status.is_success() {
                return Ok(reply);
            }
            let (code, message) = said(&reply);
            let mut failure = reply.failure(&code, &message, &credentials.secrets());
            if let Some(kind) = kind_of(&code) {
                failure.kind = kind;
            }
            if failure.kind != Kind::Unknown || !std::mem::take(&mut again) {
                return Err(failure);
            }
            self.credentials.forget().await;
        }
    }
}

/// What can be done about an error by its code; nothing is known of most.
fn kind_of(code: &str) -> Option<Kind> {
    Some(match code {
        "Throttling"
        | "ThrottlingException"
        | "TooManyRequestsException"
        | "RequestLimitExceeded"
        | "PriorRequestNotComplete" => Kind::Busy(None),
        "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch" => Kind::Unknown,
        _ => return None,
    })
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    /// GET or POST.
    pub(crate) method: Method,
    /// Scheme, host and port, and what paths begin with, without a last slash.
    pub(crate) endpoint: &'a str,
    /// The path from its first slash, with all but unreserved signs and slashes escaped.
    pub(crate) path: &'a str,
    /// The query, sorted by name and escaped.
    pub(crate) query: &'a str,
    /// Further lines of the header, in lower case.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub(crate) body: &'a [u8],
}

impl Ask<'_> {
    /// Signs it, now.
    fn signed(
        &self,
        scope: &Scope<'_>,
        credentials: &Credentials,
    ) -> Result<Request<Bytes>, Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO).as_secs();
        let lines = sign::sign(self, scope, credentials, now);
        let mut headers: Vec<(&str, &str)> = self.headers.to_vec();
        headers.extend(lines.iter().map(|(name, value)| (*name, &**value)));
        let query = if self.query.is_empty() { "" } else { "?" };
        let url = format!("{}{}{query}{}", self.endpoint, self.path, self.query);
        request(self.method.clone(), &url, &headers, self.body.to_vec())
    }
}
