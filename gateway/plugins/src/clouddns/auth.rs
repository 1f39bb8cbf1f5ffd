//! Tokens of Google's: for a service account, a person, an account that another may stand for, or the machine's own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::http::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::external::External;
use crate::shared::cloud::{Fresh, Made, Signer};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, Reply, form, private_endpoint, request};
use crate::shared::file;

/// What tokens are asked for.
pub(super) const SCOPE: &str = "https://www.googleapis.com/auth/ndev.clouddns.readonly";
/// The same where another account is asked for in turn.
pub(super) const ALL: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Where tokens are given if the credentials do not say.
const TOKENS: &str = "https://oauth2.googleapis.com/token";
/// Where a machine asks for those of its own account.
const MACHINE: &str = "169.254.169.254";
/// How long that may take: it is near, or not there at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a token is good if it does not say.
const LIVES: u64 = 300;

/// Who asks.
#[derive(Debug)]
enum Identity {
    /// An account of a program, which has a key.
    Service { email: String, key_id: String, signer: Signer, tokens: String },
    /// A person who let a program ask.
    Person { client: String, secret: SecretString, refresh: SecretString, tokens: String },
    /// Somebody of another cloud, whom Google trusts.
    External(Box<External>),
    /// The machine's own account.
    Machine,
}

/// Credentials as a file has them.
#[derive(Debug)]
pub(super) struct Credentials {
    identity: Identity,
    /// The account that is asked for in turn: where its tokens are given, and for whom by way of whom.
    impersonated: Option<(String, Vec<String>)>,
    /// The project that pays.
    quota: Option<String>,
    /// The part of Google's world that has APIs of its own.
    universe: Option<String>,
}

/// A text member of an object.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The same, which has to be there.
pub(super) fn needed<'a>(value: &'a Value, name: &str) -> Result<&'a str, Failure> {
    text(value, name).ok_or_else(|| Failure::refused(format!("they have no {name}")))
}

/// An address in credentials: over TLS, or on this host.
pub(super) fn address(text: &str) -> Result<String, Failure> {
    private_endpoint(text).map_err(|why| Failure::refused(format!("an address in them {why}")))
}

impl Credentials {
    /// Reads those of the file, or of the usual places: what `GOOGLE_APPLICATION_CREDENTIALS` names, what gcloud keeps, the machine.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(super) fn find(path: Option<&Path>, env: &Environment) -> Result<Self, Failure> {
        let named = path.map(Path::to_owned);
        let named = named.or_else(|| env.get("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        let kept = || {
            let folder = env.get("CLOUDSDK_CONFIG").map(PathBuf::from);
            let home = || env.get("HOME").map(|home| PathBuf::from(home).join(".config/gcloud"));
            let file = folder.or_else(home)?.join("application_default_credentials.json");
            file.exists().then_some(file)
        };
        let Some(path) = named.or_else(kept) else {
            return Ok(Self {
                identity: Identity::Machine,
                impersonated: None,
                quota: None,
                universe: None,
            });
        };
        let shown = path.display();
        let text = file::text(&path)
            .map_err(|error| Failure::refused(format!("cannot read {shown}: {error}")))?;
        let value = serde_json::from_str(&text)
            .map_err(|_| Failure::refused(format!("{shown} is no JSON")))?;
        Self::read(&value).map_err(|failure| {
            failure.while_doing(format!("the credentials in {shown} cannot be used"))
        })
    }

