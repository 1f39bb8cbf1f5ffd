//! Domain names.

use std::hash::{Hash, Hasher};

/// The longest name, in octets on the wire (RFC 1035 §2.3.4).
const MAX: usize = 255;

/// A domain name in lower-case wire form, root label included, held inline.
///
/// Zone keys and cluster keys are suffix and prefix slices of it, so that a look-up builds no string.
#[derive(Clone)]
pub struct Name {
    len: u8,
    bytes: [u8; MAX],
}

impl Name {
    /// The name of the root.
    pub const ROOT: Self = Self { len: 1, bytes: [0; MAX] };

    /// Reads the name at the start of `wire`, and tells its length there in octets. Compression pointers are
    /// refused, since a question, the first name of its message, has nothing to point to (RFC 1035 §4.1.4).
    pub fn read(wire: &[u8]) -> Option<(Self, usize)> {
        let len = Self::span(wire)?;
        Self::from_wire(wire.get(..len)?).map(|name| (name, len))
    }

    /// Reads the name at the start of `wire` into this one, in place; tells its length there in octets. On a failure
    /// the name stays as it was.
    pub fn assign(&mut self, wire: &[u8]) -> Option<usize> {
        let len = Self::span(wire)?;
        let (source, target) = (wire.get(..len)?, self.bytes.get_mut(..len)?);
        for (to, from) in target.iter_mut().zip(source) {
            *to = from.to_ascii_lowercase();
        }
        self.len = u8::try_from(len).ok()?;
        Some(len)
    }

    /// The length in octets of the uncompressed name at the start of `wire`; at most 255 (RFC 1035 §2.3.4).
    pub fn span(wire: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            match *wire.get(at)? {
                0 if at < MAX => return Some(at + 1),
                n if n < 64 && n != 0 => at += 1 + usize::from(n),
                _ => return None,
            }
        }
    }

    /// Takes a whole uncompressed wire name whose labels are known to be sound, and makes it lower case.
    fn from_wire(source: &[u8]) -> Option<Self> {
        let mut name = Self { len: u8::try_from(source.len()).ok()?, bytes: [0; MAX] };
        let target = name.bytes.get_mut(..source.len())?;
        target.copy_from_slice(source);
        target.make_ascii_lowercase();
        Some(name)
    }

    /// Reads presentation form, such as `a.example.org.` or `a\.b.example.org` (RFC 1035 §5.1); the last dot
    /// may be left out.
    pub fn parse(text: &str) -> Option<Self> {
        let mut wire = [0u8; MAX + 1];
        let len = crate::text::read_name(text, &mut wire)?;
        Self::from_wire(wire.get(..len)?)
    }

    /// The wire form.
    pub fn wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.len == 1
    }

    /// The number of labels, the root not counted.
    pub fn labels(&self) -> usize {
        self.suffixes().count() - 1
    }

    /// The name itself, then each of its parents, down to the root.
    pub fn suffixes(&self) -> Suffixes<'_> {
        Suffixes { rest: Some(self.wire()) }
    }

    /// The name without its first label; the root stays the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        match self.suffixes().nth(1) {
            Some(parent) => Self::from_wire(parent).unwrap_or(Self::ROOT),
            None => Self::ROOT,
        }
    }

    /// The labels before `zone`, if the name is below it or equal to it (then none). Compares at label
    /// boundaries only: a label may hold any bytes, those of another name's end among them.
    pub fn below(&self, zone: &Self) -> Option<&[u8]> {
        self.below_wire(zone.wire())
    }

    /// The same for a zone given as lower-case wire bytes.
    pub fn below_wire(&self, zone: &[u8]) -> Option<&[u8]> {
        let own = self.wire();
        let cut = own.len().checked_sub(zone.len())?;
        let at_label = || self.suffixes().any(|suffix| suffix.len() == zone.len());
        (own[cut..] == *zone && at_label()).then(|| &own[..cut])
    }

    /// Whether the name is `zone` or below it.
    pub fn is_below(&self, zone: &Self) -> bool {
        self.below(zone).is_some()
    }

    /// Puts the labels of `head` (no root) before `tail` (a wire name); none if the result is too long.
    pub fn join(head: &[u8], tail: &[u8]) -> Option<Self> {
        let len = head.len() + tail.len();
        let mut name = Self { len: u8::try_from(len).ok()?, bytes: [0; MAX] };
        let target = name.bytes.get_mut(..len)?;
        let (first, second) = target.split_at_mut(head.len());
        first.copy_from_slice(head);
        second.copy_from_slice(tail);
        target.make_ascii_lowercase();
        Some(name)
    }

    /// This name with `label` in front; none if the label or the result is too long or the label is empty.
    pub fn child(&self, label: &[u8]) -> Option<Self> {
        let len = u8::try_from(label.len()).ok().filter(|n| (1..64).contains(n))?;
        let mut head = [0u8; 64];
        head[0] = len;
        head[1..=label.len()].copy_from_slice(label);
        Self::join(&head[..=label.len()], self.wire())
    }
}

/// The labels of a wire name or of a run of labels, first to last, without their length octets or the root.
pub(crate) fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let (len, tail) = rest.split_first().filter(|(len, _)| **len != 0)?;
        let (label, tail) = tail.split_at_checked(usize::from(*len))?;
        rest = tail;
        Some(label)
    })
}

impl Name {
    /// The labels, first to last, without their length octets or the root.
    pub fn each_label(&self) -> impl Iterator<Item = &[u8]> {
        labels(self.wire())
    }

    /// The labels of a run such as [`Name::below`] gives.
    pub fn labels_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
        labels(head)
    }
}

/// A name's suffixes, see [`Name::suffixes`].
#[derive(Clone, Debug)]
pub struct Suffixes<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Suffixes<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let here = self.rest?;
        let len = usize::from(*here.first()?);
        self.rest = if len == 0 { None } else { here.get(1 + len..) };
        Some(here)
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::ROOT
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.wire() == other.wire()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wire().hash(state);
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    /// Canonical order (RFC 4034 §6.1): by labels, the last first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let mut own = [&[][..]; 128];
        let mut others = [&[][..]; 128];
        let (a, b) = (fill(&mut own, self), fill(&mut others, other));
        own[..a].iter().rev().cmp(others[..b].iter().rev())
    }
}

/// Puts the labels of `name` into `slots`, and tells how many there are (127 at most).
fn fill<'a>(slots: &mut [&'a [u8]; 128], name: &'a Name) -> usize {
    let mut count = 0;
    for (slot, label) in slots.iter_mut().zip(name.each_label()) {
        *slot = label;
        count += 1;
    }
    count
}
