//! A traced query, before it is put into a collector's form.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use engine::Passage;

use super::parent::Parent;
use crate::shared::clock;

/// The name of the outermost span.
const ROOT: &str = "servedns";

/// A query with all its spans.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) trace: u128,
    /// The number of the outermost span.
    pub(super) root: u64,
    /// Whose part the query is, if the client says so.
    pub(super) parent: Option<Parent>,
    pub(super) begun: Duration,
    pub(super) ended: Duration,
    pub(super) facts: Facts,
    /// What lies within the outermost span.
    pub(super) passages: Vec<Passage>,
}

/// What is said of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) rtype: String,
    /// None of what got no reply.
    pub(super) rcode: Option<String>,
    pub(super) proto: &'static str,
    pub(super) remote: String,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
}

/// One span, as collectors want them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span<'a> {
    pub(super) name: &'static str,
    pub(super) id: u64,
    /// None of the outermost one, unless it has a parent elsewhere.
    pub(super) parent: Option<u64>,
    /// When it began, since 1970.
    pub(super) begun: Duration,
    pub(super) took: Duration,
    /// Whether it is the outermost here.
    pub(super) is_root: bool,
    /// Whether a span of the client has the same number.
    pub(super) shared: bool,
    pub(super) peer: Option<SocketAddr>,
    /// What is said of the query; of the outermost alone.
    pub(super) facts: Option<&'a Facts>,
}

impl Facts {
    /// What is said, under names that have `mark` between their two parts.
    pub(super) fn tags(&self, mark: char) -> Vec<(String, Cow<'_, str>)> {
        let mut tags = vec![
            (format!("coredns.io{mark}name"), Cow::from(&self.name)),
            (format!("coredns.io{mark}type"), Cow::from(&self.rtype)),
            (format!("coredns.io{mark}proto"), Cow::from(self.proto)),
            (format!("coredns.io{mark}remote"), Cow::from(&self.remote)),
        ];
        if let Some(rcode) = &self.rcode {
            tags.push((format!("coredns.io{mark}rcode"), Cow::from(rcode)));
        }
        tags
    }
}

impl Traced {
    /// How many spans it has.
    pub(super) fn len(&self) -> usize {
        1 + self.passages.len()
    }

    /// The number of a span within the outermost one: the outermost's and its place, mixed (SplitMix64), for it has to be
    /// its own in the trace, and nobody has to guess it.
    fn number(&self, place: usize) -> u64 {
        let step = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut number = self.root.wrapping_add(step);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)).max(1)
    }

    /// Its spans, the outermost first; `shares` if it takes the number of the client's span.
    pub(super) fn spans(&self, shares: bool) -> impl Iterator<Item = Span<'_>> {
        let shared = self.parent.filter(|_| shares);
        let (root, above) = match (shared, self.parent) {
            (Some(parent), _) => (parent.span, parent.above),
            (None, parent) => (self.root, parent.map(|parent| parent.span)),
        };
        let first = Span {
            name: ROOT,
            id: root,
            parent: above,
            begun: self.begun,
            took: self.ended.saturating_sub(self.begun),
            is_root: true,
            shared: shared.is_some(),
            peer: None,
            facts: Some(&self.facts),
        };
        let rest = self.passages.iter().enumerate().map(move |(place, passage)| Span {
            name: passage.name,
            id: self.number(place),
            parent: Some(passage.parent.map_or(root, |place| self.number(place))),
            begun: clock::world(passage.begun),
            took: passage.ended.saturating_duration_since(passage.begun),
            is_root: false,
            shared: false,
            peer: passage.peer,
            facts: None,
        });
        std::iter::once(first).chain(rest)
    }
}
