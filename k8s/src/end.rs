//! What the end of a list or watch means: when to begin the next, from where, and what to tell operators.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{client::Failure, probe::State, proto::Status, watch::Follower};

/// How many causes of one trouble are told of.
const CAUSES: usize = 8;

/// Why a turn ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The server ended the watch in its time.
    Closed,
    /// What is known differs from what the server lists: a list must come.
    Repair,
    /// The resource version is too old: a list must come.
    Gone(String),
    /// The server says that it knows no watch with initial events: a list must come before.
    NoInitial,
    /// The server sends no initial events: a list must come before.
    NoEvents,
    /// The resource version is newer than what the server has.
    Ahead(String),
    /// The server told what was not in the order of versions.
    Late(String),
    /// A body ended too early or did not go on.
    Stalled(String),
    /// The connection of a watch that had been established broke.
    Cut(String),
    /// Watches are accepted and tell nothing: a list must come.
    Mute(String),
    /// The server can not be reached, does not answer, or does not accept the credentials.
    Network(String),
    /// The server can not serve now.
    Busy {
        /// The status code.
        code: u16,
        /// Why.
        cause: String,
        /// What it asks to be waited, in seconds.
        after: Option<u64>,
    },
    /// These credentials may not.
    Forbidden(String),
    /// The kind is not known.
    Absent,
    /// The server sent what can not be read.
    Broken(String),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Network(failure.to_string())
    }
}

impl End {
    /// Says it in words, without secrets.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Closed | Self::Repair => "the request ended".to_owned(),
            Self::NoInitial | Self::NoEvents => "no initial events".to_owned(),
            Self::Absent => "not defined in the cluster".to_owned(),
            Self::Gone(cause)
            | Self::Ahead(cause)
            | Self::Late(cause)
            | Self::Stalled(cause)
            | Self::Cut(cause)
            | Self::Mute(cause)
            | Self::Network(cause)
            | Self::Busy { cause, .. }
            | Self::Forbidden(cause)
            | Self::Broken(cause) => cause,
        }
    }
}

impl Follower {
    /// Decides what a turn's end means for the next one, tells of it, and says how long to wait.
    pub(crate) fn judge(&mut self, end: End) -> Duration {
        let timing = self.common.timing;
        match end {
            // A server that ends each watch at once is not asked in a tight loop.
            End::Closed if self.failures == 0 => Duration::ZERO,
            End::Closed => self.pause(None),
            // Whoever asked for it has said why.
            End::Repair => {
                self.start_over();
                Duration::ZERO
            }
            End::NoInitial => {
                self.common.initial.store(false, Relaxed);
                Duration::ZERO
            }
            End::NoEvents => {
                self.initial = false;
                Duration::ZERO
            }
            End::Gone(cause) => {
                log::debug!(target: crate::LOG, "{}: {cause}; listed again", self.kind);
                self.start_over();
                let pause = self.pause(None);
                if self.failures > 1 { pause } else { Duration::ZERO }
            }
            End::Ahead(cause) | End::Late(cause) => {
                self.start_over();
                self.lost = true;
                self.fail(State::Failing, &cause);
                self.pause(None)
            }
            End::Stalled(cause) => {
                self.fail(State::Failing, &cause);
                self.pause(None)
            }
            // If the server is away the next attempt will tell.
            End::Cut(cause) => {
                log::debug!(target: crate::LOG, "{}: {cause}; watched again", self.kind);
                self.pause(None)
            }
            End::Mute(cause) => {
                if self.break_silence() {
                    self.fail(State::Failing, &cause);
                    return self.pause(None);
                }
                // A server without bookmarks has told nothing, since nothing happened, as far as anybody can know.
                log::debug!(target: crate::LOG, "{}: {cause}", self.kind);
                Duration::ZERO
            }
            End::Network(cause) => {
                self.lost = true;
                self.common.connection.complain(&cause);
                self.state(State::Failing);
                self.pause(None)
            }
            End::Busy { cause, after, .. } => {
                self.fail(State::Failing, &cause);
                self.pause(after)
            }
            End::Broken(cause) => {
                self.version = None;
                self.fail(State::Failing, &cause);
                self.pause(None)
            }
            End::Forbidden(cause) => {
                // An API server that has just started may not know its roles yet: said only if it says so again.
                if self.refusals > 0 || !self.common.store.listed(self.kind) {
                    self.refuse();
                    self.fail(State::Forbidden, &cause);
                }
                self.refusals = self.refusals.saturating_add(1);
                if self.refusals > 5 { self.jitter(timing.refused) } else { self.pause(None) }
            }
            // The version may have given way to another one, which is looked for before anything is taken away.
            End::Absent if self.served.take().is_some() => {
                self.version = None;
                self.pause(None)
            }
            End::Absent => {
                // What a removed definition had is gone with it.
                self.common.apply(&self.restart());
                self.common.apply(&self.synced());
                self.version = None;
                if self.common.store.state(self.kind) != State::Absent {
                    log::info!(
                        target: crate::LOG,
                        "{} ({}) are not defined in the cluster; they are taken up when they are",
                        self.kind, self.kind.group()
                    );
                }
                self.state(State::Absent);
                self.jitter(timing.refused)
            }
        }
    }

