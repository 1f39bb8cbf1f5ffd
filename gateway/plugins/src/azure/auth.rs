//! Tokens of Microsoft Entra ID: for a secret, a certificate, a federated token, or the machine's own identity.

use std::time::{Duration, SystemTime};

use ::http::{Method, Request};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::shared::cloud::{Fresh, Made, Signer};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, Reply, form, percent, request};
use crate::shared::file;

/// Where a machine asks for a token of its own identity.
const MACHINE: &str = "http://169.254.169.254";
/// How long that may take: it is near, or not there at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a token is good if it does not say.
const LIVES: u64 = 300;

/// A cloud: where its tokens and its resources are managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where resources are managed.
    pub(super) management: String,
    /// Where tokens are given.
    pub(super) authority: String,
    /// What tokens are asked for: the management of the cloud, wherever that is reached.
    pub(super) audience: String,
}

/// Who asks.
#[derive(Debug)]
pub(super) enum Identity {
    /// A service that has a secret.
    Secret { tenant: String, client: String, secret: SecretString },
    /// A service that has a certificate, in a file with its key.
    Certificate { tenant: String, client: String, path: String },
    /// A service that somebody else vouches for, by a token in a file.
    Federated { tenant: String, client: String, path: String },
    /// The machine's own, or another that it has.
    Machine { client: Option<String> },
}

/// What the Corefile and the environment say of who asks.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) tenant: Option<String>,
    pub(super) client: Option<String>,
    pub(super) secret: Option<SecretString>,
}

impl Identity {
    /// What the words of the Corefile mean, with those of the environment where it has none.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn of(words: Words, env: &Environment) -> Result<Self, String> {
        let tenant = words.tenant.or_else(|| env.get("AZURE_TENANT_ID"));
        let client = words.client.or_else(|| env.get("AZURE_CLIENT_ID"));
        let secret = words.secret.or_else(|| env.get("AZURE_CLIENT_SECRET").map(Into::into));
        let certificate =
            env.get("AZURE_CLIENT_CERTIFICATE_PATH").or_else(|| env.get("AZURE_CERTIFICATE_PATH"));
        let federated = env.get("AZURE_FEDERATED_TOKEN_FILE");
        let both = || match (tenant.clone(), client.clone()) {
            (Some(tenant), Some(client)) => Ok((tenant, client)),
            (None, _) => Err("there is no tenant: write it, or set AZURE_TENANT_ID".to_owned()),
            (_, None) => Err("there is no client: write it, or set AZURE_CLIENT_ID".to_owned()),
        };
        Ok(match (secret, certificate, federated) {
            (Some(secret), ..) => {
                let (tenant, client) = both()?;
                Self::Secret { tenant, client, secret }
            }
            (None, Some(path), _) => {
                let (tenant, client) = both()?;
                Self::Certificate { tenant, client, path }
            }
            (None, None, Some(path)) => {
                let (tenant, client) = both()?;
                Self::Federated { tenant, client, path }
            }
            (None, None, None) => Self::Machine { client },
        })
    }
}

/// Gets tokens, and keeps them.
#[derive(Debug)]
pub(super) struct Tokens {
    identity: Identity,
    place: Place,
    env: Environment,
    fetch: Fetch,
    kept: Fresh<SecretString>,
}

impl Tokens {
    /// Those of an identity.
    pub(super) fn new(identity: Identity, place: Place, env: Environment, fetch: Fetch) -> Self {
        Self { identity, place, env, fetch, kept: Fresh::default() }
    }

    /// A token that is good.
    pub(super) async fn get(&self) -> Result<SecretString, Failure> {
        let token = self.kept.get(|| self.ask()).await;
        token.map_err(|failure| failure.while_doing("no Azure token"))
    }

    /// Lets go of a token that is not taken.
    pub(super) async fn forget(&self) {
        self.kept.forget().await;
    }

    /// Asks for one.
    async fn ask(&self) -> Result<Made<SecretString>, Failure> {
        match &self.identity {
            Identity::Secret { tenant, client, secret } => {
                let secret = secret.expose_secret();
                self.by_form(tenant, client, &[("client_secret", secret)], secret).await
            }
            Identity::Certificate { tenant, client, path } => {
                let assertion = self.assertion(tenant, client, path)?;
                self.by_assertion(tenant, client, &assertion).await
            }
            Identity::Federated { tenant, client, path } => {
                let token = file::text(path.as_ref()).map_err(|error| {
                    Failure::refused(format!("cannot read the token {path}: {error}"))
                })?;
                self.by_assertion(tenant, client, token.trim()).await
            }
            Identity::Machine { client } => {
                let ask = self.of_machine(client.as_deref())?;
                read(&self.fetch.within(PATIENCE).send(ask).await?, "")
            }
        }
    }

