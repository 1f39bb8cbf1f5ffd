//! From the record sets of an API to a zone.

use wire::{Name, class};
use zone::record::{Defaults, Record};
use zone::{Builder, Unfit, Zone};

use crate::shared::fetch::Failure;

/// How many oddities are told one by one.
const NOTES: usize = 10;

/// What an API says of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Its record sets.
    pub(crate) sets: Vec<RecordSet>,
    /// What could not be read.
    pub(crate) odd: Vec<String>,
}

/// Records of one name and type, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordSet {
    /// The owner, whether its last dot is there or not.
    pub(crate) owner: String,
    /// The type: `A`, or `TYPE65280`.
    pub(crate) rtype: String,
    /// The time to live in seconds.
    pub(crate) ttl: u64,
    /// The data of each record, as in a zone file.
    pub(crate) data: Vec<String>,
}

/// A zone that was made.
#[derive(Debug)]
pub(super) struct Made {
    /// The zone.
    pub(super) zone: Zone,
    /// What is odd about it; the first few.
    pub(super) notes: Vec<String>,
    /// How many records were passed over.
    pub(super) passed_over: usize,
}

/// Makes the zone `apex`. What cannot be read of it is passed over.
///
/// # Errors
/// If there is no zone without what is passed over: without an SOA record.
pub(super) fn zone(apex: &Name, listing: Listing) -> Result<Made, Failure> {
    let mut builder = Builder::new(apex.clone());
    let mut passed_over = listing.odd.len();
    let mut notes = listing.odd;
    notes.truncate(NOTES);
    for set in &listing.sets {
        for data in &set.data {
            let Err(why) = add(&mut builder, set, data) else { continue };
            passed_over += 1;
            if notes.len() < NOTES {
                notes.push(format!("{} {}: {why}", set.owner, set.rtype));
            }
        }
    }
    let zone = builder.finish().map_err(|unfit| match unfit {
        Unfit::NoSoa => Failure::refused(format!("what the API has of {apex} has no SOA record")),
        unfit => Failure::refused(unfit.to_string()),
    })?;
    for name in zone.clashes().take(NOTES.saturating_sub(notes.len())) {
        notes.push(format!("{name} has a CNAME record, so its other records are not seen"));
    }
    Ok(Made { zone, notes, passed_over })
}

/// Adds a record.
fn add(builder: &mut Builder, set: &RecordSet, data: &str) -> Result<(), String> {
    // A line is one record, and the owner one word.
    if [&*set.owner, &*set.rtype, data].iter().any(|text| text.contains(['\n', '\r'])) {
        return Err("has a line break".to_owned());
    }
    let Ok(ttl) = u32::try_from(set.ttl) else { return Err("has no time to live".to_owned()) };
    // RFC 2181 §8: a time with the top bit set is none.
    let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
    let text = format!("{} {ttl} IN {} {data}", set.owner, set.rtype);
    let record = Record::parse(&text, &Defaults::default()).map_err(|bad| bad.to_string())?;
    let Some(record) = record.filter(|record| record.class == class::IN) else {
        return Err("is no record of class IN".to_owned());
    };
    let Record { owner, rtype, ttl, data, .. } = record;
    builder.add(&owner, rtype, ttl, &data).map_err(|unfit| unfit.to_string())
}
