//! Azure's API: which requests list a zone, and what their replies say.

use ::http::Method;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::auth::{Place, Tokens};
use crate::shared::cloud::{Api, Asking, Copy, Listing, RecordSet};
use crate::shared::fetch::{Failure, Fetch, Kind, Reply, percent, request};

/// How many pages a zone may have: more than Azure allows.
const PAGES: usize = 10_000;

/// The API by somebody's tokens.
#[derive(Debug)]
pub(super) struct Azure {
    tokens: Tokens,
    fetch: Fetch,
    place: Place,
    subscription: String,
}

impl Azure {
    /// The API of a subscription.
    pub(super) fn new(tokens: Tokens, fetch: Fetch, place: Place, subscription: String) -> Self {
        Self { tokens, fetch, place, subscription }
    }

    /// Where a zone's record sets are listed.
    fn address(&self, copy: &Copy) -> String {
        // The Corefile's parts have no other form: a resource group, and the name of a zone.
        let (group, zone) = copy.id().split_once(':').unwrap_or_default();
        let (kind, list, version) = if copy.private {
            ("privateDnsZones", "ALL", "2020-06-01")
        } else {
            ("dnsZones", "recordsets", "2018-05-01")
        };
        format!(
            "{}/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network/{kind}/{}/{list}?api-version={version}",
            self.place.management,
            percent(&self.subscription),
            percent(group),
            percent(zone.trim_end_matches('.')),
        )
    }

    /// Asks for a page. If the token is not taken, another is asked for, once.
    async fn get(&self, url: &str) -> Result<Value, Failure> {
        let mut again = true;
        loop {
            let token = self.tokens.get().await?;
            let bearer = format!("Bearer {}", token.expose_secret());
            let ask = request(Method::GET, url, &[("authorization", &bearer)], "")?;
            let reply = self.fetch.send(ask).await?;
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

    /// Whether the address of a further page is one of this API: no other gets the token.
    fn is_own(&self, url: &str) -> bool {
        let rest = url.strip_prefix(&*self.place.management);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// Reads all pages of a zone.
    async fn pages(&self, copy: &Copy) -> Result<Listing, Failure> {
        let (mut listing, mut url) = (Listing::default(), self.address(copy));
        for _ in 0..PAGES {
            let page = self.get(&url).await?;
            let sets = page.get("value").and_then(Value::as_array);
            let sets = sets.ok_or_else(|| Failure::away("the reply lists no record sets"))?;
            for set in sets {
                match record_set(set, copy.private) {
                    Ok(Some(set)) => listing.sets.push(set),
                    Ok(None) => {}
                    Err(why) => listing.odd.push(why),
                }
            }
            match page.get("nextLink").and_then(Value::as_str).filter(|next| !next.is_empty()) {
                None => return Ok(listing),
                Some(next) if next == url => {
                    return Err(Failure::away("the API gives the same page again and again"));
                }
                Some(next) if !self.is_own(next) => {
                    return Err(Failure::away("the next page is at another server"));
                }
                Some(next) => next.clone_into(&mut url),
            }
        }
        Err(Failure::away("the API gives pages without end"))
    }
}

impl Api for Azure {
    fn probe<'a>(&'a self, copy: &'a Copy) -> Asking<'a, ()> {
        Box::pin(async { self.get(&self.address(copy)).await.map(drop) })
    }

    fn list<'a>(&'a self, copy: &'a Copy) -> Asking<'a, Listing> {
        Box::pin(self.pages(copy))
    }
}

/// What a reply says that is no success.
fn failure(reply: &Reply, secret: &str) -> Failure {
    let value: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let error = value.as_ref().and_then(|value| value.get("error"));
    let text = |name: &str| error.and_then(|error| error.get(name)).and_then(Value::as_str);
    let (code, message) = (text("code").unwrap_or_default(), text("message").unwrap_or_default());
    reply.failure(code, message, &[secret])
}

/// A member by its name, which public and private zones write in different case.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, of)| of)
}

/// A member that is a text.
fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    member(value, name)?.as_str()
}

/// A member that is a number.
fn number(value: &Value, name: &str) -> Option<u64> {
    member(value, name)?.as_u64()
}

/// Reads a record as text.
type Read = fn(&Value) -> Option<String>;

/// A text in quotes, as the data of records has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for octet in text.bytes() {
        match octet {
            b'"' | b'\\' => out.extend(['\\', char::from(octet)]),
            b' '..=b'~' => out.push(char::from(octet)),
            _ => out.push_str(&format!("\\{octet:03}")),
        }
    }
    out.push('"');
    out
}

