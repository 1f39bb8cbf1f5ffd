//! Catalog zones (RFC 9432): zones that list zones.

use std::collections::BTreeMap;

use wire::{Name, rtype};
use zone::{Cursor, Zone};

/// The version of the schema that is understood (RFC 9432 §4.2.1), as a character string.
const VERSION: &[u8] = b"\x012";

/// What a catalog zone lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog(pub(super) BTreeMap<Name, Entry>);

/// A member zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The label that makes this member itself: with another one it is another zone of the same name (RFC 9432 §5.6).
    pub(super) id: Box<[u8]>,
    /// The catalog that may take it over (RFC 9432 §4.3.1).
    pub(super) coo: Option<Name>,
}

impl Catalog {
    /// Reads a catalog zone.
    ///
    /// # Errors
    /// Why it is broken, so that nothing of it may be taken up (RFC 9432 §5.1).
    pub(super) fn read(zone: &Zone) -> Result<Self, String> {
        let (mut versions, mut servers) = (Vec::new(), 0);
        let mut members: BTreeMap<Box<[u8]>, Name> = BTreeMap::new();
        let mut owners: BTreeMap<Box<[u8]>, Name> = BTreeMap::new();
        let mut wrong = None;
        zone.walk(&mut Cursor::default(), |owner, kind, _, data| {
            let labels: Vec<&[u8]> = owner
                .below(zone.apex())
                .map(|run| Name::labels_of(run).collect())
                .unwrap_or_default();
            let (into, id) = match (&*labels, kind) {
                ([], rtype::NS) => {
                    servers += 1;
                    return true;
                }
                ([b"version"], rtype::TXT) => {
                    versions.push(data.to_vec());
                    return true;
                }
                ([id, b"zones"], rtype::PTR) => (&mut members, *id),
                ([b"coo", id, b"zones"], rtype::PTR) => (&mut owners, *id),
                // What is not known says nothing (RFC 9432 §4.4).
                _ => return true,
            };
            let name = Name::read(data).map(|(name, _)| name);
            let is_first = name.is_some_and(|name| into.insert(id.into(), name).is_none());
            if !is_first {
                wrong = Some(format!("{owner} has more than one PTR record"));
            }
            is_first
        });
        if let Some(wrong) = wrong {
            return Err(broken(&wrong));
        }
        if servers == 0 {
            return Err(broken("it has no NS record"));
        }
        if versions.len() != 1 || versions.first().is_none_or(|version| version != VERSION) {
            return Err(broken("it has not the one TXT record \"2\" at the name version"));
        }
        let mut list = BTreeMap::new();
        for (id, name) in members {
            let entry = Entry { coo: owners.remove(&id), id };
            if let Some(before) = list.insert(name, entry) {
                let id = String::from_utf8_lossy(&before.id).into_owned();
                return Err(broken(&format!("the zone of its member {id} is listed twice")));
            }
        }
        Ok(Self(list))
    }

    /// How many zones it lists.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Says that a catalog is broken.
fn broken(why: &str) -> String {
    format!("the catalog is broken: {why}")
}
