//! Looking answers up, and keeping those that pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Carry, End, Exchange, Fault, Plugin, Step};
use wire::{Answer, Flags, Request, opcode, rcode, rtype};

use super::classify::Entry;
use super::figures::{Event, Figures};
use super::setup::{Config, Refresh};
use super::store::{Item, Key, Kind, Moment, Store};
use crate::shared::cluster::stale;

/// How long somebody who refreshes an entry has before somebody else may, in milliseconds: a little more than a background
/// run takes at most.
const REFRESHING: Moment = 11_000;

/// The extended error of an answer out of date (RFC 8914 §4.4).
const STALE: u16 = 3;

/// The extended error of a failure that is remembered (RFC 8914 §4.14).
const CACHED_ERROR: u16 = 13;

/// The extended error of a denial out of date (RFC 8914 §4.20).
const STALE_NXDOMAIN: u16 = 19;

/// A server block's cache.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) config: Config,
    pub(super) store: Arc<Store>,
    pub(super) figures: Figures,
}

/// Why the query goes down the chain, and what has to be put back when it comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trip {
    reason: Reason,
    /// Whether the client set AD.
    ad: bool,
    /// Whether the answer depends on who asks by what came before the cache.
    personal: bool,
    /// The deadline as it was before, in milliseconds after the query came; 0 for none.
    deadline: u64,
}

/// Why the query goes down the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Nothing is known.
    Miss,
    /// In the background, for an entry that will be or is out of date.
    Refresh,
    /// An entry is out of date, and is given only if nothing better comes.
    Verify,
}

impl Trip {
    /// As bits.
    fn carry(self) -> Carry {
        let bits = u64::from(self.ad) << 2 | u64::from(self.personal) << 3;
        Carry(self.reason as u64 | bits | self.deadline << 4)
    }

    /// From bits.
    fn from(carry: Carry) -> Self {
        let reason = match carry.0 & 3 {
            0 => Reason::Miss,
            1 => Reason::Refresh,
            _ => Reason::Verify,
        };
        let (ad, personal) = (carry.0 & 4 != 0, carry.0 & 8 != 0);
        Self { reason, ad, personal, deadline: carry.0 >> 4 }
    }
}

/// What a look-up gives.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Nothing.
    Nothing,
    /// The answer is copied.
    Hit {
        kind: Kind,
        is_stale: bool,
        /// Whether the entry has to be refreshed.
        refresh: bool,
    },
    /// An entry out of date, which must be verified before it is given.
    Verify(Kind),
}

impl Plugin for Cache {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        let is_plain = request.flags.opcode() == opcode::QUERY
            && !matches!(request.rtype, rtype::AXFR | rtype::IXFR)
            && !x.tells_who();
        if !is_plain || !self.config.zones.has(&request.name) {
            return Step::Next;
        }
        let now = self.store.moment(x.now());
        let (request, answer) = x.parts_mut();
        let ad = request.flags.has(Flags::AD);
        let found = self.look_up(request, answer, now);
        let count = |event| self.figures.of(x).into_iter().for_each(|counts| counts.count(event));
        count(Event::Request);
        match found {
            Found::Nothing => {
                count(Event::Miss);
                self.go_down(x, Reason::Miss, ad, 0)
            }
            Found::Verify(kind) => {
                count(Event::Hit(kind));
                let deadline = self.shorten_deadline(x);
                self.go_down(x, Reason::Verify, ad, deadline)
            }
            Found::Hit { kind, is_stale, refresh } => {
                count(Event::Hit(kind));
                match (is_stale, refresh) {
                    (true, _) => count(Event::Stale),
                    (false, true) => count(Event::Prefetch),
                    (false, false) => {}
                }
                if refresh {
                    self.refresh(x, ad);
                }
                Step::Done
            }
        }
    }

    fn answer(&self, x: &mut Exchange, carry: Carry) -> Step {
        let trip = Trip::from(carry);
        x.request_mut().flags.set(Flags::AD, trip.ad);
        let step = self.come_up(x, trip);
        if trip.personal {
            x.note_personal();
        }
        step
    }
}

