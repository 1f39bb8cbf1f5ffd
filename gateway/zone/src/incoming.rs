//! A zone, or its changes, as a primary sends them (RFC 5936 §3, RFC 1995 §4).

use std::borrow::Cow;
use std::fmt;

use wire::{Answer, Name, Rr, Section, class, rtype};

use crate::builder::{Builder, Unfit};
use crate::patch::Patch;
use crate::zone::{Soa, Zone};

/// Why what a primary sends makes no zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTransfer(Cow<'static, str>);

impl BadTransfer {
    /// With these words.
    fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl From<Unfit> for BadTransfer {
    fn from(unfit: Unfit) -> Self {
        Self::new(unfit.to_string())
    }
}

impl fmt::Display for BadTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTransfer {}

/// A transfer under way.
#[derive(Debug)]
pub struct Incoming {
    apex: Name,
    /// The serial of the zone that is there, if only changes were asked for.
    have: Option<u32>,
    /// The SOA record that the transfer begins with: time to live and data.
    soa: (u32, Box<[u8]>),
    stage: Stage,
    /// The records so far.
    records: usize,
    /// Those which are not the zone's.
    passed_over: usize,
}

/// How far it has come.
#[derive(Debug)]
enum Stage {
    /// Nothing has come.
    Begin,
    /// The first SOA record has; what comes next says which kind it is.
    First,
    /// The whole zone comes.
    Whole(Box<Builder>),
    /// Changes come: records that go, up to an SOA record.
    Removed(Box<Patch>),
    /// Records that come, up to an SOA record, which is the one of this serial before.
    Added(Box<Patch>, u32),
    /// It has all come.
    End(Option<Content>),
}

/// What has come.
#[derive(Debug)]
enum Content {
    /// The whole zone.
    Whole(Box<Builder>),
    /// Changes.
    Changes(Box<Patch>),
}

impl Incoming {
    /// A transfer of the zone `apex`; with the serial of the zone that is there if only changes were asked for.
    pub fn new(apex: Name, have: Option<u32>) -> Self {
        Self {
            apex,
            have,
            soa: (0, Box::default()),
            stage: Stage::Begin,
            records: 0,
            passed_over: 0,
        }
    }

    /// Takes the answer section of the next message; tells whether it was the last one.
    ///
    /// # Errors
    /// If it is no part of a transfer, or has what a zone cannot have.
    pub fn take(&mut self, message: &Answer) -> Result<bool, BadTransfer> {
        for rr in message.section(Section::Answer) {
            if rr.class != class::IN {
                return Err(BadTransfer::new("a record is not of class IN"));
            }
            self.records += 1;
            self.record(message.owner(rr), rr, message.data(rr))?;
        }
        if matches!(self.stage, Stage::First) && self.is_current() {
            self.stage = Stage::End(None);
        }
        Ok(matches!(self.stage, Stage::End(_)))
    }

    /// Whether the zone that is there is not older than the primary's (RFC 1995 §2).
    fn is_current(&self) -> bool {
        let theirs = Soa::read(&self.soa.1).unwrap_or_default().serial;
        self.have.is_some_and(|own| own.wrapping_sub(theirs) < 1 << 31)
    }