    /// Reads those of a file.
    fn read(value: &Value) -> Result<Self, Failure> {
        let mut found = Self {
            identity: Identity::Machine,
            impersonated: None,
            quota: text(value, "quota_project_id").map(str::to_owned),
            universe: text(value, "universe_domain").map(str::to_owned),
        };
        let kind = needed(value, "type")?;
        if kind == "impersonated_service_account" {
            let source = value
                .get("source_credentials")
                .ok_or_else(|| Failure::refused("they have no source_credentials"))?;
            let url = address(needed(value, "service_account_impersonation_url")?)?;
            let delegates = value.get("delegates").and_then(Value::as_array);
            let delegates = delegates.into_iter().flatten().filter_map(Value::as_str);
            found.impersonated = Some((url, delegates.map(str::to_owned).collect()));
            found.identity = Self::identity(source, needed(source, "type")?)?;
            return Ok(found);
        }
        if kind == "external_account"
            && let Some(url) = text(value, "service_account_impersonation_url")
        {
            found.impersonated = Some((address(url)?, Vec::new()));
        }
        found.identity = Self::identity(value, kind)?;
        Ok(found)
    }

    /// Who they are of.
    fn identity(value: &Value, kind: &str) -> Result<Identity, Failure> {
        let tokens = || address(text(value, "token_uri").unwrap_or(TOKENS));
        Ok(match kind {
            "service_account" => Identity::Service {
                email: needed(value, "client_email")?.to_owned(),
                key_id: text(value, "private_key_id").unwrap_or_default().to_owned(),
                signer: Signer::from_pem(needed(value, "private_key")?.as_bytes())?,
                tokens: tokens()?,
            },
            "authorized_user" => Identity::Person {
                client: needed(value, "client_id")?.to_owned(),
                secret: needed(value, "client_secret")?.into(),
                refresh: needed(value, "refresh_token")?.into(),
                tokens: tokens()?,
            },
            "external_account" => Identity::External(Box::new(External::read(value)?)),
            other => {
                return Err(Failure::refused(format!(
                    "their type '{other}' is none of service_account, authorized_user, impersonated_service_account, external_account"
                )));
            }
        })
    }

    /// Where the API is for them.
    pub(super) fn endpoint(&self) -> String {
        let universe = self.universe.as_deref().unwrap_or("googleapis.com");
        format!("https://dns.{universe}")
    }
}

/// Gets tokens, and keeps them.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The file that the Corefile names.
    path: Option<PathBuf>,
    /// What was last read and could be used.
    credentials: Mutex<Arc<Credentials>>,
    env: Environment,
    fetch: Fetch,
    kept: Fresh<SecretString>,
}

impl Tokens {
    /// Those for credentials that were found by way of `path`.
    pub(super) fn new(
        credentials: Credentials,
        path: Option<PathBuf>,
        env: Environment,
        fetch: Fetch,
    ) -> Self {
        let credentials = Mutex::new(Arc::new(credentials));
        Self { path, credentials, env, fetch, kept: Fresh::default() }
    }

