//! Asking the upstreams.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engine::metrics::Counter;
use engine::{Carry, Exchange, Fault, Plugin, Provider, Reach, Step, Transport, Work};
use tokio::time::{Instant, timeout_at};
use transports::upstream::{self, Protocol, Upstream};
use wire::{Flags, Section, rcode};

use crate::shared::relay::Own;
use crate::shared::relay::crowd::Crowd;
use crate::shared::relay::fault::{self, NO_REPLY, UNUSABLE, WRONG_REPLY};
use crate::shared::relay::flight::{Asker, Flights};
use crate::shared::relay::home;
use crate::shared::relay::message;
use crate::shared::relay::policy::Policy;
use crate::shared::relay::sift::sift;
use crate::shared::relay::taps::Taps;

/// How long asking may take in all.
const DEADLINE: Duration = Duration::from_secs(5);

/// No upstream could be asked (EDE 22, No Reachable Authority).
const ALL_DOWN: Fault = Fault { rcode: rcode::SERVFAIL, ede: Some(22), why: "no healthy proxies" };

/// What is done with replies, beside giving them to the client.
#[derive(Clone, Debug, Default)]
pub(super) struct Rcodes {
    /// Go to the next directive.
    pub(super) next: Vec<u16>,
    /// So does NOERROR without an answer.
    pub(super) next_on_nodata: bool,
    /// Try the next upstream.
    pub(super) failover: Vec<u16>,
}

/// One directive.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) reach: Reach,
    pub(super) upstreams: Box<[Arc<Upstream>]>,
    pub(super) policy: Policy,
    pub(super) force_tcp: bool,
    /// Whether all upstreams are encrypted.
    pub(super) all_secure: bool,
    pub(super) prefer_udp: bool,
    /// How many tries may fail; 0 is no limit.
    pub(super) attempts: usize,
    pub(super) failfast: bool,
    pub(super) rcodes: Rcodes,
    /// Whether another directive follows in the block.
    pub(super) has_next: bool,
    /// Whether the AD bit of all upstreams is believed.
    pub(super) trust_ad: bool,
    pub(super) turn: AtomicUsize,
    pub(super) crowd: Crowd,
    pub(super) flights: Flights,
    /// Which zones are our own.
    pub(super) own: Own,
    /// Those who see what upstreams are asked.
    pub(super) taps: Taps,
    /// Counts queries that found no upstream up.
    pub(super) broken: Counter,
}

impl Plugin for Forward {
    fn query(&self, x: &mut Exchange) -> Step {
        if !self.reach.takes(&x.request().name) {
            return Step::Next;
        }
        if let Some(fault) = fault::of(x) {
            return Step::Fail(fault);
        }
        Step::WAIT
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(async {
            match self.share(x).await {
                Step::Done => home::come(x, self.own.zones()),
                step => step,
            }
        })
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        home::came(x)
    }
}

impl Asker for Forward {
    /// Asks one upstream after the other until one answers.
    async fn ask(&self, x: &mut Exchange, protocol: Protocol) -> Step {
        let _inside = match self.crowd.enter(x) {
            Ok(inside) => inside,
            Err(step) => return step,
        };
        let deadline = Instant::now() + DEADLINE;
        let order = self.policy.order(self.upstreams.len(), &self.turn, x);
        let (mut at, mut down, mut failed, mut answered) = (0, 0, 0, 0);
        let mut wrong: Option<Wrong> = None;
        while Instant::now() < deadline && (self.attempts == 0 || failed < self.attempts) {
            if at == order.len() {
                (at, down) = (0, 0);
            }
            let mut upstream = &self.upstreams[order[at]];
            at += 1;
            if upstream.is_down() {
                down += 1;
                if down < order.len() {
                    continue;
                }
                self.broken.increment(1);
                if self.failfast {
                    break;
                }
                // Perhaps it is the checks that do not come through.
                let any = x.random() as usize % self.upstreams.len();
                upstream = &self.upstreams[any];
            }
            match timeout_at(deadline, self.try_one(x, upstream, protocol)).await {
                Ok(Ok(())) => {
                    x.upstream = Some(upstream.addr());
                    answered += 1;
                    wrong = None;
                    let again = self.rcodes.failover.contains(&x.answer().rcode);
                    if !again || answered >= order.len() {
                        return self.pass(x);
                    }
                }
                Ok(Err(Wrong::Upstream(upstream::Error::Mismatch(place)))) => {
                    return x.fail(WRONG_REPLY, upstream::Error::Mismatch(place));
                }
                Ok(Err(error)) => {
                    if !matches!(error, Wrong::Upstream(upstream::Error::Busy(_))) {
                        upstream.suspect();
                    }
                    failed += 1;
                    if !matches!(error, Wrong::Upstream(_)) {
                        answered = 0;
                    }
                    wrong = Some(error);
                }
                Err(_) => {
                    upstream.suspect();
                    break;
                }
            }
        }
        match wrong {
            _ if answered > 0 => self.pass(x),
            Some(Wrong::Upstream(error)) => x.fail(NO_REPLY, error),
            Some(unusable) => x.fail(UNUSABLE, unusable),
            None if Instant::now() < deadline => x.fail(ALL_DOWN, ALL_DOWN.why),
            None => x.fail(NO_REPLY, "no upstream replied within 5s"),
        }
    }
}

