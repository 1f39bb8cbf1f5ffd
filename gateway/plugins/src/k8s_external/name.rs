//! What the labels before a zone stand for.

use crate::shared::cluster::name::{Labels, Part, Rules};

/// What a name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'n> {
    /// The zone itself.
    Apex,
    /// A name that has names below and nothing else.
    Branch,
    /// The zone's name server.
    NameServer,
    /// A namespace.
    Namespace(&'n [u8]),
    /// A service, or something of it.
    Service {
        /// Service and namespace in wire form.
        key: &'n [u8],
        /// Where in the name that begins.
        at: usize,
        /// What of it.
        part: Part<'n>,
    },
    /// Nothing that there could be.
    Nothing,
}

impl<'n> Wanted<'n> {
    /// Reads the labels before a zone, in lower case; those of `apex` are the zone's own.
    pub(super) fn read(head: &'n [u8], apex: &[u8]) -> Self {
        if head.is_empty() {
            return Self::Apex;
        }
        if let Some(before) = before(head, apex) {
            return match before {
                b"" => Self::Branch,
                b"\x03ns1" => Self::NameServer,
                _ => Self::Nothing,
            };
        }
        if before(apex, head).is_some() {
            return Self::Branch;
        }
        let labels = Labels::of(head);
        if labels.len() < 2 {
            return Self::Namespace(labels.get(0));
        }
        let at = labels.start(1);
        let key = head.get(at..).unwrap_or_default();
        let part = Part::read(&labels, 2, Rules::default());
        part.map_or(Self::Nothing, |part| Self::Service { key, at, part })
    }
}

/// The labels of `head` before those of `tail`, if it ends in them.
fn before<'n>(head: &'n [u8], tail: &[u8]) -> Option<&'n [u8]> {
    let cut = head.len().checked_sub(tail.len())?;
    let mut at = 0;
    while at < cut {
        at += 1 + usize::from(*head.get(at)?);
    }
    (at == cut && head.get(cut..)? == tail).then(|| &head[..cut])
}
