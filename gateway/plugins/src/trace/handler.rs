//! Which queries are traced, and what is noted of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Carry, End, Exchange, Plugin, Provider, Step};
use wire::text;

use super::parent::Said;
use super::report::Reports;
use super::span::{Facts, Traced};
use crate::shared::{asked, clock};

/// Traces a block's queries.
#[derive(Debug)]
pub(super) struct Trace {
    /// Every how manieth query is traced; 0 is none.
    pub(super) every: u64,
    pub(super) count: AtomicU64,
    /// Whether clients' headers are read, and W3C's among them.
    pub(super) parents: Option<bool>,
    pub(super) reports: Arc<Reports>,
}

impl Trace {
    /// What the client says of the trace that its query is part of.
    fn said(&self, x: &Exchange) -> Said {
        match (self.parents, &x.query.http) {
            (Some(w3c), Some(http)) => Said::read(http, w3c),
            _ => Said::Nothing,
        }
    }
}

impl Plugin for Trace {
    fn query(&self, x: &mut Exchange) -> Step {
        // What plugins ask is within the client's trace, if there is one.
        if self.every == 0 || x.is_nested() || x.trail().is_some() {
            return Step::Next;
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if !number.is_multiple_of(self.every) {
            return Step::Next;
        }
        let trace = match self.said(x) {
            Said::Not => return Step::Next,
            Said::Part(parent) => parent.trace,
            Said::Nothing => u128::from(x.random().max(1)),
        };
        x.trace(trace);
        // The number of the outermost span.
        Step::Wrap(Carry(x.random().max(1)))
    }

    fn answer(&self, x: &mut Exchange, carry: Carry) -> Step {
        let passages = x.take_passages();
        let Some(trace) = x.trail().map(engine::Trail::id) else { return Step::Next };
        let parent = match self.said(x) {
            Said::Part(parent) => Some(parent),
            Said::Nothing | Said::Not => None,
        };
        self.reports.offer(1 + passages.len(), || Traced {
            trace,
            root: carry.0,
            parent,
            begun: clock::world(x.now()),
            ended: clock::world(x.now() + x.elapsed()),
            facts: facts(x),
            passages,
        });
        Step::Next
    }
}

/// What is said of an exchange that has ended.
fn facts(x: &Exchange) -> Facts {
    let (rcode, error) = match x.end() {
        Some(End::Answered) => (Some(x.answer().rcode), None),
        Some(End::Failed(fault)) => {
            let why = if x.detail().is_empty() { fault.why } else { x.detail() };
            (Some(fault.rcode), Some(why.to_owned()))
        }
        Some(End::Silent) | None => (None, None),
    };
    Facts {
        name: asked::name(x).to_string(),
        rtype: text::type_name(asked::rtype_and_class(x).0).into_owned(),
        rcode: rcode.map(|rcode| text::rcode_name(rcode).into_owned()),
        proto: x.query.transport.protocol(),
        remote: x.query.peer.ip().to_string(),
        error,
    }
}

/// Tells the number of the trace, as the collector shows it.
#[derive(Debug)]
pub(super) struct Told(pub(super) fn(u128) -> String);

impl Provider for Told {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let trail = x.trail().filter(|_| label == "traceid")?;
        out.push_str(&(self.0)(trail.id()));
        Some(())
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("traceid");
    }
}
