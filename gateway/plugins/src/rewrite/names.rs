//! Patterns that names are compared with, and what the matching part becomes.

use regex::Regex;
use smallvec::SmallVec;
use wire::Name;

use crate::shared::name_text::NameText;

/// A condition on a name.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// This name.
    Exact(Name),
    /// The first labels are those of this name; the root's are those of the root alone.
    Labels(Name),
    /// The text ends so.
    Tail(Tail),
    /// The text has this somewhere.
    Within(Box<str>),
    /// The text matches.
    Regex(Regex),
}

impl Pattern {
    /// Whether `name` meets it.
    pub(super) fn matches(&self, name: &Name) -> bool {
        match self {
            Self::Exact(own) => own == name,
            Self::Labels(own) => behind(own, name).is_some(),
            Self::Tail(tail) => tail.cut(name).is_some(),
            Self::Within(part) => NameText::of(name.wire()).as_str().contains(&**part),
            Self::Regex(regex) => regex.is_match(NameText::of(name.wire()).as_str()),
        }
    }
}

/// A replacement of names.
#[derive(Clone, Debug)]
pub(super) enum Rename {
    /// One name by another.
    Exact { from: Name, to: Name },
    /// A name and all below it by another and all below that.
    Below { from: Name, to: Name },
    /// The first labels.
    Labels { from: Name, to: Name },
    /// The end of the text.
    Tail { from: Tail, to: Tail },
    /// A part of the text.
    Text { place: Place, from: Box<str>, to: Box<str> },
    /// The whole name, where the text matches.
    Regex { from: Regex, to: Groups },
}

/// Where a part of a text is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At its start.
    Start,
    /// At its end.
    End,
    /// Everywhere.
    Within,
}

/// A replacement that gave no legal name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Illegal;

impl Rename {
    /// What `name` becomes; none if it is not meant.
    pub(super) fn of(&self, name: &Name) -> Option<Result<Name, Illegal>> {
        let made = match self {
            Self::Exact { from, to } => (name == from).then(|| to.clone()),
            Self::Below { from, to } => {
                return Some(Name::join(name.below(from)?, to.wire()).ok_or(Illegal));
            }
            Self::Labels { from, to } => {
                let rest = behind(from, name)?;
                // Nothing in place of labels would leave the dot behind them at the start.
                let head = match to.wire().split_last() {
                    Some((_, [])) | None if rest.len() > 1 => return Some(Err(Illegal)),
                    Some((_, head)) => head,
                    None => &[],
                };
                return Some(Name::join(head, rest).ok_or(Illegal));
            }
            Self::Tail { from, to } => {
                let (before, label) = from.cut(name)?;
                return Some(to.behind(before, label).ok_or(Illegal));
            }
            Self::Text { place, from, to } => {
                let text = NameText::of(name.wire());
                return Some(parse(&place.replace(text.as_str(), from, to)?));
            }
            Self::Regex { from, to } => {
                let text = NameText::of(name.wire());
                if !from.is_match(text.as_str()) {
                    return None;
                }
                return Some(parse(&to.fill(&from.captures(text.as_str())?)));
            }
        };
        made.map(Ok)
    }
}

impl Place {
    /// `text` with `to` for `from` here; none if that is not here.
    fn replace(self, text: &str, from: &str, to: &str) -> Option<String> {
        match self {
            Self::Start => text.strip_prefix(from).map(|rest| format!("{to}{rest}")),
            Self::End => text.strip_suffix(from).map(|rest| format!("{rest}{to}")),
            Self::Within => text.contains(from).then(|| text.replace(from, to)),
        }
    }
}

/// Reads a name that a replacement gave: an empty text is none.
fn parse(text: &str) -> Result<Name, Illegal> {
    if text.is_empty() { Err(Illegal) } else { Name::parse(text).ok_or(Illegal) }
}

/// What follows the labels of `head` in `name`, if it begins with them.
fn behind<'a>(head: &Name, name: &'a Name) -> Option<&'a [u8]> {
    let (_, labels) = head.wire().split_last()?;
    if labels.is_empty() {
        return name.is_root().then(|| name.wire());
    }
    name.wire().strip_prefix(labels)
}

/// The end of a name's text: of one label its end, and the labels behind it. `.example.org.` is nothing of a label and
/// `example.org.` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The end of a label; may be empty.
    head: Box<[u8]>,
    /// The labels behind it.
    rest: Name,
}

impl Tail {
    /// Reads the text of an end, whose last dot may be missing.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('.').filter(|rest| *rest != ".") {
            return Some(Self { head: [].into(), rest: Name::parse(rest)? });
        }
        let name = Name::parse(text)?;
        let head = name.each_label().next().unwrap_or_default().into();
        Some(Self { head, rest: name.parent() })
    }

    /// Cuts this end off: the labels before that in which it starts, and what is left of that one.
    fn cut<'a>(&self, name: &'a Name) -> Option<(&'a [u8], &'a [u8])> {
        let before = name.below(&self.rest)?;
        let label = Name::labels_of(before).last()?;
        let left = label.strip_suffix(&*self.head)?;
        Some((before.get(..before.len() - label.len() - 1)?, left))
    }

    /// Puts this end behind labels and a label's begin. None if the result is no name.
    fn behind(&self, before: &[u8], label: &[u8]) -> Option<Name> {
        let len = label.len() + self.head.len();
        if len == 0 {
            return (before.is_empty() && self.rest.is_root()).then_some(Name::ROOT);
        }
        let mut head: SmallVec<[u8; 256]> = SmallVec::from_slice(before);
        head.push(u8::try_from(len).ok().filter(|n| *n < 64)?);
        head.extend_from_slice(label);
        head.extend_from_slice(&self.head);
        Name::join(&head, self.rest.wire())
    }
}

/// A text with the groups of a match in it, `{1}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Groups(Vec<Part>);

/// A part of such a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// As it stands.
    Text(String),
    /// What a group of the match holds.
    Group(usize),
}

impl Groups {
    /// Reads the text. Braces around anything but digits are themselves.
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, tail) = rest.split_at(at);
            plain.push_str(before);
            let inner = tail.get(1..).and_then(|tail| tail.split_once('}'));
            let group = inner.and_then(|(digits, behind)| {
                let digits = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
                Some((digits.parse().ok()?, behind))
            });
            rest = match group {
                Some((number, behind)) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Group(number));
                    behind
                }
                None => {
                    plain.push('{');
                    tail.get(1..).unwrap_or_default()
                }
            };
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self(parts)
    }

    /// The highest group that is used; none if none is.
    pub(super) fn highest(&self) -> Option<usize> {
        self.0
            .iter()
            .filter_map(|part| if let Part::Group(n) = part { Some(*n) } else { None })
            .max()
    }

    /// The text with the groups of a match filled in; a group that took no part is empty.
    fn fill(&self, captures: &regex::Captures<'_>) -> String {
        self.0.iter().fold(String::new(), |mut text, part| {
            match part {
                Part::Text(own) => text.push_str(own),
                Part::Group(n) => {
                    text.push_str(captures.get(*n).map_or("", |group| group.as_str()))
                }
            }
            text
        })
    }
}
