//! From a zone to the text of the same zone, signed (RFC 4035 §2).

use std::fmt::Write as _;

use wire::text::{name_text, type_name};
use wire::{Name, rtype};
use zone::record::data_text;
use zone::{Cursor, Zone, write_types};

use crate::shared::dnssec::{Digest, Key, Times, body, labels};

/// A child's DS record, for its parent (RFC 7344).
const CDS: u16 = 59;
/// The same with the whole key.
const CDNSKEY: u16 = 60;
/// A digest of a zone, which signing makes wrong (RFC 8976).
const ZONEMD: u16 = 63;

/// The records of one name and type.
struct Set {
    rtype: u16,
    ttl: u32,
    data: Vec<Vec<u8>>,
}

/// The records of a name.
struct Node {
    owner: Name,
    sets: Vec<Set>,
}

/// Whose a name is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The zone's.
    Own,
    /// A zone's below, whose DS records are this one's (RFC 4035 §2.2).
    Cut,
    /// Nobody's here: below such a name, or below a DNAME record.
    Hidden,
}

/// The text of a zone that is signed with `keys`, each with its serial and its signatures' times.
///
/// # Errors
/// If a key cannot sign.
pub(super) fn zone(zone: &Zone, keys: &[Key], serial: u32, times: Times) -> Result<String, String> {
    let apex = zone.apex();
    let (ttl, soa) = zone.soa_record();
    // Denials are kept for the lesser of the two (RFC 9077 §3).
    let denial = ttl.min(zone.soa().minimum);
    let mut nodes = nodes(zone);
    if nodes.first().is_none_or(|node| node.owner != *apex) {
        nodes.insert(0, Node { owner: apex.clone(), sets: Vec::new() });
    }
    if let Some(first) = nodes.first_mut() {
        let mut soa = soa.to_vec();
        if let Some(number) = soa.len().checked_sub(20).and_then(|at| soa.get_mut(at..at + 4)) {
            number.copy_from_slice(&serial.to_be_bytes());
        }
        first.sets.insert(0, Set { rtype: rtype::SOA, ttl, data: vec![soa] });
        let public: Vec<Vec<u8>> = keys.iter().map(|key| key.data().to_vec()).collect();
        let digests = keys
            .iter()
            .flat_map(|key| [Digest::Sha1, Digest::Sha256].map(|kind| key.ds(apex, kind)));
        let digests = digests.collect();
        for (rtype, data) in [(rtype::DNSKEY, public.clone()), (CDS, digests), (CDNSKEY, public)] {
            first.sets.push(Set { rtype, ttl, data });
        }
    }
    let places = places(apex, &nodes);
    let chained = |at: &usize| places.get(*at).is_some_and(|place| *place != Place::Hidden);
    let mut text =
        String::from("; Signed by the plugin sign: what is changed here is overwritten.\n");
    for (at, node) in nodes.iter().enumerate() {
        let place = places.get(at).copied().unwrap_or(Place::Hidden);
        for set in &node.sets {
            write(&mut text, &node.owner, set);
            if place == Place::Own || place == Place::Cut && set.rtype == rtype::DS {
                sign(&mut text, (apex, keys, times), &node.owner, set)?;
            }
        }
        if place == Place::Hidden {
            continue;
        }
        let next = (at + 1..nodes.len()).find(chained).and_then(|at| nodes.get(at));
        let next = next.map_or(apex, |node| &node.owner);
        let proof = proof(node, place, next, denial);
        write(&mut text, &node.owner, &proof);
        sign(&mut text, (apex, keys, times), &node.owner, &proof)?;
    }
    Ok(text)
}

/// The names of a zone that have records, in canonical order, without what signing makes anew.
fn nodes(zone: &Zone) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    zone.walk(&mut Cursor::default(), |owner, kind, ttl, data| {
        if matches!(kind, rtype::RRSIG | rtype::NSEC | rtype::DNSKEY | CDS | CDNSKEY | ZONEMD) {
            return true;
        }
        if nodes.last().is_none_or(|node| node.owner != *owner) {
            nodes.push(Node { owner: owner.clone(), sets: Vec::new() });
        }
        if let Some(node) = nodes.last_mut() {
            match node.sets.last_mut().filter(|set| set.rtype == kind) {
                Some(set) => set.data.push(data.to_vec()),
                None => node.sets.push(Set { rtype: kind, ttl, data: vec![data.to_vec()] }),
            }
        }
        true
    });
    nodes
}

/// Whose each name is.
fn places(apex: &Name, nodes: &[Node]) -> Vec<Place> {
    // In canonical order all names below another follow it.
    let mut above: Option<&Name> = None;
    let mut places = Vec::with_capacity(nodes.len());
    for Node { owner, sets } in nodes {
        let has = |kind| sets.iter().any(|set: &Set| set.rtype == kind);
        let is_cut = has(rtype::NS) && owner != apex;
        if above.is_some_and(|above| owner.is_below(above)) {
            places.push(Place::Hidden);
            continue;
        }
        if is_cut || has(rtype::DNAME) {
            above = Some(owner);
        }
        places.push(if is_cut { Place::Cut } else { Place::Own });
    }
    places
}

/// The NSEC record of a name (RFC 4035 §2.3).
fn proof(node: &Node, place: Place, next: &Name, ttl: u32) -> Set {
    let shown = |kind: &u16| place == Place::Own || matches!(*kind, rtype::NS | rtype::DS);
    let own = node.sets.iter().map(|set| set.rtype).filter(shown);
    let mut types: Vec<u16> = own.chain([rtype::RRSIG, rtype::NSEC]).collect();
    types.sort_unstable();
    let mut data = next.wire().to_vec();
    write_types(types, &mut data);
    Set { rtype: rtype::NSEC, ttl, data: vec![data] }
}

/// Writes the signatures of a set by all keys.
fn sign(
    text: &mut String,
    (apex, keys, times): (&Name, &[Key], Times),
    owner: &Name,
    set: &Set,
) -> Result<(), String> {
    let body = body(owner.wire(), set.rtype, set.ttl, set.data.iter().map(Vec::as_slice));
    let what = (set.rtype, labels(owner.wire()), set.ttl);
    let signatures = keys.iter().map(|key| {
        let made = key.signature(apex, what, times, &body);
        made.map(Vec::from).ok_or_else(|| format!("the key with tag {} cannot sign", key.tag()))
    });
    let data = signatures.collect::<Result<_, _>>()?;
    write(text, owner, &Set { rtype: rtype::RRSIG, ttl: set.ttl, data });
    Ok(())
}

/// Writes a set, a record a line.
fn write(text: &mut String, owner: &Name, set: &Set) {
    let (name, kind, ttl) = (name_text(owner.wire()), type_name(set.rtype), set.ttl);
    // A line that begins with a dollar sign is no record.
    let mark = if name.starts_with('$') { "\\" } else { "" };
    for data in &set.data {
        let data = data_text(set.rtype, data);
        // Writing to a string cannot fail.
        let _unfailing = writeln!(text, "{mark}{name}\t{ttl}\tIN\t{kind}\t{data}");
    }
}
