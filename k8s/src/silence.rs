//! Watches that are accepted and tell nothing.
//!
//! An API server sends a bookmark about once a minute, so a watch of it that tells nothing at all is odd: the way to it may have ended
//! unnoticed, or something in between keeps what it tells. A new watch from the same version is enough for the first; the second
//! would be resumed for ever, and takes a new list. A server that sends no bookmarks may simply have nothing to tell.

use tokio::time::{Duration, Instant};

use crate::{end::End, probe::State, watch::Follower};

/// What is known of how a server tells of a kind.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// When it last told anything: an object, a bookmark, or a list.
    told: Option<Instant>,
    /// Whether it sends bookmarks while nothing happens.
    bookmarks: bool,
    /// How often the store had changed when a list was asked for, since nothing was told.
    asked: Option<u64>,
}

impl Silence {
    /// Notes that bookmarks come.
    pub(crate) const fn expect_bookmarks(&mut self) {
        self.bookmarks = true;
    }

    /// Notes that a list is complete, after which the store has changed so often. One that was asked for since nothing was told, and
    /// brought nothing, is no sign that anything is kept from us: the server may send no bookmarks any more.
    pub(crate) fn listed(&mut self, changes: u64) {
        if let Some(before) = self.asked.take() {
            self.bookmarks &= before != changes;
        }
    }
}

impl Follower {
    /// Notes that the server told something of the kind.
    pub(crate) fn note_told(&mut self) {
        self.silence.told = Some(Instant::now());
        self.hear();
    }

    /// Says whether nothing has been told for longer than a watch may be silent: one more that is accepted says nothing then.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet_for() >= self.common.timing.silence
    }

    /// Says whether a watch that goes on from a version counts as one that follows before it has told anything.
    pub(crate) fn trusts(&self) -> bool {
        !(self.silence.bookmarks && self.is_quiet())
    }

    /// Gives how long the next watch may be silent.
    pub(crate) fn patience(&self) -> Duration {
        self.common.timing.silence / if self.trusts() { 1 } else { 2 }
    }

    /// Sorts out the end of a watch that was resumed and told nothing, again.
    pub(crate) fn sort_silence(&self, end: End) -> End {
        if self.version.is_none() || !matches!(end, End::Closed | End::Cut(_)) {
            return end;
        }
        let (silence, quiet) = (self.common.timing.silence, self.quiet_for());
        let most = if self.silence.bookmarks { silence * 3 / 2 } else { silence * 2 };
        if quiet >= most {
            return End::Mute(format!(
                "the API server accepts watches and has told nothing for {} s; listed again",
                quiet.as_secs()
            ));
        }
        if !self.trusts() {
            self.state(State::Failing);
        }
        end
    }

    /// Begins anew after that; says whether it is a failure.
    pub(crate) fn break_silence(&mut self) -> bool {
        self.start_over();
        self.silence.asked = Some(self.common.store.version());
        self.silence.bookmarks
    }

    /// Gives how long nothing has been told.
    fn quiet_for(&self) -> Duration {
        self.silence.told.map_or(Duration::ZERO, |told| told.elapsed())
    }
}