impl Cache {
    /// Keeps what came, and decides what the client gets.
    fn come_up(&self, x: &mut Exchange, trip: Trip) -> Step {
        let now = self.store.moment(x.now());
        match trip.reason {
            Reason::Miss => self.pass(x, now),
            Reason::Refresh => {
                if !self.replaces(x) || self.pass_entry(x, now, true) == Entry::Nothing {
                    self.note_failed(x, now);
                }
                Step::Next
            }
            Reason::Verify => {
                x.deadline = match trip.deadline {
                    0 => None,
                    after => x.now().checked_add(Duration::from_millis(after)),
                };
                self.verified(x, trip.ad, now)
            }
        }
    }

    /// Copies the answer to `request` if it is there. Entries to be refreshed are marked, so that one does.
    fn look_up(&self, request: &Request, answer: &mut Answer, now: Moment) -> Found {
        let key = self.store.key(request);
        let stale = self.config.stale.as_ref();
        let mut shard = self.store.shard(&key);
        let up_to = stale.map(|stale| stale.up_to);
        let Some((item, kind)) = shard.pick(&key, now, up_to, self.config.prefer_positive) else {
            return Found::Nothing;
        };
        let left = item.left(now);
        let is_due = now >= item.quiet_until;
        if left > 0 {
            let mut refresh = false;
            if let Some(prefetch) = &self.config.prefetch {
                item.touch(now, prefetch.window);
                let share = u64::from(item.ttl) * u64::from(prefetch.percent);
                let threshold = i64::try_from(share.div_ceil(100)).unwrap_or(i64::MAX);
                refresh = is_due && item.hits >= prefetch.amount && left <= threshold;
            }
            if refresh {
                item.quiet_until = now + REFRESHING;
            }
            let ttl = if self.config.keepttl { item.ttl } else { u32::try_from(left).unwrap_or(0) };
            copy(item, ttl, request, answer);
            if item.is_failure {
                answer.options.push_ede(CACHED_ERROR, "");
            }
            return Found::Hit { kind, is_stale: false, refresh };
        }
        // Only with `serve_stale` is anything out of date picked.
        let Some(stale) = stale else { return Found::Nothing };
        let verifies = matches!(stale.refresh, Refresh::First(_));
        if verifies && is_due {
            return Found::Verify(kind);
        }
        let refresh = !verifies && is_due;
        if refresh {
            item.quiet_until = now + REFRESHING;
        }
        copy_stale(item, stale.ttl, request, answer);
        Found::Hit { kind, is_stale: true, refresh }
    }

    /// Goes on to the next plugin. The query asks for the AD bit, so that the entry has it for those who want it.
    /// What of it depends on who asks is noted anew.
    fn go_down(&self, x: &mut Exchange, reason: Reason, ad: bool, deadline: u64) -> Step {
        x.request_mut().flags.set(Flags::AD, true);
        let personal = x.set_personal(false);
        Step::Wrap(Trip { reason, ad, personal, deadline }.carry())
    }

    /// Has the chain behind run again in the background.
    fn refresh(&self, x: &mut Exchange, ad: bool) {
        x.request_mut().flags.set(Flags::AD, true);
        x.fork(Trip { reason: Reason::Refresh, ad, personal: false, deadline: 0 }.carry());
        x.request_mut().flags.set(Flags::AD, ad);
    }

    /// Bounds the wait for something better than an entry out of date; gives the deadline before, as [`Trip`] has it.
    fn shorten_deadline(&self, x: &mut Exchange) -> u64 {
        let since = |at: Instant| at.saturating_duration_since(x.now()).as_millis();
        let before = x.deadline.map_or(0, |at| u64::try_from(since(at)).unwrap_or(0).max(1));
        if let Some(Refresh::First(Some(wait))) =
            self.config.stale.as_ref().map(|stale| stale.refresh)
        {
            let own = x.now().checked_add(wait);
            x.deadline = own.into_iter().chain(x.deadline).min();
        }
        before
    }

