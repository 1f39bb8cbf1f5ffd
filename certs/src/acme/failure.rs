//! Why a certificate was not obtained, and what that says of the next attempt.

use std::fmt;
use std::time::Duration;

/// Why a certificate was not obtained.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why, for the log.
    what: String,
    /// Whether it was the CA that said so: it counts what it refuses, so the next attempt comes later.
    pub(super) refused: bool,
    /// Whether the CA does not know the account.
    pub(super) is_unknown: bool,
    /// When the CA wants to be asked again, at the earliest.
    pub(super) after: Option<Duration>,
}

impl Failure {
    /// A failure that is not the CA's.
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), refused: false, is_unknown: false, after: None }
    }

    /// A refusal.
    pub(super) fn refused(what: impl Into<String>) -> Self {
        Self { what: what.into(), refused: true, is_unknown: false, after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<instant_acme::Error> for Failure {
    fn from(error: instant_acme::Error) -> Self {
        let kind = match &error {
            instant_acme::Error::Api(problem) => {
                Some(problem.r#type.as_deref().unwrap_or_default())
            }
            _ => None,
        };
        let refused = kind.is_some();
        let is_unknown = kind.is_some_and(|kind| kind.ends_with(":accountDoesNotExist"));
        let what = match &error {
            // What the CA says, with its kind behind it.
            instant_acme::Error::Api(problem) => {
                let text = problem.to_string();
                text.strip_prefix("API error: ").unwrap_or(&text).to_owned()
            }
            instant_acme::Error::Json(_) => {
                "the server's reply is not that of an ACME CA".to_owned()
            }
            other => other.to_string(),
        };
        let after = match &error {
            instant_acme::Error::Timeout(Some(then)) => {
                Some(then.saturating_duration_since(std::time::Instant::now()))
            }
            _ => None,
        };
        Self { what, refused, is_unknown, after }
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::new(error.to_string())
    }
}
