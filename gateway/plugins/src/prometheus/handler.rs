//! Counts queries. Labels are found by index: no lock and, once a label set has been seen, no allocation.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use engine::metrics::{
    self, Collect, Counter, Figures, Histogram, TIME_BUCKETS, Table, counter, histogram,
};
use engine::{End, Exchange, ListenerId, Observer, Route};
use wire::{rtype, text};

use crate::shared::asked;

/// Queries.
const REQUESTS: &str = "coredns_dns_requests_total";
/// Queries that want DNSSEC records.
const DO: &str = "coredns_dns_do_requests_total";
/// How long they took.
const DURATION: &str = "coredns_dns_request_duration_seconds";
/// How large they were.
const REQUEST_SIZE: &str = "coredns_dns_request_size_bytes";
/// How large the replies were.
const RESPONSE_SIZE: &str = "coredns_dns_response_size_bytes";
/// Replies.
const RESPONSES: &str = "coredns_dns_responses_total";
/// The plugins of the server blocks.
const ENABLED: &str = "coredns_plugin_enabled";
/// Panics; the engine counts them.
const PANICS: &str = "coredns_panics_total";

/// The zone label of what no server block takes.
const DROPPED: &str = "dropped";

/// Buckets of sizes, in octets.
const SIZES: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16000.0, 32000.0,
    48000.0, 64000.0,
];

/// The types that have a label of their own; all others share the last one, for clients choose them.
const TYPES: [(u16, &str); 20] = [
    (rtype::A, "A"),
    (rtype::AAAA, "AAAA"),
    (rtype::CNAME, "CNAME"),
    (rtype::DNSKEY, "DNSKEY"),
    (rtype::DS, "DS"),
    (rtype::MX, "MX"),
    (rtype::NSEC, "NSEC"),
    (rtype::NSEC3, "NSEC3"),
    (rtype::NS, "NS"),
    (rtype::PTR, "PTR"),
    (rtype::RRSIG, "RRSIG"),
    (rtype::SOA, "SOA"),
    (rtype::SRV, "SRV"),
    (rtype::TXT, "TXT"),
    (rtype::HTTPS, "HTTPS"),
    (rtype::SVCB, "SVCB"),
    (rtype::IXFR, "IXFR"),
    (rtype::AXFR, "AXFR"),
    (rtype::ANY, "ANY"),
    (0, "other"),
];

/// The lower protocols.
const PROTOCOLS: [&str; 2] = ["udp", "tcp"];

/// The address families.
const FAMILIES: [&str; 2] = ["1", "2"];

/// Response codes below this have labels of their own if they are assigned; all others share one, for upstreams choose them.
const RCODES: usize = 24;

/// Says what the metrics mean.
pub(super) fn describe() {
    for (name, help) in [
        (REQUESTS, "Queries by server, zone, view, protocol, address family and type."),
        (DO, "Queries with the DO bit."),
        (DURATION, "How long queries took."),
        (REQUEST_SIZE, "The size of queries."),
        (RESPONSE_SIZE, "The size of replies before compression and cutting."),
        (RESPONSES, "Replies by response code and the plugin that answered."),
        (ENABLED, "The plugins that take part in the queries of a server block: always 1."),
        (PANICS, "Panics that were caught."),
    ] {
        metrics::describe(name, help);
    }
}

/// What is counted for one route.
#[derive(Debug)]
struct Line {
    requests: Table<Counter>,
    dnssec: OnceLock<Counter>,
    duration: Arc<Histogram>,
    request_sizes: Table<Arc<Histogram>>,
    response_sizes: Table<Arc<Histogram>>,
    responses: Table<Counter>,
}

impl Line {
    /// Nothing counted yet, for a block with so many plugins.
    fn new(route: &Route, plugins: usize) -> Self {
        Self {
            requests: Table::new(TYPES.len() * PROTOCOLS.len() * FAMILIES.len()),
            dnssec: OnceLock::new(),
            duration: histogram(DURATION, &labels(route, []), &TIME_BUCKETS),
            request_sizes: Table::new(PROTOCOLS.len()),
            response_sizes: Table::new(PROTOCOLS.len()),
            // Beside the plugins there is the server, which writes the replies to failures.
            responses: Table::new((RCODES + 1) * (plugins + 1)),
        }
    }

