//! OpenTelemetry's form: protocol buffers of OTLP over HTTP.

use http::Method;
use prost::Message as _;

use super::report::Batch;
use super::span::{Span, Traced};

/// A span of a server (`Span.SpanKind`).
const SERVER: i32 = 2;

/// A span of a client.
const CLIENT: i32 = 3;

/// A span within one.
const INTERNAL: i32 = 1;

/// A status of failure (`Status.StatusCode`).
const ERROR: i32 = 2;

/// The flag of spans that are kept (W3C Trace Context §3.2.2.5).
const SAMPLED: u32 = 1;

/// Who the spans are of.
#[derive(Clone, Debug)]
pub(super) struct Otlp {
    pub(super) service: String,
    pub(super) version: String,
}

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

/// `ResourceSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

/// `Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// `ScopeSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Form>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// `Span`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Form {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

/// `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// `AnyValue`, of which there are only texts here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(super) string_value: Option<String>,
}

/// An attribute.
fn attribute(key: impl Into<String>, value: impl Into<String>) -> KeyValue {
    let value = AnyValue { string_value: Some(value.into()) };
    KeyValue { key: key.into(), value: Some(value) }
}

/// A trace's number in words.
pub(super) fn number(trace: u128) -> String {
    format!("{trace:032x}")
}

impl Otlp {
    /// Traced queries as a request.
    pub(super) fn encode(&self, all: &[Traced]) -> Batch {
        let spans = all.iter().flat_map(|traced| {
            traced.spans(false).map(|span| form(traced.trace, &span)).collect::<Vec<_>>()
        });
        let scope = Scope { name: "causeway".to_owned(), version: self.version.clone() };
        let resource = Resource {
            attributes: vec![
                attribute("service.name", &*self.service),
                attribute("service.version", &*self.version),
            ],
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans: spans.collect() }];
        let all = ResourceSpans { resource: Some(resource), scope_spans };
        let body = Request { resource_spans: vec![all] }.encode_to_vec();
        let headers = vec![("content-type", "application/x-protobuf".to_owned())];
        Batch { method: Method::POST, headers, body }
    }
}

/// One span.
fn form(trace: u128, span: &Span<'_>) -> Form {
    let nanoseconds =
        |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut attributes = Vec::new();
    let mut status = None;
    if let Some(facts) = span.facts {
        attributes.extend(facts.tags('/').into_iter().map(|(key, value)| attribute(key, value)));
        if let Some(error) = &facts.error {
            attributes.push(attribute("error.type", "dns_error"));
            status = Some(Status { message: error.clone(), code: ERROR });
        }
    }
    if let Some(peer) = span.peer {
        attributes.push(attribute("network.peer.address", peer.ip().to_string()));
        attributes.push(attribute("peer.address", peer.to_string()));
    }
    Form {
        trace_id: trace.to_be_bytes().to_vec(),
        span_id: span.id.to_be_bytes().to_vec(),
        parent_span_id: span.parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: match (span.is_root, span.peer) {
            (true, _) => SERVER,
            (false, Some(_)) => CLIENT,
            (false, None) => INTERNAL,
        },
        start_time_unix_nano: nanoseconds(span.begun),
        end_time_unix_nano: nanoseconds(span.begun + span.took),
        attributes,
        status,
        flags: SAMPLED,
    }
}
