//! From the lines of the Corefile to a policy.

use std::sync::Arc;
use std::time::Duration;

use config::value::Network;
use config::{Diagnostic, Prop, Word};
use engine::Setup;

use super::handler::LoadBalance;
use super::weights::{Unusable, Weights};
use crate::shared::once;

/// The properties of `round_robin`.
static ROUND_ROBIN: &[Prop<Vec<Network>>] = &[Prop {
    name: "prefer",
    words: "NETWORK...",
    set: |prefer, words| {
        prefer.push(words.parsed()?);
        while !words.is_empty() {
            prefer.push(words.parsed()?);
        }
        Ok(())
    },
}];

/// The properties of `weighted`.
static WEIGHTED: &[Prop<Duration>] = &[Prop {
    name: "reload",
    words: "DURATION",
    set: |reload, words| words.duration().map(|duration| *reload = duration),
}];

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    let mut words = directive.words();
    let is_weighted = match words.peek() {
        None => false,
        Some(_) => words.choice(&[("round_robin", false), ("weighted", true)])?,
    };
    let plugin = if is_weighted {
        let file = words.one()?;
        words.end()?;
        let mut reload = Duration::from_secs(30);
        directive.read_block(WEIGHTED, &mut reload)?;
        LoadBalance::Weighted(weights(setup, file, reload)?)
    } else {
        words.end()?;
        let mut prefer = Vec::new();
        directive.read_block(ROUND_ROBIN, &mut prefer)?;
        LoadBalance::RoundRobin { prefer: prefer.into() }
    };
    setup.install(plugin);
    Ok(())
}

/// The weights of a file, which blocks and reloads share, as it is now. A file that is missing is waited for if it is
/// looked at again.
fn weights(
    setup: &mut Setup<'_>,
    file: &Word,
    reload: Duration,
) -> Result<Arc<Weights>, Diagnostic> {
    let path = setup.path(&file.text);
    let weights = setup.share(&format!("{path:?}"), || Ok(Arc::new(Weights::new(path.clone()))))?;
    match weights.refresh() {
        Ok(()) => {}
        Err(Unusable::Open(error)) if !reload.is_zero() => {
            let path = path.display();
            let what =
                format!("Failed to open weight file {path}: {error}. Will try again in {reload:?}");
            setup.warn(file.fault(what));
        }
        Err(error) => return Err(file.fault(format!("weight file {}: {error}", path.display()))),
    }
    if !reload.is_zero() {
        let watched = Arc::clone(&weights);
        setup.task(move |stop| watched.watch(reload, stop));
    }
    Ok(weights)
}
