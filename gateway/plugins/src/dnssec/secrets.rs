//! Keys in AWS Secrets Manager: secrets of the form `{"key": "…", "private": "…"}`.

use std::sync::{Mutex, PoisonError};

use ::http::Method;

use crate::shared::aws::{Ask, Chain, Choice, Client, Scope, partition};
use crate::shared::dnssec::Key;
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch, Kind, Reply};

/// Secrets with the keys that they held when they were fetched last.
#[derive(Debug)]
pub(super) struct Secrets {
    client: Client,
    fetch: Fetch,
    ids: Vec<String>,
    held: Mutex<Held>,
}

/// The two texts of each key.
#[derive(Default)]
struct Held {
    texts: Vec<[String; 2]>,
    /// Whether they are others than those that were read last.
    fresh: bool,
}

impl std::fmt::Debug for Held {
    /// Leaves the keys out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("fresh", &self.fresh).finish_non_exhaustive()
    }
}

impl Secrets {
    /// These secrets, by their names or ARNs; credentials and region are found as Amazon's own tools do. Nothing is fetched yet.
    pub(super) fn new(fetch: Fetch, env: Environment, ids: Vec<String>) -> Self {
        let client = Client::new(fetch.clone(), Chain::new(Choice::Usual, env));
        Self { client, fetch, ids, held: Mutex::default() }
    }

    /// Whether they were fetched once.
    pub(super) fn are_there(&self) -> bool {
        !self.held.lock().unwrap_or_else(PoisonError::into_inner).texts.is_empty()
    }

    /// Fetches all secrets.
    ///
    /// # Errors
    /// What is wrong with the first that is; what was fetched before stays.
    pub(super) async fn fetch(&self) -> Result<(), String> {
        let mut texts = Vec::new();
        for id in &self.ids {
            let text = self.one(id).await;
            texts.push(text.map_err(|failure| format!("secret \"{id}\": {failure}"))?);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.texts != texts {
            *held = Held { texts, fresh: true };
        }
        Ok(())
    }

    /// Whether there are others since they were read last.
    pub(super) fn have_changed(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).fresh
    }

    /// Reads the keys that were fetched.
    ///
    /// # Errors
    /// What is wrong with the first that is.
    pub(super) fn read(&self) -> Result<Vec<Key>, String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.fresh = false;
        let keys = held.texts.iter().zip(&self.ids).map(|([public, private], id)| {
            Key::read(public, private).map_err(|wrong| format!("secret \"{id}\": {wrong}"))
        });
        keys.collect()
    }

    /// Fetches one secret.
    async fn one(&self, id: &str) -> Result<[String; 2], Failure> {
        let chain = self.client.chain();
        let env = chain.env();
        let named = env
            .get("AWS_ENDPOINT_URL_SECRETS_MANAGER")
            .or_else(|| env.get("AWS_ENDPOINT_URL"))
            .map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        let region = match (chain.region(), &named) {
            (Some(region), _) => region,
            (None, Some(_)) => "us-east-1".to_owned(),
            (None, None) => chain.region_or_machine(&self.fetch).await.map_err(|failure| {
                let what =
                    format!("the region is not known: set AWS_REGION (of the machine: {failure})");
                Failure::new(Kind::Refused, what)
            })?,
        };
        let usual = || format!("https://secretsmanager.{region}.{}", partition(&region).suffix);
        let endpoint = named.unwrap_or_else(usual);
        let body = serde_json::json!({ "SecretId": id }).to_string();
        let ask = Ask {
            method: Method::POST,
            endpoint: &endpoint,
            path: "/",
            query: "",
            headers: &[
                ("content-type", "application/x-amz-json-1.1"),
                ("x-amz-target", "secretsmanager.GetSecretValue"),
            ],
            body: body.as_bytes(),
        };
        let scope = Scope { region: &region, service: "secretsmanager" };
        let reply = self.client.send(&scope, &ask, said).await?;
        keys_in(reply.text()?)
    }
}

/// The two texts in a reply. Nothing of it is told, whatever it is.
fn keys_in(reply: &str) -> Result<[String; 2], Failure> {
    let value: serde_json::Value =
        serde_json::from_str(reply).map_err(|_| Failure::away("the reply is no JSON"))?;
    let secret = value.get("SecretString").and_then(serde_json::Value::as_str);
    let secret = secret.ok_or_else(|| Failure::refused("it has no text"))?;
    let wrong = || Failure::refused("it is not of the form {\"key\": \"…\", \"private\": \"…\"}");
    let pair: serde_json::Value = serde_json::from_str(secret).map_err(|_| wrong())?;
    let text = |name: &str| Some(pair.get(name)?.as_str()?.to_owned());
    Ok([text("key").ok_or_else(wrong)?, text("private").ok_or_else(wrong)?])
}

/// The code and the message of an error.
fn said(reply: &Reply) -> (String, String) {
    let value: serde_json::Value =
        reply.text().ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let text = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| value.get(*name)?.as_str());
        found.unwrap_or_default().to_owned()
    };
    let code = text(["__type", "code"]);
    let code = code.rsplit('#').next().unwrap_or_default().to_owned();
    (code, text(["message", "Message"]))
}
