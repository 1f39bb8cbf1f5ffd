//! Who worked on an exchange, and for how long: kept of those that are traced, and nothing else.

use std::net::SocketAddr;
use std::time::Instant;

use crate::exchange::{Exchange, MAX_HOOKS};

/// The way of an exchange through its chains.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    /// The number of the trace.
    id: u128,
    /// Those which have worked on it, in the order in which they began.
    passages: Vec<Passage>,
    /// Those which still do, by their place in `passages`; the innermost last.
    open: Vec<Open>,
}

/// A part of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The plugin, or what it did.
    pub name: &'static str,
    /// Within which other part it lies, by its place among all; none if it is in none.
    pub parent: Option<usize>,
    /// When it began.
    pub begun: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Who was asked, if it is about that.
    pub peer: Option<SocketAddr>,
}

/// A part that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    passage: usize,
    /// In which run of a chain it is, and at which link.
    place: (usize, usize),
}

impl Trail {
    /// The number of the trace.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Opens a part.
    fn open(&mut self, name: &'static str, place: (usize, usize), peer: Option<SocketAddr>) {
        if self.passages.len() > MAX_HOOKS as usize {
            return;
        }
        let now = crate::spec::now();
        let parent = self.open.last().map(|open| open.passage);
        self.open.push(Open { passage: self.passages.len(), place });
        self.passages.push(Passage { name, parent, begun: now, ended: now, peer });
    }

    /// Closes the parts at the end that `over` says yes to.
    fn close(&mut self, over: impl Fn(&Open) -> bool) {
        if !self.open.last().is_some_and(&over) {
            return;
        }
        let now = crate::spec::now();
        while let Some(open) = self.open.pop_if(|open| over(open)) {
            // The places are those of parts that were opened.
            if let Some(passage) = self.passages.get_mut(open.passage) {
                passage.ended = now;
            }
        }
    }
}

impl Exchange {
    /// Has the way of the exchange be noted from here on, under this number.
    pub fn trace(&mut self, id: u128) {
        self.trail = Some(Box::new(Trail { id, ..Trail::default() }));
    }

    /// The trace of the exchange, if there is one.
    pub fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }

    /// Takes the parts of the way so far; what is still open ends now.
    pub fn take_passages(&mut self) -> Vec<Passage> {
        let Some(trail) = &mut self.trail else { return Vec::new() };
        trail.close(|_| true);
        std::mem::take(&mut trail.passages)
    }

    /// Notes that the plugin in hand begins something that takes time, such as asking `peer`; nothing if nobody traces.
    pub fn begin_passage(&mut self, name: &'static str, peer: Option<SocketAddr>) {
        let place = (self.depth, self.top().at);
        if let Some(trail) = &mut self.trail {
            // Behind the plugin's own part.
            trail.open(name, (place.0, place.1 + 1), peer);
        }
    }

    /// Notes that it has ended.
    pub fn end_passage(&mut self) {
        let place = (self.depth, self.top().at + 1);
        if let Some(trail) = &mut self.trail {
            trail.close(|open| open.place == place);
        }
    }

    /// Notes that the link in hand begins.
    pub(crate) fn note_link(&mut self, name: &'static str) {
        let place = (self.depth, self.top().at);
        if let Some(trail) = &mut self.trail {
            trail.open(name, place, None);
        }
    }

    /// Notes that of the run in hand all links behind this one have ended; and all runs within it.
    pub(crate) fn note_return(&mut self, at: Option<usize>) {
        let depth = self.depth;
        if let Some(trail) = &mut self.trail {
            trail.close(|open| {
                open.place.0 > depth
                    || open.place.0 == depth && at.is_none_or(|at| open.place.1 > at)
            });
        }
    }
}
