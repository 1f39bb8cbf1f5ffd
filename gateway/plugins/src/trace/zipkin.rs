//! Zipkin's form: JSON of its API v2.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use http::Method;
use serde::Serialize;

use super::report::Batch;
use super::span::{Span, Traced};

/// Who the spans are of.
#[derive(Clone, Debug)]
pub(super) struct Zipkin {
    pub(super) service: String,
    /// Where it listens, if the configuration says so.
    pub(super) local: Option<SocketAddr>,
    /// Whether the outermost span has the number of the client's.
    pub(super) shares: bool,
}

/// A span.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Form<'a> {
    trace_id: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Microseconds since 1970.
    timestamp: u64,
    /// Microseconds, at least one.
    duration: u64,
    local_endpoint: Endpoint<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, Cow<'a, str>>,
}

/// Who a span is of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    service_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

/// A trace's number in words: 16 digits, or 32 if it needs them.
pub(super) fn number(trace: u128) -> String {
    if trace > u128::from(u64::MAX) { format!("{trace:032x}") } else { format!("{trace:016x}") }
}

impl Zipkin {
    /// Traced queries as a list of spans.
    pub(super) fn encode(&self, all: &[Traced]) -> Batch {
        let spans: Vec<Form<'_>> = all
            .iter()
            .flat_map(|traced| {
                traced.spans(self.shares).map(|span| self.form(number(traced.trace), &span))
            })
            .collect();
        // Numbers and texts: nothing that JSON has not.
        let body = serde_json::to_vec(&spans).unwrap_or_default();
        let headers = vec![("content-type", "application/json".to_owned())];
        Batch { method: Method::POST, headers, body }
    }

    /// One span.
    fn form<'a>(&'a self, trace_id: String, span: &Span<'a>) -> Form<'a> {
        let microseconds =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut tags = BTreeMap::new();
        if let Some(facts) = span.facts {
            tags.extend(facts.tags('/'));
            if facts.error.is_some() {
                tags.insert("error".to_owned(), "true".into());
            }
        }
        if let Some(peer) = span.peer {
            tags.insert("peer.address".to_owned(), peer.to_string().into());
        }
        Form {
            trace_id,
            id: format!("{:016x}", span.id),
            parent_id: span.parent.map(|parent| format!("{parent:016x}")),
            name: span.name,
            kind: span.is_root.then_some("SERVER"),
            timestamp: microseconds(span.begun),
            duration: microseconds(span.took).max(1),
            local_endpoint: self.endpoint(),
            shared: span.shared,
            tags,
        }
    }

    /// Who the spans are of.
    fn endpoint(&self) -> Endpoint<'_> {
        let ip = self.local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        Endpoint {
            service_name: &self.service,
            ipv4: ip.filter(IpAddr::is_ipv4).map(|ip| ip.to_string()),
            ipv6: ip.filter(IpAddr::is_ipv6).map(|ip| ip.to_string()),
            port: self.local.map(|local| local.port()),
        }
    }
}
