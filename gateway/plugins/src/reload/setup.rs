//! From the directive to a watch over the files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive};
use engine::Setup;

use super::handler::{Turns, Watch};
use crate::shared::once;

/// How often the files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) interval: Duration,
    /// By how much, at most, an interval is longer or shorter, twice.
    pub(super) jitter: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), jitter: Duration::from_secs(15) }
    }
}

/// The shortest interval.
const LEAST_INTERVAL: Duration = Duration::from_secs(2);

/// The smallest jitter that is none at all.
const LEAST_JITTER: Duration = Duration::from_secs(1);

/// Sets the plugin up; the first directive of a block counts, and the last block.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    let pace = pace(directive)?;
    let origin = Arc::clone(setup.origin());
    let Some((path, _)) = origin.files.first() else { return Ok(()) };
    if path == Path::new("stdin") {
        let word = &directive.name;
        setup.warn(word.wrong("does nothing here: a Corefile from a pipe cannot be read again"));
        return Ok(());
    }
    let turns = setup.share("reload", || Ok(Arc::new(Turns::default())))?;
    let watch = Watch::new(pace, path.clone(), origin, Arc::clone(setup.process()), turns);
    setup.task(move |stop| watch.run(stop));
    Ok(())
}

/// Reads how often the files are to be read; a jitter above half the interval is cut to that.
pub(super) fn pace(directive: &Directive) -> Result<Pace, Diagnostic> {
    directive.no_block()?;
    let mut pace = Pace::default();
    let mut words = directive.words();
    if let Some(word) = words.peek() {
        pace.interval = words.duration()?;
        if pace.interval < LEAST_INTERVAL {
            return Err(word.wrong("is too short an interval").help("write 2s or more"));
        }
    }
    if let Some(word) = words.peek() {
        pace.jitter = words.duration()?;
        if !pace.jitter.is_zero() && pace.jitter < LEAST_JITTER {
            return Err(word.wrong("is too small a jitter").help("write 0, or 1s or more"));
        }
    }
    words.end()?;
    pace.jitter = pace.jitter.min(pace.interval / 2);
    Ok(pace)
}
