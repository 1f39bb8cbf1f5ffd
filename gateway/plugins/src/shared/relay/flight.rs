//! Equal questions under way: the first one asks, the others wait for its answer (VU#457875, RFC 5452 §5).

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use engine::{Exchange, Step};
use foldhash::fast::RandomState;
use transports::upstream::Protocol;
use wire::{Answer, Request};

use super::message::Hop;

/// How many parts the questions are in, each with a lock of its own.
const SHARDS: usize = 16;

/// An answer of more octets than this is not kept as memory for the next.
const KEEP: usize = 8192;

/// The questions under way.
#[derive(Debug)]
pub(crate) struct Flights {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

/// Some of them.
#[derive(Debug, Default)]
struct Shard {
    /// Where the question of a hash is.
    at: HashMap<u64, usize, RandomState>,
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// One question, and its outcome once that is there.
#[derive(Debug, Default)]
struct Slot {
    hash: u64,
    request: Request,
    tcp: bool,
    /// How many exchanges hold it.
    users: usize,
    outcome: Option<Outcome>,
    answer: Answer,
    upstream: Option<std::net::SocketAddr>,
    detail: String,
    wakers: Vec<Waker>,
}

/// How the question ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// With this step; its answer is kept if it has one.
    Landed(Step),
    /// The exchange that asked is gone.
    Lost,
}

/// Asks others what clients ask.
pub(crate) trait Asker: Sync {
    /// Asks, and writes the answer. `protocol` is the one that the question is shared over.
    fn ask(&self, x: &mut Exchange, protocol: Protocol) -> impl Future<Output = Step> + Send;
}

/// What joining gives.
#[derive(Debug)]
pub(crate) enum Joined<'a> {
    /// Nobody asks this: go and ask.
    First(Seat<'a>),
    /// Somebody does: wait.
    Other(Seat<'a>),
    /// Something else has the same hash: ask alone.
    Alone,
}

/// A part in a question under way.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    flights: &'a Flights,
    shard: usize,
    slot: usize,
    first: bool,
}

impl Flights {
    /// None under way.
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the lock of a part; nothing panics while it is held.
    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hash of all that [`is_same`] compares.
    fn hash(&self, request: &Request, hop: Hop<'_>, protocol: Protocol) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        let (edns, numbers) = (&request.edns, [request.rtype, request.class, request.flags.0]);
        (&request.name, numbers, protocol).hash(&mut hasher);
        (edns.present, edns.size, edns.flags).hash(&mut hasher);
        options(request, hop).for_each(|option| option.hash(&mut hasher));
        hasher.finish()
    }

    /// Has `asker` ask, or waits for an equal question under way over `protocol`.
    pub(crate) async fn share(
        &self,
        x: &mut Exchange,
        protocol: Protocol,
        asker: &impl Asker,
    ) -> Step {
        loop {
            match self.join(x.request(), Hop::of(x), protocol) {
                Joined::First(seat) => {
                    let step = asker.ask(x, protocol).await;
                    seat.land(x, step);
                    return step;
                }
                Joined::Other(seat) => {
                    if let Some(step) = seat.landed(x).await {
                        return step;
                    }
                }
                Joined::Alone => return asker.ask(x, protocol).await,
            }
        }
    }

    /// Takes part in the question `request`, without the options in `hop`.
    pub(crate) fn join(&self, request: &Request, hop: Hop<'_>, protocol: Protocol) -> Joined<'_> {
        let hash = self.hash(request, hop, protocol);
        let shard = (hash >> 60) as usize % SHARDS;
        let mut guard = self.lock(shard);
        let own = &mut *guard;
        let tcp = protocol == Protocol::Tcp;
        if let Some(slot) = own.at.get(&hash).copied() {
            let there = &mut own.slots[slot];
            if there.tcp != tcp || !is_same(&there.request, request, hop) {
                return Joined::Alone;
            }
            there.users += 1;
            return Joined::Other(Seat { flights: self, shard, slot, first: false });
        }
        let slot = own.free.pop().unwrap_or_else(|| {
            own.slots.push(Slot::default());
            own.slots.len() - 1
        });
        let there = &mut own.slots[slot];
        there.hash = hash;
        there.request.copy_from(request);
        there.request.edns.options.retain(|code, data| !hop.stays(code, data));
        there.tcp = tcp;
        there.users = 1;
        there.outcome = None;
        own.at.insert(hash, slot);
        Joined::First(Seat { flights: self, shard, slot, first: true })
    }
}

/// The options of a request that go upstream.
fn options<'a>(request: &'a Request, hop: Hop<'a>) -> impl Iterator<Item = (u16, &'a [u8])> {
    request.edns.options.iter().filter(move |(code, data)| !hop.stays(*code, data))
}

/// Whether two requests are the same to an upstream: `a`, and `b` without the options in `hop`.
fn is_same(a: &Request, b: &Request, hop: Hop<'_>) -> bool {
    let edns = |request: &Request| {
        let edns = &request.edns;
        (edns.present, edns.size, edns.flags)
    };
    a.name == b.name
        && (a.rtype, a.class, a.flags) == (b.rtype, b.class, b.flags)
        && edns(a) == edns(b)
        && a.edns.options.iter().eq(options(b, hop))
}

impl Seat<'_> {
    /// Gives the outcome to those who wait.
    pub(crate) fn land(&self, x: &Exchange, step: Step) {
        let mut shard = self.flights.lock(self.shard);
        let slot = &mut shard.slots[self.slot];
        if slot.users > 1 {
            slot.answer.flags = x.answer().flags;
            slot.answer.copy_from(x.answer());
            slot.upstream = x.upstream;
            slot.detail.clear();
            if matches!(step, Step::Fail(_)) {
                slot.detail.push_str(x.detail());
            }
        }
        self.end(&mut shard, Outcome::Landed(step));
    }

    /// Notes the outcome and lets nobody join any more.
    fn end(&self, shard: &mut Shard, outcome: Outcome) {
        let slot = &mut shard.slots[self.slot];
        if slot.outcome.is_none() {
            slot.outcome = Some(outcome);
            slot.wakers.drain(..).for_each(Waker::wake);
            shard.at.remove(&slot.hash);
        }
    }

    /// Waits for the outcome and takes it over; none if the exchange that asked is gone.
    pub(crate) async fn landed(&self, x: &mut Exchange) -> Option<Step> {
        poll_fn(|cx| {
            let mut shard = self.flights.lock(self.shard);
            let slot = &mut shard.slots[self.slot];
            match slot.outcome {
                None => {
                    if !slot.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                        slot.wakers.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
                Some(Outcome::Lost) => Poll::Ready(None),
                Some(Outcome::Landed(step)) => {
                    x.answer_mut().copy_from(&slot.answer);
                    x.upstream = slot.upstream;
                    Poll::Ready(Some(match step {
                        Step::Fail(fault) => x.fail(fault, &slot.detail),
                        step => step,
                    }))
                }
            }
        })
        .await
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut guard = self.flights.lock(self.shard);
        let shard = &mut *guard;
        if self.first {
            self.end(shard, Outcome::Lost);
        }
        let slot = &mut shard.slots[self.slot];
        slot.users -= 1;
        if slot.users == 0 {
            if slot.answer.footprint() > KEEP {
                slot.answer = Answer::default();
            }
            shard.free.push(self.slot);
        }
    }
}