    /// Takes a record.
    fn record(&mut self, owner: &[u8], rr: &Rr, data: &[u8]) -> Result<(), BadTransfer> {
        let is_apex = owner.eq_ignore_ascii_case(self.apex.wire());
        let soa = Soa::read(data).filter(|_| rr.rtype == rtype::SOA && is_apex);
        if rr.rtype == rtype::SOA && soa.is_none() {
            return Err(BadTransfer::new("there is an SOA record of another zone"));
        }
        let last = Soa::read(&self.soa.1).unwrap_or_default().serial;
        self.stage = match (std::mem::replace(&mut self.stage, Stage::Begin), soa) {
            (Stage::Begin, Some(_)) => {
                self.soa = (rr.ttl, data.into());
                Stage::First
            }
            (Stage::Begin, None) => {
                return Err(BadTransfer::new("the first record is no SOA record"));
            }
            // Changes begin with the SOA record that is there (RFC 1995 §4).
            (Stage::First, Some(soa)) if self.have == Some(soa.serial) && soa.serial != last => {
                Stage::Removed(Box::default())
            }
            (Stage::First, Some(soa)) if soa.serial == last => {
                Stage::End(Some(Content::Whole(Box::new(Builder::new(self.apex.clone())))))
            }
            (Stage::First, Some(_)) => {
                return Err(BadTransfer::new("the changes are none of the zone that is there"));
            }
            (Stage::First, None) => {
                let builder = Box::new(Builder::new(self.apex.clone()));
                self.whole(builder, owner, rr, data)?
            }
            (Stage::Whole(builder), None) => self.whole(builder, owner, rr, data)?,
            (Stage::Whole(builder), Some(soa)) if soa.serial == last => {
                Stage::End(Some(Content::Whole(builder)))
            }
            (Stage::Whole(_), Some(_)) => {
                return Err(BadTransfer::new("the zone has changed while it was sent"));
            }
            (Stage::Removed(mut patch), None) => {
                patch.remove(owner, rr.rtype, data)?;
                Stage::Removed(patch)
            }
            (Stage::Removed(patch), Some(soa)) => Stage::Added(patch, soa.serial),
            (Stage::Added(mut patch, serial), None) => {
                patch.add(owner, rr.rtype, rr.ttl, data);
                Stage::Added(patch, serial)
            }
            (Stage::Added(patch, serial), Some(soa)) if soa.serial == serial => {
                if serial == last {
                    Stage::End(Some(Content::Changes(patch)))
                } else {
                    Stage::Removed(patch)
                }
            }
            (Stage::Added(..), Some(_)) => {
                return Err(BadTransfer::new("the changes do not follow one another"));
            }
            (Stage::End(_), _) => {
                return Err(BadTransfer::new("records follow the end of the transfer"));
            }
        };
        Ok(())
    }

    /// Takes a record of a whole zone.
    fn whole(
        &mut self,
        mut builder: Box<Builder>,
        owner: &[u8],
        rr: &Rr,
        data: &[u8],
    ) -> Result<Stage, BadTransfer> {
        match builder.add(owner, rr.rtype, rr.ttl, data) {
            Ok(()) => {}
            Err(Unfit::Outside) => self.passed_over += 1,
            Err(wrong) => return Err(wrong.into()),
        }
        Ok(Stage::Whole(builder))
    }

    /// The records that have come.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Those of a whole zone that are not below its name.
    pub fn passed_over(&self) -> usize {
        self.passed_over
    }

    /// Whether what has come are changes.
    pub fn is_incremental(&self) -> bool {
        matches!(self.stage, Stage::End(Some(Content::Changes(_))))
    }

    /// The zone that has come, made of `old` if only changes have; none if `old` is not older. Takes some time.
    ///
    /// # Errors
    /// If something is missing, or the records make no zone.
    pub fn finish(self, old: Option<&Zone>) -> Result<Option<Zone>, BadTransfer> {
        let (ttl, soa) = self.soa;
        match self.stage {
            Stage::End(None) => Ok(None),
            Stage::End(Some(Content::Whole(mut builder))) => {
                builder.add(self.apex.wire(), rtype::SOA, ttl, &soa)?;
                Ok(Some(builder.finish()?))
            }
            Stage::End(Some(Content::Changes(patch))) => {
                let old = old.filter(|old| Some(old.soa().serial) == self.have);
                let old = old.ok_or_else(|| BadTransfer::new("there is no zone to be changed"))?;
                Ok(Some(patch.apply(old, (ttl, &soa))?))
            }
            _ => Err(BadTransfer::new("the transfer has no end")),
        }
    }
}

#[cfg(test)]
mod tests;
