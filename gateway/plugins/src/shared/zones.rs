//! A plugin's zones.

use std::collections::HashMap;

use wire::Name;

/// Up to so many zones are compared one by one; more are looked up, so that a query costs the same with a hundred thousand.
const FEW: usize = 8;

/// The zones that a plugin acts in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// All of them, in their order.
    all: Box<[Name]>,
    /// The numbers of zones by their wire form; empty if there are few.
    numbers: HashMap<Box<[u8]>, usize>,
}

impl Zones {
    /// These zones, in their order.
    pub fn new(zones: impl Into<Box<[Name]>>) -> Self {
        let all: Box<[Name]> = zones.into();
        let many = if all.len() > FEW { &*all } else { &[] };
        let numbers =
            many.iter().enumerate().map(|(number, zone)| (zone.wire().into(), number)).collect();
        Self { all, numbers }
    }

    /// The longest zone that `name` is in.
    pub fn longest(&self, name: &Name) -> Option<&Name> {
        self.all.get(self.number(name)?)
    }

    /// The number of the longest zone that `name` is in, counted from 0.
    pub fn number(&self, name: &Name) -> Option<usize> {
        if self.numbers.is_empty() {
            let zones = self.all.iter().enumerate().filter(|(_, zone)| name.is_below(zone));
            return zones.max_by_key(|(_, zone)| zone.wire().len()).map(|(number, _)| number);
        }
        name.suffixes().find_map(|suffix| self.numbers.get(suffix).copied())
    }

    /// Whether `name` is in one of the zones.
    pub fn has(&self, name: &Name) -> bool {
        if self.numbers.is_empty() {
            return self.all.iter().any(|zone| name.is_below(zone));
        }
        self.number(name).is_some()
    }

    /// Whether `zone` itself is one of them.
    pub fn has_zone(&self, zone: &Name) -> bool {
        self.all.contains(zone)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name from its text.
    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn many_zones_answer_as_few_do() {
        let texts = ["example.org", "a.example.org", "b.a.example.org", "net", "a.net"];
        let few = Zones::new(texts.map(name));
        let fill = (0..FEW).map(|number| name(&format!("z{number}.invalid")));
        let many = Zones::new(few.iter().cloned().chain(fill).collect::<Vec<_>>());
        assert!(few.numbers.is_empty() && !many.numbers.is_empty());
        for (asked, zone) in [
            ("example.org", Some("example.org")),
            ("x.example.org", Some("example.org")),
            ("x.b.a.example.org", Some("b.a.example.org")),
            ("xa.example.org", Some("example.org")),
            ("a.net", Some("a.net")),
            ("org", None),
            (".", None),
        ] {
            for zones in [&few, &many] {
                let found = zones.longest(&name(asked));
                assert_eq!(found, zone.map(name).as_ref(), "{asked}");
                assert_eq!(zones.has(&name(asked)), zone.is_some(), "{asked}");
            }
        }
        assert!(Zones::new([Name::ROOT]).has(&name("x")));
    }
}
