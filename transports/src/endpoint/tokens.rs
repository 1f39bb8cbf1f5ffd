//! Which tokens of earlier connections have been used (RFC 9000 §8.1.4: each for one connection).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use quinn::{TokenLog, TokenReuseError};

/// How many are remembered of one lifetime; with more, tokens are worth nothing until it is over, which costs a client a
/// round trip where it has to prove its address.
const MOST: usize = 1 << 16;

/// The tokens used in this lifetime of a token and the one before: none of those before is good any more.
#[derive(Debug, Default)]
pub(super) struct Spent(Mutex<Used>);

/// The tokens by their random numbers.
#[derive(Debug, Default)]
struct Used {
    since: Option<SystemTime>,
    now: HashSet<u128>,
    before: HashSet<u128>,
}

impl TokenLog for Spent {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever was issued it last saw this time at least; the clock itself is quinn's.
        let now = SystemTime::now().max(issued);
        let since = *used.since.get_or_insert(now);
        if now.duration_since(since).is_ok_and(|time| time >= lifetime) {
            used.before = std::mem::take(&mut used.now);
            used.since = Some(now);
        }
        if used.now.len() >= MOST || used.before.contains(&nonce) || !used.now.insert(nonce) {
            return Err(TokenReuseError);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let (spent, day) = (Spent::default(), Duration::from_secs(24 * 3600));
        let now = SystemTime::now();
        assert!(spent.check_and_insert(1, now, day).is_ok());
        assert!(spent.check_and_insert(1, now, day).is_err());
        assert!(spent.check_and_insert(2, now, day).is_ok());
        // A lifetime later both are still known, two later they have ended by themselves.
        let later = Duration::from_secs(24 * 3600 + 60);
        assert!(spent.check_and_insert(3, now + later, day).is_ok());
        assert!(spent.check_and_insert(2, now, day).is_err());
        assert!(spent.check_and_insert(4, now + 2 * later, day).is_ok());
        assert_eq!(spent.0.lock().unwrap().before.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let spent = Spent::default();
        let good = |nonce| {
            spent.check_and_insert(nonce, SystemTime::now(), Duration::from_secs(3600)).is_ok()
        };
        assert_eq!((0..2 * MOST as u128).filter(|nonce| good(*nonce)).count(), MOST);
    }
}
