//! What a plugin is: hooks for the two directions of the chain, and what it may offer to others.
//!
//! # Rules of the chain
//! 1. On the way up a plugin sees the request it left. Whoever changes the request puts it back in `answer`.
//! 2. [`Step::Next`] in `answer` leaves the outcome as it is; [`Step::Done`] replaces a fault; [`Step::Fail`] replaces
//!    an answer, of which nothing is left; [`Step::Wrap`] turns round and goes down again. What a plugin writes on the way
//!    up after a fault is not sent, but for EDNS options.
//! 3. `answer` hooks are called for faults and silence too; those that only care for answers begin with one line
//!    that says so ([`Exchange::end`]).
//! 4. A deadline ends in [`Fault::TIMEOUT`](crate::Fault::TIMEOUT) through the response phase, so log, metrics and
//!    stale answers see it.
//! 5. Nested queries pass the router, so they may enter another server block; their depth and the number of hooks
//!    per exchange are bounded.
//! 6. Work that outlives the exchange is [`Exchange::fork`].
//! 7. Observers see the client's exchanges only, not nested ones.
//! 8. A transfer sets [`Exchange::stream`]: message after message is encoded by the listener.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use wire::{Answer, Name};

use crate::control::Value;
use crate::exchange::{End, Exchange, Fault, Transport};
use crate::route::{ListenerId, Route};

/// What the chain does next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Go on in the direction the chain is going.
    Next,
    /// Go (on) down, and call `answer` here on the way back.
    Wrap(Carry),
    /// The answer is written; go back up.
    Done,
    /// Nothing is written; go back up with this fault.
    Fail(Fault),
    /// Send nothing; go back up.
    Drop,
    /// A nested query was set with [`Exchange::ask`]; run it, then call `asked`.
    Ask,
    /// Await this plugin's `work`.
    Wait(Carry),
}

impl Step {
    /// [`Step::Wrap`] with nothing to carry.
    pub const WRAP: Self = Self::Wrap(Carry::NONE);
    /// [`Step::Wait`] with nothing to carry.
    pub const WAIT: Self = Self::Wait(Carry::NONE);
}

/// A few bits a plugin leaves for itself between two hooks of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carry(pub u64);

impl Carry {
    /// Nothing.
    pub const NONE: Self = Self(0);
}

/// A wait in progress.
pub type Work<'a> = Pin<Box<dyn Future<Output = Step> + Send + 'a>>;

/// A link of the chain. Every hook has a default, so a plugin states only what it does.
pub trait Plugin: fmt::Debug + Send + Sync + 'static {
    /// The query on its way down.
    fn query(&self, _x: &mut Exchange) -> Step {
        Step::WRAP
    }

    /// The outcome on its way up; called in reverse order of the [`Step::Wrap`]s.
    fn answer(&self, _x: &mut Exchange, _carry: Carry) -> Step {
        Step::Next
    }

    /// The result of [`Exchange::ask`] is in [`Exchange::sub`].
    fn asked(&self, _x: &mut Exchange, _carry: Carry) -> Step {
        Step::Done
    }

    /// Called after [`Step::Wait`]; the only hook that may take time. Its step is taken where the wait began: after a
    /// wait in `query` [`Step::Next`] goes on down, after one in `answer` it goes on up.
    fn work<'a>(&'a self, _x: &'a mut Exchange, _carry: Carry) -> Work<'a> {
        Box::pin(std::future::ready(Step::Fail(Fault::UNANSWERED)))
    }

    /// Says to who looks for the reasons of an answer why this plugin has just done what it did in `query` or `work`: fields,
    /// of which `why` is a sentence and the others are facts. Called for `causeway explain` alone.
    fn explain(&self, _x: &Exchange, _step: Step) -> Option<Value> {
        None
    }
}