    /// Counts one exchange.
    fn count(&self, route: &Route, plugins: &[&'static str], x: &Exchange, end: End) {
        let kind = type_index(asked::rtype_and_class(x).0);
        let proto = usize::from(x.query.transport.protocol() != PROTOCOLS[0]);
        let family = usize::from(x.query.peer.is_ipv6());
        let index = (kind * PROTOCOLS.len() + proto) * FAMILIES.len() + family;
        let requests = self.requests.get(index, || {
            let own = [
                ("proto", PROTOCOLS[proto]),
                ("family", FAMILIES[family]),
                ("type", TYPES[kind].1),
            ];
            counter(REQUESTS, &labels(route, own))
        });
        increment(requests);
        if x.client_request().edns.dnssec_ok() {
            self.dnssec.get_or_init(|| counter(DO, &labels(route, []))).increment(1);
        }
        self.duration.record(x.elapsed().as_secs_f64());
        let size = |table: &Table<Arc<Histogram>>, name, value: usize| {
            let made = || histogram(name, &labels(route, [("proto", PROTOCOLS[proto])]), &SIZES);
            if let Some(sizes) = table.get(proto, made) {
                sizes.record(value as f64);
            }
        };
        size(&self.request_sizes, REQUEST_SIZE, x.query.wire.len());
        let written = match end {
            End::Answered => x.answer().message_len(x.query.parts.question_len),
            End::Failed(_) | End::Silent => 0,
        };
        size(&self.response_sizes, RESPONSE_SIZE, written);
        let by = match end {
            End::Answered => x.answered_by(),
            End::Failed(_) => "",
            End::Silent => return,
        };
        let plugin = plugins.iter().position(|name| *name == by);
        let rcode = x.answer().rcode;
        let index = rcode_index(rcode) * (plugins.len() + 1) + plugin.map_or(0, |at| at + 1);
        let responses = self.responses.get(index, || {
            let rcode = rcode_label(rcode);
            let plugin = plugin.map_or("", |_| by);
            counter(RESPONSES, &labels(route, [("rcode", &*rcode), ("plugin", plugin)]))
        });
        increment(responses);
    }
}

/// Counts one more.
fn increment(counter: Option<&Counter>) {
    if let Some(counter) = counter {
        counter.increment(1);
    }
}

/// A route's labels and these.
fn labels<'a, const N: usize>(
    route: &'a Route,
    own: [(&'static str, &'a str); N],
) -> Vec<(&'static str, &'a str)> {
    let mut all = vec![("server", &*route.server), ("zone", &*route.zone), ("view", &*route.view)];
    all.extend(own);
    all
}

/// Where a type's label is.
fn type_index(rtype: u16) -> usize {
    let last = TYPES.len() - 1;
    TYPES[..last].iter().position(|(number, _)| *number == rtype).unwrap_or(last)
}

/// Where a response code's label is. Those from 12 to 15 are unassigned (RFC 6895 §2.3).
fn rcode_index(rcode: u16) -> usize {
    match rcode {
        0..=11 | 16..24 => usize::from(rcode),
        _ => RCODES,
    }
}

/// A response code's label.
pub(super) fn rcode_label(rcode: u16) -> Cow<'static, str> {
    if rcode_index(rcode) < RCODES { text::rcode_name(rcode) } else { "other".into() }
}

/// Counts a block's queries.
#[derive(Debug, Default)]
pub(super) struct Requests {
    enabled: Arc<Enabled>,
    lines: OnceLock<Table<Line>>,
}

/// A block's routes and plugins, which are metrics themselves as long as the block is there.
#[derive(Clone, Debug, Default)]
struct Enabled {
    routes: Vec<Route>,
    plugins: Vec<&'static str>,
}

impl Collect for Enabled {
    fn collect(&self, figures: &mut Figures) {
        for route in &self.routes {
            for name in &self.plugins {
                figures.gauge(ENABLED, &labels(route, [("name", *name)]), 1.0);
            }
        }
    }
}

impl Observer for Requests {
    fn routes(&mut self, routes: &[Route]) {
        self.enabled = Arc::new(Enabled { routes: routes.to_vec(), plugins: Vec::new() });
    }

    fn plugins(&mut self, names: &[&'static str]) {
        let routes = self.enabled.routes.clone();
        self.enabled = Arc::new(Enabled { routes, plugins: names.to_vec() });
        metrics::collect(&self.enabled);
    }

    fn sent(&self, x: &Exchange, end: End, _: &[u8]) {
        let Enabled { routes, plugins } = &*self.enabled;
        let lines = self.lines.get_or_init(|| Table::new(routes.len()));
        let index = x.route();
        if let Some(route) = routes.get(index)
            && let Some(line) = lines.get(index, || Line::new(route, plugins.len()))
        {
            line.count(route, plugins, x, end);
        }
    }
}

/// Counts what no block takes, by listener.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// By listener number; none where there is no listener.
    lines: Vec<Option<(Route, OnceLock<Line>)>>,
}

impl Observer for Lost {
    fn listeners(&mut self, listeners: &[(ListenerId, String)]) {
        let len = listeners.iter().map(|(id, _)| id.0 + 1).max().unwrap_or(0);
        self.lines.resize_with(len, || None);
        for (id, server) in listeners {
            let (zone, view) = (DROPPED.to_owned(), String::new());
            let route = Route { listener: *id, server: server.clone(), zone, view };
            self.lines[id.0] = Some((route, OnceLock::new()));
        }
    }

    fn sent(&self, x: &Exchange, end: End, _: &[u8]) {
        if let Some(Some((route, line))) = self.lines.get(x.query.listener.0) {
            line.get_or_init(|| Line::new(route, 0)).count(route, &[], x, end);
        }
    }
}
