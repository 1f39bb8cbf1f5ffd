//! When a certificate is obtained: at two thirds of its time, and after failures later and later.

use std::time::Duration;

use aws_lc_rs::rand;

/// How long to wait after the first failure that is not the CA's, and at most.
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// The same after a refusal. CAs bound how often they refuse: Let's Encrypt five times an hour and name.
const REFUSED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(6 * 3600));

/// The longest that the CA may have us wait.
const LONGEST: Duration = Duration::from_secs(8 * 86_400);

/// When to begin to replace a certificate that is valid from `from` until `until`, in seconds since 1970: when two thirds of its
/// time are over, and up to a fiftieth later, so that not all come at once.
pub(super) fn due(from: i64, until: i64) -> i64 {
    let lifetime = (until - from).max(0);
    from + lifetime / 3 * 2 + (random() * (lifetime / 50) as f64) as i64
}

/// How long to wait after so many failures in a row, the last of them a refusal or not. The CA's own wish is respected.
pub(super) fn wait(failures: u32, refused: bool, wish: Option<Duration>) -> Duration {
    let ((first, longest), factor) = if refused { (REFUSED, 3_u32) } else { (UNREACHABLE, 2) };
    let times = factor.saturating_pow(failures.saturating_sub(1).min(20));
    let wait = first.saturating_mul(times).min(longest);
    // A tenth more or less.
    let wait = wait.mul_f64(0.9 + random() / 5.0);
    wait.max(wish.unwrap_or_default().min(LONGEST))
}

/// A number from 0 to 1; a half without random numbers.
fn random() -> f64 {
    let mut octets = [0; 4];
    match rand::fill(&mut octets) {
        Ok(()) => f64::from(u32::from_be_bytes(octets)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}
