//! From the directive to counters and a page.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use config::{Diagnostic, Prop, Word};
use engine::metrics;
use engine::{Setup, Tls};

use super::handler::{self, Lost, Requests};
use super::page::Page;
use super::{process, web};
use crate::shared::listen;

/// The path of the page.
const PATH: &str = "/metrics";

/// The figure that says what runs.
const BUILD: &str = "coredns_build_info";

/// What the block says.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// The file with TLS and users.
    web: Option<Word>,
}

/// What a block may say.
pub(super) const PROPS: &[Prop<Options>] = &[
    Prop { name: "runtime_metrics", words: "", set: |_, _| Ok(()) },
    Prop {
        name: "tls",
        words: "FILE",
        set: |options, words| {
            options.web = Some(words.one()?.clone());
            Ok(())
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
    let mut options = Options::default();
    directive.read_block(PROPS, &mut options)?;
    handler::describe();
    process::watch();
    metrics::describe(BUILD, "What runs: always 1.");
    let process = setup.process();
    let labels =
        [("version", &*process.version), ("revision", &*process.commit), ("goversion", "")];
    metrics::gauge(BUILD, &labels).set(1.0);
    // Blocks that name the same address have one page, for all metrics are the process's.
    let known = setup.pages().iter().filter(|page| page.addr == addr);
    let known = known.filter_map(|page| page.is::<Page>()).next().map(|page| page.file.clone());
    match known {
        None => serve(setup, addr, options.web.as_ref())?,
        Some(file) => {
            if let Some(word) = options.web.filter(|word| word.text != file) {
                let wrong = word.wrong("is for an address that another block serves without it");
                return Err(wrong.help("write the same tls in all blocks with the address"));
            }
        }
    }
    setup.observe(Requests::default());
    setup.observe_lost(|| Box::new(Lost::default()));
    Ok(())
}

/// Has the metrics served at an address, as a file says if there is one.
fn serve(setup: &mut Setup<'_>, addr: SocketAddr, word: Option<&Word>) -> Result<(), Diagnostic> {
    let Some(word) = word else {
        setup.admin(addr, PATH, Arc::new(Page::default()));
        return Ok(());
    };
    let web = web::read(Path::new(&word.text)).map_err(|why| word.wrong(why))?;
    for odd in web.odd {
        setup.warn(word.wrong(format_args!("has {odd}, which is not followed")));
    }
    let config = web.tls.as_ref().map(|tls| match web.only_newest {
        true => tls.quic(&[b"http/1.1"], None, false),
        false => tls.stream(&[b"http/1.1"], None),
    });
    let page = Arc::new(Page { users: web.users, _tls: web.tls, file: word.text.clone() });
    match config {
        None => setup.admin(addr, PATH, page),
        Some(config) => setup.admin_over(addr, PATH, page, Tls::new(config)),
    }
    setup.task(|_| async { log::info!("Server is ready and accepting connections") });
    Ok(())
}
