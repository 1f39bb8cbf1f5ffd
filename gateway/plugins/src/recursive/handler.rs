//! Resolving from the root.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::metrics::{Counter, Histogram};
use engine::{Carry, Exchange, Fault, Plugin, Reach, Step, Work};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{DNSClass, Name, RecordType};
use hickory_resolver::proto::serialize::binary::{BinDecodable, BinDecoder};
use hickory_resolver::recursor::{DnssecPolicy, Recursor, RecursorOptions};
use tokio::time::{Instant, timeout};
use transports::upstream::Protocol;
use wire::{Flags, class, rcode};

use super::reply::{self, Found, Missing, Trust};
use crate::shared::relay::Own;
use crate::shared::relay::crowd::Crowd;
use crate::shared::relay::fault::{self, UNUSABLE};
use crate::shared::relay::flight::{Asker, Flights};
use crate::shared::relay::home;
use crate::shared::relay::message;
use crate::shared::relay::sift::sift;

/// A signature is broken (EDE 6, DNSSEC Bogus).
const BOGUS: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(6), why: "the answer's signatures are not good" };

/// Nobody who should know says anything (EDE 22, No Reachable Authority).
const UNREACHABLE: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(22), why: "no server of the zone answers" };

/// It would take too many questions (EDE 0, Other).
const TOO_LONG: Fault =
    Fault { rcode: rcode::SERVFAIL, ede: Some(0), why: "it would take too many questions" };

/// The client does not want anybody to be asked (EDE 20, Not Authoritative).
const NOT_DESIRED: Fault =
    Fault { rcode: rcode::REFUSED, ede: Some(20), why: "recursion is not desired" };

/// There are no names of other classes to be found from the root (EDE 21, Not Supported).
const CLASS: Fault =
    Fault { rcode: rcode::NOTIMP, ede: Some(21), why: "the class cannot be resolved" };

/// How many aliases are followed one by one.
const MOST_ALIASES: usize = 16;

/// How a recursor is made.
pub(super) struct Plan {
    pub(super) roots: Vec<IpAddr>,
    pub(super) options: RecursorOptions,
    pub(super) policy: DnssecPolicy,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// A recursor with its caches.
type Walker = Recursor<TokioRuntimeProvider>;

/// What stays over reloads: the recursors, whose caches are slow to fill.
pub(super) struct Walkers {
    plan: Plan,
    /// The one that all are answered by.
    first: OnceLock<Result<Walker, String>>,
    /// The one for those who check signatures themselves (CD); made when somebody does.
    second: OnceLock<Result<Walker, String>>,
}

impl fmt::Debug for Walkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walkers").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Walkers {
    /// None of them made yet.
    pub(super) fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Self { plan, first: OnceLock::new(), second: OnceLock::new() })
    }

    /// The one for a query that wants signatures checked, or not. To be called in a runtime.
    fn of(&self, checks: bool) -> Result<&Walker, &str> {
        let is_off = !matches!(self.plan.policy, DnssecPolicy::ValidateWithStaticKey(_));
        let (slot, policy) = match checks || is_off {
            true => (&self.first, self.plan.policy.clone()),
            false => (&self.second, DnssecPolicy::ValidationDisabled),
        };
        let made = slot.get_or_init(|| {
            let Plan { roots, options, .. } = &self.plan;
            Recursor::new(roots, policy, None, options.clone(), TokioRuntimeProvider::default())
                .map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::as_str)
    }
}

/// What is counted.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) secure: Counter,
    pub(super) insecure: Counter,
    pub(super) bogus: Counter,
    pub(super) failed: Counter,
    pub(super) duration: Arc<Histogram>,
}

/// The directive.
#[derive(Debug)]
pub(super) struct Recursive {
    pub(super) reach: Reach,
    pub(super) walkers: Arc<Walkers>,
    /// How long resolving may take in all.
    pub(super) patience: Duration,
    pub(super) crowd: Crowd,
    pub(super) flights: Flights,
    /// Which zones are our own.
    pub(super) own: Own,
    pub(super) figures: Figures,
}

impl Plugin for Recursive {
    fn query(&self, x: &mut Exchange) -> Step {
        if !self.reach.takes(&x.request().name) {
            return Step::Next;
        }
        if let Some(fault) = fault::of(x) {
            return Step::Fail(fault);
        }
        match x.request() {
            request if request.class != class::IN => Step::Fail(CLASS),
            request if !request.flags.has(Flags::RD) => Step::Fail(NOT_DESIRED),
            _ => Step::WAIT,
        }
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(async {
            // There is one way for all clients.
            match self.flights.share(x, Protocol::Udp, self).await {
                Step::Done => home::come(x, self.own.zones()),
                step => step,
            }
        })
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        home::came(x)
    }
}