    /// Keeps what came, if it may be kept, and gives it to the client.
    fn pass(&self, x: &mut Exchange, now: Moment) -> Step {
        match x.end() {
            Some(End::Answered) if !x.is_streaming() => {
                self.pass_entry(x, now, false);
            }
            Some(End::Failed(fault)) => self.note_fault(x, fault, now),
            _ => {}
        }
        Step::Next
    }

    /// Keeps the answer if it may be kept, and makes it what the client is to see: one TTL for all records, AD for those who
    /// understand it (RFC 6840 §5.8). Options are for this client, and are not kept.
    fn pass_entry(&self, x: &mut Exchange, now: Moment, is_refresh: bool) -> Entry {
        let random = x.random();
        let is_personal = x.is_personal();
        let (request, answer) = x.parts_mut();
        // What may be out of date is asked for again: where it comes from is at hand, and may know better any moment.
        let is_stale = stale::is_noted(answer);
        let entry = Entry::of(request, answer);
        let ttl = Entry::ttl(request, answer);
        let (success, denial) = (&self.config.success, &self.config.denial);
        let seconds = match entry {
            Entry::Failure => u32::try_from(self.config.failure.as_secs()).unwrap_or(0),
            Entry::Denial => denial.clamp(ttl),
            Entry::Nothing if answer.rcode == rcode::NXDOMAIN => denial.clamp(ttl),
            Entry::Nothing | Entry::Success { .. } => success.clamp(ttl),
        };
        // What depends on who asks is nobody else's.
        let entry = if is_personal || is_stale { Entry::Nothing } else { entry };
        let kept = self.keep(request, answer, entry, seconds, now, is_refresh, random);
        if !is_stale {
            answer.records_mut().iter_mut().for_each(|rr| rr.ttl = seconds);
        }
        if !wants_ad(request) {
            answer.flags.set(Flags::AD, false);
        }
        self.count_kept(x, kept);
        entry
    }

