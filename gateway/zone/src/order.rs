//! The canonical order of names (RFC 4034 §6.1), on runs of labels such as [`wire::Name::below`] gives.

use std::cmp::Ordering;

/// More labels than any name has.
const SLOTS: usize = 128;

/// Where the labels of a run begin.
struct Labels<'a> {
    run: &'a [u8],
    starts: [u8; SLOTS],
    count: usize,
}

impl<'a> Labels<'a> {
    /// Finds them.
    fn of(run: &'a [u8]) -> Self {
        let mut labels = Self { run, starts: [0; SLOTS], count: 0 };
        let mut at = 0;
        while let (Some(len), Some(slot)) = (run.get(at), labels.starts.get_mut(labels.count)) {
            if *len == 0 {
                break;
            }
            // A name has 255 octets at most.
            *slot = u8::try_from(at).unwrap_or(u8::MAX);
            labels.count += 1;
            at += 1 + usize::from(*len);
        }
        labels
    }

    /// The label that is so many from the end.
    fn back(&self, back: usize) -> Option<&'a [u8]> {
        let at = usize::from(*self.starts.get(self.count.checked_sub(back + 1)?)?);
        let len = usize::from(*self.run.get(at)?);
        self.run.get(at + 1..at + 1 + len)
    }
}

/// Compares two runs of lower-case labels, the last label first.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (Labels::of(a), Labels::of(b));
    for back in 0.. {
        match (a.back(back), b.back(back)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(one), Some(other)) => match one.cmp(other) {
                Ordering::Equal => {}
                different => return different,
            },
        }
    }
    Ordering::Equal
}

/// A run without its first label; none if it has none.
pub(crate) fn parent(run: &[u8]) -> Option<&[u8]> {
    let len = usize::from(*run.first()?);
    run.get(1 + len..)
}

/// How many labels a run has.
pub(crate) fn depth(run: &[u8]) -> usize {
    std::iter::successors(Some(run), |run| parent(run)).count() - 1
}

/// Whether the run `inner` is `outer` or below it.
pub(crate) fn is_below(inner: &[u8], outer: &[u8]) -> bool {
    let mut suffixes = std::iter::successors(Some(inner), |run| parent(run));
    suffixes.any(|suffix| suffix == outer)
}
