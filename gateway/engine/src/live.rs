//! A whole configuration at work: server blocks, their chains, and the runner.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout_at;

use crate::control::Controlled;
use crate::door::{Admission, Signature};
use crate::everywhere::Pass;
use crate::exchange::{End, Exchange, Fault, MAX_DEPTH, MAX_HOOKS};
use crate::explain::{Phase, Watch};
use crate::gateway::Common;
use crate::plugin::{Metadata, Observer, Plugin, Roles, Step, View};
use crate::route::{Group, ListenerId, Routes};
use crate::setup::Shared;
use crate::shutdown::Stopper;

/// A plugin in its place in a chain.
#[derive(Debug)]
pub struct Link {
    /// Its name in the Corefile.
    pub name: &'static str,
    /// The plugin.
    pub plugin: Box<dyn Plugin>,
}

/// A server block: the parts its plugins put there.
#[derive(Debug, Default)]
pub struct Site {
    /// Those which act, in registry order.
    pub chain: Box<[Link]>,
    /// Those which only look on.
    pub observers: Box<[Box<dyn Observer>]>,
    /// Those which say whether a query belongs here.
    pub views: Box<[Box<dyn View>]>,
    /// What its plugins know of a query.
    pub metadata: Metadata,
    /// What its plugins offer to one another.
    pub roles: Roles,
    /// Its zones and listeners, as metrics name them.
    pub routes: Routes,
    /// How long a query may take (`cancel`).
    pub timeout: Option<Duration>,
    /// Whether it has no plugin that takes part in a query: all are refused.
    pub is_bare: bool,
}

/// Everything a reload replaces, and nothing else.
#[derive(Debug)]
pub struct Live {
    pub(crate) sites: Vec<Site>,
    /// By [`ListenerId`]; none where a listener is gone.
    pub(crate) groups: Vec<Option<Group>>,
    /// Those which see what no block takes.
    pub(crate) lost: Vec<Box<dyn Observer>>,
    /// What passes doors.
    pub(crate) pass: Pass,
    /// What the control socket answers.
    pub(crate) controls: Vec<Controlled>,
    pub(crate) shared: Shared,
    /// Whether a caught panic's place is logged.
    pub(crate) stacktrace: bool,
    /// Stops the tasks of this configuration when it is dropped.
    pub(crate) tasks: Stopper,
    pub(crate) common: Arc<Common>,
}

/// Where the runner stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The exchange is over.
    Finished(End),
    /// The plugin the exchange stands at has to wait.
    Waiting,
}

