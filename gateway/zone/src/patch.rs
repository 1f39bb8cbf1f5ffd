//! Changes to a zone, record by record (RFC 1995).

use std::collections::HashMap;

use wire::{Name, rtype};

use crate::builder::{Builder, Unfit, lower};
use crate::zone::{Cursor, Zone};

/// A record without its time to live: its owner, its type, its data.
type Key = Box<[u8]>;

/// What becomes of a record.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Its time to live; none if it goes.
    ttl: Option<u32>,
    /// Whether it has to be there before.
    is_old: bool,
}

/// Changes to a zone, in their order. Of a record that goes and comes only the last counts.
#[derive(Debug, Default)]
pub(crate) struct Patch {
    fates: HashMap<Key, Fate>,
    /// The records that have to be there before.
    old: usize,
}

impl Patch {
    /// Takes a record away.
    pub(crate) fn remove(&mut self, owner: &[u8], kind: u16, data: &[u8]) -> Result<(), Unfit> {
        match self.fates.get_mut(&key(owner, kind, data)) {
            Some(Fate { ttl: None, .. }) => return Err(Unfit::Missing),
            Some(fate) => fate.ttl = None,
            None => {
                self.fates.insert(key(owner, kind, data), Fate { ttl: None, is_old: true });
                self.old += 1;
            }
        }
        Ok(())
    }

    /// Adds a record.
    pub(crate) fn add(&mut self, owner: &[u8], kind: u16, ttl: u32, data: &[u8]) {
        let fate = self.fates.entry(key(owner, kind, data));
        fate.or_insert(Fate { ttl: None, is_old: false }).ttl = Some(ttl);
    }

    /// The zone that `old` becomes, with this SOA record.
    ///
    /// # Errors
    /// [`Unfit::Missing`] if `old` does not have what is taken away, and what [`Builder`] says.
    pub(crate) fn apply(self, old: &Zone, soa: (u32, &[u8])) -> Result<Zone, Unfit> {
        let mut builder = Builder::new(old.apex().clone());
        let (mut found, mut wrong) = (0, None);
        old.walk(&mut Cursor::default(), |owner, kind, ttl, data| {
            let added = match self.fates.get(&key(owner.wire(), kind, data)) {
                None => builder.add(owner.wire(), kind, ttl, data),
                Some(fate) => {
                    found += usize::from(fate.is_old);
                    // Those which stay are among the new ones.
                    Ok(())
                }
            };
            wrong = added.err();
            wrong.is_none()
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if found != self.old {
            return Err(Unfit::Missing);
        }
        for (key, fate) in &self.fates {
            let Some(ttl) = fate.ttl else { continue };
            let (owner, kind, data) = parts(key).ok_or(Unfit::Malformed)?;
            match builder.add(owner, kind, ttl, data) {
                // What is not the zone's is passed over, as in a whole transfer.
                Ok(()) | Err(Unfit::Outside) => {}
                Err(wrong) => return Err(wrong),
            }
        }
        builder.add(old.apex().wire(), rtype::SOA, soa.0, soa.1)?;
        builder.finish()
    }
}

/// The key of a record.
fn key(owner: &[u8], kind: u16, data: &[u8]) -> Key {
    let mut key = Vec::with_capacity(owner.len() + 2 + data.len());
    key.extend_from_slice(owner);
    key.make_ascii_lowercase();
    key.extend_from_slice(&kind.to_be_bytes());
    let at = key.len();
    key.extend_from_slice(data);
    lower(kind, key.get_mut(at..).unwrap_or_default());
    key.into()
}

/// What a key was made of.
fn parts(key: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    let (owner, rest) = key.split_at_checked(Name::span(key)?)?;
    let (kind, data) = rest.split_first_chunk()?;
    Some((owner, u16::from_be_bytes(*kind), data))
}
