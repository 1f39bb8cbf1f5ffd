//! The counters of the plugin.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use engine::metrics::{Counter, counter, describe};
use engine::{Exchange, Routes};
use foldhash::fast::FixedState;

/// Counts matches and failures.
#[derive(Debug)]
pub(super) struct Counters {
    routes: Routes,
    /// The counters of matches, by route, template, zone, class and type.
    matches: RwLock<HashMap<Key, Counter, FixedState>>,
}

/// What matches are counted by.
type Key = (usize, usize, usize, u16, u16);

/// Where a template fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The number of the template, and that of its zone.
    pub(super) template: (usize, usize),
    /// The zone.
    pub(super) zone: &'a str,
    /// The class, and its number.
    pub(super) class: (&'a str, u16),
    /// The type, and its number.
    pub(super) rtype: (&'a str, u16),
}

/// Types that have no name are counted together: clients choose their numbers.
const OTHER: &str = "other";

impl Counters {
    /// For a block with these routes.
    pub(super) fn new(routes: Routes) -> Self {
        describe("coredns_template_matches_total", "Counter of template regex matches.");
        describe("coredns_template_template_failures_total", "Counter of go template failures.");
        describe("coredns_template_rr_failures_total", "Counter of mis-templated RRs.");
        Self { routes, matches: RwLock::default() }
    }

    /// Counts a match.
    pub(super) fn matched(&self, x: &Exchange, place: &Place<'_>) {
        let number = |(text, number): (&str, u16)| if is_named(text) { number } else { u16::MAX };
        let (template, zone) = place.template;
        let key = (x.route(), template, zone, number(place.class), number(place.rtype));
        if let Some(counter) = self.matches.read().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return counter.increment(1);
        }
        let made =
            self.with_labels(x, place, |labels| counter("coredns_template_matches_total", labels));
        made.increment(1);
        self.matches.write().unwrap_or_else(PoisonError::into_inner).insert(key, made);
    }

    /// Counts a failure, of the template itself or of what it made.
    pub(super) fn failed(
        &self,
        x: &Exchange,
        place: &Place<'_>,
        section: &str,
        template: &str,
        made_text: bool,
    ) {
        let name = if made_text {
            "coredns_template_rr_failures_total"
        } else {
            "coredns_template_template_failures_total"
        };
        self.with_labels(x, place, |labels| {
            let all = [labels, &[("section", section), ("template", template)]].concat();
            counter(name, &all).increment(1);
        });
    }

    /// Calls `each` with the labels that all counters have.
    fn with_labels<T>(
        &self,
        x: &Exchange,
        place: &Place<'_>,
        each: impl FnOnce(&[(&'static str, &str)]) -> T,
    ) -> T {
        let route = self.routes.of(x);
        let name = |text| if is_named(text) { text } else { OTHER };
        each(&[
            ("server", route.map_or("", |route| &*route.server)),
            ("zone", place.zone),
            ("view", route.map_or("", |route| &*route.view)),
            ("class", name(place.class.0)),
            ("type", name(place.rtype.0)),
        ])
    }
}

/// Whether a class or type has a name of its own, and is not just a number.
fn is_named(text: &str) -> bool {
    let digits = text.strip_prefix("TYPE").or_else(|| text.strip_prefix("CLASS"));
    digits.is_none_or(|digits| !digits.starts_with(|c: char| c.is_ascii_digit()))
}
