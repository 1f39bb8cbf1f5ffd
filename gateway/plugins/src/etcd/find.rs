//! From a name to the records that are kept for it.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use wire::{Name, rtype};

use super::Etcd;
use super::client::Failure;
use super::key::Wanted;
use super::record::{Record, grouped};

/// For how many leases etcd is asked for one query; those beyond count as if they had the least time.
const MAX_LEASES: usize = 32;
/// What the addresses of a zone itself are kept under.
const APEX: &[u8] = b"\x04apex\x03dns";
/// What the name servers of a zone are kept under.
const SERVERS: &[u8] = b"\x02ns\x03dns";

/// Why nothing can be said.
#[derive(Debug)]
pub(super) enum Wrong {
    /// etcd does not answer, or answers with an error.
    Etcd(Failure),
    /// What a key says makes no sense.
    Value(String),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Etcd(failure)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(failure) => failure.fmt(f),
            Self::Value(what) => f.write_str(what),
        }
    }
}

impl Etcd {
    /// The records for a name and a type; none if the name is not there.
    pub(super) async fn find(
        &self,
        name: &Name,
        zone: &Name,
        rtype: u16,
        until: Instant,
    ) -> Result<Option<Vec<Record>>, Wrong> {
        let is_apex = name == zone;
        let found = match rtype {
            rtype::NS if is_apex => match Name::join(SERVERS, zone.wire()) {
                Some(servers) => self.all(&servers, until).await?,
                None => None,
            },
            rtype::CNAME | rtype::PTR => match self.one(name, until).await? {
                // Whether there is anything is another question.
                None => self.all(name, until).await?.map(|_| Vec::new()),
                found => found,
            },
            rtype::SRV | rtype::MX | rtype::TXT => self.all(name, until).await?,
            _ if is_apex => {
                let apex = match Name::join(APEX, zone.wire()) {
                    Some(apex) => self.all(&apex, until).await?,
                    None => None,
                };
                match apex {
                    None => self.all(name, until).await?,
                    found => found,
                }
            }
            _ => self.all(name, until).await?,
        };
        // The zone itself is always there.
        Ok(found.or_else(|| is_apex.then(Vec::new)))
    }

    /// The records of a name's own key.
    async fn one(&self, name: &Name, until: Instant) -> Result<Option<Vec<Record>>, Wrong> {
        let Some(wanted) = self.path.wanted(name) else { return Ok(None) };
        let found = self.client.range(&wanted.key, false, until).await?;
        self.read(&wanted, found, until).await
    }

    /// The records of all keys below a name's own, or of that itself if there are none.
    async fn all(&self, name: &Name, until: Instant) -> Result<Option<Vec<Record>>, Wrong> {
        let Some(wanted) = self.path.wanted(name) else { return Ok(None) };
        let mut found = self.client.range(&wanted.key, true, until).await?;
        if found.is_empty() {
            found = self.client.range(&wanted.key, false, until).await?;
        }
        self.read(&wanted, found, until).await
    }

    /// What the values of keys say; none if there are no keys.
    async fn read(
        &self,
        wanted: &Wanted,
        found: Vec<super::proto::KeyValue>,
        until: Instant,
    ) -> Result<Option<Vec<Record>>, Wrong> {
        if found.is_empty() {
            return Ok(None);
        }
        let mut records = Vec::with_capacity(found.len());
        let mut leases: HashMap<i64, Option<Duration>> = HashMap::new();
        for pair in found.iter().filter(|pair| wanted.takes(&pair.key)) {
            let mut record = Record::read(&pair.key, &pair.value).map_err(|why| {
                Wrong::Value(format!("{}: {why}", String::from_utf8_lossy(&pair.key)))
            })?;
            let left = match pair.lease {
                0 => None,
                lease => match leases.get(&lease) {
                    Some(left) => *left,
                    None if leases.len() >= MAX_LEASES => Some(Duration::ZERO),
                    None => {
                        // A lease that cannot be asked for says nothing of its time.
                        let left = self.client.left(lease, until).await.unwrap_or(None);
                        leases.insert(lease, left);
                        left
                    }
                },
            };
            record.ttl = self.leases.ttl(record.ttl, left);
            records.push(record);
        }
        grouped(&mut records);
        Ok(Some(records))
    }
}
