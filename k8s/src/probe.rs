//! What the crate tells of itself: figures and changes of state.

use std::fmt;

use crate::{object::Kind, standing::Standing, verify::Verdict};

/// What the watch of a kind does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing has been heard yet.
    #[default]
    Waiting,
    /// A list is under way.
    Listing,
    /// The list is complete and changes follow.
    Watching,
    /// The source fails; what is known of before is served.
    Failing,
    /// The API server refuses the kind to these credentials.
    Forbidden,
    /// The API server does not know the kind: its definition is not installed.
    Absent,
}

impl State {
    /// Reads a state's number.
    pub(crate) const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Listing,
            2 => Self::Watching,
            3 => Self::Failing,
            4 => Self::Forbidden,
            5 => Self::Absent,
            _ => Self::Waiting,
        }
    }

    /// Gives the state's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Failing => "failing",
            Self::Forbidden => "forbidden",
            Self::Absent => "absent",
        }
    }
}

/// Is told of figures and changes. Every method does nothing unless it is written; none may block.
pub trait Probe: fmt::Debug + Send + Sync {
    /// A request was answered with this status code, or failed before one (`code` is then `<error>`).
    fn request(&self, _code: &str, _method: &str, _host: &str) {}

    /// A request took so many seconds until the header of its response.
    fn latency(&self, _verb: &str, _host: &str, _seconds: f64) {}

    /// A request waited so many seconds for the limits on requests.
    fn limited(&self, _verb: &str, _host: &str, _seconds: f64) {}

    /// A change of endpoints took so many seconds from its cause to the store; the kind is `cluster_ip`,
    /// `headless_with_selector` or `headless_without_selector`.
    fn programmed(&self, _service_kind: &str, _seconds: f64) {}

    /// The watch of a kind changed its state.
    fn state(&self, _kind: Kind, _state: State) {}

    /// What the store tells stands so, and was heard of at this Unix time in seconds (0 if never); told once a second.
    fn standing(&self, _standing: Standing, _heard: u64) {}

    /// The rights to follow a kind are there, or missing; in a namespace, or in the whole cluster if that is empty.
    fn granted(&self, _kind: Kind, _namespace: &str, _granted: bool) {}

    /// The snapshot on disk is of a cluster that was heard of at this Unix time in seconds, and has so many bytes (0 if it was
    /// only read); told once a second.
    fn snapshot(&self, _taken: u64, _bytes: u64) {}

    /// A snapshot could not be written, or not be used.
    fn snapshot_failed(&self) {}

    /// A kind was compared with a new list of it.
    fn verified(&self, _verdict: &Verdict) {}

    /// A kind could not be compared.
    fn unverified(&self, _kind: Kind) {}

    /// Credentials of a kind (see [`crate::Credential`]) end at a Unix time in seconds, or do not say when.
    fn expiry(&self, _kind: &str, _end: Option<u64>) {}

    /// So many objects of a kind are there.
    fn objects(&self, _kind: Kind, _count: usize) {}
}

/// A probe that tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Probe for Quiet {}
