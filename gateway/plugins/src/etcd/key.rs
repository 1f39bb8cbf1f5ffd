//! Names as keys: `/skydns/org/example/www` for `www.example.org`.

use wire::Name;

/// What names have for a label that stands for every one.
const WILDCARDS: [&[u8]; 2] = [b"*", b"any"];

/// Where the keys begin, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<u8>);

/// What is read for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The key; those below it begin with it and a slash.
    pub(super) key: Vec<u8>,
    /// What the parts of keys have to be, from the key's end on; none for any.
    pub(super) parts: Vec<Option<Box<[u8]>>>,
}

impl Path {
    /// The path of a word, with or without slashes around it.
    pub(super) fn new(text: &str) -> Self {
        let parts = text.split('/').filter(|part| !part.is_empty());
        Self(parts.flat_map(|part| [b"/", part.as_bytes()].concat()).collect())
    }

    /// What is read for a name: the key up to its first wildcard from the top. None if no key can stand for it.
    pub(super) fn wanted(&self, name: &Name) -> Option<Wanted> {
        let mut labels: Vec<&[u8]> = name.each_label().collect();
        // A slash would lead to another name's keys.
        if labels.iter().any(|label| label.contains(&b'/')) {
            return None;
        }
        labels.reverse();
        let is_wildcard = |label: &&[u8]| WILDCARDS.contains(label);
        let fixed = labels.iter().position(is_wildcard).unwrap_or(labels.len());
        let (fixed, open) = labels.split_at_checked(fixed)?;
        let mut key = self.0.clone();
        fixed.iter().for_each(|label| key.extend([b"/", *label].concat()));
        let part = |label: &&[u8]| (!is_wildcard(label)).then(|| Box::from(*label));
        Some(Wanted { key, parts: open.iter().map(part).collect() })
    }

    /// The name that a key stands for; none if it is none.
    pub(super) fn name(&self, key: &[u8]) -> Option<Name> {
        let below = key.strip_prefix(&*self.0)?.strip_prefix(b"/")?;
        let mut wire = Vec::with_capacity(key.len() + 1);
        for label in below.split(|byte| *byte == b'/').rev() {
            let len = u8::try_from(label.len()).ok().filter(|len| (1..64).contains(len))?;
            wire.push(len);
            wire.extend_from_slice(label);
        }
        Name::join(&wire, &[0])
    }
}

impl Wanted {
    /// Whether a key that was read is one of those that are meant.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        if self.parts.is_empty() {
            return true;
        }
        let Some(rest) = key.strip_prefix(&*self.key).and_then(|rest| rest.strip_prefix(b"/"))
        else {
            return false;
        };
        let mut parts = rest.split(|byte| *byte == b'/');
        self.parts.iter().all(|wanted| match (parts.next(), wanted) {
            (Some(_), None) => true,
            (Some(part), Some(wanted)) => part == &**wanted,
            (None, _) => false,
        })
    }
}
