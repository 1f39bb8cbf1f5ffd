//! How often services were answered, and how often not.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use engine::metrics::{Counter, counter, describe};
use engine::{Exchange, Routes};
use foldhash::fast::RandomState;

/// Queries that were answered.
const SUCCESS: &str = "coredns_nomad_success_requests_total";
/// Queries that were not.
const FAILED: &str = "coredns_nomad_failed_requests_total";
/// So many namespaces have a label of their own; clients choose them.
const NAMESPACES: usize = 64;
/// The label of the others.
const OTHER: &str = "other";

/// The counters of a block.
#[derive(Debug)]
pub(super) struct Figures {
    routes: Routes,
    /// Good and bad ones, by route and namespace.
    known: RwLock<HashMap<(usize, String), [Counter; 2], RandomState>>,
}

impl Figures {
    /// For a block with these routes.
    pub(super) fn new(routes: Routes) -> Self {
        describe(SUCCESS, "Counter of DNS requests answered by what Nomad knows.");
        describe(FAILED, "Counter of DNS requests that Nomad has nothing for, or no answer.");
        Self { routes, known: RwLock::default() }
    }

    /// Counts a query for a namespace.
    pub(super) fn count(&self, x: &Exchange, namespace: &str, good: bool) {
        let route = x.route();
        let which = usize::from(!good);
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(counters) = known.get(&(route, namespace.to_owned())) {
                counters[which].increment(1);
                return;
            }
        }
        let server = self.routes.of(x).map_or("", |route| &*route.server);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_room = known.keys().filter(|(of, _)| *of == route).count() < NAMESPACES;
        let namespace = if is_room { namespace } else { OTHER };
        let make = || {
            let labels = [("server", server), ("namespace", namespace)];
            [counter(SUCCESS, &labels), counter(FAILED, &labels)]
        };
        known.entry((route, namespace.to_owned())).or_insert_with(make)[which].increment(1);
    }
}
