//! The frames of an HTTP/2 connection, counted before the library has them: what costs work and asks nothing is bounded
//! (RFC 9113 §10.5), also where the library answers or ignores it without an end.

use std::time::{Duration, Instant};

use crate::guard::Filter;

/// The connection preface (RFC 9113 §3.4), in octets.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame's header (RFC 9113 §4.1), in octets.
const FRAME_HEADER: usize = 9;

/// How many frames that ask nothing a client may send at once: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, CONTINUATION, empty
/// DATA and unknown ones; large ones count for each KiB.
const NOISE: Budget = Budget { most: 1000, request: 8, second: 20 };

/// The same of resets, which count two. A client that resets less than half of its requests has no bound.
const RESETS: Budget = Budget { most: 400, request: 1, second: 20 };

/// What a client may send, and what gives it more.
#[derive(Clone, Copy, Debug)]
struct Budget {
    most: u32,
    request: u32,
    second: u32,
}

/// What is left of a budget.
#[derive(Debug)]
struct Purse {
    budget: Budget,
    left: u32,
    /// Until when seconds have been counted.
    filled: Instant,
}

impl Purse {
    /// A full one.
    fn new(budget: Budget) -> Self {
        Self { budget, left: budget.most, filled: Instant::now() }
    }

    /// Puts something back.
    fn put(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(self.budget.most);
    }

    /// Takes something out; false if there is not enough left.
    fn take(&mut self, count: u32) -> bool {
        if self.left < count {
            let seconds = self.filled.elapsed().as_secs();
            self.filled += Duration::from_secs(seconds);
            self.put(u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(self.budget.second));
        }
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }
}

/// Counts the frames of a connection. What exceeds a budget is not passed on.
#[derive(Debug)]
pub(crate) struct Frames {
    /// How much of the preface is still to come.
    preface: usize,
    header: [u8; FRAME_HEADER],
    /// How much of the header is there.
    filled: usize,
    /// How much of the frame's payload is still to come.
    payload: usize,
    noise: Purse,
    resets: Purse,
}

impl Frames {
    /// Of a connection of which nothing has been read.
    pub(crate) fn new() -> Self {
        Self {
            preface: PREFACE.len(),
            header: [0; FRAME_HEADER],
            filled: 0,
            payload: 0,
            noise: Purse::new(NOISE),
            resets: Purse::new(RESETS),
        }
    }

    /// Counts the frame whose header is there; false if it is one too many.
    fn frame(&mut self) -> bool {
        let [a, b, c, kind, flags, ..] = self.header;
        let len = u32::from_be_bytes([0, a, b, c]);
        self.payload = len as usize;
        let end_stream = flags & 1 != 0;
        match kind {
            // HEADERS: a request, or what ends one.
            1 => {
                self.noise.put(NOISE.request);
                self.resets.put(RESETS.request);
                true
            }
            // DATA.
            0 if len > 0 || end_stream => true,
            // RST_STREAM.
            3 => self.resets.take(2),
            _ => self.noise.take(1 + len / 1024),
        }
    }
}

impl Filter for Frames {
    const POISON: &'static [u8] = &[];

    fn pass(&mut self, octets: &[u8]) -> usize {
        let mut at = 0;
        while at < octets.len() {
            let rest = octets.len() - at;
            if self.preface > 0 {
                let count = rest.min(self.preface);
                self.preface -= count;
                at += count;
            } else if self.payload > 0 {
                let count = rest.min(self.payload);
                self.payload -= count;
                at += count;
            } else {
                let count = rest.min(FRAME_HEADER - self.filled);
                self.header[self.filled..self.filled + count]
                    .copy_from_slice(&octets[at..at + count]);
                self.filled += count;
                if self.filled == FRAME_HEADER {
                    self.filled = 0;
                    if !self.frame() {
                        // Also if some of the header has gone before: the library waits for the rest of it.
                        return at;
                    }
                }
                at += count;
            }
        }
        at
    }
}
