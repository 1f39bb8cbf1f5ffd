//! Credentials and tokens that are kept until shortly before they end.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::shared::fetch::Failure;

/// How long before its end something is made anew, at most.
const MARGIN: Duration = Duration::from_secs(300);

/// Something that ends, kept while it is good.
pub(crate) struct Fresh<T>(Mutex<Option<Kept<T>>>);

/// What is kept.
struct Kept<T> {
    value: T,
    /// When it should be made anew, and when it ends; none for what has no end.
    times: Option<(Instant, Instant)>,
}

/// Something new, and how long it is good.
#[derive(Clone, Debug)]
pub(crate) struct Made<T> {
    /// The thing.
    pub(crate) value: T,
    /// From now on; none for what has no end.
    pub(crate) lives: Option<Duration>,
}

impl<T> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Fresh<T> {
    /// What is kept; made anew when its end is near. If that fails, the old one is given as long as it is good.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) async fn get<F>(&self, make: impl FnOnce() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Made<T>, Failure>>,
    {
        let mut kept = self.0.lock().await;
        let now = Instant::now();
        let old = kept.as_ref().filter(|kept| kept.times.is_none_or(|(_, end)| now < end));
        if let Some(old) = old.filter(|kept| kept.times.is_none_or(|(renewal, _)| now < renewal)) {
            return Ok(old.value.clone());
        }
        match make().await {
            Ok(Made { value, lives }) => {
                let times = lives.map(|lives| {
                    let margin = MARGIN.min(lives / 4);
                    (now + lives.saturating_sub(margin), now + lives)
                });
                *kept = Some(Kept { value: value.clone(), times });
                Ok(value)
            }
            Err(failure) => match old {
                Some(old) => Ok(old.value.clone()),
                None => Err(failure),
            },
        }
    }

    /// Lets go of it, since it is not taken.
    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that is good for so many seconds.
    async fn made(value: u8, lives: u64) -> Result<Made<u8>, Failure> {
        Ok(Made { value, lives: Some(Duration::from_secs(lives)) })
    }

    /// Nothing.
    async fn failed() -> Result<Made<u8>, Failure> {
        Err(Failure::away("not now"))
    }

    #[tokio::test(start_paused = true)]
    async fn things_are_made_anew_before_they_end() {
        let fresh = Fresh::default();
        assert!(fresh.get(failed).await.is_err());
        assert_eq!(fresh.get(|| made(1, 3600)).await, Ok(1));
        tokio::time::advance(Duration::from_secs(3299)).await;
        assert_eq!(fresh.get(|| made(2, 3600)).await, Ok(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        // It still is good if there is no other.
        assert_eq!(fresh.get(failed).await, Ok(1));
        assert_eq!(fresh.get(|| made(2, 100)).await, Ok(2));
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(fresh.get(failed).await.is_err());
        assert_eq!(fresh.get(|| made(3, 100)).await, Ok(3));
        fresh.forget().await;
        assert!(fresh.get(failed).await.is_err());
    }
}
