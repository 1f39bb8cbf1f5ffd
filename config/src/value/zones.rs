//! The zones of a plugin: those that it names, or those of its block.

use super::{CidrError, cidr_zones, fqdn};
use crate::{Key, Scheme, Word};

/// The zones that a plugin is for, in lower case with final dots: those that it names, without what is no zone, or all of its
/// block if it names none.
pub fn zones_of(words: &[Word], keys: &[Key]) -> Vec<String> {
    if words.is_empty() {
        return keys.iter().map(|key| key.zone.clone()).collect();
    }
    words.iter().filter_map(|word| zone_argument(&word.text)).flatten().collect()
}

/// The zones that one word means: itself without scheme and port, or of a network its reverse zones. `None` if it is no zone.
pub fn zone_argument(text: &str) -> Option<Vec<String>> {
    let text = match text.split_once("://") {
        Some((scheme, rest))
            if scheme.parse().is_ok_and(|scheme: Scheme| scheme != Scheme::Cluster) =>
        {
            rest
        }
        _ => text,
    };
    let zone = match text.rsplit_once(':') {
        Some((_, "")) => return None,
        Some((zone, port)) if port.parse::<u64>().is_ok() => zone,
        None if text.is_empty() => return None,
        _ => text,
    };
    if zone.len() > 255 {
        return None;
    }
    match cidr_zones(zone) {
        Ok(zones) => Some(zones),
        Err(CidrError::Zone) => None,
        Err(CidrError::Form) => fqdn(zone).ok().map(|zone| vec![zone]),
    }
}
