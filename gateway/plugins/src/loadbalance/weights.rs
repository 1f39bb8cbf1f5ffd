//! A file of weights that is read again when it changes.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::{Stage, Stop};
use foldhash::fast::FixedState;
use wire::Name;

use crate::shared::file;

/// The weights of a name's addresses.
type Addresses = Vec<(IpAddr, u8)>;

/// The weights by name, in lower-case wire form.
type Table = HashMap<Box<[u8]>, Addresses, FixedState>;

/// A file of weights, and what it says now.
#[derive(Debug)]
pub(super) struct Weights {
    path: PathBuf,
    table: ArcSwap<Table>,
    /// A hash of the text that was read last.
    seen: Mutex<Option<u64>>,
}

/// Why a file of weights cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It cannot be read.
    Open(io::Error),
    /// A line, counted from 1, is wrong.
    Line(usize, String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Line(line, what) => write!(f, "line {line}: {what}"),
        }
    }
}

impl std::error::Error for Unusable {}

impl Weights {
    /// No weights; [`Weights::refresh`] reads the file.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, table: ArcSwap::default(), seen: Mutex::default() }
    }

    /// The weights now.
    pub(super) fn table(&self) -> arc_swap::Guard<Arc<Table>> {
        self.table.load()
    }

    /// Reads the file, and takes it over if its text has changed.
    ///
    /// # Errors
    /// If it cannot be read or a line is wrong; then the weights stay what they were.
    pub(super) fn refresh(&self) -> Result<(), Unusable> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = file::text(&self.path).map_err(Unusable::Open)?;
        let hash = Some(FixedState::default().hash_one(&text));
        if *seen == hash {
            return Ok(());
        }
        self.table.store(Arc::new(parse(&text)?));
        *seen = hash;
        let path = self.path.display();
        log::info!(target: "plugin/loadbalance", "Successfully reloaded weight file {path}");
        Ok(())
    }

    /// Looks for changes every `interval`, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, interval: Duration, mut stop: Stop) {
        let mut said = String::new();
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(interval) => {}
            }
            let weights = Arc::clone(&self);
            let Ok(result) = tokio::task::spawn_blocking(move || weights.refresh()).await else {
                continue;
            };
            let wrong = result.err().map(|error| error.to_string()).unwrap_or_default();
            // Said once, not at every look.
            if !wrong.is_empty() && wrong != said {
                let path = self.path.display();
                log::error!(
                    target: "plugin/loadbalance",
                    "weight file {path}: {wrong}; the weights stay as they are"
                );
            }
            said = wrong;
        }
    }
}

/// Reads lines of names, each followed by lines of its addresses with their weights.
fn parse(text: &str) -> Result<Table, Unusable> {
    let mut table = Table::default();
    let mut name: Option<Name> = None;
    for (line, number) in text.lines().zip(1..) {
        let wrong = |what: String| Unusable::Line(number, what);
        let mut words = line.split_whitespace();
        let (first, second) = (words.next(), words.next());
        let Some(first) = first.filter(|first| !first.starts_with('#')) else { continue };
        if words.next().is_some() {
            return Err(wrong("more than a name, or an address and its weight".to_owned()));
        }
        match (first.parse::<IpAddr>(), second) {
            (Ok(_), None) => return Err(wrong(format!("'{first}' has no weight"))),
            (Ok(addr), Some(weight)) => {
                let Some(name) = &name else {
                    return Err(wrong(format!("'{first}' has no name above it")));
                };
                let weight = weight.parse().ok().filter(|weight| *weight > 0).ok_or_else(|| {
                    wrong(format!("'{weight}' is no weight: it must be 1 to 255"))
                })?;
                table.entry(name.wire().into()).or_default().push((addr.to_canonical(), weight));
            }
            (Err(_), None) => {
                let parsed = Name::parse(first);
                let parsed = parsed.ok_or_else(|| wrong(format!("'{first}' is no domain name")))?;
                name = Some(parsed);
            }
            (Err(_), Some(_)) => return Err(wrong(format!("'{first}' is no address"))),
        }
    }
    Ok(table)
}

/// The weight of an address of `owner`: 1 if the file does not name it.
pub(super) fn weight(table: &Table, owner: &[u8], addr: IpAddr) -> u8 {
    let listed = Name::read(owner).and_then(|(owner, _)| table.get(owner.wire()));
    let found = listed.into_iter().flatten().find(|(own, _)| *own == addr);
    found.map_or(1, |(_, weight)| *weight)
}
