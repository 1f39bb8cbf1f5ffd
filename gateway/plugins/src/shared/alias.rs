//! What an alias stands for, where another plugin or block knows that.

use engine::{End, Exchange, Fault, Step};
use wire::rcode;

/// The name that an alias stands for could not be looked up.
const ALIAS_FAILED: Fault = Fault::servfail("the name that an alias stands for was not found out");

/// Completes an answer that ends in an alias by what the server has said of the name that it stands for.
pub(crate) fn asked(x: &mut Exchange) -> Step {
    let (_, answer, end) = x.sub();
    let code = match end {
        Some(End::Answered) => answer.rcode,
        // Nobody here is asked for such names: whoever asked has the alias, and may go on from there.
        Some(End::Failed(Fault::UNANSWERED)) => rcode::REFUSED,
        Some(End::Failed(fault)) => fault.rcode,
        Some(End::Silent) | None => rcode::SERVFAIL,
    };
    match code {
        // The response code is that of the last name (RFC 6604 §2.1).
        rcode::NOERROR | rcode::NXDOMAIN => {
            x.graft();
            x.answer_mut().rcode = code;
            Step::Done
        }
        rcode::REFUSED => Step::Done,
        _ => Step::Fail(ALIAS_FAILED),
    }
}