/// Sees every exchange of a client and changes none: metrics, logs, taps.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// The block's routes, told once before the first query; [`Exchange::route`] is an index into them.
    fn routes(&mut self, _routes: &[Route]) {}

    /// The names of the block's plugins that take part in queries, in chain order; told once before the first query.
    fn plugins(&mut self, _names: &[&'static str]) {}

    /// All listeners with their names, told once before the first query to observers of what no block takes.
    fn listeners(&mut self, _listeners: &[(ListenerId, String)]) {}

    /// The query has been read and routed.
    fn received(&self, _x: &Exchange) {}

    /// The reply is written; `wire` is empty if nothing is sent.
    fn sent(&self, x: &Exchange, end: End, wire: &[u8]);
}

/// Works out metadata values on demand; nothing is collected for queries nobody asks about.
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Writes the value of `label` (without the plugin's name and the slash) to `out`, if there is one.
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()>;

    /// Calls `each` with every label that this provider may have a value for, for those that list them.
    fn labels(&self, _each: &mut dyn FnMut(&str)) {}
}

/// Decides whether a server block takes a query.
pub trait View: fmt::Debug + Send + Sync + 'static {
    /// Its name, for the `view` label.
    fn name(&self) -> &str;

    /// Whether it does.
    fn admits(&self, x: &Exchange) -> bool;
}

/// What a plugin may offer to others of its server block, found when the block is complete.
#[derive(Clone, Debug)]
pub enum Role {
    /// Search paths for a client (`autopath @kubernetes`).
    SearchPath(Arc<dyn SearchPath>),
    /// Takes part in `/ready`.
    Ready(Arc<dyn Ready>),
    /// Has zones that can be transferred.
    Transfer(Arc<dyn Transfer>),
    /// Something that is of use to plugins that know its type: see [`Roles::known`].
    Known(Arc<dyn Any + Send + Sync>),
    /// Sees what other plugins ask upstreams.
    Tap(Arc<dyn Tap>),
}

/// The kinds of roles, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Role::SearchPath`].
    SearchPath,
    /// [`Role::Ready`].
    Ready,
    /// [`Role::Transfer`].
    Transfer,
    /// [`Role::Known`].
    Known,
    /// [`Role::Tap`].
    Tap,
}

impl Role {
    /// The kind of this role.
    pub fn kind(&self) -> Kind {
        match self {
            Self::SearchPath(_) => Kind::SearchPath,
            Self::Ready(_) => Kind::Ready,
            Self::Transfer(_) => Kind::Transfer,
            Self::Known(_) => Kind::Known,
            Self::Tap(_) => Kind::Tap,
        }
    }
}

/// Knows a client's search path.
pub trait SearchPath: fmt::Debug + Send + Sync {
    /// Calls `each` with every search domain of the asking client, as lower-case wire names, first to last; not at
    /// all if the client is not known.
    fn search_path(&self, x: &Exchange, each: &mut dyn FnMut(&[u8]));
}

/// Can say whether it is ready to serve.
pub trait Ready: fmt::Debug + Send + Sync {
    /// Whether it is.
    fn ready(&self) -> bool;
}

/// Has zones that others may copy.
pub trait Transfer: fmt::Debug + Send + Sync {
    /// The records of `zone` that are wanted; the SOA record alone if a client's serial is not older than the zone. None if this
    /// is not its zone; a fault if it is and cannot be copied now. May take some time, so it is not called in a hook.
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>>;

    /// Calls `each` with every zone that can be copied now, and its serial.
    fn serials(&self, each: &mut dyn FnMut(&Name, u32));
}

/// What a client wants of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it, from SOA to SOA.
    Whole,
    /// What has changed since this serial, if that is possible; else all of it.
    Since(u32),
    /// What has changed since this serial, if that is possible; else the SOA record alone, which is all that counts of anything
    /// else: there is no room for more. Anybody can ask this in another's name, so it must cost little.
    Changes(u32),
}

