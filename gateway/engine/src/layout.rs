//! What is known of a whole configuration once all its blocks are set up.

use std::sync::{Arc, OnceLock};

use config::{Diagnostic, Word};
use wire::Name;

use crate::door::Door;
use crate::exchange::Transport;
use crate::route::{Group, GroupKey, Route};
use crate::setup::{BlockKey, Setup};
use crate::spec::ListenSpec;

/// What is known of a whole configuration; nothing before all its blocks are set up.
#[derive(Clone, Debug, Default)]
pub struct Layout(Arc<OnceLock<Known>>);

/// What it is.
#[derive(Debug)]
struct Known {
    listeners: Box<[Listening]>,
    own: Box<[Name]>,
}

/// A listener as plugins see it.
#[derive(Clone, Debug)]
pub struct Listening {
    /// What makes it itself.
    pub key: GroupKey,
    /// What its blocks say of it.
    pub spec: ListenSpec,
    /// Who finds out who asks, if anybody does.
    pub door: Option<Arc<dyn Door>>,
}

impl Layout {
    /// All listeners.
    pub fn listeners(&self) -> &[Listening] {
        self.0.get().map(|known| &*known.listeners).unwrap_or_default()
    }

    /// The zones that plugins of any block answer for themselves; see [`Setup::own`].
    pub fn own_zones(&self) -> &[Name] {
        self.0.get().map(|known| &*known.own).unwrap_or_default()
    }

    /// Tells what is known.
    pub(crate) fn complete<'a>(&self, groups: &[Group], own: impl Iterator<Item = &'a Name>) {
        let listening = |group: &Group| Listening {
            key: group.key,
            spec: group.spec.clone(),
            door: group.door.clone(),
        };
        let known = Known {
            listeners: groups.iter().map(listening).collect(),
            own: own.cloned().collect(),
        };
        if self.0.set(known).is_err() {
            log::error!("a configuration was completed twice");
        }
    }
}

impl Setup<'_> {
    /// What is known of the whole configuration, for later.
    pub fn layout(&self) -> Layout {
        self.whole.layout.clone()
    }

    /// Notes that this plugin answers for `zones` itself: what it does not know below them, nobody outside does.
    pub fn own(&mut self, zones: impl IntoIterator<Item = Name>) {
        self.site.own.extend(zones);
    }

    /// Sends queries for `zone` and the names below it to this block at all its listeners, whatever its zones are, unless a
    /// block there has that zone or a longer one: for names that mean the server that is asked.
    pub fn claim(&mut self, zone: Name) {
        if !self.site.claims.contains(&zone) {
            self.site.claims.push(zone);
        }
    }
}

/// Adds the zones that a block claims to the listeners of its routes, and gives them routes.
pub(crate) fn claim(site: usize, claims: &[Name], routes: &mut Vec<Route>, groups: &mut [Group]) {
    let mut listeners: Vec<Route> = Vec::new();
    for route in routes.iter() {
        if !listeners.iter().any(|known| known.listener == route.listener) {
            listeners.push(route.clone());
        }
    }
    for zone in claims {
        for listener in &listeners {
            let group = groups.iter_mut().find(|group| group.id == listener.listener);
            group.into_iter().for_each(|group| group.claim(zone.wire(), site, routes.len()));
            routes.push(Route { zone: zone.to_string(), ..listener.clone() });
        }
    }
}

/// What is odd about a block that has names below `local.` at a DoH listener, by its keys and the zones that its plugins answer
/// for: browsers never ask there for such names (RFC 6762 §3).
pub(crate) fn local_over_https<'a>(
    keys: impl Iterator<Item = (&'a BlockKey, &'a Word)>,
    own: &[Name],
) -> Option<Diagnostic> {
    const LOCAL: &[u8] = b"\x05local\0";
    let is_local = |zone: &&Name| zone.below_wire(LOCAL).is_some();
    let mut doh =
        keys.filter(|(key, _)| matches!(key.transport, Transport::Https | Transport::Https3));
    let (zone, word) = doh.find_map(|(key, word)| {
        let below = own.iter().filter(|zone| zone.is_below(&key.zone));
        std::iter::once(&key.zone).chain(below).find(is_local).map(|zone| (zone, word))
    })?;
    let what = format!(
        "{zone} is served over HTTPS, but browsers do not ask there for names below local.: those are multicast names of the \
         local network to them (RFC 6762)"
    );
    Some(word.fault(what).help(
        "serve the same names under a domain of your own as well, such as kubernetes prod.k8s.example.com, and give that to browsers",
    ))
}
