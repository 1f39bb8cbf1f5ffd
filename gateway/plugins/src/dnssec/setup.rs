//! `dnssec [ZONES…] { … }`.

use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Prop, Word};
use engine::{Setup, Stage};

use super::figures::Figures;
use super::handler::Dnssec;
use super::secrets::Secrets;
use super::signer::{Signer, Source};
use crate::shared::cloud::setup::fetch;
use crate::shared::dnssec::{Key, KeyFiles};
use crate::shared::environment::Environment;
use crate::shared::zones::Zones;

/// What the block says.
#[derive(Debug)]
struct Config {
    /// The names of the keys' files.
    files: Vec<Word>,
    /// The names of secrets in AWS Secrets Manager.
    secrets: Vec<Word>,
    capacity: usize,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "key",
        words: "file|aws_secretsmanager KEY...",
        set: |config, words| {
            let is_file = words.choice(&[("file", true), ("aws_secretsmanager", false)])?;
            words.clone().one()?;
            let into = if is_file { &mut config.files } else { &mut config.secrets };
            into.extend_from_slice(words.rest());
            Ok(())
        },
    },
    Prop {
        name: "cache_capacity",
        words: "CAPACITY",
        set: |config, words| words.parsed().map(|capacity| config.capacity = capacity),
    },
];

/// Where the keys of a directive are.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) files: KeyFiles,
    pub(super) secrets: Option<Arc<Secrets>>,
}

impl Source for Keys {
    fn read(&self) -> Option<Result<Vec<Key>, String>> {
        let secrets = self.secrets.as_ref();
        if !self.files.have_changed() && !secrets.is_some_and(|secrets| secrets.have_changed()) {
            return None;
        }
        let files = self.files.read().map_err(|wrong| wrong.to_string());
        Some(files.and_then(|mut keys| {
            if let Some(secrets) = secrets {
                keys.extend(secrets.read()?);
            }
            Ok(keys)
        }))
    }
}

/// How often secrets are fetched.
const FETCH: Duration = Duration::from_secs(600);

/// Reads the directive, and the keys.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let zones = setup.zones_of(&directive.args);
    let mut config = Config { files: Vec::new(), secrets: Vec::new(), capacity: 10_000 };
    directive.read_block(PROPS, &mut config)?;
    let Some(first) = config.files.first().or_else(|| config.secrets.first()) else {
        setup.warn(directive.name.fault("there are no keys, so that nothing is signed"));
        return Ok(());
    };
    let paths: Vec<_> = config.files.iter().map(|word| setup.path(&word.text)).collect();
    let ids: Vec<String> = config.secrets.iter().map(|word| word.text.clone()).collect();
    let key = format!("dnssec {paths:?} {ids:?} {zones:?} {}", config.capacity);
    let fetch = if ids.is_empty() { None } else { Some(fetch(setup)?) };
    let (signer, secrets) = &*setup.share(&key, || {
        let secrets = fetch.map(|fetch| Secrets::new(fetch, Environment::of_process(), ids));
        let secrets = secrets.map(Arc::new);
        let keys = Keys { files: KeyFiles::new(paths), secrets: secrets.clone() };
        let made = Signer::new(Zones::new(zones), Box::new(keys), config.capacity);
        let signer = made.map_err(|wrong| first.fault(wrong))?;
        Ok(Arc::new((Arc::new(signer), secrets)))
    })?;
    // After a reload it may be that of before, whose files may have changed since.
    signer.refresh();
    if let Some(secrets) = secrets {
        if !secrets.are_there() {
            let (signer, secrets, first) = (Arc::clone(signer), Arc::clone(secrets), first.clone());
            setup.prove_before_serving(async move {
                let fetched = secrets.fetch().await.and_then(|()| signer.take());
                fetched.map_err(|wrong| first.fault(wrong))
            });
        }
        let (signer, secrets) = (Arc::clone(signer), Arc::clone(secrets));
        setup.task(move |mut stop| async move {
            loop {
                tokio::select! {
                    () = stop.reached(Stage::Draining) => return,
                    () = tokio::time::sleep(FETCH) => {}
                }
                match secrets.fetch().await {
                    Ok(()) => signer.refresh(),
                    Err(wrong) => signer.tell(wrong),
                }
            }
        });
    }
    let watched = Arc::clone(signer);
    setup.task(move |stop| watched.watch(stop));
    let (signer, figures) = (Arc::clone(signer), Figures::new(setup.routes()));
    setup.install(Dnssec { signer, figures });
    Ok(())
}
