//! What changed in a store, for those who follow it: kept only once somebody does, and only so much of it.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    content::{Bundle, Content, MORE, Record},
    pack::{Cursor, Endpoints},
};

/// The most touches that are kept; who follows too slowly looks at everything again.
const MOST: usize = 1 << 18;

/// Tells the logs of a process apart.
static LOGS: AtomicU64 = AtomicU64::new(1);

/// Something whose names may have other records now, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Touched {
    /// A service, by its key such as `\x03web\x04shop`.
    Service(Box<[u8]>),
    /// An address that a service or an endpoint has or had.
    Address(IpAddr),
}

/// How far a follower has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// The log; 0 for none.
    log: u64,
    /// The number of the touch that comes next.
    at: u64,
}

/// What was touched, in order.
#[derive(Debug)]
pub(crate) struct Log {
    /// Its number.
    id: u64,
    /// The number of the first touch that is kept.
    first: u64,
    /// The touches.
    touches: VecDeque<Touched>,
}

impl Log {
    /// Begins a log.
    pub(crate) fn new() -> Self {
        Self { id: LOGS.fetch_add(1, Relaxed), first: 0, touches: VecDeque::new() }
    }

    /// Where it ends now.
    pub(crate) fn end(&self) -> Mark {
        Mark { log: self.id, at: self.first + self.touches.len() as u64 }
    }

    /// The touches since a mark; none if they are not all known.
    pub(crate) fn since(&self, mark: Mark) -> Option<Vec<Touched>> {
        let skip = mark.at.checked_sub(self.first).filter(|_| mark.log == self.id)?;
        Some(self.touches.iter().skip(usize::try_from(skip).ok()?).cloned().collect())
    }

    /// Has everybody look at everything again.
    pub(crate) fn lose(&mut self) {
        self.first += self.touches.len() as u64 + 1;
        self.touches = VecDeque::new();
    }

    /// Notes a touch.
    fn push(&mut self, touched: Touched) {
        if self.touches.len() >= MOST {
            self.touches.pop_front();
            self.first += 1;
        }
        self.touches.push_back(touched);
    }

    /// Notes a service.
    fn service(&mut self, name: &[u8], namespace: &[u8]) {
        let labels = [name, namespace];
        // Who has a longer name than a label can be has no name in a zone.
        if labels.iter().all(|label| label.len() < 64) {
            let mut key = Vec::with_capacity(2 + name.len() + namespace.len());
            for label in labels {
                key.push(label.len() as u8);
                key.extend_from_slice(label);
            }
            self.push(Touched::Service(key.into()));
        }
    }
}

impl Content {
    /// Notes that a service's record, or what it was, is touched: its own names, and those of all its addresses, which lead to
    /// them.
    pub(crate) fn touch_record(&mut self, record: Record) {
        let Self { log: Some(log), arena, spaces, bundles, .. } = self else { return };
        let mut cursor = Cursor(arena.get(record.blob));
        log.service(cursor.text(), spaces.get(record.space));
        let ips = cursor.ips();
        ips.for_each(|ip| log.push(Touched::Address(ip)));
        if record.flags & MORE != 0 {
            cursor.text();
            cursor.ips().chain(cursor.ips()).for_each(|ip| log.push(Touched::Address(ip)));
        }
        let mut next = record.first;
        while let Some(number) = next.checked_sub(1) {
            let bundle = bundles.get(number);
            let endpoints = Endpoints::new(arena.get(bundle.blob));
            let ips = endpoints.filter_map(|endpoint| endpoint.address.ip());
            ips.for_each(|ip| log.push(Touched::Address(ip)));
            next = bundle.next;
        }
    }

    /// Notes that a slice of a service, or what it was, is touched: the service's names, and those of the addresses of both.
    pub(crate) fn touch_bundle(&mut self, bundle: Bundle) {
        if self.log.is_none() {
            return;
        }
        let record = *self.services.records.get(bundle.record);
        // The other slices say what they said.
        self.touch_record(Record { first: 0, ..record });
        let Self { log: Some(log), arena, .. } = self else { return };
        let endpoints = Endpoints::new(arena.get(bundle.blob));
        let ips = endpoints.filter_map(|endpoint| endpoint.address.ip());
        ips.for_each(|ip| log.push(Touched::Address(ip)));
    }

    /// Notes that all of a namespace comes or goes, unless it is empty.
    pub(crate) fn touch_space(&mut self, number: u32) {
        // One of those who use the name is the Namespace itself.
        if self.spaces.users(number) > 1
            && let Some(log) = &mut self.log
        {
            log.lose();
        }
    }
}
