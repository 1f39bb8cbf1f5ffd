//! What becomes of a query for a name in a zone that a cluster's objects fill.

use engine::{Carry, Exchange, Fault, Step};
use wire::{Name, Request, class, rtype};

use crate::shared::zone::NO_TRANSFER;
use crate::shared::zones::Zones;

/// What becomes of a query.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one query")]
pub(crate) enum Verdict {
    /// The answer is written.
    Answered,
    /// The next plugin may know.
    Pass,
    /// The name is an alias of one that somebody else knows.
    Elsewhere(Name),
    /// It fails.
    Failed(Fault),
}

impl Verdict {
    /// The step that it comes to; an alias is asked for with `carry`.
    pub(crate) fn step(self, x: &mut Exchange, carry: Carry) -> Step {
        match self {
            Self::Answered => Step::Done,
            Self::Pass => Step::Next,
            Self::Elsewhere(target) => {
                let asked = x.request().rtype;
                x.ask(&target, asked, carry)
            }
            Self::Failed(fault) => Step::Fail(fault),
        }
    }
}

/// The zone that a request is for.
///
/// # Errors
/// What becomes of a request that is none for the plugin, or that hooks of queries do not answer.
pub(crate) fn zone_of<'z>(zones: &'z Zones, request: &Request) -> Result<&'z Name, Step> {
    let zone = zones.longest(&request.name).filter(|_| request.class == class::IN);
    match (zone, request.rtype) {
        (None, _) => Err(Step::Next),
        (Some(_), rtype::AXFR | rtype::IXFR) => Err(Step::Fail(NO_TRANSFER)),
        (Some(zone), _) => Ok(zone),
    }
}