impl Forward {
    /// Asks, or waits for an equal question under way.
    async fn share(&self, x: &mut Exchange) -> Step {
        let protocol = self.protocol(x.query.transport);
        self.flights.share(x, protocol, self).await
    }

    /// How a client's query goes on: as it came, if nothing else is said. Encrypted upstreams have one protocol of their own:
    /// the same questions of different clients are the same to them.
    fn protocol(&self, transport: Transport) -> Protocol {
        match transport.protocol() {
            _ if self.force_tcp || self.all_secure => Protocol::Tcp,
            _ if self.prefer_udp => Protocol::Udp,
            "udp" => Protocol::Udp,
            _ => Protocol::Tcp,
        }
    }

    /// Asks one upstream, by TCP as well if a datagram was too small for a client that has room.
    async fn try_one(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        mut protocol: Protocol,
    ) -> Result<(), Wrong> {
        // RFC 6840 §5.8: AD says something if it comes by a secure path.
        let trusted =
            self.trust_ad || upstream.secure().is_some() || upstream.addr().ip().is_loopback();
        protocol = upstream.secure().unwrap_or(protocol);
        loop {
            let begun = Instant::now();
            let (reply, room) = match self.taps.send(x, upstream, protocol).await {
                Ok(sent) => sent,
                // RFC 5452 §9.3: nobody can guess at a connection of TCP.
                Err(upstream::Error::Strays(_)) if protocol == Protocol::Udp => {
                    protocol = Protocol::Tcp;
                    continue;
                }
                Err(error) => return Err(Wrong::Upstream(error)),
            };
            let room = Some(room).filter(|_| protocol == Protocol::Udp);
            let read = message::read(&reply, room, trusted, x.answer_mut());
            read.map_err(Wrong::Reply)?;
            upstream.replied(x.answer().rcode, begun.elapsed());
            self.judge(x)?;
            let has_room = self.prefer_udp || x.query.transport != Transport::Udp || x.is_nested();
            if protocol != Protocol::Udp || !has_room || !x.answer().flags.has(Flags::TC) {
                return Ok(());
            }
            protocol = Protocol::Tcp;
        }
    }

    /// Takes out of a reply what does not belong to it.
    fn judge(&self, x: &mut Exchange) -> Result<(), Wrong> {
        let (request, answer) = x.parts_mut();
        sift(request, &self.reach.from, self.own.zones(), answer).map_err(Wrong::Unusable)
    }

    /// Gives the reply to the client, or the question to the next directive.
    fn pass(&self, x: &mut Exchange) -> Step {
        let answer = x.answer_mut();
        let is_empty = answer.section(Section::Answer).next().is_none();
        let is_nodata = answer.rcode == rcode::NOERROR && is_empty;
        let goes_on =
            self.rcodes.next.contains(&answer.rcode) || self.rcodes.next_on_nodata && is_nodata;
        if self.has_next && goes_on {
            answer.clear();
            return Step::Next;
        }
        Step::Done
    }
}

/// Why an upstream gave no answer.
enum Wrong {
    /// It did not reply.
    Upstream(upstream::Error),
    /// Its reply cannot be read.
    Reply(wire::scan::Malformed),
    /// It can be read, and is of no use.
    Unusable(&'static str),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upstream(error) => error.fmt(f),
            Self::Reply(malformed) => malformed.fmt(f),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// Tells which upstream answered.
#[derive(Debug)]
pub(super) struct Told;

impl Provider for Told {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        use std::fmt::Write as _;
        let addr = x.upstream.filter(|_| label == "upstream")?;
        write!(out, "{addr}").ok()
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("upstream");
    }
}
