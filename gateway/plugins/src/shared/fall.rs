//! `fallthrough [ZONES…]`: which names go on to the next plugin when this one has nothing.

use config::{Diagnostic, Word, Words};
use engine::Setup;
use wire::Name;

use super::zones::Zones;

/// The names that fall through; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fall(Zones);

impl Fall {
    /// Reads the words behind `fallthrough`: zones, or none for all names.
    ///
    /// # Errors
    /// None today; the signature is that of a property.
    pub fn read(setup: &Setup<'_>, words: &mut Words<'_>) -> Result<Self, Diagnostic> {
        Ok(Self::named(setup, words.rest()))
    }

    /// The same from words that were kept.
    pub fn named(setup: &Setup<'_>, words: &[Word]) -> Self {
        match words {
            [] => Self(Zones::new([Name::ROOT])),
            zones => Self(Zones::new(setup.zones_of(zones))),
        }
    }

    /// The same for the plugin's zones, from words that were kept if `fallthrough` stands there: the block owns them, but for those
    /// that fall through by name, which belong to others too.
    pub fn of_zones(setup: &mut Setup<'_>, words: Option<&[Word]>, zones: &[Name]) -> Self {
        let fall = words.map_or_else(Self::default, |words| Self::named(setup, words));
        setup.own(zones.iter().filter(|zone| !fall.is_named(zone)).cloned());
        fall
    }

    /// Falls through for these zones.
    pub fn new(zones: Zones) -> Self {
        Self(zones)
    }

    /// Whether `name` falls through by a zone that is named, not because all names do.
    pub fn is_named(&self, name: &Name) -> bool {
        self.0.longest(name).is_some_and(|zone| !zone.is_root())
    }

    /// Whether `name` falls through.
    pub fn through(&self, name: &Name) -> bool {
        self.0.has(name)
    }
}
