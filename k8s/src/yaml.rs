//! From the text of manifests to documents of the kinds that DNS needs, with the places of errors.

use std::{fmt, net::IpAddr};

use serde::de::DeserializeOwned;

use crate::document::{Export, Head, Import, List, Metadata, Plain, Pod, Property, Service, Slice};

/// An error in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file; empty if the text came from elsewhere.
    pub file: String,
    /// The line, counted from 1; 0 if the file as a whole is meant.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.file, self.line) {
            ("", line) => write!(f, "line {line}: {}", self.what),
            (file, 0) => write!(f, "{file}: {}", self.what),
            (file, line) => write!(f, "{file}:{line}: {}", self.what),
        }
    }
}

impl std::error::Error for Problem {}

/// A document of a kind that matters.
#[derive(Debug, Clone)]
pub(crate) enum Document {
    /// A Namespace.
    Namespace(Plain),
    /// A Service.
    Service(Box<Service>),
    /// An EndpointSlice.
    Slice(Slice),
    /// A Pod.
    Pod(Box<Pod>),
    /// A ServiceImport.
    Import(Import),
    /// A ServiceExport.
    Export(Export),
    /// A ClusterProperty.
    Property(Property),
}

impl Document {
    /// Gives the metadata.
    const fn metadata(&self) -> &Metadata {
        match self {
            Self::Namespace(plain) => &plain.metadata,
            Self::Service(service) => &service.metadata,
            Self::Slice(slice) => &slice.metadata,
            Self::Pod(pod) => &pod.metadata,
            Self::Import(import) => &import.metadata,
            Self::Export(export) => &export.metadata,
            Self::Property(property) => &property.metadata,
        }
    }
}

/// Reads all documents of a text. Those that are good come even if others are not.
pub(crate) fn parse(text: &str) -> (Vec<Document>, Vec<Problem>) {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for (line, text) in split(text) {
        if let Err((offset, what)) = document(text, &mut documents) {
            // A list is good or bad as a whole, but what went before it stays.
            problems.push(Problem {
                file: String::new(),
                line: line + offset.saturating_sub(1),
                what,
            });
        }
    }
    (documents, problems)
}

/// Cuts a text into documents, each with the line that it begins at.
fn split(text: &str) -> Vec<(u64, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let bare = line.trim_end();
        // "--- " may be followed by the document's first node (YAML 1.2, section 9.1).
        if bare == "---" || bare.starts_with("--- ") || bare == "..." {
            documents.push((first, &text[start..at]));
            (start, first) = if bare.starts_with("--- ") {
                (at + 3, number)
            } else {
                (at + line.len(), number + 1)
            };
        }
        at += line.len();
    }
    documents.push((first, &text[start..]));
    documents.retain(|(_, text)| {
        text.lines().any(|line| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#') && !line.starts_with('%')
        })
    });
    documents
}

/// An error and its line within a document.
type Misread = (u64, String);

/// Reads one document. Kinds that do not matter are passed over.
fn document(text: &str, documents: &mut Vec<Document>) -> Result<(), Misread> {
    let head: Head = read(text)?;
    if head.kind.ends_with("List") && head.api_version == "v1" {
        let list: List = read(text)?;
        for item in list.items {
            let head: Head =
                serde_json::from_value(item.clone()).map_err(|error| (1, error.to_string()))?;
            let read = Source::Value(item);
            push(&head, read, documents)?;
        }
        return Ok(());
    }
    push(&head, Source::Text(text), documents)
}

/// Where a document's content is.
enum Source<'a> {
    /// In YAML.
    Text(&'a str),
    /// In a value, which has no places.
    Value(serde_json::Value),
}

impl Source<'_> {
    /// Reads the content.
    fn read<T: DeserializeOwned>(self) -> Result<T, Misread> {
        match self {
            Self::Text(text) => read(text),
            Self::Value(value) => {
                serde_json::from_value(value).map_err(|error| (1, error.to_string()))
            }
        }
    }
}

/// Adds one document if its kind matters and its name can be one.
fn push(head: &Head, source: Source<'_>, documents: &mut Vec<Document>) -> Result<(), Misread> {
    let group = head.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let document = match (group, &*head.kind) {
        (_, "") => return Err((1, "a document has no `kind`".to_owned())),
        ("", "Namespace") => Document::Namespace(source.read()?),
        ("", "Service") => Document::Service(source.read()?),
        ("", "Pod") => Document::Pod(source.read()?),
        ("discovery.k8s.io", "EndpointSlice") => Document::Slice(source.read()?),
        ("multicluster.x-k8s.io", "ServiceImport") => Document::Import(source.read()?),
        ("multicluster.x-k8s.io", "ServiceExport") => Document::Export(source.read()?),
        ("about.k8s.io", "ClusterProperty") => Document::Property(source.read()?),
        _ => return Ok(()),
    };
    let metadata = document.metadata();
    let label = matches!(
        document,
        Document::Namespace(_) | Document::Service(_) | Document::Import(_) | Document::Export(_)
    );
    let kind = &head.kind;
    if !good_name(&metadata.name, label) {
        let allowed = if label { "a DNS label" } else { "a DNS name" };
        return Err((
            1,
            format!("{kind}: metadata.name {:?} is not {allowed} in lower case", metadata.name),
        ));
    }
    if let Some(namespace) = metadata.namespace.as_deref()
        && !good_name(namespace, true)
    {
        return Err((
            1,
            format!(
                "{kind} {:?}: metadata.namespace {namespace:?} is not a DNS label in lower case",
                metadata.name
            ),
        ));
    }
    if let Document::Slice(slice) = &document
        && slice.address_type.as_deref() != Some("FQDN")
        && let Some(address) = slice
            .endpoints
            .iter()
            .flat_map(|endpoint| &endpoint.addresses)
            .find(|address| address.parse::<IpAddr>().is_err())
    {
        return Err((
            1,
            format!("EndpointSlice {:?}: {address:?} is not an IP address", slice.metadata.name),
        ));
    }
    documents.push(document);
    Ok(())
}

/// Says whether a name is one of letters, digits and hyphens, with dots unless it is to be one label.
fn good_name(name: &str, label: bool) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if label { part(name) } else { name.len() <= 253 && name.split('.').all(part) }
}

/// Reads YAML; an error comes with its line.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let what = error.without_snippet().to_string();
        let what = what.lines().next().unwrap_or_default();
        // The place within the document would contradict that within the file.
        let what = what.rsplit_once(" at line ").map_or(what, |(what, _)| what);
        let field = error.location().and_then(|at| field(text, at.line(), at.column()));
        let what = match (field, what.strip_prefix("invalid ")) {
            (Some(field), Some("u16")) => format!("{field:?} is no whole number from 0 to 65535"),
            (Some(field), _) => format!("{field:?}: {what}"),
            (None, _) => what.to_owned(),
        };
        (line, what)
    })
}

/// The key whose value begins at a place, both counted from 1.
fn field(text: &str, line: u64, column: u64) -> Option<&str> {
    let nth = |at: u64| usize::try_from(at.checked_sub(1)?).ok();
    let line = text.lines().nth(nth(line)?)?;
    let end = line.char_indices().nth(nth(column)?).map_or(line.len(), |(at, _)| at);
    let before = line.get(..end)?.trim_end().strip_suffix(':')?.trim_end_matches(['"', '\'']);
    let part = |sign: char| sign.is_ascii_alphanumeric() || "-_./".contains(sign);
    let key = before.rsplit(|sign| !part(sign)).next()?;
    Some(key).filter(|key| !key.is_empty())
}
