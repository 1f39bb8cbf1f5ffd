//! What goes wrong with questions that are passed on.

use engine::{Exchange, Fault};
use wire::rcode;

use super::message;

/// No upstream replied (EDE 23, Network Error).
pub(crate) const NO_REPLY: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(23), why: "no upstream replied" };

/// No upstream gave a reply that can be used (EDE 24, Invalid Data).
pub(crate) const UNUSABLE: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(24), why: "no upstream gave a usable reply" };

/// An upstream answered another question.
pub(crate) const WRONG_REPLY: Fault =
    Fault { rcode: rcode::FORMERR, ede: None, why: "the reply is to another question" };

/// The type is none that can be forwarded (EDE 21, Not Supported).
pub(crate) const META: Fault =
    Fault { rcode: rcode::NOTIMP, ede: Some(21), why: "the type cannot be forwarded" };

/// A signed query cannot be sent on if its signature was not for us (RFC 8945 §5.5 wants the key).
pub(crate) const SIGNED: Fault = Fault::servfail("dns: no secrets defined");

/// Why a question cannot be passed on, if it cannot.
pub(crate) fn of(x: &Exchange) -> Option<Fault> {
    if message::is_meta(x.request().rtype) {
        return Some(META);
    }
    let is_open = x.query.parts.tsig.is_some() && !x.signs_reply();
    (is_open && !x.is_nested()).then_some(SIGNED)
}
