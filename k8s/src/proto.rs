//! A view of Kubernetes' protobuf that reads only the fields that DNS needs, in place.
//!
//! The encoding is `k8s\0` before a `runtime.Unknown`, whose `raw` field holds the object; a watch frames each event by
//! its length. Field numbers are those of the `generated.proto` files of the Kubernetes API.

use std::{borrow::Cow, net::IpAddr};

use crate::{
    object::{
        Endpoint, Key, Kind, Meta, Object, Place, Pod, Port, Protocol, Service, ServiceKind, Slice,
    },
    resolve::{IMPORT_NAME, SERVICE_NAME, SOURCE_CLUSTER, TRIGGERED},
    store::Keep,
};

/// The bytes before every message.
const MAGIC: &[u8] = b"k8s\0";
/// The annotation of the bookmark that ends a watch's initial events.
pub(crate) const INITIAL_END: &str = "k8s.io/initial-events-end";

/// The bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf")]
pub(crate) struct Malformed;

/// A field's value.
#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    /// Of the wire type varint.
    Number(u64),
    /// Of the wire type for strings and messages.
    Bytes(&'a [u8]),
    /// Of a fixed length; no field that is read has this.
    Fixed,
}

/// Takes a varint off the front; nothing if it is cut short or longer than ten bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes one field off the front.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(bytes)?),
        1 | 5 => {
            let (_, rest) = bytes.split_at_checked(if tag & 7 == 1 { 8 } else { 4 })?;
            *bytes = rest;
            Value::Fixed
        }
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            let (value, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Value::Bytes(value)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

/// Goes through the fields of a message.
fn each<'a>(
    mut message: &'a [u8],
    mut visit: impl FnMut(u64, Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !message.is_empty() {
        let (number, value) = field(&mut message).ok_or(Malformed)?;
        visit(number, value)?;
    }
    Ok(())
}

/// Gives text; what is not UTF-8 is replaced, though the API server never sends such.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Parses an address.
fn ip(bytes: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// What happened to an object, as a watch tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// `ADDED` or `MODIFIED`.
    Applied,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`: nothing but a resource version.
    Bookmark,
    /// `ERROR`: the object is a Status.
    Error,
}

impl Happened {
    /// Reads the word of a watch event.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        match word {
            b"ADDED" | b"MODIFIED" => Some(Self::Applied),
            b"DELETED" => Some(Self::Deleted),
            b"BOOKMARK" => Some(Self::Bookmark),
            b"ERROR" => Some(Self::Error),
            _ => None,
        }
    }
}

/// Reads a `meta.v1.WatchEvent`: what happened, and the object's message.
pub(crate) fn event(frame: &[u8]) -> Result<(Happened, &[u8]), Malformed> {
    let (mut word, mut object): (&[u8], &[u8]) = (b"", b"");
    each(frame, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => word = bytes,
            // runtime.RawExtension.raw
            (2, Value::Bytes(bytes)) => each(bytes, |number, value| {
                if let (1, Value::Bytes(bytes)) = (number, value) {
                    object = bytes;
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((Happened::parse(word).ok_or(Malformed)?, unwrap(object)?))
}

/// Takes a message out of its `runtime.Unknown`.
pub(crate) fn unwrap(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut raw: &[u8] = b"";
    each(bytes.strip_prefix(MAGIC).ok_or(Malformed)?, |number, value| {
        if let (2, Value::Bytes(bytes)) = (number, value) {
            raw = bytes;
        }
        Ok(())
    })?;
    Ok(raw)
}

/// What a `meta.v1.Status` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// HTTP status code.
    pub(crate) code: u16,
    /// One word for the cause.
    pub(crate) reason: String,
    /// The message for people.
    pub(crate) message: String,
}

/// Reads a `meta.v1.Status`.
pub(crate) fn status(message: &[u8]) -> Result<Status, Malformed> {
    let mut status = Status::default();
    each(message, |number, value| {
        match (number, value) {
            (3, Value::Bytes(bytes)) => status.message = text(bytes).into_owned(),
            (4, Value::Bytes(bytes)) => status.reason = text(bytes).into_owned(),
            (6, Value::Number(code)) => status.code = u16::try_from(code).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(status)
}

/// What is read of `meta.v1.ObjectMeta`.
#[derive(Debug, Default)]
struct ObjectMeta<'a> {
    /// Name and version.
    meta: Meta<'a>,
    /// The resource version's text.
    version: Cow<'a, str>,
    /// Whether the object is being deleted.
    deleting: bool,
}

/// Reads a `meta.v1.ObjectMeta`; `pair` is given labels (true) and annotations (false).
fn object_meta<'a>(
    message: &'a [u8],
    mut pair: impl FnMut(bool, &'a [u8], &'a [u8]),
) -> Result<ObjectMeta<'a>, Malformed> {
    let mut meta = ObjectMeta::default();
    each(message, |number, value| {
        let Value::Bytes(bytes) = value else { return Ok(()) };
        match number {
            1 => meta.meta.name = text(bytes),
            3 => meta.meta.namespace = text(bytes),
            6 => meta.version = text(bytes),
            9 => meta.deleting = true,
            11 | 12 => {
                let (mut key, mut value): (&[u8], &[u8]) = (b"", b"");
                each(bytes, |number, part| {
                    match (number, part) {
                        (1, Value::Bytes(bytes)) => key = bytes,
                        (2, Value::Bytes(bytes)) => value = bytes,
                        _ => {}
                    }
                    Ok(())
                })?;
                pair(number == 11, key, value);
            }
            _ => {}
        }
        Ok(())
    })?;
    meta.meta.version = meta.version.parse().unwrap_or_default();
    Ok(meta)
}

/// Finds the metadata of any object: its first field.
fn metadata(message: &[u8]) -> Result<&[u8], Malformed> {
    let mut found: &[u8] = b"";
    each(message, |number, value| {
        if let (1, Value::Bytes(bytes)) = (number, value) {
            found = bytes;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Reads an object's name, and its resource version as text.
pub(crate) fn key(kind: Kind, message: &[u8]) -> Result<(Key<'_>, Cow<'_, str>), Malformed> {
    let meta = object_meta(metadata(message)?, |_, _, _| ())?;
    Ok((Key { kind, namespace: meta.meta.namespace, name: meta.meta.name }, meta.version))
}

/// Reads a bookmark: its resource version, and whether it ends the initial events.
pub(crate) fn bookmark(message: &[u8]) -> Result<(Cow<'_, str>, bool), Malformed> {
    let mut end = false;
    let meta = object_meta(metadata(message)?, |label, key, value| {
        end |= !label && key == INITIAL_END.as_bytes() && value == b"true";
    })?;
    Ok((meta.version, end))
}

/// Reads an object, and its resource version as text.
pub(crate) fn object<'a>(
    kind: Kind,
    message: &'a [u8],
    keep: &Keep,
) -> Result<(Object<'a>, Cow<'a, str>), Malformed> {
    match kind {
        Kind::Namespaces => {
            let meta = object_meta(metadata(message)?, |_, _, _| ())?;
            Ok((Object::Namespace(meta.meta), meta.version))
        }
        Kind::Services => service(message),
        Kind::Slices => {
            let (slice, version) = slice(message, SERVICE_NAME)?;
            Ok((Object::Slice(slice), version))
        }
        Kind::ImportSlices => {
            let (slice, version) = slice(message, IMPORT_NAME)?;
            Ok((Object::ImportSlice(slice), version))
        }
        Kind::Pods => pod(message, keep),
        // Custom resources have no protobuf.
        Kind::Imports | Kind::Exports => Err(Malformed),
    }
}

/// Reads a `core.v1.ServicePort` or `discovery.v1.EndpointPort`; none if it states no number.
fn port(message: &[u8]) -> Result<Option<Port<'_>>, Malformed> {
    let (mut name, mut protocol, mut number) = (Cow::default(), Some(Protocol::Tcp), None);
    each(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(bytes)) => name = text(bytes),
            (2, Value::Bytes(bytes)) => protocol = Protocol::parse(bytes),
            (3, Value::Number(value)) => number = u16::try_from(value).ok(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(protocol.zip(number).map(|(protocol, number)| Port { name, protocol, number }))
}

/// Reads a `core.v1.Service`.
fn service(message: &[u8]) -> Result<(Object<'_>, Cow<'_, str>), Malformed> {
    let (mut service, mut version) = (Service::default(), Cow::default());
    let (mut first, mut named): (&[u8], &[u8]) = (b"", b"");
    let mut headless = false;
    each(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => {
                let meta = object_meta(bytes, |_, _, _| ())?;
                (service.meta, version) = (meta.meta, meta.version);
            }
            (2, Value::Bytes(bytes)) => each(bytes, |number, value| {
                let Value::Bytes(bytes) = value else { return Ok(()) };
                match number {
                    1 => service.ports.extend(port(bytes)?),
                    2 => service.selector = true,
                    3 => first = bytes,
                    4 if bytes == b"ExternalName" => service.kind = ServiceKind::ExternalName,
                    5 => service.external_ips.extend(ip(bytes)),
                    10 => named = bytes,
                    18 if bytes == b"None" => headless = true,
                    18 => service.cluster_ips.extend(ip(bytes)),
                    _ => {}
                }
                Ok(())
            })?,
            // status.loadBalancer.ingress
            (3, Value::Bytes(bytes)) => balancer(bytes, &mut service)?,
            _ => {}
        }
        Ok(())
    })?;
    match service.kind {
        ServiceKind::ExternalName => service.external_name = text(named),
        _ if headless || first == b"None" => service.kind = ServiceKind::Headless,
        _ if service.cluster_ips.is_empty() => service.cluster_ips.extend(ip(first)),
        _ => {}
    }
    if service.kind != ServiceKind::ClusterIp {
        service.cluster_ips.clear();
    }
    Ok((Object::Service(service), version))
}

/// Reads a `core.v1.ServiceStatus`.
fn balancer<'a>(message: &'a [u8], service: &mut Service<'a>) -> Result<(), Malformed> {
    each(message, |number, value| {
        let (1, Value::Bytes(balancer)) = (number, value) else { return Ok(()) };
        each(balancer, |number, value| {
            let (1, Value::Bytes(ingress)) = (number, value) else { return Ok(()) };
            each(ingress, |number, value| {
                match (number, value) {
                    (1, Value::Bytes(bytes)) => service.balancer_ips.extend(ip(bytes)),
                    (2, Value::Bytes(bytes)) if !bytes.is_empty() => {
                        service.balancer_names.push(text(bytes))
                    }
                    _ => {}
                }
                Ok(())
            })
        })
    })
}

/// Reads a `discovery.v1.EndpointSlice` that belongs to the service which this label names.
fn slice<'a>(message: &'a [u8], label: &str) -> Result<(Slice<'a>, Cow<'a, str>), Malformed> {
    let (mut slice, mut version) = (Slice::default(), Cow::default());
    let mut named = false;
    each(message, |number, value| {
        let Value::Bytes(bytes) = value else { return Ok(()) };
        match number {
            1 => {
                let meta = object_meta(bytes, |is_label, key, value| {
                    if is_label && key == label.as_bytes() {
                        slice.service = text(value);
                    } else if is_label && label == IMPORT_NAME && key == SOURCE_CLUSTER.as_bytes() {
                        slice.cluster = text(value);
                    } else if !is_label && key == TRIGGERED.as_bytes() {
                        slice.triggered = text(value);
                    }
                })?;
                (slice.meta, version) = (meta.meta, meta.version);
            }
            2 => slice.endpoints.extend(endpoint(bytes)?),
            3 => slice.ports.extend(port(bytes)?),
            4 => named = bytes == b"FQDN",
            _ => {}
        }
        Ok(())
    })?;
    // The address type comes after the endpoints.
    slice.endpoints.retain_mut(|endpoint| match (&mut endpoint.place, named) {
        (Place::Ip(_), false) | (Place::Name(_), true) => true,
        (Place::Ip(ip), true) => {
            endpoint.place = Place::Name(ip.to_string().into());
            true
        }
        (Place::Name(_), false) => false,
    });
    Ok((slice, version))
}

/// Reads a `discovery.v1.Endpoint`; none if it has no address.
fn endpoint(message: &[u8]) -> Result<Option<Endpoint<'_>>, Malformed> {
    let (mut place, mut ready) = (None, true);
    let (mut hostname, mut pod, mut zone) = (Cow::default(), Cow::default(), Cow::default());
    each(message, |number, value| {
        let Value::Bytes(bytes) = value else { return Ok(()) };
        match number {
            1 if place.is_none() => {
                place = Some(ip(bytes).map_or_else(|| Place::Name(text(bytes)), Place::Ip));
            }
            2 => each(bytes, |number, value| {
                if let (1, Value::Number(value)) = (number, value) {
                    ready = value != 0;
                }
                Ok(())
            })?,
            3 => hostname = text(bytes),
            4 => pod = target(bytes)?,
            7 => zone = text(bytes),
            _ => {}
        }
        Ok(())
    })?;
    Ok(place.map(|place| Endpoint { place, ready, hostname, pod, zone }))
}

/// Reads a `core.v1.ObjectReference`: the name, if it is a Pod's.
fn target(message: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    let (mut is_pod, mut name) = (false, Cow::default());
    each(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => is_pod = bytes == b"Pod",
            (3, Value::Bytes(bytes)) => name = text(bytes),
            _ => {}
        }
        Ok(())
    })?;
    Ok(if is_pod { name } else { Cow::default() })
}

/// Reads a `core.v1.Pod`.
fn pod<'a>(message: &'a [u8], keep: &Keep) -> Result<(Object<'a>, Cow<'a, str>), Malformed> {
    let (mut pod, mut version) = (Pod::default(), Cow::default());
    let mut first = None;
    each(message, |number, value| {
        let Value::Bytes(bytes) = value else { return Ok(()) };
        match number {
            1 => {
                let meta = object_meta(bytes, |is_label, key, value| {
                    if is_label && keep.pod_labels {
                        pod.labels.push((text(key), text(value)));
                    }
                })?;
                (pod.meta, version, pod.terminating) = (meta.meta, meta.version, meta.deleting);
            }
            3 => each(bytes, |number, value| {
                match (number, value) {
                    (6, Value::Bytes(bytes)) => first = ip(bytes),
                    (12, Value::Bytes(bytes)) => each(bytes, |number, value| {
                        if let (1, Value::Bytes(bytes)) = (number, value) {
                            pod.ips.extend(ip(bytes));
                        }
                        Ok(())
                    })?,
                    _ => {}
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    if pod.ips.is_empty() {
        pod.ips.extend(first);
    }
    Ok((Object::Pod(pod), version))
}

/// Cuts a list's body into items as it comes, so that it is never held whole.
#[derive(Debug, Default)]
pub(crate) struct ListCutter {
    /// How far the body has been read.
    stage: Stage,
}

/// How far a list's body has been read.
#[derive(Debug, Default, Clone, Copy)]
enum Stage {
    /// Nothing yet.
    #[default]
    Start,
    /// Within the `runtime.Unknown`.
    Outer,
    /// Within the list itself, of which so many bytes are to come.
    List(usize),
}

/// A part of a list's body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// `metadata`, by its resource version.
    Version(Cow<'a, str>),
    /// An object's message.
    Item(&'a [u8]),
    /// Something else.
    Other,
}

impl ListCutter {
    /// Takes the next part off the front of what has come; gives it with the number of bytes it took, or nothing if
    /// more must come first.
    pub(crate) fn next<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Part<'a>, usize)>, Malformed> {
        match self.stage {
            Stage::Start => {
                let Some(start) = bytes.get(..MAGIC.len()) else { return Ok(None) };
                if start != MAGIC {
                    return Err(Malformed);
                }
                self.stage = Stage::Outer;
                Ok(Some((Part::Other, MAGIC.len())))
            }
            Stage::Outer => {
                let mut rest = bytes;
                let Some((tag, len)) = head(&mut rest)? else { return Ok(None) };
                if tag == 2 {
                    self.stage = Stage::List(len);
                    return Ok(Some((Part::Other, bytes.len() - rest.len())));
                }
                if rest.len() < len {
                    return Ok(None);
                }
                Ok(Some((Part::Other, bytes.len() - rest.len() + len)))
            }
            Stage::List(0) => {
                self.stage = Stage::Outer;
                Ok(Some((Part::Other, 0)))
            }
            Stage::List(left) => {
                let mut rest = bytes;
                let Some((tag, len)) = head(&mut rest)? else { return Ok(None) };
                let Some(message) = rest.get(..len) else { return Ok(None) };
                let took = bytes.len() - rest.len() + len;
                self.stage = Stage::List(left.checked_sub(took).ok_or(Malformed)?);
                let part = match tag {
                    1 => Part::Version(list_version(message)?),
                    2 => Part::Item(message),
                    _ => Part::Other,
                };
                Ok(Some((part, took)))
            }
        }
    }

    /// Says whether a body may end here.
    pub(crate) const fn complete(&self) -> bool {
        matches!(self.stage, Stage::Outer | Stage::List(0))
    }
}

/// Takes a field's number and length off the front; nothing if more must come first.
fn head(bytes: &mut &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut rest = *bytes;
    let Some((tag, len)) = varint(&mut rest).and_then(|tag| Some((tag, varint(&mut rest)?))) else {
        // Two varints have at most ten bytes each.
        return if bytes.len() < 20 { Ok(None) } else { Err(Malformed) };
    };
    if tag & 7 != 2 {
        return Err(Malformed);
    }
    *bytes = rest;
    Ok(Some((tag >> 3, usize::try_from(len).map_err(|_| Malformed)?)))
}

/// Reads a `meta.v1.ListMeta`: its resource version.
fn list_version(message: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    let mut version = Cow::default();
    each(message, |number, value| {
        if let (2, Value::Bytes(bytes)) = (number, value) {
            version = text(bytes);
        }
        Ok(())
    })?;
    Ok(version)
}
