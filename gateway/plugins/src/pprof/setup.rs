//! From the directive to a page.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config::value::integer;
use config::{Diagnostic, Prop};
use engine::Setup;

use super::page::{PATH, Page};
use crate::shared::listen;

/// What a block may say, and whether it does; nothing of it changes anything.
pub(super) const PROPS: &[Prop<bool>] = &[Prop {
    name: "block",
    words: "[RATE]",
    set: |block, words| {
        *block = true;
        if !words.is_empty() {
            words.read(integer)?;
        }
        Ok(())
    },
}];

/// Sets the plugin up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let addr = match words.maybe() {
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, 6053)),
        Some(word) => listen::read(word)?,
    };
    words.end()?;
    let mut block = false;
    directive.read_block(PROPS, &mut block)?;
    if block {
        setup.warn(directive.name.wrong("has no profile of blocking: block does nothing"));
    }
    if !setup.pages().iter().any(|page| page.addr == addr && page.is::<Page>().is_some()) {
        let page = Arc::new(Page);
        setup.admin(addr, PATH, Arc::<Page>::clone(&page));
        setup.admin(addr, PATH.trim_end_matches('/'), page);
    }
    Ok(())
}
