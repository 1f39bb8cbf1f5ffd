//! Where a watch is in the order of resource versions, so that what comes late is known as such.
//!
//! An API server tells the changes of one kind in the order of their versions, and goes on behind the version that a watch
//! begins at. Whatever has a lower one was told before, is told twice, or comes from another history: it must not undo what
//! is known. A list is believed whatever its version is.

use std::fmt;

/// The place that a watch has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Order(Option<u64>);

impl Order {
    /// Begins behind a version; what is no number has no order, and all is let pass then.
    pub(crate) fn behind(version: Option<&str>) -> Self {
        Self(version.and_then(number))
    }

    /// Says whether a version comes in order, and goes on to it if so. An equal one may come once more: several objects of one
    /// transaction share it, and an event that is repeated changes nothing.
    pub(crate) fn pass(&mut self, version: &str) -> bool {
        let (Some(place), Some(next)) = (self.0, number(version)) else { return true };
        if next >= place {
            self.0 = Some(next);
        }
        next >= place
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.unwrap_or_default())
    }
}

/// Reads a version; 0 is none.
fn number(version: &str) -> Option<u64> {
    version.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_versions_are_late_and_equal_ones_are_not() {
        let mut order = Order::behind(Some("9"));
        let passed = ["9", "10", "9", "10", "100", "11"].map(|version| order.pass(version));
        assert_eq!(passed, [true, true, false, true, true, false]);
    }

    #[test]
    fn what_has_no_order_passes() {
        for begin in [None, Some(""), Some("0"), Some("abc")] {
            let mut order = Order::behind(begin);
            assert!(order.pass("5") && order.pass("3"), "{begin:?}");
        }
        let mut order = Order::behind(Some("9"));
        assert!(order.pass("") && order.pass("abc") && order.pass("0"));
        assert!(!order.pass("8"));
    }
}
