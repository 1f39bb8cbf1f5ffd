//! What is counted.

use engine::Method;
use engine::metrics::{Counter, counter, describe};

/// Decisions on clients, by what they presented and what came of it.
const ADMISSIONS: &str = "causeway_identity_admissions_total";

/// Attempts to read the files again.
const RELOADS: &str = "causeway_identity_reloads_total";

/// How clients are known, in the order of their numbers.
const METHODS: [Method; 6] = [
    Method::Certificate,
    Method::Tsig,
    Method::Authorization,
    Method::Path,
    Method::Name,
    Method::Network,
];

/// The counters.
pub(super) struct Figures {
    known: [Counter; METHODS.len()],
    refused: [Counter; METHODS.len()],
    unknown: Counter,
    read: Counter,
    unread: Counter,
}

impl Figures {
    /// Those of the process.
    pub(super) fn new() -> Self {
        describe(ADMISSIONS, "Counter of decisions on clients.");
        describe(RELOADS, "Counter of attempts to read changed files.");
        let of = |method: &str, outcome: &str| {
            counter(ADMISSIONS, &[("method", method), ("outcome", outcome)])
        };
        Self {
            known: METHODS.map(|method| of(method.name(), "known")),
            refused: METHODS.map(|method| of(method.name(), "refused")),
            unknown: of("none", "unknown"),
            read: counter(RELOADS, &[("outcome", "success")]),
            unread: counter(RELOADS, &[("outcome", "failure")]),
        }
    }

    /// A client is known.
    pub(super) fn count_known(&self, method: Method) {
        self.known[method as usize].increment(1);
    }

    /// What a client presented is wrong.
    pub(super) fn count_refused(&self, method: Method) {
        self.refused[method as usize].increment(1);
    }

    /// A client presented nothing.
    pub(super) fn count_unknown(&self) {
        self.unknown.increment(1);
    }

    /// The files were read, or could not be.
    pub(super) fn count_read(&self, well: bool) {
        if well { &self.read } else { &self.unread }.increment(1);
    }
}
