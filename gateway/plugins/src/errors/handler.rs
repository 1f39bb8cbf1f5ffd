//! Errors in the log: each at once, or those of a pattern as one line for a period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::{End, Exchange, Fault, Observer, Stage, Stop};
use log::Level;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use wire::text;

use crate::shared::asked;
use crate::shared::regex::Regex;
use crate::shared::span::Span;

/// Where lines go.
const TARGET: &str = "plugin/errors";

/// Errors of a kind that are counted rather than logged.
#[derive(Debug)]
pub(super) struct Pattern {
    /// How long to count.
    pub(super) period: Duration,
    pub(super) regex: Regex,
    /// The expression as it stands in the Corefile.
    pub(super) text: String,
    /// The level of its lines.
    pub(super) level: Level,
    /// Whether the first of a period is logged at once.
    pub(super) show_first: bool,
    /// How many came in this period.
    pub(super) count: AtomicU64,
}

impl Pattern {
    /// Counts one error; whether it is the first of a period.
    fn hit(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Ends the period: says how many there were.
    fn summarise(&self) {
        let count = self.count.swap(0, Ordering::Relaxed);
        let least = if self.show_first { 2 } else { 1 };
        if count >= least {
            let (text, period) = (&self.text, Span(self.period));
            log::log!(target: TARGET, self.level, "{count} errors like '{text}' occurred in last {period}");
        }
    }
}

/// The patterns of a block.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) patterns: Box<[Pattern]>,
    /// Told when a period begins.
    pub(super) hit: Notify,
}

/// Logs a block's errors.
#[derive(Debug)]
pub(super) struct Errors {
    pub(super) board: Arc<Board>,
    /// The last plugin of the chain, for queries that nobody answered.
    pub(super) last: &'static str,
}

impl Observer for Errors {
    fn plugins(&mut self, names: &[&'static str]) {
        self.last = names.last().copied().unwrap_or(self.last);
    }

    fn sent(&self, x: &Exchange, end: End, _: &[u8]) {
        // A panic has its own line.
        if let End::Failed(fault) = end
            && fault != Fault::PANIC
        {
            match (x.detail(), fault.why) {
                ("", "") => {}
                ("", why) if fault == Fault::UNANSWERED => {
                    self.tell(x, fault, &format!("plugin/{}: {why}", self.last));
                }
                ("", why) => self.tell(x, fault, why),
                (detail, _) => self.tell(x, fault, detail),
            }
        }
    }
}

impl Errors {
    /// Logs one error, or counts it.
    fn tell(&self, x: &Exchange, fault: Fault, error: &str) {
        let pattern = self.board.patterns.iter().find(|pattern| pattern.regex.is_match(error));
        let level = match pattern {
            None => Level::Error,
            Some(pattern) => {
                let first = pattern.hit();
                if first {
                    self.board.hit.notify_one();
                }
                if !(first && pattern.show_first) {
                    return;
                }
                pattern.level
            }
        };
        let (rcode, name) = (fault.rcode, asked::name(x));
        let rtype = text::type_name(asked::rtype_and_class(x).0);
        log::log!(target: TARGET, level, "{rcode} {name} {rtype}: {error}");
    }
}

/// Says at the end of each period how many errors of its pattern there were; what is counted when the configuration or the
/// process ends is said then.
pub(super) async fn summarise(board: Arc<Board>, mut stop: Stop, mut process: Stop) {
    let mut due: Vec<Option<Instant>> = vec![None; board.patterns.len()];
    loop {
        let next = due.iter().flatten().min().copied();
        let period = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = board.hit.notified() => {}
            () = period => {}
            () = stop.reached(Stage::Draining) => break,
            () = process.reached(Stage::Draining) => break,
        }
        let now = Instant::now();
        for (pattern, due) in board.patterns.iter().zip(&mut due) {
            match *due {
                Some(at) if at <= now => {
                    pattern.summarise();
                    *due = None;
                }
                None if pattern.count.load(Ordering::Relaxed) > 0 => {
                    *due = now.checked_add(pattern.period);
                }
                _ => {}
            }
        }
    }
    board.patterns.iter().for_each(Pattern::summarise);
}
