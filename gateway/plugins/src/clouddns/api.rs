//! Cloud DNS's API: which requests list a managed zone, and what their replies say.

use ::http::Method;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::auth::Tokens;
use crate::shared::cloud::{Api, Asking, Copy, Listing, RecordSet};
use crate::shared::fetch::{Failure, Fetch, Kind, Reply, percent, request};

/// How many pages a zone may have: more than Cloud DNS allows.
const PAGES: usize = 10_000;

/// The API by somebody's tokens.
#[derive(Debug)]
pub(super) struct CloudDns {
    tokens: Tokens,
    fetch: Fetch,
    endpoint: String,
}

impl CloudDns {
    /// The API at an address.
    pub(super) fn new(tokens: Tokens, fetch: Fetch, endpoint: String) -> Self {
        Self { tokens, fetch, endpoint }
    }

    /// Where a managed zone is.
    fn address(&self, copy: &Copy) -> String {
        let (project, zone) = copy.id().rsplit_once(':').unwrap_or_default();
        let (project, zone) = (percent(project), percent(zone));
        format!("{}/dns/v1/projects/{project}/managedZones/{zone}", self.endpoint)
    }

    /// Asks. If the token is not taken, another is asked for, once.
    async fn get(&self, url: &str) -> Result<Value, Failure> {
        let mut again = true;
        loop {
            let token = self.tokens.get().await?;
            let bearer = format!("Bearer {}", token.expose_secret());
            let mut headers = vec![("authorization", &*bearer)];
            let quota = self.tokens.quota();
            headers.extend(quota.as_deref().map(|project| ("x-goog-user-project", project)));
            let reply = self.fetch.send(request(Method::GET, url, &headers, "")?).await?;
            if reply.status.is_success() {
                return serde_json::from_slice(&reply.body)
                    .map_err(|_| Failure::away("the reply is no JSON"));
            }
            let failure = failure(&reply, token.expose_secret());
            if failure.kind != Kind::Unknown || !std::mem::take(&mut again) {
                return Err(failure);
            }
            self.tokens.forget().await;
        }
    }

    /// Reads all pages of a zone.
    async fn pages(&self, copy: &Copy) -> Result<Listing, Failure> {
        let url = format!("{}/rrsets?maxResults=1000", self.address(copy));
        let (mut listing, mut token) = (Listing::default(), String::new());
        for _ in 0..PAGES {
            let page = match &*token {
                "" => self.get(&url).await?,
                token => self.get(&format!("{url}&pageToken={}", percent(token))).await?,
            };
            let sets = match page.get("rrsets") {
                // An API of protobuf's may leave an empty list out.
                None if page.get("kind").is_some() => &[],
                sets => &**sets
                    .and_then(Value::as_array)
                    .ok_or_else(|| Failure::away("the reply lists no record sets"))?,
            };
            for set in sets {
                match record_set(set) {
                    Ok(set) => listing.sets.push(set),
                    Err(why) => listing.odd.push(why),
                }
            }
            match page.get("nextPageToken").and_then(Value::as_str).unwrap_or_default() {
                "" => return Ok(listing),
                next if next == token => {
                    return Err(Failure::away("the API gives the same page again and again"));
                }
                next => next.clone_into(&mut token),
            }
        }
        Err(Failure::away("the API gives pages without end"))
    }
}

impl Api for CloudDns {
    fn probe<'a>(&'a self, copy: &'a Copy) -> Asking<'a, ()> {
        Box::pin(async {
            let zone = self.get(&self.address(copy)).await?;
            let known = zone.get("name").and_then(Value::as_str);
            known.map(drop).ok_or_else(|| Failure::away("the reply is no managed zone"))
        })
    }

    fn list<'a>(&'a self, copy: &'a Copy) -> Asking<'a, Listing> {
        Box::pin(self.pages(copy))
    }
}

/// What a reply says that is no success.
fn failure(reply: &Reply, secret: &str) -> Failure {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let error = value.as_ref().and_then(|value| value.get("error"));
    let message = error.and_then(|error| error.get("message")).and_then(Value::as_str);
    let reason = error.and_then(|error| error.pointer("/errors/0/reason")).and_then(Value::as_str);
    let mut failure =
        reply.failure(reason.unwrap_or_default(), message.unwrap_or_default(), &[secret]);
    // A quota that is used up is a 403 as well.
    if reason.is_some_and(|reason| reason.ends_with("imitExceeded") || reason == "quotaExceeded") {
        failure.kind = Kind::Busy(None);
    }
    failure
}

/// Reads a record set. Those of a routing policy have no records of their own.
///
/// # Errors
/// Which set cannot be read.
pub(super) fn record_set(set: &Value) -> Result<RecordSet, String> {
    let text = |name: &str| set.get(name).and_then(Value::as_str);
    let (owner, rtype) = (text("name").unwrap_or_default(), text("type").unwrap_or_default());
    let wrong = |what: &str| format!("{owner} {rtype}: {what}");
    if owner.is_empty() || rtype.is_empty() {
        return Err(wrong("has no name or no type"));
    }
    let data = match set.get("rrdatas") {
        None => Vec::new(),
        Some(data) => {
            let data = data.as_array().into_iter().flatten();
            let data: Option<Vec<String>> =
                data.map(|record| record.as_str().map(str::to_owned)).collect();
            data.ok_or_else(|| wrong("has a record that is no text"))?
        }
    };
    let ttl = set.get("ttl").and_then(Value::as_u64);
    let ttl = match ttl {
        Some(ttl) => ttl,
        None if data.is_empty() => 0,
        None => return Err(wrong("has no time to live")),
    };
    Ok(RecordSet { owner: owner.to_owned(), rtype: rtype.to_owned(), ttl, data })
}
