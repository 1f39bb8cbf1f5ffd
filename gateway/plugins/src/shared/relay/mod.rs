//! What plugins share that pass questions on to other servers.

pub(crate) mod fault;
pub(crate) mod flight;
pub(crate) mod home;
pub(crate) mod message;
pub(crate) mod policy;
pub(crate) mod sift;

use config::{Diagnostic, Word};
use engine::Setup;
use wire::Name;

/// The most upstreams that one directive may have.
pub(crate) const MAX_UPSTREAMS: usize = 15;

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
