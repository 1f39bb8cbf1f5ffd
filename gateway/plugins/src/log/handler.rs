//! One line for each query that a rule wants.

use engine::{End, Exchange, Metadata, Observer, Provider};
use log::Level;
use wire::Name;

use crate::shared::asked;
use crate::shared::replacer::Format;
use crate::shared::response::{Class, Kind};

/// Where query lines go; they carry no plugin's name.
const TARGET: &str = "query";

/// A set of response classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes(u8);

impl Classes {
    /// All of them.
    pub(super) const ALL: Self = Self(7);

    /// One of them.
    pub(super) const fn only(class: Class) -> Self {
        Self(match class {
            Class::Success => 1,
            Class::Denial => 2,
            Class::Error => 4,
        })
    }

    /// Adds those of `other`.
    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// These, or all if there are none.
    pub(super) fn or_all(self) -> Self {
        if self.0 == 0 { Self::ALL } else { self }
    }

    /// Whether `class` is among them.
    fn has(self, class: Class) -> bool {
        self.0 & Self::only(class).0 != 0
    }
}

/// Which names are logged, and how.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) zone: Name,
    pub(super) format: Format,
    pub(super) classes: Classes,
}

/// Logs a block's queries.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) rules: Box<[Rule]>,
    pub(super) metadata: Metadata,
}

impl Observer for Log {
    fn sent(&self, x: &Exchange, end: End, _: &[u8]) {
        if !log::log_enabled!(target: TARGET, Level::Info) {
            return;
        }
        let name = asked::name(x);
        // The first rule for the name decides, also against a line.
        let Some(rule) = self.rules.iter().find(|rule| name.is_below(&rule.zone)) else { return };
        if rule.classes != Classes::ALL && !rule.classes.has(kind(x, end).class()) {
            return;
        }
        log::info!(target: TARGET, "{}", rule.format.of(x, end, &self.metadata));
    }
}

/// The kind of an exchange's outcome; of silence that of an error.
fn kind(x: &Exchange, end: End) -> Kind {
    match end {
        End::Silent => Kind::OtherError,
        _ => Kind::of(x.client_request(), x.answer()),
    }
}

/// Tells the kind and the class of what has ended.
#[derive(Debug)]
pub(super) struct Labels;

impl Provider for Labels {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let kind = kind(x, x.end()?);
        out.push_str(match label {
            "type" => kind.name(),
            "class" => kind.class().name(),
            _ => return None,
        });
        Some(())
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("type");
        each("class");
    }
}
