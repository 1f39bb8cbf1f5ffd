//! Limits on requests to one API server: how often, and how many at once.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

/// Requests a second where none are stated, as in client-go.
const QPS: f64 = 5.0;
/// Requests at once where none are stated, as in client-go.
pub(crate) const BURST: u32 = 10;

/// What an operator states; 0 means the default, which for `inflight` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Requests a second, in the long run; default 5.
    pub qps: f64,
    /// Requests that may go out at once after a pause; default 10.
    pub burst: u32,
    /// Requests whose response has not begun; default unlimited. Watches count until they are established.
    pub inflight: u32,
}

/// A token bucket and a bound on open requests.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Tokens a second.
    rate: f64,
    /// Tokens when full.
    burst: f64,
    /// Tokens at a time; below zero if some are promised.
    bucket: Mutex<(f64, Instant)>,
    /// Open requests.
    inflight: Option<Semaphore>,
}

impl Limiter {
    /// Makes a limiter whose bucket is full.
    pub(crate) fn new(limits: Limits) -> Self {
        let burst = f64::from(if limits.burst == 0 { BURST } else { limits.burst });
        Self {
            rate: if limits.qps > 0.0 { limits.qps } else { QPS },
            burst,
            bucket: Mutex::new((burst, Instant::now())),
            inflight: (limits.inflight > 0).then(|| Semaphore::new(limits.inflight as usize)),
        }
    }

    /// Waits until a request may go out. Gives how long that took, and what to drop when its response has begun.
    pub(crate) async fn admit(&self) -> (Duration, Option<SemaphorePermit<'_>>) {
        let start = Instant::now();
        // The token comes last: one that waits for a permit would go out later than the bucket knows, in a crowd.
        let permit = match &self.inflight {
            // The semaphore is never closed.
            Some(inflight) => inflight.acquire().await.ok(),
            None => None,
        };
        let now = Instant::now();
        if let Some(wait) = self.take(now) {
            sleep_until(now + wait).await;
        }
        (start.elapsed(), permit)
    }

    /// Takes a token; says how long to wait for it if there is none yet.
    fn take(&self, now: Instant) -> Option<Duration> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, then) = &mut *bucket;
        let passed = now.saturating_duration_since(*then).as_secs_f64();
        *tokens = passed.mul_add(self.rate, *tokens).min(self.burst) - 1.0;
        *then = now;
        (*tokens < 0.0).then(|| Duration::from_secs_f64(-*tokens / self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends so many requests one after another and gives the seconds at which each went out.
    async fn times(limits: Limits, requests: usize) -> Vec<f64> {
        let limiter = Limiter::new(limits);
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..requests {
            let _permit = limiter.admit().await;
            times.push((start.elapsed().as_secs_f64() * 100.0).round() / 100.0);
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_out_in_a_burst_and_then_at_the_rate() {
        let limits = Limits { qps: 2.0, burst: 3, inflight: 0 };
        assert_eq!(times(limits, 6).await, [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_means_what_client_go_has_by_default() {
        let times = times(Limits::default(), 12).await;
        assert_eq!(times[9], 0.0);
        assert_eq!(times[10..], [0.2, 0.4]);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_back_up_to_the_burst() {
        let limiter = Limiter::new(Limits { qps: 1.0, burst: 2, inflight: 0 });
        for _ in 0..2 {
            assert_eq!(limiter.admit().await.0, Duration::ZERO);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        for expected in [0, 0, 1] {
            assert_eq!(limiter.admit().await.0.as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_requests_are_open_than_allowed() {
        let limiter = Limiter::new(Limits { qps: 1000.0, burst: 1000, inflight: 2 });
        let (_, first) = limiter.admit().await;
        let (_, _second) = limiter.admit().await;
        let third = limiter.admit();
        tokio::pin!(third);
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut third).await.is_err());
        drop(first);
        let (waited, _) = third.await;
        assert_eq!(waited.as_secs(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_waited_for_a_slow_server_do_not_go_out_in_a_crowd() {
        let limiter = Limiter::new(Limits { qps: 1.0, burst: 1, inflight: 1 });
        let start = Instant::now();
        let (_, slow) = limiter.admit().await;
        let next = async {
            drop(limiter.admit().await);
            start.elapsed().as_secs()
        };
        let release = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            drop(slow);
        };
        let after = async {
            drop(limiter.admit().await);
            start.elapsed().as_secs()
        };
        assert_eq!(tokio::join!(next, after, release), (9, 10, ()));
    }
}
