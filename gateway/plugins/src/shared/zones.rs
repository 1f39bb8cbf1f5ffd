//! A plugin's zones.

use wire::Name;

/// The zones that a plugin acts in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones(Box<[Name]>);

impl Zones {
    /// These zones, in their order.
    pub fn new(zones: impl Into<Box<[Name]>>) -> Self {
        Self(zones.into())
    }

    /// The longest zone that `name` is in.
    pub fn longest(&self, name: &Name) -> Option<&Name> {
        self.0.iter().filter(|zone| name.is_below(zone)).max_by_key(|zone| zone.wire().len())
    }

    /// Whether `name` is in one of the zones.
    pub fn has(&self, name: &Name) -> bool {
        self.0.iter().any(|zone| name.is_below(zone))
    }

    /// Whether `zone` itself is one of them.
    pub fn has_zone(&self, zone: &Name) -> bool {
        self.0.contains(zone)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        self.0.iter()
    }
}