    /// Keeps the answer, if it may be kept; tells as what, and whether another one had to go.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of them are needed, and none belong together"
    )]
    fn keep(
        &self,
        request: &Request,
        answer: &Answer,
        entry: Entry,
        seconds: u32,
        now: Moment,
        is_refresh: bool,
        random: u64,
    ) -> Option<(Kind, bool)> {
        let config = &self.config;
        let (kind, except) = match entry {
            Entry::Nothing => return None,
            Entry::Success { .. } => (Kind::Success, &config.no_success),
            Entry::Denial | Entry::Failure => (Kind::Denial, &config.no_denial),
        };
        if seconds == 0 || except.has(&request.name) {
            return None;
        }
        let key = self.store.key(request);
        let mut item = Item::new(&key, answer, seconds, now);
        item.is_failure = entry == Entry::Failure;
        item.answers = entry == Entry::Success { answers: true };
        if is_refresh {
            let mut shard = self.store.shard(&key);
            if let Some((old, _)) = self.any(&mut shard, &key, now) {
                item.take_hits(old);
            }
        }
        Some((kind, self.store.put(&key, kind, item, random)))
    }

    /// The entry that would be given, fresh or not.
    fn any<'a>(
        &self,
        shard: &'a mut super::store::Shard,
        key: &Key<'_>,
        now: Moment,
    ) -> Option<(&'a mut Item, Kind)> {
        let stale = self.config.stale.as_ref().map(|stale| stale.up_to);
        shard.pick(key, now, stale, self.config.prefer_positive)
    }

    /// Counts what was kept.
    fn count_kept(&self, x: &Exchange, kept: Option<(Kind, bool)>) {
        let (Some((kind, evicted)), Some(counts)) = (kept, self.figures.of(x)) else { return };
        if evicted {
            counts.count(Event::Eviction(kind));
        }
        counts.size(kind, self.store.size(kind));
    }

    /// Remembers that the upstreams cannot be reached, as an answer of theirs that says so (RFC 9520 §3.2); other faults are
    /// our own and pass.
    fn note_fault(&self, x: &mut Exchange, fault: Fault, now: Moment) {
        if x.is_personal() || !matches!((fault.rcode, fault.ede), (rcode::SERVFAIL, Some(22 | 23)))
        {
            return;
        }
        let random = x.random();
        let seconds = u32::try_from(self.config.failure.as_secs()).unwrap_or(0);
        let mut failed = Answer::default();
        failed.rcode = fault.rcode;
        let kept = self.keep(x.request(), &failed, Entry::Failure, seconds, now, false, random);
        self.count_kept(x, kept);
    }

    /// Whether what came may take the place of an entry out of date.
    fn replaces(&self, x: &Exchange) -> bool {
        let is_answer = x.end() == Some(End::Answered)
            && matches!(x.answer().rcode, rcode::NOERROR | rcode::NXDOMAIN)
            && !x.answer().flags.has(Flags::TC);
        let answers = || Entry::of(x.request(), x.answer()) == Entry::Success { answers: true };
        is_answer && (!self.config.prefer_positive || answers() || !self.is_positive(x))
    }

    /// Whether the entry at hand has the records that were asked for.
    fn is_positive(&self, x: &Exchange) -> bool {
        let key = self.store.key(x.request());
        let mut shard = self.store.shard(&key);
        let now = self.store.moment(x.now());
        self.any(&mut shard, &key, now).is_some_and(|(item, _)| item.answers)
    }

    /// Notes that an entry could not be refreshed: for a while nobody tries again.
    fn note_failed(&self, x: &Exchange, now: Moment) {
        let recheck = self.config.stale.as_ref().map_or(Duration::ZERO, |stale| stale.recheck);
        // A failure is remembered as long as one that nothing out of date stands for (RFC 8767 §5).
        let pause = recheck.max(self.config.failure);
        let key = self.store.key(x.request());
        let mut shard = self.store.shard(&key);
        if let Some((item, _)) = self.any(&mut shard, &key, now) {
            item.quiet_until = now + u64::try_from(pause.as_millis()).unwrap_or(0);
        }
    }

    /// Gives what came, or the entry out of date if that is no better.
    fn verified(&self, x: &mut Exchange, ad: bool, now: Moment) -> Step {
        if self.replaces(x) {
            return self.pass(x, now);
        }
        let Some(stale) = &self.config.stale else { return Step::Next };
        let timed_out = x.end() == Some(End::Failed(Fault::TIMEOUT));
        let recheck = u64::try_from(stale.recheck.as_millis()).unwrap_or(0);
        let (request, answer) = x.parts_mut();
        let key = self.store.key(request);
        let mut shard = self.store.shard(&key);
        let Some((item, _)) = self.any(&mut shard, &key, now) else { return Step::Next };
        let refresh = timed_out && now >= item.quiet_until;
        if refresh {
            item.quiet_until = now + REFRESHING;
        } else if !timed_out {
            item.quiet_until = now + recheck;
        }
        copy_stale(item, stale.ttl, request, answer);
        drop(shard);
        self.figures.of(x).into_iter().for_each(|counts| counts.count(Event::Stale));
        if refresh {
            self.refresh(x, ad);
        }
        Step::Done
    }
}

/// Whether the client understands the AD bit (RFC 6840 §5.7).
fn wants_ad(request: &Request) -> bool {
    request.edns.dnssec_ok() || request.flags.has(Flags::AD)
}

/// Copies an entry into the answer, every record with `ttl`.
fn copy(item: &Item, ttl: u32, request: &Request, answer: &mut Answer) {
    answer.copy_from(&item.answer);
    answer.flags.set(Flags::AA, true);
    if !wants_ad(request) {
        answer.flags.set(Flags::AD, false);
    }
    answer.records_mut().iter_mut().for_each(|rr| rr.ttl = ttl);
}

/// The same for an entry out of date, and says so.
fn copy_stale(item: &Item, ttl: u32, request: &Request, answer: &mut Answer) {
    copy(item, ttl, request, answer);
    let code = if answer.rcode == rcode::NXDOMAIN { STALE_NXDOMAIN } else { STALE };
    answer.options.push_ede(code, "");
}
