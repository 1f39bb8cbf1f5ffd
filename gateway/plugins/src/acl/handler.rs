//! The decision, and its count.

use std::net::IpAddr;
use std::sync::OnceLock;

use engine::metrics::{Counter, Table, counter, describe};
use engine::{Exchange, Plugin, Routes, Step};
use wire::{Name, rcode};

use super::nets::Nets;

/// What becomes of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It goes on, whatever other rules say.
    Allow,
    /// REFUSED.
    Block,
    /// An empty answer.
    Filter,
    /// No reply.
    Drop,
}

/// Who asks, as a line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Everybody whose name is known.
    Known,
    /// Those with one of these names.
    Named(Box<[String]>),
}

/// One line: what becomes of queries of these types from these sources and clients.
#[derive(Debug)]
pub(super) struct Policy {
    /// What becomes of them.
    pub(super) action: Action,
    /// The types, sorted; none for all.
    pub(super) types: Option<Box<[u16]>>,
    /// The sources; none for all.
    pub(super) nets: Option<Nets>,
    /// The clients; none for all.
    pub(super) who: Option<Who>,
    /// The groups, one of which a client has to be in; none for all.
    pub(super) groups: Option<Box<[String]>>,
}

/// One directive: the policies for names in its zones.
#[derive(Debug)]
pub(super) struct Rule {
    /// The zones.
    pub(super) zones: Box<[Name]>,
    /// The lines, in order.
    pub(super) policies: Box<[Policy]>,
}

/// Decides which queries go on.
#[derive(Debug)]
pub(super) struct Acl {
    rules: Box<[Rule]>,
    routes: Routes,
    counts: OnceLock<Counts>,
}

/// The counters, each made when it is first needed.
#[derive(Debug)]
struct Counts {
    /// By route.
    allowed: Table<Counter>,
    /// By route, then zone of the rules, then action.
    others: Table<Counter>,
}

/// The metrics of what does not go on, by [`Action`], and their help.
const OTHERS: [(&str, &str); 3] = [
    ("coredns_acl_blocked_requests_total", "Counter of DNS requests being blocked."),
    ("coredns_acl_filtered_requests_total", "Counter of DNS requests being filtered."),
    ("coredns_acl_dropped_requests_total", "Counter of DNS requests being dropped."),
];

/// The metric of what goes on.
const ALLOWED: &str = "coredns_acl_allowed_requests_total";

impl Policy {
    /// Whether it is about a query of this source.
    fn matches(&self, x: &Exchange, source: IpAddr) -> bool {
        let is_type = |types: &[u16]| types.binary_search(&x.request().rtype).is_ok();
        self.types.as_deref().is_none_or(is_type)
            && self.nets.as_ref().is_none_or(|nets| nets.has(source))
            && ((self.who.is_none() && self.groups.is_none()) || self.is_about(x))
    }

    /// Whether it is about a query of this client.
    fn is_about(&self, x: &Exchange) -> bool {
        x.note_personal();
        let Some(client) = x.identity() else { return false };
        let is_named = |who: &Who| match who {
            Who::Known => true,
            Who::Named(names) => names.contains(&client.name),
        };
        let is_in = |groups: &[String]| client.groups.iter().any(|group| groups.contains(group));
        self.who.as_ref().is_none_or(is_named) && self.groups.as_deref().is_none_or(is_in)
    }
}

impl Plugin for Acl {
    fn query(&self, x: &mut Exchange) -> Step {
        // Clients of IPv4 at a socket of both families are clients of IPv4.
        let source = x.query.peer.ip().to_canonical();
        let (action, zone) = self.decide(x, source);
        self.count(x, action, zone);
        let answer = x.answer_mut();
        match action {
            Action::Allow => return Step::Next,
            Action::Drop => return Step::Drop,
            // Extended errors: RFC 8914 §4.16 and §4.18.
            Action::Block => {
                answer.rcode = rcode::REFUSED;
                answer.options.push_ede(15, "");
            }
            Action::Filter => answer.options.push_ede(17, ""),
        }
        Step::Done
    }
}

impl Acl {
    /// Decides by `rules`.
    pub(super) fn new(rules: Box<[Rule]>, routes: Routes) -> Self {
        describe(ALLOWED, "Counter of DNS requests being allowed.");
        OTHERS.into_iter().for_each(|(name, help)| describe(name, help));
        Self { rules, routes, counts: OnceLock::new() }
    }

    /// The action of the first policy of the first rule that is about the query, with the number of the rule's zone
    /// among those of all rules; without one it is allowed.
    fn decide(&self, x: &Exchange, source: IpAddr) -> (Action, usize) {
        let request = x.request();
        let mut before = 0;
        for rule in &self.rules {
            let zones = rule.zones.iter().enumerate();
            let zone = zones
                .filter(|(_, zone)| request.name.is_below(zone))
                .max_by_key(|(_, zone)| zone.wire().len());
            if let Some((at, _)) = zone {
                let found = rule.policies.iter().find(|own| own.matches(x, source));
                if let Some(policy) = found {
                    return (policy.action, before + at);
                }
            }
            before += rule.zones.len();
        }
        (Action::Allow, 0)
    }

    /// Counts an action in a zone.
    fn count(&self, x: &Exchange, action: Action, zone: usize) {
        let Some(route) = self.routes.of(x) else { return };
        let zones: usize = self.rules.iter().map(|rule| rule.zones.len()).sum();
        let counts = self.counts.get_or_init(|| {
            let routes = self.routes.all().len();
            Counts {
                allowed: Table::new(routes),
                others: Table::new(routes * zones * OTHERS.len()),
            }
        });
        let (server, view) = (&*route.server, &*route.view);
        let index = match action {
            Action::Allow => {
                let make = || counter(ALLOWED, &[("server", server), ("view", view)]);
                if let Some(count) = counts.allowed.get(x.route(), make) {
                    count.increment(1);
                }
                return;
            }
            Action::Block => 0,
            Action::Filter => 1,
            Action::Drop => 2,
        };
        let make = || {
            let name = self.rules.iter().flat_map(|rule| &rule.zones).nth(zone);
            let name = name.map(Name::to_string).unwrap_or_default();
            counter(OTHERS[index].0, &[("server", server), ("zone", &name), ("view", view)])
        };
        let slot = (x.route() * zones + zone) * OTHERS.len() + index;
        if let Some(count) = counts.others.get(slot, make) {
            count.increment(1);
        }
    }
}
