//! Which server block takes a query: by listener, longest zone, and view.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use wire::{class, rtype};

use crate::door::Door;
use crate::exchange::{Exchange, Fault, Transport};
use crate::live::Site;
use crate::seal::Keyring;
use crate::spec::{BindAddr, ListenSpec};

/// A listener's number, kept over reloads as long as the listener is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub usize);

/// What makes two listeners one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// The transport.
    pub transport: Transport,
    /// The address to bind; none for all.
    pub addr: Option<BindAddr>,
    /// The port.
    pub port: u16,
}

impl fmt::Display for GroupKey {
    /// The `server` label of metrics: `dns://:53`, `tls://127.0.0.1:853`, `https://[::1]:443`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::Udp | Transport::Tcp => "dns",
            Transport::Tls => "tls",
            Transport::Https => "https",
            Transport::Https3 => "https3",
            Transport::Quic => "quic",
            Transport::Grpc => "grpc",
        };
        match self.addr {
            None => write!(f, "{scheme}://:{}", self.port),
            Some(addr) => write!(f, "{scheme}://{}", addr.at(self.port)),
        }
    }
}

/// A matched zone and listener of a server block: what the labels `server`, `zone` and `view` say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The listener's number, as [`crate::Query::listener`] has it.
    pub listener: ListenerId,
    /// The listener.
    pub server: String,
    /// The zone, in presentation form with the last dot.
    pub zone: String,
    /// The view; empty without one.
    pub view: String,
}

/// The routes of a server block, complete once all its plugins are set up.
#[derive(Clone, Debug, Default)]
pub struct Routes(pub(crate) Arc<OnceLock<Box<[Route]>>>);

impl Routes {
    /// All of them; none before the block is complete.
    pub fn all(&self) -> &[Route] {
        self.0.get().map(|all| &**all).unwrap_or_default()
    }

    /// The one that the request in hand came by.
    pub fn of(&self, x: &Exchange) -> Option<&Route> {
        self.all().get(x.route())
    }
}

/// One listener (`dns` is UDP and TCP in one) with the zones that it serves.
#[derive(Debug)]
pub struct Group {
    /// Its number.
    pub id: ListenerId,
    /// What makes it itself.
    pub key: GroupKey,
    /// What its blocks say of it; the addresses to bind are in the key alone.
    pub spec: ListenSpec,
    /// Which other classes than IN it lets in.
    pub(crate) classes: Classes,
    /// Who finds out who asks, if anybody does.
    pub door: Option<Arc<dyn Door>>,
    /// The keys of its blocks.
    pub(crate) keyrings: Vec<Arc<dyn Keyring>>,
    /// Whether answers depend on who asks.
    pub(crate) selective: bool,
    /// The blocks by zone, each with the number of its route.
    zones: HashMap<Box<[u8]>, Vec<(usize, usize)>, FixedState>,
    /// A bit for each length in octets, modulo 64, that a zone has: most suffixes need no look-up.
    lengths: u64,
    /// The zones that no key has, but a block has claimed.
    claimed: Vec<Box<[u8]>>,
}

/// Which classes other than IN a listener lets into its chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    /// CH, for `chaos`.
    pub(crate) chaos: bool,
    /// All of them, for `forward`.
    pub(crate) all: bool,
}

impl Group {
    /// A listener without zones.
    pub(crate) fn new(id: ListenerId, key: GroupKey, spec: ListenSpec) -> Self {
        Self {
            id,
            key,
            spec,
            classes: Classes::default(),
            door: None,
            keyrings: Vec::new(),
            selective: false,
            zones: HashMap::default(),
            lengths: 0,
            claimed: Vec::new(),
        }
    }

    /// Adds a block for a zone, behind those that the zone has.
    pub(crate) fn add(&mut self, zone: &[u8], site: usize, route: usize) {
        self.lengths |= 1 << (zone.len() % 64);
        self.zones.entry(zone.into()).or_default().push((site, route));
    }

    /// Adds a block for a zone that it has no key for.
    pub(crate) fn claim(&mut self, zone: &[u8], site: usize, route: usize) {
        if !self.zones.contains_key(zone) {
            self.claimed.push(zone.into());
        }
        self.add(zone, site, route);
    }

    /// The blocks of a zone.
    pub(crate) fn sites(&self, zone: &[u8]) -> impl Iterator<Item = usize> {
        self.zones.get(zone).into_iter().flatten().map(|(site, _)| *site)
    }

    /// The block of a view for the longest zone of `name` that has one, and its route; whoever asks.
    pub(crate) fn route_of_view(
        &self,
        sites: &[Site],
        name: &wire::Name,
        view: &str,
    ) -> Option<(usize, usize)> {
        name.suffixes().find_map(|zone| {
            let blocks = self.zones.get(zone)?.iter();
            let mut blocks =
                blocks.filter(|(site, _)| sites[*site].views.iter().any(|own| own.name() == view));
            blocks.next().copied()
        })
    }

    /// The zones of the keys, in wire form.
    pub fn zones(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.zones.keys();
        all.filter(|zone| !self.claimed.contains(zone)).map(|zone| &**zone)
    }

    /// The block for the request in hand, and its route: the longest zone with a block that admits it. A DS query
    /// for a zone's own name goes to the next zone above, since DS stands on the parent's side (RFC 4035 §3.1.4.1);
    /// not to the root's block, which mostly asks others: what they know of a zone of ours is that it is not there.
    pub(crate) fn route(&self, sites: &[Site], x: &Exchange) -> Result<(usize, usize), Fault> {
        let request = x.request();
        let let_in = match request.class {
            class::IN => true,
            class::CH => self.classes.chaos || self.classes.all,
            _ => self.classes.all,
        };
        if !let_in {
            return Err(Fault::CLASS);
        }
        let mut apex = None;
        for (depth, zone) in request.name.suffixes().enumerate() {
            if apex.is_some() && zone.len() == 1 {
                break;
            }
            if self.lengths >> (zone.len() % 64) & 1 == 0 {
                continue;
            }
            let Some(blocks) = self.zones.get(zone) else { continue };
            let admitted = |(site, _): &&(usize, usize)| {
                let views = &sites[*site].views;
                !(x.views_only && views.is_empty()) && views.iter().all(|view| view.admits(x))
            };
            let Some(found) = blocks.iter().find(admitted).copied() else { continue };
            if sites[found.0].is_bare {
                return Err(Fault::NO_PLUGINS);
            }
            if request.rtype == rtype::DS && depth == 0 && zone.len() > 1 {
                apex = Some(found);
                continue;
            }
            return Ok(found);
        }
        apex.ok_or(if x.views_only { Fault::TURNED_AWAY } else { Fault::NO_ZONE })
    }
}
