//! `dnssec [ZONES…] { … }`.

use std::sync::Arc;

use config::{Diagnostic, Prop, Word};
use engine::Setup;

use super::figures::Figures;
use super::handler::Dnssec;
use super::signer::{Signer, Source};
use crate::shared::dnssec::{Key, KeyFiles};
use crate::shared::zones::Zones;

/// What the block says.
#[derive(Debug)]
struct Config {
    /// The names of the keys' files.
    files: Vec<Word>,
    capacity: usize,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "key",
        words: "file KEY...",
        set: |config, words| {
            words.choice(&[("file", ())])?;
            words.clone().one()?;
            config.files.extend_from_slice(words.rest());
            Ok(())
        },
    },
    Prop {
        name: "cache_capacity",
        words: "CAPACITY",
        set: |config, words| words.parsed().map(|capacity| config.capacity = capacity),
    },
];

/// The files of keys.
#[derive(Debug)]
pub(super) struct Files(pub(super) KeyFiles);

impl Source for Files {
    fn read(&self) -> Option<Result<Vec<Key>, String>> {
        self.0.have_changed().then(|| self.0.read().map_err(|wrong| wrong.to_string()))
    }
}

/// Reads the directive, and the keys.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let zones = setup.zones_of(&directive.args);
    let mut config = Config { files: Vec::new(), capacity: 10_000 };
    directive.read_block(PROPS, &mut config)?;
    let Some(first) = config.files.first() else {
        setup.warn(directive.name.fault("there are no keys, so that nothing is signed"));
        return Ok(());
    };
    let paths: Vec<_> = config.files.iter().map(|word| setup.path(&word.text)).collect();
    let key = format!("dnssec {paths:?} {zones:?} {}", config.capacity);
    let signer = setup.share(&key, || {
        let files = Files(KeyFiles::new(paths));
        let made = Signer::new(Zones::new(zones), Box::new(files), config.capacity);
        made.map(Arc::new).map_err(|wrong| first.fault(wrong))
    })?;
    // After a reload it may be that of before, whose files may have changed since.
    signer.refresh();
    let watched = Arc::clone(&signer);
    setup.task(move |stop| watched.watch(stop));
    setup.install(Dnssec { signer, figures: Figures::new(setup.routes()) });
    Ok(())
}
