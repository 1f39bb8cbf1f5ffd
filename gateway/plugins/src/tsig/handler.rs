//! What is demanded of queries, and which replies are signed.

use engine::{Broken, Exchange, Fault, Plugin, Step};
use wire::rcode;

use crate::shared::zones::Zones;

/// A signature is demanded and there is none (EDE 18, Prohibited).
const UNSIGNED: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(18), why: "the query has to be signed" };

/// Which numbers are demanded to be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Demand {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
    /// These, sorted.
    Some(Vec<u16>),
}

impl Demand {
    /// Whether `number` is one.
    fn holds(&self, number: u16) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(numbers) => numbers.binary_search(&number).is_ok(),
        }
    }
}

/// Demands signatures for some zones.
#[derive(Debug)]
pub(super) struct Tsig {
    pub(super) zones: Zones,
    pub(super) types: Demand,
    pub(super) opcodes: Demand,
}

impl Plugin for Tsig {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if x.is_nested() || !self.zones.has(&request.name) {
            return Step::Next;
        }
        let demanded = self.types.holds(request.rtype)
            || self.opcodes.holds(u16::from(request.flags.opcode()));
        let Some(broken) = x.seal().map(engine::Seal::broken) else {
            return if demanded { reject(x, UNSIGNED, "signature required") } else { Step::Next };
        };
        match (broken, x.refuse_signature()) {
            (Some(broken), Some(fault)) => reject(x, fault, reason(broken)),
            _ => {
                x.sign_reply();
                Step::Next
            }
        }
    }
}

/// Fails the query, and says so where debug messages are wanted.
fn reject(x: &mut Exchange, fault: Fault, why: &str) -> Step {
    log::debug!(target: "plugin/tsig", "rejecting {} of {}: {why}", x.request().name, x.query.peer);
    x.fail(fault, why)
}

/// The word for what is wrong with a signature (RFC 8945 §3).
fn reason(broken: Broken) -> &'static str {
    match broken {
        Broken::Form => "the TSIG record cannot be read",
        Broken::Signature => "BADSIG",
        Broken::Key => "BADKEY",
        Broken::Time => "BADTIME",
        Broken::Cut => "BADTRUNC",
    }
}
