//! Zone keys, and the records that they make: DNSKEY, DS and RRSIG.

use std::borrow::Cow;
use std::fmt;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use wire::{Name, rtype};
use zone::record::{Defaults, Record};

use super::bind::Fields;
use super::secret::Secret;

/// The key signs zones (RFC 4034 §2.1.1).
const ZONE: u16 = 1 << 8;
/// The key is the one that the parent points to (RFC 4034 §2.1.1).
const ENTRY: u16 = 1;
/// The key must not be trusted any more (RFC 5011 §7).
const REVOKED: u16 = 1 << 7;

/// Why something is no key. It never has any of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKey(Cow<'static, str>);

impl BadKey {
    /// With these words.
    pub(super) fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl From<&'static str> for BadKey {
    fn from(what: &'static str) -> Self {
        Self::new(what)
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadKey {}

/// A key of a zone, with its private half.
#[derive(Debug)]
pub struct Key {
    /// Whose key it is by its file.
    owner: Name,
    /// The time to live of its record in its file, in seconds.
    ttl: u32,
    /// The data of its DNSKEY record.
    data: Box<[u8]>,
    tag: u16,
    secret: Secret,
}

/// From when to when a signature is good, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Not before.
    pub inception: u64,
    /// Not after.
    pub expiration: u64,
}

/// The digests of DS records (RFC 8624 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-1, for parents of old.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl Key {
    /// Reads a key from its DNSKEY record, and its private half as BIND's tools write it.
    ///
    /// # Errors
    /// If they are not right, or do not belong to each other.
    pub fn read(public: &str, private: &str) -> Result<Self, BadKey> {
        let wrong = |error| BadKey::new(format!("the public key cannot be read: {error}"));
        let record = Record::parse(public, &Defaults::default()).map_err(wrong)?;
        let record = record.ok_or("the public key is empty")?;
        if record.rtype != rtype::DNSKEY {
            return Err("the public key is no DNSKEY record".into());
        }
        let (owner, _) = Name::read(&record.owner).ok_or("the public key has no owner")?;
        let Some(([high, low, protocol, algorithm], public)) = record.data.split_first_chunk()
        else {
            return Err("the public key's record is too short".into());
        };
        let flags = u16::from_be_bytes([*high, *low]);
        if flags & ZONE == 0 || *protocol != 3 {
            return Err(
                "the public key is none of a zone: its flags are 256 or 257, its protocol is 3"
                    .into(),
            );
        }
        if flags & REVOKED != 0 {
            return Err("the key is revoked".into());
        }
        let fields = Fields::read(private)?;
        if fields.algorithm != *algorithm {
            return Err(BadKey::new(format!(
                "the public key's algorithm is {algorithm}, the private key's {}",
                fields.algorithm
            )));
        }
        let secret = Secret::read(&fields, public)?;
        let tag = tag(&record.data);
        Ok(Self { owner, ttl: record.ttl, data: record.data.into(), tag, secret })
    }

    /// Whose key it is by its file.
    pub fn owner(&self) -> &Name {
        &self.owner
    }

    /// The time to live of its record in its file, in seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// The data of its DNSKEY record.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Its number, which is not its alone (RFC 4034 §B).
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// Whether it is the one that the parent points to: a KSK, or the only key.
    pub fn is_entry(&self) -> bool {
        matches!(*self.data, [high, low, ..] if u16::from_be_bytes([high, low]) & ENTRY != 0)
    }

    /// Whether a signature takes so long that nobody else should have to wait for it.
    pub fn is_slow(&self) -> bool {
        self.secret.is_slow()
    }

    /// The data of the DS record of `owner` for it (RFC 4034 §5.1).
    pub fn ds(&self, owner: &Name, kind: Digest) -> Vec<u8> {
        let (number, algorithm) = match kind {
            Digest::Sha1 => (1, &SHA1_FOR_LEGACY_USE_ONLY),
            Digest::Sha256 => (2, &SHA256),
        };
        let mut data = self.tag.to_be_bytes().to_vec();
        data.extend(self.data.get(3));
        data.push(number);
        data.extend_from_slice(digest(algorithm, &[owner.wire(), &self.data].concat()).as_ref());
        data
    }

    /// The data of the RRSIG record over a set of records: its type, its labels as [`super::labels`] counts them, its time to live in
    /// seconds, and its canonical form. None if it cannot be signed.
    pub fn signature(
        &self,
        zone: &Name,
        (covered, labels, ttl): (u16, u8, u32),
        times: Times,
        body: &[u8],
    ) -> Option<Box<[u8]>> {
        let mut data = Vec::with_capacity(18 + zone.wire().len() + 64);
        data.extend_from_slice(&covered.to_be_bytes());
        data.extend([*self.data.get(3)?, labels]);
        data.extend_from_slice(&ttl.to_be_bytes());
        // Serial numbers: what counts are the lower 32 bits (RFC 4034 §3.1.5).
        for time in [times.expiration, times.inception] {
            data.extend_from_slice(&((time & u64::from(u32::MAX)) as u32).to_be_bytes());
        }
        data.extend_from_slice(&self.tag.to_be_bytes());
        data.extend_from_slice(zone.wire());
        let signed = [&data, body].concat();
        self.secret.sign(&signed, &mut data)?;
        Some(data.into())
    }
}

#[cfg(test)]
impl Key {
    /// The same key, which cannot sign any more.
    pub(crate) fn dead(mut self) -> Self {
        self.secret = Secret::Dead;
        self
    }
}

/// The number of the key in a DNSKEY record's data (RFC 4034 §B).
fn tag(data: &[u8]) -> u16 {
    let sum = data.iter().zip([8, 0].into_iter().cycle());
    let sum: u32 = sum.map(|(octet, shift)| u32::from(*octet) << shift).sum();
    ((sum + (sum >> 16)) & 0xffff) as u16
}
