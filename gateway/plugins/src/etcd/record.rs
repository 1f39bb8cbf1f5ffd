//! What a key's value says: a JSON object of the form that SkyDNS has defined.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use wire::Name;

use super::key::Path;

/// The priority of SRV and MX records where none is stated.
const PRIORITY: u16 = 10;
/// The time to live, in seconds, where neither the value nor a lease says one.
const TTL: u32 = 300;

/// What leases mean for the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leases {
    /// The least, in seconds.
    pub(super) least: u32,
    /// The most, in seconds.
    pub(super) most: u32,
}

impl Default for Leases {
    fn default() -> Self {
        Self { least: 30, most: 86_400 }
    }
}

impl Leases {
    /// The time to live of a record that says `own` seconds, 0 for none, and whose lease has `left`.
    pub(super) fn ttl(self, own: u32, left: Option<Duration>) -> u32 {
        let seconds = |left: Duration| u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
        match (left.map(|left| seconds(left).min(self.most).max(self.least)), own) {
            (None, 0) => TTL,
            (None, own) => own,
            (Some(left), 0) => left,
            (Some(left), own) => left.min(own),
        }
    }
}

/// Where a record leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// To an address.
    Ip(IpAddr),
    /// To a name.
    Name(Box<Name>),
    /// Nowhere: it is a text.
    None,
}

/// What a key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The key.
    pub(super) key: Vec<u8>,
    /// Where it leads to.
    pub(super) host: Host,
    /// The port, for SRV.
    pub(super) port: u16,
    /// The priority, for SRV and MX.
    pub(super) priority: u16,
    /// The weight among those of its priority, for SRV; 0 if none is stated.
    pub(super) weight: u32,
    /// The text, for TXT.
    pub(super) text: String,
    /// Whether it is a mail server, for MX.
    pub(super) mail: bool,
    /// How many labels a target is without, from the left.
    pub(super) strip: usize,
    /// The group that it belongs to; may be empty.
    pub(super) group: String,
    /// The time to live, in seconds; 0 if none is stated.
    pub(super) ttl: u32,
}

impl Record {
    /// Reads a value.
    ///
    /// # Errors
    /// Why it is none of ours.
    pub(super) fn read(key: &[u8], value: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(value).map_err(|error| error.to_string())?;
        let Value::Object(fields) = value else { return Err("is no JSON object".to_owned()) };
        let mut record = Self {
            key: key.to_owned(),
            host: Host::None,
            port: 0,
            priority: 0,
            weight: 0,
            text: String::new(),
            mail: false,
            strip: 0,
            group: String::new(),
            ttl: 0,
        };
        for (name, value) in &fields {
            if value.is_null() {
                continue;
            }
            match &*name.to_ascii_lowercase() {
                "host" => record.host = host(text(name, value)?)?,
                "port" => record.port = number(name, value)?,
                "priority" => record.priority = number(name, value)?,
                "weight" => record.weight = number(name, value)?,
                "text" => text(name, value)?.clone_into(&mut record.text),
                "mail" => {
                    record.mail = value
                        .as_bool()
                        .ok_or_else(|| format!("{name} is neither true nor false"))?
                }
                "ttl" => record.ttl = number(name, value)?,
                "targetstrip" => record.strip = usize::from(number::<u16>(name, value)?),
                "group" => text(name, value)?.clone_into(&mut record.group),
                // What others keep there is theirs.
                _ => {}
            }
        }
        if record.priority == 0 {
            record.priority = PRIORITY;
        }
        Ok(record)
    }

    /// The name that SRV and MX records of this lead to; none if there is none.
    pub(super) fn target(&self, path: &Path) -> Option<Name> {
        let whole = match &self.host {
            Host::Name(name) => Name::clone(name),
            Host::Ip(_) => path.name(&self.key)?,
            Host::None => return None,
        };
        // More than there are leave it as it is.
        let stripped = whole.suffixes().nth(self.strip).filter(|rest| rest.len() > 1);
        let stripped = stripped.and_then(|rest| Name::join(&[], rest));
        Some(stripped.unwrap_or(whole))
    }
}

/// Reads where a record leads to.
fn host(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Ok(Host::None);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(Host::Ip(ip.to_canonical()));
    }
    Name::parse(text)
        .map(|name| Host::Name(Box::new(name)))
        .ok_or_else(|| "host is neither an address nor a name".to_owned())
}

/// The text of a field.
fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("{name} is no text"))
}

/// The number of a field.
fn number<T: TryFrom<u64>>(name: &str, value: &Value) -> Result<T, String> {
    let number = value.as_u64().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("{name} is no number for this"))
}

/// Leaves the records of one group, if there is one: that of the key nearest the top. Records without a group belong to all.
pub(super) fn grouped(records: &mut Vec<Record>) {
    let depth = |record: &Record| record.key.iter().filter(|byte| **byte == b'/').count();
    let named = |record: &&Record| !record.group.is_empty();
    let Some(top) = records.iter().filter(named).map(depth).min() else { return };
    let mut nearest = records.iter().filter(named).filter(|record| depth(record) == top);
    let Some(group) = nearest.next().map(|record| record.group.clone()) else { return };
    // Where they do not agree there is none.
    if nearest.any(|record| record.group != group) {
        return;
    }
    records.retain(|record| record.group.is_empty() || record.group == group);
}
