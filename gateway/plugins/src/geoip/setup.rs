//! From the directive to a database.

use std::path::Path;
use std::sync::Arc;

use config::{Diagnostic, Prop};
use engine::Setup;

use super::provider::Geoip;
use super::source::Source;

/// What the block says: whether the subnet that a query states counts.
#[derive(Debug, Default)]
pub(super) struct Options {
    by_subnet: bool,
}

/// What a block may say.
pub(super) const PROPS: &[Prop<Options>] = &[Prop {
    name: "edns-subnet",
    words: "",
    set: |options, _| {
        options.by_subnet = true;
        Ok(())
    },
}];

/// Sets the plugin up: blocks that name one file share its database, over reloads too.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.directive();
    if let [_, second, ..] = setup.directives() {
        return Err(second.name.fault("configuring multiple databases is not supported"));
    }
    let mut words = directive.words();
    let word = words.one().map_err(|wrong| wrong.help("write: geoip DBFILE"))?;
    words.end()?;
    let mut options = Options::default();
    directive.read_block(PROPS, &mut options)?;
    if !setup.has("metadata") {
        let odd = directive.name.wrong("does nothing without metadata in the server block");
        setup.warn(odd.help("write metadata in the block"));
    }
    let open = || Source::open(Path::new(&word.text)).map_err(|why| word.wrong(why));
    let source = setup.share(&word.text, open)?;
    // What an old configuration has may have changed since.
    source.look();
    let watched = Arc::clone(&source);
    setup.task(move |stop| watched.watch(stop));
    setup.selective();
    setup.provide(Geoip { source, by_subnet: options.by_subnet });
    Ok(())
}