impl Wanted {
    /// The client's serial, if it has the zone.
    pub fn serial(self) -> Option<u32> {
        match self {
            Self::Whole => None,
            Self::Since(serial) | Self::Changes(serial) => Some(serial),
        }
    }
}

/// Sees what plugins ask upstreams on a query's behalf.
pub trait Tap: fmt::Debug + Send + Sync {
    /// A try at an upstream is over. Must not wait.
    fn tried(&self, x: &Exchange, hop: &Hop<'_>);
}

/// A try at an upstream.
pub struct Hop<'a> {
    /// By what it was asked.
    pub transport: Transport,
    /// From where, if that is known.
    pub local: Option<SocketAddr>,
    /// The upstream.
    pub upstream: SocketAddr,
    /// When it was asked.
    pub begun: Instant,
    /// When the reply came, or none.
    pub ended: Instant,
    /// Appends the query as it was sent.
    pub query: &'a dyn Fn(&mut Vec<u8>),
    /// The reply, if one came.
    pub reply: Option<&'a [u8]>,
}

impl fmt::Debug for Hop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hop").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// Messages of one reply, one after another.
pub trait Stream: Send {
    /// Fills the cleared `answer` with the records of the next message; false, and nothing, at the end. A message
    /// must fit into 65,535 octets.
    fn next(&mut self, answer: &mut Answer) -> bool;
}

/// The roles of a server block, complete once all its plugins are set up.
#[derive(Clone, Debug, Default)]
pub struct Roles(pub(crate) Arc<OnceLock<Vec<(&'static str, Role)>>>);

impl Roles {
    /// Each role with the name of the plugin that offers it; none before the block is complete.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Role)> {
        self.0.get().into_iter().flatten().map(|(name, role)| (*name, role))
    }

    /// The first thing of a type that a plugin offers as [`Role::Known`].
    pub fn known<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.iter().find_map(|(_, role)| match role {
            Role::Known(known) => Arc::clone(known).downcast().ok(),
            _ => None,
        })
    }
}

/// The providers of a server block, complete once all its plugins are set up.
pub(crate) type Providers = Vec<Provided>;

/// A provider in a server block.
#[derive(Debug)]
pub(crate) struct Provided {
    /// The name of its plugin, which its labels begin with.
    pub(crate) prefix: &'static str,
    /// Whether its values are there without `metadata`.
    pub(crate) always: bool,
    /// The provider.
    pub(crate) provider: Box<dyn Provider>,
}

/// A server block's metadata, worked out on demand. If the block has no `metadata`, or the name is not below its zones, there
/// is only that of [`Setup::provide_always`](crate::Setup::provide_always).
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub(crate) zones: Arc<OnceLock<Vec<Name>>>,
    pub(crate) providers: Arc<OnceLock<Providers>>,
}

impl Metadata {
    /// Writes the value of a label such as `kubernetes/namespace` to `out`, if there is one.
    pub fn value(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let (plugin, rest) = label.split_once('/')?;
        let name = &x.request().name;
        let zones = self.zones.get();
        let is_on = zones.is_some_and(|zones| zones.iter().any(|zone| name.is_below(zone)));
        let providers = self.providers.get()?.iter();
        let mut providers = providers.filter(|own| own.prefix == plugin && (is_on || own.always));
        providers.find_map(|own| own.provider.metadata(x, rest, out))
    }

    /// Whether the block has `metadata` at all.
    pub fn is_on(&self) -> bool {
        self.zones.get().is_some()
    }

    /// Calls `each` with every label that has a value for this exchange, with its value.
    pub fn each(&self, x: &Exchange, each: &mut dyn FnMut(&str, &str)) {
        let mut value = String::new();
        for Provided { prefix, provider, .. } in self.providers.get().into_iter().flatten() {
            provider.labels(&mut |label| {
                let label = format!("{prefix}/{label}");
                value.clear();
                if self.value(x, &label, &mut value).is_some() {
                    each(&label, &value);
                }
            });
        }
    }
}
