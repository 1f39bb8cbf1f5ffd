//! Events out of the bodies of watches and lists, in protobuf or JSON.

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    client::JsonStatus,
    document::{self, Metadata},
    object::{Event, Key, Kind, Object},
    proto::{self, Happened, Status},
    resolve,
    store::Keep,
};

/// The largest frame of a watch, in bytes: more than etcd stores of an object many times over.
const LARGEST: usize = 64 << 20;

/// Why bytes can not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Protobuf.
    #[error(transparent)]
    Protobuf(#[from] proto::Malformed),
    /// JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A frame is too large.
    #[error("an event of more than {LARGEST} bytes")]
    Large,
}

/// What an event of a watch was.
#[derive(Debug)]
pub(crate) enum Note {
    /// An object, of this resource version.
    Applied(String),
    /// A bookmark of this resource version, and whether it ends the initial events.
    Bookmark(String, bool),
    /// An error.
    Error(Status),
    /// Nothing that matters.
    Nothing,
}

/// Cuts the first event off the front; gives it with the number of bytes it took, or nothing if more must come first.
pub(crate) fn frame(bytes: &[u8], json: bool) -> Result<Option<(&[u8], usize)>, Unreadable> {
    let cut = if json {
        bytes.iter().position(|byte| *byte == b'\n').map(|end| (&bytes[..end], end + 1))
    } else {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*len) as usize;
        if len > LARGEST {
            return Err(Unreadable::Large);
        }
        rest.get(..len).map(|frame| (frame, len + 4))
    };
    if cut.is_none() && bytes.len() > LARGEST + 4 { Err(Unreadable::Large) } else { Ok(cut) }
}