    /// Forgets the versions that the server does not know any more, or does not know yet.
    pub(crate) fn start_over(&mut self) {
        (self.version, self.newest) = (None, true);
        self.least.clear();
    }

    /// Notes a state.
    pub(crate) fn state(&self, state: State) {
        match &self.namespace {
            Some((row, _)) => self.common.set_state_in(self.kind, *row, state),
            None => self.common.set_state(self.kind, state),
        }
    }

    /// Notes a failure of this kind alone and tells of it, once a cause until it is over.
    fn fail(&mut self, state: State, cause: &str) {
        self.state(state);
        self.common.connection.note_trouble(format!("{}: {cause}", self.kind));
        if self.said.len() < CAUSES && !self.said.iter().any(|other| other == cause) {
            log::warn!(target: crate::LOG, "{}: {cause}; all else goes on", self.what());
            self.said.push(cause.to_owned());
        }
    }

    /// Notes that the kind is followed.
    pub(crate) fn progress(&mut self) {
        (self.failures, self.refusals, self.silences, self.newest) = (0, 0, 0, false);
        if !self.said.is_empty() {
            self.said.clear();
            log::info!(target: crate::LOG, "{} are followed again", self.what());
        }
        self.common.connection.recover();
        self.state(State::Watching);
        self.grant(true);
        self.look();
        if std::mem::take(&mut self.lost) {
            self.common.recovered.notify_one();
        }
    }

    /// Gives the pause after one more failure.
    fn pause(&mut self, after: Option<u64>) -> Duration {
        let timing = self.common.timing;
        let doubled = timing.pause.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        let asked = after.map(|seconds| Duration::from_secs(seconds.min(30)));
        self.jitter(
            asked
                .unwrap_or(doubled)
                .min(asked.map_or(timing.longest, |asked| asked.max(timing.longest))),
        )
    }

    /// Varies a duration by a fifth up or down, so that many gateways do not come at once.
    pub(crate) fn jitter(&mut self, duration: Duration) -> Duration {
        // Xorshift is chance enough.
        self.chance = self.chance.max(1);
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        duration.mul_f64(0.8 + 0.4 * (self.chance % 1000) as f64 / 1000.0)
    }
}

/// Sorts out a refusal that is the kind's own.
pub(crate) fn refused(problem: &Status, after: Option<u64>, watch: bool) -> End {
    let text =
        format!("the API server says {} {}: {}", problem.code, problem.reason, problem.message);
    match problem.code {
        410 => End::Gone(text),
        // "Too large resource version": the server is behind what another one, or its own past, has told.
        500 | 504 if problem.message.contains("Too large resource version") => End::Ahead(text),
        400 | 422
            if watch
                && (problem.message.contains("sendInitialEvents")
                    || problem.message.contains("resourceVersionMatch")) =>
        {
            End::NoInitial
        }
        code => End::Busy { code, cause: text, after },
    }
}

/// Makes an end of what can not be read.
pub(crate) fn broken(error: impl std::fmt::Display) -> End {
    End::Broken(format!("the API server sent what can not be read: {error}"))
}
