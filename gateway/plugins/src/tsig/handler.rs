//! What is demanded of queries, and which replies are signed.

use engine::{Broken, Exchange, Fault, Plugin, Step};
use wire::{Name, rcode};

/// A signature is demanded and there is none (EDE 18, Prohibited).
const UNSIGNED: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(18), why: "the query has to be signed" };

/// The signature is not good; the TSIG record of the reply says why (RFC 8945 §5.2).
const NOT_GOOD: Fault =
    Fault { rcode: rcode::NOTAUTH, ede: None, why: "the signature is not good" };

/// The signature cannot be read (RFC 8945 §5.2, §5.2.2.1).
const UNREADABLE: Fault =
    Fault { rcode: rcode::FORMERR, ede: None, why: "the TSIG record cannot be read" };

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
    pub(super) zones: Box<[Name]>,
    pub(super) types: Demand,
    pub(super) opcodes: Demand,
}

impl Plugin for Tsig {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if x.is_nested() || !self.zones.iter().any(|zone| request.name.is_below(zone)) {
            return Step::Next;
        }
        let demanded = self.types.holds(request.rtype)
            || self.opcodes.holds(u16::from(request.flags.opcode()));
        match x.seal().map(engine::Seal::broken) {
            None if demanded => x.fail(UNSIGNED, "signature required"),
            None => Step::Next,
            Some(Some(Broken::Form)) => x.fail(UNREADABLE, UNREADABLE.why),
            Some(Some(broken)) => {
                x.sign_reply();
                x.fail(NOT_GOOD, reason(broken))
            }
            Some(None) => {
                x.sign_reply();
                Step::Next
            }
        }
    }
}

/// The word for what is wrong with a signature (RFC 8945 §3).
fn reason(broken: Broken) -> &'static str {
    match broken {
        Broken::Form => "FORMERR",
        Broken::Signature => "BADSIG",
        Broken::Key => "BADKEY",
        Broken::Time => "BADTIME",
        Broken::Cut => "BADTRUNC",
    }
}
