//! The order in which upstreams are tried.

use std::sync::atomic::{AtomicUsize, Ordering};

use config::{Diagnostic, Words};
use engine::Exchange;
use smallvec::SmallVec;

use super::MAX_UPSTREAMS;

/// The order in which upstreams are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Any.
    #[default]
    Random,
    /// Each in turn first.
    RoundRobin,
    /// As they are written.
    Sequential,
}

/// The numbers of upstreams, in the order to try them in.
pub(crate) type Order = SmallVec<[usize; MAX_UPSTREAMS]>;

impl Policy {
    /// `policy NAME`.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Self, Diagnostic> {
        words.choice(&[
            ("random", Self::Random),
            ("round_robin", Self::RoundRobin),
            ("sequential", Self::Sequential),
        ])
    }

    /// The order for a query; `turn` counts those before it.
    pub(crate) fn order(self, count: usize, turn: &AtomicUsize, x: &mut Exchange) -> Order {
        let mut order: Order = (0..count).collect();
        match self {
            Self::Sequential => {}
            Self::RoundRobin => {
                let first = (turn.fetch_add(1, Ordering::Relaxed) + 1) % count;
                order[..=first].rotate_right(1);
            }
            Self::Random => {
                for end in (1..count).rev() {
                    order.swap(end, x.random() as usize % (end + 1));
                }
            }
        }
        order
    }
}
