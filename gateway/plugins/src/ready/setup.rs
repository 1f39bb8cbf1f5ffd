//! From the directive to a page.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use config::{Diagnostic, Prop};
use engine::Setup;

use super::handler::{Monitor, Page};
use crate::shared::listen;

/// The path of the page.
const PATH: &str = "/ready";

/// What a block may say.
pub(super) const PROPS: &[Prop<Monitor>] = &[Prop {
    name: "monitor",
    words: "until-ready|continuously",
    set: |monitor, words| {
        *monitor = words.choice(MONITORS)?;
        Ok(())
    },
}];

/// The names of the ways to ask.
const MONITORS: &[(&str, Monitor)] =
    &[("until-ready", Monitor::UntilReady), ("continuously", Monitor::Continuously)];

/// Sets the plugin up: the blocks that name one address have one page.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let addr = match words.maybe() {
        None => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8181)),
        Some(word) => listen::read(word)?,
    };
    words.end()?;
    let mut monitor = Monitor::default();
    directive.read_block(PROPS, &mut monitor)?;
    let roles = setup.roles();
    let pages = setup.pages().iter().filter(|page| page.addr == addr);
    if let Some(page) = pages.filter_map(|page| page.is::<Page>()).next() {
        page.add(roles, monitor);
        return Ok(());
    }
    let page = Page::new(setup.process().stop());
    page.add(roles, monitor);
    setup.admin(addr, PATH, Arc::new(page));
    Ok(())
}
