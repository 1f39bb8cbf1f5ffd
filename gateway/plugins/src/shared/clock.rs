//! The time of the world at moments of the queries' clock, which only knows how much time has passed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment by both clocks.
struct Anchor {
    at: Instant,
    /// Nanoseconds from 1970 to that moment.
    since: AtomicU64,
}

/// How far the clocks may be apart before they are set right.
const TOLERANCE: Duration = Duration::from_millis(1);

/// The moment that is compared with.
fn anchor() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(|| {
        let (at, now) = both();
        Anchor { at, since: AtomicU64::new(nanoseconds(now)) }
    })
}

/// What the two clocks say now.
fn both() -> (Instant, Duration) {
    // A clock before 1970 is as wrong as one at 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (tokio::time::Instant::now().into_std(), since)
}

/// Nanoseconds; there are enough of them until 2554.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The time since 1970 at a moment.
pub(crate) fn world(at: Instant) -> Duration {
    let anchor = anchor();
    let since = Duration::from_nanos(anchor.since.load(Ordering::Relaxed));
    match at.checked_duration_since(anchor.at) {
        Some(later) => since + later,
        None => since.saturating_sub(anchor.at - at),
    }
}

/// Goes by the system's clock again if that was set since; to be called about once a second.
pub(crate) fn set_right() {
    let (at, now) = both();
    let shown = world(at);
    if shown.abs_diff(now) > TOLERANCE {
        let passed = at.saturating_duration_since(anchor().at);
        anchor().since.store(nanoseconds(now.saturating_sub(passed)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_world() {
        let (at, now) = both();
        assert!(world(at).abs_diff(now) < Duration::from_secs(1));
        let later = Duration::from_secs(7);
        assert_eq!(world(at + later) - world(at), later);
        assert_eq!(world(at) - world(at - later), later);
        set_right();
        assert!(world(at).abs_diff(now) < Duration::from_secs(1));
    }
}