    /// The credentials that were last read.
    fn last(&self) -> Arc<Credentials> {
        Arc::clone(&self.credentials.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The credentials as they are now; the last ones if they cannot be used.
    fn now(&self) -> Arc<Credentials> {
        match Credentials::find(self.path.as_deref(), &self.env) {
            Ok(found) => {
                let found = Arc::new(found);
                let mut last = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Arc::clone(&found);
                found
            }
            Err(failure) => {
                log::warn!(target: "plugin/clouddns", "{failure}; those of before are used");
                self.last()
            }
        }
    }

    /// The project that pays for requests, if it is not that of who asks.
    pub(super) fn quota(&self) -> Option<String> {
        self.last().quota.clone()
    }

    /// A token that is good.
    pub(super) async fn get(&self) -> Result<SecretString, Failure> {
        let token = self.kept.get(|| self.ask()).await;
        token.map_err(|failure| failure.while_doing("no Google token"))
    }

    /// Lets go of a token that is not taken.
    pub(super) async fn forget(&self) {
        self.kept.forget().await;
    }

    /// Asks for one.
    async fn ask(&self) -> Result<Made<SecretString>, Failure> {
        let credentials = self.now();
        let Some((url, delegates)) = &credentials.impersonated else {
            return self.own(&credentials.identity, SCOPE).await;
        };
        let own = self.own(&credentials.identity, ALL).await?;
        let own = own.value.expose_secret();
        let bearer = format!("Bearer {own}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let body = json!({"delegates": delegates, "scope": [SCOPE], "lifetime": "3600s"});
        let ask = request(Method::POST, url, &headers, body.to_string())?;
        let reply = self.fetch.send(ask).await?;
        let value = read(&reply, &[own])?;
        let token = text(&value, "accessToken");
        let token = token.ok_or_else(|| Failure::away("the reply has no token"))?;
        // Shorter than what was asked for, as far as clocks may differ.
        Ok(Made { value: token.into(), lives: Some(Duration::from_secs(3300)) })
    }

    /// Asks for one of who has the credentials.
    async fn own(&self, identity: &Identity, scope: &str) -> Result<Made<SecretString>, Failure> {
        match identity {
            Identity::Service { email, key_id, signer, tokens } => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let now = now.unwrap_or_default().as_secs();
                let header = json!({"alg": "RS256", "typ": "JWT", "kid": key_id});
                let claims = json!({
                    "iss": email, "scope": scope, "aud": tokens, "iat": now, "exp": now + 3600,
                });
                let assertion = signer.sign(&header, &claims)?;
                let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                let fields = [("grant_type", kind), ("assertion", &*assertion)];
                self.by_form(tokens, &fields, &[&assertion]).await
            }
            Identity::Person { client, secret, refresh, tokens } => {
                let (secret, refresh) = (secret.expose_secret(), refresh.expose_secret());
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client),
                    ("client_secret", secret),
                    ("refresh_token", refresh),
                ];
                self.by_form(tokens, &fields, &[secret, refresh]).await
            }
            Identity::External(external) => {
                let subject = external.subject(&self.env, &self.fetch).await?;
                let fields = external.fields(subject.expose_secret(), scope);
                let fields: Vec<(&str, &str)> =
                    fields.iter().map(|(name, value)| (*name, &**value)).collect();
                self.by_form(external.tokens(), &fields, &[subject.expose_secret()]).await
            }
            Identity::Machine => {
                let host = self.env.get("GCE_METADATA_HOST");
                let host = host.unwrap_or_else(|| MACHINE.to_owned());
                let url = format!(
                    "http://{host}/computeMetadata/v1/instance/service-accounts/default/token?{}",
                    form(&[("scopes", scope)])
                );
                let ask = request(Method::GET, &url, &[("metadata-flavor", "Google")], "")?;
                let reply = self.fetch.within(PATIENCE).send(ask).await.map_err(|failure| {
                    failure.while_doing("no credentials are named, and of the machine")
                })?;
                token(&read(&reply, &[])?)
            }
        }
    }

    /// Asks by a form (RFC 6749), of which `secrets` are not to be seen.
    async fn by_form(
        &self,
        url: &str,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<Made<SecretString>, Failure> {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let ask = request(Method::POST, url, &headers, form(fields))?;
        token(&read(&self.fetch.send(ask).await?, secrets)?)
    }
}

/// Reads a reply, or what it says if it is no success.
pub(super) fn read(reply: &Reply, secrets: &[&str]) -> Result<Value, Failure> {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    if !reply.status.is_success() {
        let value = value.unwrap_or_default();
        let of = |name: &str| text(&value, name).unwrap_or_default();
        let message = value.pointer("/error/message").and_then(Value::as_str);
        let message = message.unwrap_or_else(|| of("error_description"));
        return Err(reply.failure(of("error"), message, secrets));
    }
    value.ok_or_else(|| Failure::away("the reply is no JSON"))
}

/// Reads a token.
fn token(value: &Value) -> Result<Made<SecretString>, Failure> {
    let found = text(value, "access_token");
    let found = found.ok_or_else(|| Failure::away("the reply has no token"))?;
    let lives = value.get("expires_in").and_then(Value::as_u64).unwrap_or(LIVES);
    Ok(Made { value: found.into(), lives: Some(Duration::from_secs(lives)) })
}