/// Applies an event, which is told with its resource version.
pub(crate) fn event(
    kind: Kind,
    frame: &[u8],
    json: bool,
    keep: &Keep,
    apply: &mut dyn FnMut(&Event<'_>, &str),
) -> Result<Note, Unreadable> {
    if json {
        return json_event(kind, frame, apply);
    }
    let (happened, message) = proto::event(frame)?;
    Ok(match happened {
        Happened::Applied => {
            let (object, version) = proto::object(kind, message, keep)?;
            apply(&Event::Apply(object), &version);
            Note::Applied(version.into_owned())
        }
        Happened::Deleted => {
            let (key, version) = proto::key(kind, message)?;
            apply(&Event::Delete(key), &version);
            Note::Applied(version.into_owned())
        }
        Happened::Bookmark => {
            let (version, end) = proto::bookmark(message)?;
            Note::Bookmark(version.into_owned(), end)
        }
        Happened::Error => Note::Error(proto::status(message)?),
    })
}

/// An event in JSON.
#[derive(Deserialize)]
struct JsonEvent<T> {
    /// What it is about.
    object: T,
}

/// What happened, in JSON.
#[derive(Deserialize)]
struct JsonType {
    /// The word.
    #[serde(rename = "type")]
    word: String,
}

/// Anything with metadata.
#[derive(Deserialize)]
struct JsonObject {
    /// Metadata.
    #[serde(default)]
    metadata: Metadata,
}

/// Applies an event in JSON.
fn json_event(
    kind: Kind,
    line: &[u8],
    apply: &mut dyn FnMut(&Event<'_>, &str),
) -> Result<Note, Unreadable> {
    if line.trim_ascii().is_empty() {
        return Ok(Note::Nothing);
    }
    let head: JsonType = serde_json::from_slice(line)?;
    let Some(happened) = Happened::parse(head.word.as_bytes()) else { return Ok(Note::Nothing) };
    if happened == Happened::Error {
        let JsonStatus { code, reason, message } =
            serde_json::from_slice::<JsonEvent<_>>(line)?.object;
        return Ok(Note::Error(Status { code, reason, message }));
    }
    let metadata = serde_json::from_slice::<JsonEvent<JsonObject>>(line)?.object.metadata;
    let version = metadata.resource_version.clone().unwrap_or_default();
    match happened {
        Happened::Applied => {
            let object = json_object(kind, |kind| read_event(kind, line))?;
            apply(&Event::Apply(object), &version);
        }
        Happened::Deleted => {
            let meta = resolve::meta(&metadata);
            let namespace = if kind == Kind::Namespaces { "".into() } else { meta.namespace };
            apply(&Event::Delete(Key { kind, namespace, name: meta.name }), &version);
        }
        Happened::Bookmark | Happened::Error => {
            let end =
                metadata.annotations.get(proto::INITIAL_END).is_some_and(|value| value == "true");
            return Ok(Note::Bookmark(version, end));
        }
    }
    Ok(Note::Applied(version))
}

/// An object in JSON, by kind.
enum JsonKind {
    /// A Namespace.
    Namespace(document::Plain),
    /// A Service.
    Service(Box<document::Service>),
    /// An EndpointSlice.
    Slice(document::Slice),
    /// A Pod.
    Pod(Box<document::Pod>),
    /// A ServiceImport.
    Import(document::Import),
    /// A ServiceExport.
    Export(document::Export),
}

/// Reads the object of an event.
fn read_event(kind: Kind, line: &[u8]) -> Result<JsonKind, serde_json::Error> {
    /// Reads it as a type.
    fn object<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
        serde_json::from_slice::<JsonEvent<T>>(line).map(|event| event.object)
    }
    Ok(match kind {
        Kind::Namespaces => JsonKind::Namespace(object(line)?),
        Kind::Services => JsonKind::Service(object(line)?),
        Kind::Slices | Kind::ImportSlices => JsonKind::Slice(object(line)?),
        Kind::Pods => JsonKind::Pod(object(line)?),
        Kind::Imports => JsonKind::Import(object(line)?),
        Kind::Exports => JsonKind::Export(object(line)?),
    })
}

/// Reads the object of a list.
fn read_item(kind: Kind, item: serde_json::Value) -> Result<JsonKind, serde_json::Error> {
    Ok(match kind {
        Kind::Namespaces => JsonKind::Namespace(serde_json::from_value(item)?),
        Kind::Services => JsonKind::Service(serde_json::from_value(item)?),
        Kind::Slices | Kind::ImportSlices => JsonKind::Slice(serde_json::from_value(item)?),
        Kind::Pods => JsonKind::Pod(serde_json::from_value(item)?),
        Kind::Imports => JsonKind::Import(serde_json::from_value(item)?),
        Kind::Exports => JsonKind::Export(serde_json::from_value(item)?),
    })
}

/// Gives the object that has been read.
fn json_object(
    kind: Kind,
    read: impl FnOnce(Kind) -> Result<JsonKind, serde_json::Error>,
) -> Result<Object<'static>, serde_json::Error> {
    Ok(match read(kind)? {
        JsonKind::Namespace(doc) => Object::Namespace(resolve::namespace_meta(&doc.metadata)),
        JsonKind::Service(doc) => Object::Service(resolve::service(&doc, &Default::default())),
        JsonKind::Slice(doc) if kind == Kind::ImportSlices => {
            Object::ImportSlice(resolve::slice(&doc, resolve::IMPORT_NAME))
        }
        JsonKind::Slice(doc) => Object::Slice(resolve::slice(&doc, resolve::SERVICE_NAME)),
        JsonKind::Pod(doc) => Object::Pod(resolve::pod(&doc)),
        JsonKind::Import(doc) => Object::Import(resolve::import(&doc)),
        JsonKind::Export(doc) => Object::Export(resolve::export(&doc)),
    })
}

/// A list in JSON.
#[derive(Deserialize)]
struct JsonList {
    /// Metadata.
    metadata: Metadata,
    /// The objects.
    #[serde(default)]
    items: Option<Vec<serde_json::Value>>,
}

/// Applies the objects of a list in JSON and gives its resource version.
pub(crate) fn json_list(
    kind: Kind,
    body: &[u8],
    apply: &mut dyn FnMut(&Event<'_>),
) -> Result<String, Unreadable> {
    let list: JsonList = serde_json::from_slice(body)?;
    for item in list.items.unwrap_or_default() {
        apply(&Event::Apply(json_object(kind, |kind| read_item(kind, item))?));
    }
    Ok(list.metadata.resource_version.unwrap_or_default())
}

/// Says whether an APIResourceList in JSON has a resource.
pub(crate) fn lists_resource(body: &[u8], resource: &str) -> bool {
    /// The list.
    #[derive(Deserialize)]
    struct List {
        /// The resources.
        #[serde(default)]
        resources: Vec<Resource>,
    }
    /// A resource.
    #[derive(Deserialize)]
    struct Resource {
        /// Its name.
        name: String,
    }
    serde_json::from_slice::<List>(body)
        .is_ok_and(|list| list.resources.iter().any(|other| other.name == resource))
}
