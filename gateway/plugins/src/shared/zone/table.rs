//! What a plugin has for each of its zones.

use wire::{Name, rtype};

use crate::shared::zones::Zones;

/// Something for each of some zones.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// The names of the zones.
    names: Zones,
    /// What there is for them, in the order of the names.
    all: Box<[T]>,
}

impl<T> Default for Table<T> {
    /// No zones.
    fn default() -> Self {
        Self { names: Zones::default(), all: Box::default() }
    }
}

impl<T> FromIterator<(Name, T)> for Table<T> {
    fn from_iter<I: IntoIterator<Item = (Name, T)>>(zones: I) -> Self {
        let (names, all): (Vec<Name>, Vec<T>) = zones.into_iter().unzip();
        Self { names: Zones::new(names), all: all.into() }
    }
}

impl<T> Table<T> {
    /// The number of the zone that answers for a name, the longest one; for DS records of a zone's own name that is the zone above
    /// (RFC 4035 §3.1.4.1).
    pub fn number(&self, name: &Name, kind: u16) -> Option<usize> {
        let number = self.names.number(name)?;
        let is_own = || self.names.longest(name) == Some(name);
        if kind == rtype::DS && !name.is_root() && is_own() {
            return self.names.number(&name.parent()).or(Some(number));
        }
        Some(number)
    }

    /// What there is under a number.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.all.get(number)
    }

    /// What there is for the zone that answers for a name.
    pub fn find(&self, name: &Name, kind: u16) -> Option<&T> {
        self.get(self.number(name, kind)?)
    }

    /// What there is for a zone itself.
    pub fn of(&self, zone: &Name) -> Option<&T> {
        self.names.longest(zone).filter(|found| *found == zone)?;
        self.get(self.names.number(zone)?)
    }

    /// All zones with what there is for them.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &T)> {
        self.names.iter().zip(&self.all)
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no zone.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
