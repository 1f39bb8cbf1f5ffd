//! From the directive to counters and a page.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config::{Diagnostic, Prop};
use engine::Setup;
use engine::metrics;

use super::handler::{self, Lost, Requests};
use super::page::Page;
use super::process;
use crate::shared::listen;

/// The path of the page.
const PATH: &str = "/metrics";

/// The figure that says what runs.
const BUILD: &str = "coredns_build_info";

/// What the block says; nothing of it changes anything.
#[derive(Debug, Default)]
pub(super) struct Options;

/// What a block may say.
pub(super) const PROPS: &[Prop<Options>] = &[
    Prop { name: "runtime_metrics", words: "", set: |_, _| Ok(()) },
    Prop {
        name: "tls",
        words: "FILE",
        set: |_, words| {
            words.one()?;
            let wrong = words.name().wrong("is not served: metrics are plain HTTP here");
            Err(wrong.help("take it away, and put a TLS proxy in front of the address"))
        },
    },
];

/// Sets the plugin up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let addr = match words.maybe() {
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, 9153)),
        Some(word) => listen::read(word)?,
    };
    words.end()?;
    directive.read_block(PROPS, &mut Options)?;
    handler::describe();
    process::watch();
    metrics::describe(BUILD, "What runs: always 1.");
    let process = setup.process();
    let labels =
        [("version", &*process.version), ("revision", &*process.commit), ("goversion", "")];
    metrics::gauge(BUILD, &labels).set(1.0);
    // Blocks that name the same address have one page, for all metrics are the process's.
    if !setup.pages().iter().any(|page| page.addr == addr && page.is::<Page>().is_some()) {
        setup.admin(addr, PATH, Arc::new(Page));
    }
    setup.observe(Requests::default());
    setup.observe_lost(|| Box::new(Lost::default()));
    Ok(())
}
