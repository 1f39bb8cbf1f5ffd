//! What plugins share that pass questions on to other servers.

pub(crate) mod crowd;
pub(crate) mod fault;
pub(crate) mod flight;
pub(crate) mod home;
pub(crate) mod message;
pub(crate) mod policy;
pub(crate) mod sift;
pub(crate) mod taps;

use std::sync::OnceLock;

use config::{Diagnostic, Word};
use engine::{Layout, Setup};
use wire::Name;

use crate::shared::zones::Zones;

/// The most upstreams that one directive may have.
pub(crate) const MAX_UPSTREAMS: usize = 15;

/// The zones that are our own.
#[derive(Debug)]
pub(crate) struct Own {
    layout: Layout,
    zones: OnceLock<Zones>,
}

impl Own {
    /// Those of a configuration.
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, zones: OnceLock::new() }
    }

    /// The zones, once all blocks are set up.
    pub(crate) fn zones(&self) -> &Zones {
        self.zones.get_or_init(|| Zones::new(self.layout.own_zones()))
    }
}

/// The zone that FROM means; of several, the first.
pub(crate) fn from(setup: &mut Setup<'_>, word: &Word) -> Result<Name, Diagnostic> {
    match &*setup.zones_of(std::slice::from_ref(word)) {
        [] => Err(word.wrong("is not a zone")),
        [one] => Ok(one.clone()),
        [first, ..] => {
            let kept = format!("stands for several zones, of which only {first} is forwarded");
            setup.warn(word.wrong(kept));
            Ok(first.clone())
        }
    }
}

/// `except NAMES…`.
pub(crate) fn except(words: &mut config::Words<'_>) -> Result<Vec<Name>, Diagnostic> {
    words.clone().one()?;
    let mut except = Vec::new();
    for word in words.rest() {
        let zones = config::value::zone_argument(&word.text).unwrap_or_default();
        let names: Vec<Name> = zones.iter().filter_map(|zone| Name::parse(zone)).collect();
        if names.is_empty() {
            return Err(word.wrong("is not a domain name"));
        }
        except.extend(names);
    }
    Ok(except)
}

/// Refuses no upstream at all, and too many.
pub(crate) fn count<T>(found: &[T], targets: &[Word], directive: &Word) -> Result<(), Diagnostic> {
    match found.len() {
        0 => {
            let first = targets.first().unwrap_or(directive);
            Err(first.wrong("names no upstream").help("write the address of a DNS server"))
        }
        1..=MAX_UPSTREAMS => Ok(()),
        more => Err(directive.fault(format!("more than {MAX_UPSTREAMS} TOs configured: {more}"))),
    }
}