impl Asker for Recursive {
    /// Resolves one question.
    async fn ask(&self, x: &mut Exchange, _: Protocol) -> Step {
        let _inside = match self.crowd.enter(x) {
            Ok(inside) => inside,
            Err(step) => return step,
        };
        let begun = Instant::now();
        x.begin_passage("resolve", None);
        let request = x.request();
        let checks = !request.flags.has(Flags::CD);
        let outcome = match question(x) {
            Some(query) => self.walk(&query, checks).await.and_then(|found| {
                let wire = found.wire(&query).map_err(Missing::Unreachable)?;
                Ok((wire, found.trust))
            }),
            None => Err(Missing::Unreachable("the name is none".to_owned())),
        };
        x.end_passage();
        self.figures.duration.record(begun.elapsed().as_secs_f64());
        match outcome {
            Ok((wire, trust)) => self.answer(x, &wire, trust),
            Err(missing) => self.fail(x, &missing),
        }
    }
}

impl Recursive {
    /// Asks the recursor, which `checks` signatures or not, and goes on where it loses the way.
    async fn walk(&self, query: &Query, checks: bool) -> Result<Found, Missing> {
        let walker = self.walkers.of(checks).map_err(|why| Missing::Unreachable(why.to_owned()))?;
        match timeout(self.patience, follow(walker, query)).await {
            Ok(result) => result,
            Err(_) => {
                let why = format!("nothing was found within {:?}", self.patience);
                Err(Missing::Unreachable(why))
            }
        }
    }

    /// Writes an answer.
    fn answer(&self, x: &mut Exchange, wire: &[u8], trust: Trust) -> Step {
        let checks = !x.request().flags.has(Flags::CD);
        if trust == Trust::Bogus && checks {
            return self.fail(x, &Missing::Bogus(BOGUS.why.to_owned()));
        }
        if let Err(malformed) = message::read(wire, None, true, x.answer_mut()) {
            self.figures.failed.increment(1);
            return x.fail(UNUSABLE, malformed);
        }
        let (request, answer) = x.parts_mut();
        if let Err(why) = sift(request, &self.reach.from, self.own.zones(), answer) {
            self.figures.failed.increment(1);
            return x.fail(UNUSABLE, why);
        }
        // RFC 6840 §5.7: for those who say that they know the bit.
        let wants = request.edns.dnssec_ok() || request.flags.has(Flags::AD);
        let secure = trust == Trust::Secure && checks;
        answer.flags.set(Flags::AD, secure && wants);
        answer.flags.set(Flags::AA, false);
        answer.flags.set(Flags::RA, true);
        match secure {
            true => self.figures.secure.increment(1),
            false => self.figures.insecure.increment(1),
        }
        Step::Done
    }

    /// Says why there is no answer.
    fn fail(&self, x: &mut Exchange, missing: &Missing) -> Step {
        let (fault, why, counter) = match missing {
            Missing::Bogus(why) => (BOGUS, why, &self.figures.bogus),
            Missing::TooLong(why) => (TOO_LONG, why, &self.figures.failed),
            Missing::Unreachable(why) => (UNREACHABLE, why, &self.figures.failed),
        };
        counter.increment(1);
        x.fail(fault, why)
    }
}

/// Resolves a question. The recursor does not tell of the alias whose end has no record, and takes the proof of that for one about
/// the alias; and it loses the DNAME records that prove the aliases further on. In such cases each alias is asked for on its
/// own. Records of DNSSEC nobody asked for are taken out later.
async fn follow(walker: &Walker, query: &Query) -> Result<Found, Missing> {
    let mut query = query.clone();
    let mut way: Option<Found> = None;
    for _ in 0..MOST_ALIASES {
        let found = reply::read(walker.resolve(query.clone(), begin(), true).await);
        let is_doubtful = match &found {
            Ok(found) => {
                found.trust == Trust::Bogus || found.is_denial() && found.trust != Trust::Secure
            }
            Err(Missing::Bogus(_)) => true,
            Err(_) => false,
        };
        let mut alias = query.clone();
        alias.set_query_type(RecordType::CNAME);
        let step = match is_doubtful && alias != query {
            true => reply::read(walker.resolve(alias, begin(), true).await).ok(),
            false => None,
        };
        let target = step.as_ref().and_then(|step| step.target(query.name())).cloned();
        let (Some(step), Some(target)) = (step, target) else {
            let end = found?;
            return Ok(match way {
                Some(way) => way.then(end),
                None => end,
            });
        };
        way = Some(match way {
            Some(way) => way.then(step),
            None => step,
        });
        query.set_name(target);
    }
    Err(Missing::TooLong("the chain of CNAME records is too long".to_owned()))
}

/// The recursor's clock.
fn begin() -> std::time::Instant {
    Instant::now().into_std()
}

/// The question of an exchange in the recursor's form.
fn question(x: &Exchange) -> Option<Query> {
    let request = x.request();
    let mut name = Name::read(&mut BinDecoder::new(request.name.wire())).ok()?;
    name.set_fqdn(true);
    let mut query = Query::query(name, RecordType::from(request.rtype));
    query.set_query_class(DNSClass::IN);
    Some(query)
}
