//! How many queries a directive may have under way (`max_concurrent`).

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::metrics::Counter;
use engine::{Exchange, Fault, Step};
use wire::rcode;

/// Too many queries are under way.
const TOO_MANY: Fault =
    Fault { rcode: rcode::REFUSED, ede: None, why: "concurrent queries exceeded maximum" };

/// Counts the queries under way.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// How many there may be; 0 is no limit.
    most: usize,
    inside: AtomicUsize,
    /// Counts those that were turned away.
    rejected: Counter,
}

/// One of the queries under way, until dropped.
pub(crate) struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Crowd {
    /// Nobody yet. At most `most` queries may be under way at a time, or any number if that is 0; `rejected` counts the others.
    pub(crate) fn new(most: usize, rejected: Counter) -> Self {
        Self { most, inside: AtomicUsize::new(0), rejected }
    }

    /// Lets a query in.
    ///
    /// # Errors
    /// The step that refuses it, if there are too many.
    pub(crate) fn enter(&self, x: &mut Exchange) -> Result<Inside<'_>, Step> {
        let before = self.inside.fetch_add(1, Ordering::AcqRel);
        let inside = Inside(&self.inside);
        if self.most == 0 || before < self.most {
            return Ok(inside);
        }
        drop(inside);
        self.rejected.increment(1);
        let most = self.most;
        Err(x.fail(TOO_MANY, format_args!("concurrent queries exceeded maximum {most}")))
    }
}
