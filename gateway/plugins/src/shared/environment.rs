//! The environment of the process, or of a test.

use std::fmt;
use std::sync::Arc;

/// The variables of the environment.
#[derive(Clone)]
pub(crate) struct Environment(Arc<Of>);

/// Gives the value of a variable.
type Of = dyn Fn(&str) -> Option<String> + Send + Sync;

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl Environment {
    /// Those of the process.
    pub(crate) fn of_process() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// These.
    pub(crate) fn new(of: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    /// One that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}
