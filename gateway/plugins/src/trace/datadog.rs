//! Datadog's form: MessagePack of its agent's API v0.4.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::Method;
use serde::Serialize;

use super::report::Batch;
use super::span::{Span, Traced};

/// Who the spans are of.
#[derive(Clone, Debug)]
pub(super) struct Datadog {
    pub(super) service: String,
    /// How many of the traces are kept for search, from 0 to 1.
    pub(super) rate: f64,
}

/// A span.
#[derive(Debug, Serialize)]
struct Form<'a> {
    service: &'a str,
    name: &'static str,
    resource: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    trace_id: u64,
    span_id: u64,
    parent_id: u64,
    /// Nanoseconds since 1970.
    start: i64,
    /// Nanoseconds.
    duration: i64,
    error: i32,
    meta: BTreeMap<String, Cow<'a, str>>,
    metrics: BTreeMap<&'static str, f64>,
}

/// A trace's number in words.
pub(super) fn number(trace: u128) -> String {
    low(trace).to_string()
}

/// The half of a trace's number that there is room for.
fn low(trace: u128) -> u64 {
    (trace & u128::from(u64::MAX)) as u64
}

impl Datadog {
    /// Traced queries as a list of lists of spans.
    pub(super) fn encode(&self, all: &[Traced]) -> Batch {
        let traces: Vec<Vec<Form<'_>>> = all
            .iter()
            .map(|traced| {
                traced.spans(false).map(|span| self.form(low(traced.trace), &span)).collect()
            })
            .collect();
        // Numbers and texts: nothing that MessagePack has not.
        let body = rmp_serde::to_vec_named(&traces).unwrap_or_default();
        let headers = vec![
            ("content-type", "application/msgpack".to_owned()),
            ("x-datadog-trace-count", traces.len().to_string()),
            ("datadog-meta-lang", "rust".to_owned()),
            ("datadog-meta-tracer-version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Batch { method: Method::PUT, headers, body }
    }

    /// One span.
    fn form<'a>(&'a self, trace_id: u64, span: &Span<'a>) -> Form<'a> {
        let nanoseconds =
            |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let (mut meta, mut metrics) = (BTreeMap::new(), BTreeMap::new());
        let error = span.facts.and_then(|facts| facts.error.as_ref());
        if let Some(facts) = span.facts {
            meta.extend(facts.tags('@'));
            meta.insert("span.kind".to_owned(), "server".into());
            metrics.insert("_sampling_priority_v1", 1.0);
            if self.rate > 0.0 {
                metrics.insert("_dd1.sr.eausr", self.rate);
            }
        }
        if let Some(error) = error {
            meta.insert("error.message".to_owned(), error.into());
            meta.insert("error.type".to_owned(), "dns_error".into());
        }
        if let Some(peer) = span.peer {
            meta.insert("peer.address".to_owned(), peer.to_string().into());
        }
        Form {
            service: &self.service,
            name: span.name,
            resource: span.name,
            kind: "dns",
            trace_id,
            span_id: span.id,
            parent_id: span.parent.unwrap_or(0),
            start: nanoseconds(span.begun),
            duration: nanoseconds(span.took).max(1),
            error: error.is_some().into(),
            meta,
            metrics,
        }
    }
}
