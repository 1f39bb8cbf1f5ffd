//! From the directive to a page and a probe of it.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Prop};
use engine::Setup;

use super::handler::{Page, Probe, watch};
use crate::shared::listen;

/// The path of the page.
const PATH: &str = "/health";

/// What the block says.
#[derive(Debug, Default)]
pub(super) struct Options {
    lameduck: Duration,
}

/// What a block may say.
pub(super) const PROPS: &[Prop<Options>] = &[Prop {
    name: "lameduck",
    words: "DURATION",
    set: |options, words| {
        options.lameduck = words.duration()?;
        Ok(())
    },
}];

/// Sets the plugin up; of several directives the last counts.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut addr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8080));
    let mut options = Options::default();
    for directive in setup.directives() {
        let mut words = directive.words();
        if let Some(word) = words.maybe() {
            addr = listen::read(word)?;
        }
        words.end()?;
        directive.read_block(PROPS, &mut options)?;
    }
    setup.lameduck(options.lameduck);
    let probe = Probe::new(addr, PATH);
    if setup.pages().iter().any(|page| page.addr == addr && page.is::<Page>().is_some()) {
        return Ok(());
    }
    setup.admin(addr, PATH, Arc::new(Page));
    // A port that the system chooses is not known here.
    if addr.port() != 0 {
        setup.task(move |stop| watch(probe, stop));
    }
    Ok(())
}