    /// Asks by a text that proves who asks.
    async fn by_assertion(
        &self,
        tenant: &str,
        client: &str,
        assertion: &str,
    ) -> Result<Made<SecretString>, Failure> {
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let more = [("client_assertion_type", kind), ("client_assertion", assertion)];
        self.by_form(tenant, client, &more, assertion).await
    }

    /// Where a tenant's tokens are given.
    fn address(&self, tenant: &str) -> String {
        format!("{}/{}/oauth2/v2.0/token", self.place.authority, percent(tenant))
    }

    /// Asks by a form (RFC 6749 §4.4.2) with these fields, of which `secret` is not to be seen.
    async fn by_form(
        &self,
        tenant: &str,
        client: &str,
        more: &[(&str, &str)],
        secret: &str,
    ) -> Result<Made<SecretString>, Failure> {
        let scope = format!("{}/.default", self.place.audience);
        let mut fields =
            vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", &*scope)];
        fields.extend_from_slice(more);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let ask = request(Method::POST, &self.address(tenant), &headers, form(&fields))?;
        read(&self.fetch.send(ask).await?, secret)
    }

    /// Signs a text that proves who asks (RFC 7523 §2.2) with the key in a file, whose first certificate tells which key it is.
    fn assertion(&self, tenant: &str, client: &str, path: &str) -> Result<String, Failure> {
        let pem = file::text(path.as_ref())
            .map_err(|error| Failure::refused(format!("cannot read {path}: {error}")))?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| Failure::refused(format!("{path} has no certificate in PEM")))?;
        let signer =
            Signer::from_pem(pem.as_bytes()).map_err(|failure| failure.while_doing(path))?;
        // Entra ID finds the certificate by this.
        let print = digest(&SHA1_FOR_LEGACY_USE_ONLY, &certificate);
        let print = BASE64_URL_SAFE_NO_PAD.encode(print.as_ref());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut id = [0; 16];
        SystemRandom::new().fill(&mut id).map_err(|_| Failure::away("no random numbers"))?;
        let claims = json!({
            "aud": self.address(tenant), "iss": client, "sub": client,
            "jti": BASE64_URL_SAFE_NO_PAD.encode(id),
            "nbf": now.as_secs().saturating_sub(60), "exp": now.as_secs() + 600,
        });
        signer.sign(&json!({"alg": "RS256", "typ": "JWT", "x5t": print}), &claims)
    }

    /// The request for a token of the machine's identity.
    fn of_machine(&self, client: Option<&str>) -> Result<Request<Bytes>, Failure> {
        let audience = format!("{}/", self.place.audience);
        let mut query = vec![("resource", &*audience)];
        query.extend(client.map(|client| ("client_id", client)));
        // Services such as App Service have one of their own.
        if let (Some(url), Some(header)) =
            (self.env.get("IDENTITY_ENDPOINT"), self.env.get("IDENTITY_HEADER"))
        {
            query.push(("api-version", "2019-08-01"));
            let url = format!("{url}?{}", form(&query));
            return request(Method::GET, &url, &[("x-identity-header", &header)], "");
        }
        query.push(("api-version", "2018-02-01"));
        let host = self.env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        let host = host.unwrap_or_else(|| MACHINE.to_owned());
        let host = host.trim_end_matches('/');
        let url = format!("{host}/metadata/identity/oauth2/token?{}", form(&query));
        request(Method::GET, &url, &[("metadata", "true")], "")
    }
}

/// Reads a token, or why there is none.
fn read(reply: &Reply, secret: &str) -> Result<Made<SecretString>, Failure> {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let part = |name: &str| value.as_ref().and_then(|value| value.get(name));
    let text = |name: &str| part(name).and_then(Value::as_str).unwrap_or_default();
    if !reply.status.is_success() {
        return Err(reply.failure(text("error"), text("error_description"), &[secret]));
    }
    let token = text("access_token");
    if token.is_empty() {
        return Err(Failure::away("the reply has no token"));
    }
    // A machine writes the seconds as text.
    let lives = part("expires_in").and_then(|lives| match lives {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let lives = Duration::from_secs(lives.unwrap_or(LIVES));
    Ok(Made { value: token.into(), lives: Some(lives) })
}