impl Live {
    /// The listeners.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten()
    }

    /// The server blocks.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Those which answer a verb of the control socket, in the order of the Corefile.
    pub fn controls(&self, verb: &str) -> impl Iterator<Item = &Controlled> {
        self.controls.iter().filter(move |own| own.verb == verb)
    }

    /// The listener of a number.
    pub fn group(&self, id: ListenerId) -> Option<&Group> {
        self.groups.get(id.0)?.as_ref()
    }

    /// The block and route for the request in hand.
    fn route(&self, x: &Exchange) -> Result<(usize, usize), Fault> {
        let group = self.group(x.query.listener).ok_or(Fault::NO_ZONE)?;
        group.route(&self.sites, x)
    }

    /// Asks the listener's door, and finds the block and route for the client's query.
    fn enter_by_door(&self, x: &mut Exchange) -> Result<(usize, usize), Fault> {
        let group = self.group(x.query.listener).ok_or(Fault::NO_ZONE)?;
        if let (Some(at), Some(first)) = (x.query.parts.tsig, group.keyrings.first()) {
            // Signatures are of the world's time (RFC 8945 §5.2.3), not of the exchange's clock.
            let (wire, now) = (&x.query.wire, SystemTime::now());
            let known = group.keyrings.iter().find_map(|keyring| keyring.check(wire, at, now));
            let seal = known.unwrap_or_else(|| first.unknown(wire, at, now));
            x.query.signature = seal.key().cloned().map_or(Signature::Bad, Signature::Good);
            x.seal = Some(seal);
        }
        x.selective = group.selective;
        match group.door.as_ref().map_or(Admission::Open, |door| door.admit(x)) {
            Admission::Open => {}
            _ if self.pass.takes(x) => {}
            Admission::Views => x.views_only = true,
            Admission::Refused => {
                x.turned_away = true;
                return Err(x.refuse_signature().unwrap_or(Fault::TURNED_AWAY));
            }
        }
        let found = group.route(&self.sites, x);
        x.turned_away = found == Err(Fault::TURNED_AWAY);
        found
    }

    /// Starts a query just read.
    pub fn start(&self, x: &mut Exchange) -> Progress {
        let (site, route) = match self.enter_by_door(x) {
            Ok(found) => found,
            Err(fault) => {
                x.top_mut().route = usize::MAX;
                self.lost.iter().for_each(|observer| observer.received(x));
                return Progress::Finished(End::Failed(fault));
            }
        };
        let frame = x.top_mut();
        (frame.site, frame.route) = (site, route);
        let site = &self.sites[site];
        if let Some(timeout) = site.timeout {
            x.deadline = x.query.received.checked_add(timeout);
        }
        // As in `settle`: what is written down of a query does not change who may have its answer.
        let personal = x.is_personal();
        site.observers.iter().for_each(|observer| observer.received(x));
        x.set_personal(personal);
        self.advance(x)
    }

    /// Runs `x` until it is over or has to wait. Never blocks; allocates nothing of its own.
    pub fn advance(&self, x: &mut Exchange) -> Progress {
        self.advance_watched(x, &mut ())
    }

    /// The same, and `watch` sees every hook.
    pub(crate) fn advance_watched(&self, x: &mut Exchange, watch: &mut impl Watch) -> Progress {
        let mut step = std::mem::replace(&mut x.resume, Step::Next);
        loop {
            // Take the last hook at its word…
            let top = x.depth == 0;
            let frame = x.top_mut();
            match step {
                Step::Next => {}
                Step::Wrap(carry) => {
                    frame.wraps.push((frame.at, carry));
                    frame.next = frame.at + 1;
                    frame.end = None;
                }
                Step::Done => {
                    frame.end = Some(End::Answered);
                    if top {
                        let link = self.sites[frame.site].chain.get(frame.at);
                        x.answered_by = link.map_or("", |link| link.name);
                    }
                }
                Step::Fail(fault) => {
                    frame.answer.clear();
                    frame.end = Some(End::Failed(fault));
                }
                Step::Drop => frame.end = Some(End::Silent),
                Step::Ask => self.enter(x),
                Step::Wait(carry) => {
                    frame.carry = carry;
                    return Progress::Waiting;
                }
            }
            x.hooks += 1;
            if x.hooks > MAX_HOOKS {
                x.unwind();
                return Progress::Finished(End::Failed(Fault::TOO_LONG));
            }
            // …and call the next one: downwards while nothing has ended the run, else back up.
            let frame = x.top_mut();
            step = match frame.end {
                None => {
                    frame.at = frame.next;
                    frame.next += 1;
                    match self.sites[frame.site].chain.get(frame.at) {
                        Some(link) => {
                            x.note_link(link.name);
                            let step = link.plugin.query(x);
                            watch.hook(self, x, Phase::Query, step);
                            step
                        }
                        None => Step::Fail(Fault::UNANSWERED),
                    }
                }
                Some(end) => match frame.wraps.pop() {
                    Some((at, carry)) => {
                        frame.at = at;
                        x.note_return(Some(at));
                        let step = self.plugin(x).answer(x, carry);
                        watch.hook(self, x, Phase::Answer, step);
                        step
                    }
                    None if x.depth == 0 => return Progress::Finished(end),
                    None => {
                        x.depth -= 1;
                        x.note_return(Some(x.top().at));
                        let step = self.plugin(x).asked(x, x.top().carry);
                        watch.hook(self, x, Phase::Asked, step);
                        step
                    }
                },
            };
        }
    }

    /// Like [`Live::start`], and a panic costs one SERVFAIL.
    pub(crate) fn start_guarded(&self, x: &mut Exchange) -> Progress {
        match catch_unwind(AssertUnwindSafe(|| self.start(x))) {
            Ok(progress) => progress,
            Err(panic) => Progress::Finished(self.panicked(x, &*panic)),
        }
    }

    /// Sees an exchange through which had to wait.
    pub async fn finish(&self, x: &mut Exchange) -> End {
        self.finish_watched(x, &mut ()).await
    }

    /// The same, and `watch` sees every hook.
    pub(crate) async fn finish_watched(&self, x: &mut Exchange, watch: &mut impl Watch) -> End {
        loop {
            let outcome = {
                let carry = x.top().carry;
                let deadline = x.deadline;
                let plugin = self.plugin(x);
                let mut work = plugin.work(x, carry);
                // A panic in the future is caught at the poll that it happens in.
                let guarded =
                    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                        Ok(poll) => poll.map(Ok),
                        Err(panic) => std::task::Poll::Ready(Err(panic)),
                    });
                match deadline {
                    None => guarded.await,
                    Some(at) => timeout_at(at.into(), guarded)
                        .await
                        .unwrap_or(Ok(Step::Fail(Fault::TIMEOUT))),
                }
            };
            let progress = match outcome {
                Ok(step) => {
                    watch.hook(self, x, Phase::Work, step);
                    x.resume = step;
                    match catch_unwind(AssertUnwindSafe(|| self.advance_watched(x, watch))) {
                        Ok(progress) => progress,
                        Err(panic) => Progress::Finished(self.panicked(x, &*panic)),
                    }
                }
                Err(panic) => Progress::Finished(self.panicked(x, &*panic)),
            };
            if let Progress::Finished(end) = progress {
                return end;
            }
        }
    }

    /// Appends the reply to `out`, and shows it to the observers.
    pub fn settle(&self, x: &mut Exchange, end: End, limit: usize, out: &mut Vec<u8>) {
        let start = out.len();
        x.reply(end, limit, out);
        let message = out.get(start..).unwrap_or_default();
        let observers = match x.top().route {
            usize::MAX => &*self.lost,
            _ => &*self.sites[x.top().site].observers,
        };
        // An answer does not come to depend on who asks by being logged with it.
        let personal = x.is_personal();
        observers.iter().for_each(|observer| observer.sent(x, end, message));
        x.set_personal(personal);
    }

    /// Sees a waiting exchange through to its reply, appended to `out`, and starts what it leaves to do.
    pub async fn complete(self: &Arc<Self>, x: &mut Exchange, out: &mut Vec<u8>) {
        let end = self.finish(x).await;
        let limit = x.limit(self.common.ceiling());
        self.settle(x, end, limit, out);
        self.fork(x);
    }

    /// Starts the background runs that an exchange has queued; too many are left out and counted.
    pub fn fork(self: &Arc<Self>, x: &mut Exchange) {
        for mut fork in x.forks.drain(..) {
            let Some(permit) = self.common.fork() else { continue };
            let live = Arc::clone(self);
            tokio::spawn(async move {
                fork.query.received = crate::spec::now();
                fork.deadline = fork.query.received.checked_add(Duration::from_secs(10));
                let progress = catch_unwind(AssertUnwindSafe(|| live.advance(&mut fork)));
                match progress {
                    Ok(Progress::Waiting) => drop(live.finish(&mut fork).await),
                    Ok(Progress::Finished(_)) => {}
                    Err(panic) => drop(live.panicked(&mut fork, &*panic)),
                }
                drop(permit);
            });
        }
    }

    /// Opens the frame of the nested query just set.
    fn enter(&self, x: &mut Exchange) {
        x.depth += 1;
        let (deep, found) = (x.depth > MAX_DEPTH, self.route(x));
        let frame = x.top_mut();
        match found {
            Ok((site, route)) if !deep => (frame.site, frame.route) = (site, route),
            Ok(_) => frame.end = Some(End::Failed(Fault::TOO_DEEP)),
            Err(fault) => frame.end = Some(End::Failed(fault)),
        }
        self.note_restricted(x, found.ok());
    }

    /// Notes that a nested query's outcome depends on who asks: those for whom only blocks with views answer come to a block
    /// with one as others do, but not everywhere from there.
    fn note_restricted(&self, x: &Exchange, found: Option<(usize, usize)>) {
        let has_door = self.group(x.query.listener).is_some_and(|group| group.door.is_some());
        let outer = &self.sites[x.frames[x.depth - 1].site];
        let is_open = found.is_some_and(|(site, _)| !self.sites[site].views.is_empty());
        if has_door && !outer.views.is_empty() && (x.views_only || !is_open) {
            x.note_personal();
        }
    }

    /// The plugin that the exchange stands at.
    pub(crate) fn plugin(&self, x: &Exchange) -> &dyn Plugin {
        let frame = x.top();
        // `at` was the index of a link when its hook was called.
        &*self.sites[frame.site].chain[frame.at].plugin
    }

    /// Logs and counts a panic; tells what the client gets.
    pub(crate) fn panicked(&self, x: &mut Exchange, panic: &(dyn Any + Send)) -> End {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown");
        let server =
            self.group(x.query.listener).map(|group| group.key.to_string()).unwrap_or_default();
        let place = if self.stacktrace { self.common.last_panic() } else { String::new() };
        log::error!("Recovered from panic in server: \"{server}\" {text}{place}");
        self.common.panics.increment(1);
        x.unwind();
        End::Failed(Fault::PANIC)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished(_) => "finished",
            Self::Waiting => "waiting",
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tasks.reach(crate::shutdown::Stage::Draining);
    }
}