/// Reads a record set. None if it has no records or is of a type that is made elsewhere.
///
/// # Errors
/// Which set cannot be read.
pub(super) fn record_set(set: &Value, private: bool) -> Result<Option<RecordSet>, String> {
    let kind = text(set, "type").and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
    let kind = kind.to_ascii_uppercase();
    let wrong = |what: &str| {
        let name = text(set, "name").unwrap_or("a set without a name");
        format!("{name} {kind}: {what}")
    };
    let properties = member(set, "properties").ok_or_else(|| wrong("has no properties"))?;
    let owner = text(properties, "fqdn").ok_or_else(|| wrong("has no name"))?;
    let ttl = number(properties, "TTL").ok_or_else(|| wrong("has no time to live"))?;
    // Those of a private zone are Azure's own.
    if private && kind == "NS" {
        return Ok(None);
    }
    // One record stands alone, several in a list.
    let one = |name: &str| member(properties, name).into_iter().collect::<Vec<_>>();
    let many = |name: &str| {
        let list = member(properties, name).and_then(Value::as_array);
        list.into_iter().flatten().collect::<Vec<_>>()
    };
    let (records, read): (Vec<&Value>, Read) = match &*kind {
        "A" => (many("ARecords"), |record| text(record, "ipv4Address").map(str::to_owned)),
        "AAAA" => (many("AAAARecords"), |record| text(record, "ipv6Address").map(str::to_owned)),
        "CNAME" => (one("CNAMERecord"), |record| text(record, "cname").map(str::to_owned)),
        "NS" => (many("NSRecords"), |record| text(record, "nsdname").map(str::to_owned)),
        "PTR" => (many("PTRRecords"), |record| text(record, "ptrdname").map(str::to_owned)),
        "MX" => (many("MXRecords"), |record| {
            Some(format!("{} {}", number(record, "preference")?, text(record, "exchange")?))
        }),
        "SRV" => (many("SRVRecords"), |record| {
            let [priority, weight, port] =
                ["priority", "weight", "port"].map(|name| number(record, name));
            Some(format!("{} {} {} {}", priority?, weight?, port?, text(record, "target")?))
        }),
        "CAA" => (many("caaRecords"), |record| {
            let (flags, tag) = (number(record, "flags")?, text(record, "tag")?);
            Some(format!("{flags} {tag} {}", quoted(text(record, "value")?)))
        }),
        "TXT" => (many("TXTRecords"), |record| {
            let parts = member(record, "value")?.as_array()?.iter();
            let parts: Option<Vec<String>> = parts.map(|part| part.as_str().map(quoted)).collect();
            parts.map(|parts| parts.join(" ")).filter(|text| !text.is_empty())
        }),
        "SOA" => (one("SOARecord"), |record| {
            let times = ["serialNumber", "refreshTime", "retryTime", "expireTime", "minimumTTL"];
            let times: Option<Vec<String>> = times
                .iter()
                .map(|name| number(record, name).map(|time| time.to_string()))
                .collect();
            let (host, email) = (text(record, "host")?, text(record, "email")?);
            Some(format!("{host} {email} {}", times?.join(" ")))
        }),
        _ => return Err(wrong("is of a type that is not served")),
    };
    let data: Option<Vec<String>> = records.into_iter().map(read).collect();
    let data = data.ok_or_else(|| wrong("has a record that lacks a part"))?;
    if data.is_empty() {
        return Ok(None);
    }
    Ok(Some(RecordSet { owner: owner.to_owned(), rtype: kind, ttl, data }))
}
