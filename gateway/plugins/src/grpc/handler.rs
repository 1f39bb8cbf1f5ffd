//! Calling the upstreams.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engine::metrics::{self, Counter, Histogram, TIME_BUCKETS, Table};
use engine::{Carry, Exchange, Plugin, Reach, Step, Work};
use tokio::time::Instant;
use transports::upstream::{self, CallError, Grpc, Protocol, Spot};
use wire::{Flags, rcode};

use crate::shared::fall::Fall;
use crate::shared::relay::Own;
use crate::shared::relay::fault::{self, NO_REPLY, UNUSABLE, WRONG_REPLY};
use crate::shared::relay::flight::{Asker, Flights};
use crate::shared::relay::home;
use crate::shared::relay::message::{self, Outgoing, Way};
use crate::shared::relay::policy::Policy;
use crate::shared::relay::sift::sift;

/// How long calling may take in all.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long one upstream is waited for if there is another.
const PATIENCE: Duration = Duration::from_secs(2);

/// The counter of calls.
const REQUESTS: &str = "coredns_grpc_requests_total";

/// The counter of replies.
const RESPONSES: &str = "coredns_grpc_responses_total";

/// The histogram of the time that calls took.
const DURATION: &str = "coredns_grpc_request_duration_seconds";

/// How many response codes have a handle of their own (RFC 6895 §2.3).
const RCODES: usize = 24;

/// An upstream and its figures.
#[derive(Debug)]
pub(super) struct Called {
    grpc: Arc<Grpc>,
    to: String,
    requests: Counter,
    responses: Table<Counter>,
    duration: Arc<Histogram>,
}

impl Called {
    /// One that has not been called.
    pub(super) fn new(grpc: Arc<Grpc>) -> Self {
        metrics::describe(REQUESTS, "Calls of an upstream.");
        metrics::describe(RESPONSES, "Replies of an upstream.");
        metrics::describe(DURATION, "Histogram of the time each call took.");
        let to = grpc.spot().to_string();
        let labels = [("to", &*to)];
        let requests = metrics::counter(REQUESTS, &labels);
        let duration = metrics::histogram(DURATION, &labels, &TIME_BUCKETS);
        Self { grpc, requests, responses: Table::new(RCODES), duration, to }
    }

    /// Counts a reply.
    fn replied(&self, rcode: u16, time: Duration) {
        let make = || {
            let name = wire::text::rcode_name(rcode);
            metrics::counter(RESPONSES, &[("to", &*self.to), ("rcode", &*name)])
        };
        match self.responses.get(usize::from(rcode), make) {
            Some(counter) => counter.increment(1),
            None => make().increment(1),
        }
        self.duration.record(time.as_secs_f64());
    }
}

/// The directive.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) reach: Reach,
    pub(super) upstreams: Box<[Called]>,
    pub(super) policy: Policy,
    pub(super) fall: Fall,
    pub(super) turn: AtomicUsize,
    pub(super) flights: Flights,
    /// Which zones are our own.
    pub(super) own: Own,
}

impl Plugin for Relay {
    fn query(&self, x: &mut Exchange) -> Step {
        if !self.reach.takes(&x.request().name) {
            return Step::Next;
        }
        match fault::of(x) {
            Some(fault) => Step::Fail(fault),
            None => Step::WAIT,
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(async {
            // There is one way for all clients.
            match self.flights.share(x, Protocol::Tcp, self).await {
                Step::Done => home::come(x, self.own.zones()),
                step => step,
            }
        })
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        home::came(x)
    }
}

impl Asker for Relay {
    /// Calls each upstream once, until one answers.
    async fn ask(&self, x: &mut Exchange, _: Protocol) -> Step {
        let deadline = Instant::now() + DEADLINE;
        let order = self.policy.order(self.upstreams.len(), &self.turn, x);
        let mut wrong: Option<Wrong> = None;
        for (at, number) in order.iter().enumerate() {
            let upstream = &self.upstreams[*number];
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let is_last = at + 1 == order.len();
            let until = if is_last { deadline } else { deadline.min(now + PATIENCE) };
            match self.call(x, upstream, until).await {
                Ok(()) => return self.pass(x),
                Err(Wrong::Call(CallError::Mismatch)) => {
                    return x.fail(WRONG_REPLY, CallError::Mismatch);
                }
                Err(error) => wrong = Some(error),
            }
        }
        if self.fall.through(&x.request().name) {
            x.answer_mut().clear();
            return Step::Next;
        }
        match wrong {
            Some(Wrong::Call(error)) => x.fail(NO_REPLY, error),
            Some(unusable) => x.fail(UNUSABLE, unusable),
            None => x.fail(NO_REPLY, "no upstream replied within 5s"),
        }
    }
}

impl Relay {
    /// Calls one upstream.
    async fn call(&self, x: &mut Exchange, upstream: &Called, until: Instant) -> Result<(), Wrong> {
        let begun = Instant::now();
        let grpc = &upstream.grpc;
        upstream.requests.increment(1);
        let peer = match grpc.spot() {
            Spot::Addr(addr) => Some(*addr),
            Spot::Unix(_) => None,
        };
        x.begin_passage("query", peer);
        let reply = {
            let outgoing = Outgoing::of(x, Way { encrypted: grpc.is_encrypted(), tcp: false });
            let write = |id: u16, out: &mut Vec<u8>| outgoing.write(id, out);
            grpc.call(&write, until).await
        };
        x.end_passage();
        let reply = reply.map_err(Wrong::Call)?;
        // RFC 6840 §5.8: AD says something if it comes by a secure path.
        let trusted = grpc.is_encrypted()
            || match grpc.spot() {
                Spot::Addr(addr) => addr.ip().is_loopback(),
                Spot::Unix(_) => true,
            };
        match reply {
            upstream::Called::NotFound => {
                let answer = x.answer_mut();
                answer.clear();
                answer.flags.set(Flags::RA, true);
                answer.rcode = rcode::NXDOMAIN;
            }
            upstream::Called::Reply(message) => {
                message::read(&message, None, trusted, x.answer_mut()).map_err(Wrong::Reply)?;
                let (request, answer) = x.parts_mut();
                sift(request, &self.reach.from, self.own.zones(), answer)
                    .map_err(Wrong::Unusable)?;
            }
        }
        upstream.replied(x.answer().rcode, begun.elapsed());
        Ok(())
    }

    /// Gives the reply to the client, or the question to the next plugin.
    fn pass(&self, x: &mut Exchange) -> Step {
        let falls = self.fall.through(&x.request().name);
        if falls && x.answer().rcode == rcode::NXDOMAIN {
            x.answer_mut().clear();
            return Step::Next;
        }
        Step::Done
    }
}

/// Why an upstream gave no answer.
enum Wrong {
    /// It did not reply.
    Call(CallError),
    /// Its reply cannot be read.
    Reply(wire::scan::Malformed),
    /// It can be read, and is of no use.
    Unusable(&'static str),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Reply(malformed) => malformed.fmt(f),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}
