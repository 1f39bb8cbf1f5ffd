//! What the client asked, whatever plugins have made of it since: for logs and metrics.

use engine::Exchange;
use wire::Name;

/// The question as it came, from the bytes received; its name in lower case, the root if there is none.
pub fn name(x: &Exchange) -> Name {
    let question = x.query.wire.get(12..).unwrap_or_default();
    Name::read(question).map(|(name, _)| name).unwrap_or_default()
}

/// The type and the class asked for; zeros if there is no question.
pub fn rtype_and_class(x: &Exchange) -> (u16, u16) {
    let end = 12 + x.query.parts.question_len;
    let fixed = x.query.wire.get(..end).and_then(|head| head.last_chunk::<4>());
    match fixed {
        Some(&[t0, t1, c0, c1]) if end > 12 => {
            (u16::from_be_bytes([t0, t1]), u16::from_be_bytes([c0, c1]))
        }
        _ => (0, 0),
    }
}
