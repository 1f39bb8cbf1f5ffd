//! How many queries a client may send: the generic cell rate algorithm (ITU-T I.371), in a table of fixed size.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::Rate;

use crate::seats::Client;

/// How many sets the table has: a power of two.
const SETS: usize = 8192;

/// How many clients share a set. A ninth takes the place of the one that has the least to wait.
const WAYS: usize = 8;

/// One client, and until when its queries so far would take at its rate, in nanoseconds; in the past for a client that has
/// sent nothing of late, which is the same as none.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    client: Option<Client>,
    until: u64,
}

/// What clients have sent of late: 65,536 of them at most, in 1.6 MB.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The time that one query takes, in nanoseconds.
    step: u64,
    /// How far ahead of the time a client may be, in nanoseconds.
    ahead: u64,
    sets: Box<[Mutex<[Slot; WAYS]>]>,
    hasher: RandomState,
    start: Instant,
}

impl Rates {
    /// Nobody has sent anything yet.
    pub(crate) fn new(rate: Rate) -> Self {
        let step = 1_000_000_000 / u64::from(rate.per_second.max(1));
        Self {
            step,
            ahead: step * u64::from(rate.burst.max(1) - 1),
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Takes a query of `client` at `now`, or tells how long it has to wait. One that has to wait does not count.
    pub(crate) fn take(&self, client: Client, now: Instant) -> Result<(), Duration> {
        let now = u64::try_from(now.saturating_duration_since(self.start).as_nanos());
        let now = now.unwrap_or(u64::MAX / 2);
        let at = usize::try_from(self.hasher.hash_one(client) % SETS as u64).unwrap_or_default();
        let mut set = self.sets[at].lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match set.iter_mut().position(|slot| slot.client == Some(client)) {
            Some(at) => &mut set[at],
            None => {
                let [first, others @ ..] = &mut *set;
                let least = others
                    .iter_mut()
                    .fold(first, |least, slot| if slot.until < least.until { slot } else { least });
                *least = Slot { client: Some(client), until: 0 };
                least
            }
        };
        let ahead = slot.until.saturating_sub(now);
        if ahead > self.ahead {
            return Err(Duration::from_nanos(ahead - self.ahead));
        }
        slot.until = slot.until.max(now) + self.step;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A client by its address.
    fn client(text: &str) -> Client {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let rates = Rates::new(Rate { per_second: 10, burst: 5 });
        let (one, start) = (client("198.51.100.1"), Instant::now());
        for _ in 0..5 {
            assert_eq!(rates.take(one, start), Ok(()));
        }
        let wait = rates.take(one, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(rates.take(client("198.51.100.2"), start), Ok(()), "others are not concerned");
        assert_eq!(rates.take(one, start + wait), Ok(()));
        assert!(rates.take(one, start + wait).is_err());
        let late = start + Duration::from_secs(10);
        assert_eq!(
            (0..9).filter(|_| rates.take(one, late).is_ok()).count(),
            5,
            "no more than a burst"
        );
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64() {
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::2"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:198.51.100.1"), client("198.51.100.1"));
        assert_ne!(client("198.51.100.2"), client("198.51.100.1"));
    }

    #[test]
    fn a_flood_of_addresses_pushes_nobody_out_who_is_over_the_rate() {
        let rates = Rates::new(Rate { per_second: 1, burst: 10 });
        let (busy, start) = (client("198.51.100.1"), Instant::now());
        while rates.take(busy, start).is_ok() {}
        for number in 0..1_000_000u64 {
            let _either_way = rates.take(
                Client::from(IpAddr::from(
                    (u128::from(number | 0x2001_0db8 << 32) << 64).to_be_bytes(),
                )),
                start,
            );
        }
        assert!(rates.take(busy, start).is_err());
    }
}
