//! `sign DBFILE [ZONES…] { … }`.

use std::path::PathBuf;
use std::sync::Arc;

use config::{Diagnostic, Directive, Prop, Word};
use engine::Setup;

use super::job::Job;
use crate::shared::dnssec::KeyFiles;

/// Where signed zones are written to.
const DIRECTORY: &str = "/var/lib/coredns";

/// What the block says.
#[derive(Debug)]
struct Config {
    /// The names of the keys' files.
    files: Vec<Word>,
    directory: PathBuf,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "key",
        words: "file KEY...",
        set: |config, words| {
            if let Some(word) = words.peek().filter(|word| word.text == "directory") {
                return Err(word
                    .wrong("is not implemented")
                    .help("name the keys: key file KEY..."));
            }
            words.choice(&[("file", ())])?;
            words.clone().one()?;
            config.files.extend_from_slice(words.rest());
            Ok(())
        },
    },
    Prop {
        name: "directory",
        words: "DIR",
        set: |config, words| words.one().map(|word| config.directory = PathBuf::from(&*word.text)),
    },
];

/// Reads the directives, and their keys.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        stanza(setup, directive)?;
    }
    Ok(())
}

/// Reads one directive.
fn stanza(setup: &mut Setup<'_>, directive: &Directive) -> Result<(), Diagnostic> {
    let mut words = directive.words();
    let file = words.one()?;
    if file.text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(file.wrong("is no name of a file: it has a character that could not be read"));
    }
    let zones = setup.zones_of(words.rest());
    let mut config = Config { files: Vec::new(), directory: DIRECTORY.into() };
    directive.read_block(PROPS, &mut config)?;
    let Some(first) = config.files.first() else {
        let wrong = directive.name.fault("there are no keys to sign the zone with");
        return Err(wrong.help("add a line: key file KEY..."));
    };
    let path = setup.path(&file.text);
    let directory = setup.root().join(&config.directory);
    let keys: Vec<_> = config.files.iter().map(|word| setup.path(&word.text)).collect();
    for zone in zones {
        let key = format!("sign {path:?} {zone} {directory:?} {keys:?}");
        let job = setup.share(&key, || {
            let files = KeyFiles::new(keys.iter().cloned());
            let job = Job::new(path.clone(), zone, &directory, files);
            job.map(Arc::new).map_err(|wrong| first.fault(wrong))
        })?;
        setup.task(move |stop| job.watch(stop));
    }
    Ok(())
}
