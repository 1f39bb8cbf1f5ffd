//! Challenges that replicas answer for one another: the CA may ask any of them, so each shows what another one is asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;

use super::answers::{Answers, Challenge, Proof, Showing};
use crate::file::Stamp;
use crate::{Error, file, store};

/// How long before the CA is told to look: several looks of the others.
pub(super) const NOTICE: Duration = Duration::from_secs(1);

/// How long a challenge is shown at most, whatever became of whoever has written it down.
const LONGEST: Duration = Duration::from_secs(900);

/// A challenge written down; taken away when this goes.
#[derive(Debug)]
pub(super) struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        // Whoever finds it later passes it over by its age.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Writes a challenge of `domain` down in `folder`. Waits for the disk.
pub(super) fn write(folder: &Path, domain: &str, proof: &Proof<'_>) -> Result<Written, Error> {
    store::folder(folder)?;
    let mut number = [0; 8];
    rand::fill(&mut number).map_err(|_| Error::new("there are no random numbers"))?;
    let path = folder.join(format!("{domain}.{:016x}", u64::from_be_bytes(number)));
    let hex: String = proof.digest.iter().map(|octet| format!("{octet:02x}")).collect();
    let Proof { challenge, domain, token, text, encoded, .. } = proof;
    let lines = [challenge.name(), domain, token, text, encoded, &hex].join("\n");
    store::write(&path, lines.as_bytes())?;
    Ok(Written(path))
}

/// What others have written down of a domain, and is shown here too.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Seen>);

/// What a look has found.
#[derive(Debug, Default)]
struct Seen {
    folder: Option<Stamp>,
    shown: HashMap<PathBuf, Option<Showing>>,
}

impl Others {
    /// Shows what is written down of `domain` in `folder`, and no longer what is not. Waits for the disk.
    pub(super) fn look(&self, folder: &Path, domain: &str, answers: &Arc<Answers>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(folder);
        let is_same = stamp == seen.folder && !stamp.is_some_and(|stamp| stamp.is_fresh());
        if is_same && seen.shown.is_empty() {
            return;
        }
        seen.folder = stamp;
        let found: Vec<PathBuf> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_of(path, domain) && is_young(path))
            .collect();
        seen.shown.retain(|path, _| found.contains(path));
        for path in found {
            if let Entry::Vacant(vacant) = seen.shown.entry(path) {
                let showing = read(vacant.key(), answers);
                vacant.insert(showing);
            }
        }
    }
}

/// Whether a file is one of a domain's challenges.
fn is_of(path: &Path, domain: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix(domain).and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|octet| octet.is_ascii_hexdigit()))
}

/// Whether a file was written lately.
fn is_young(path: &Path) -> bool {
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    written.is_ok_and(|written| {
        SystemTime::now().duration_since(written).unwrap_or_default() < LONGEST
    })
}

/// Shows what a file says; nothing if it is none of ours.
fn read(path: &Path, answers: &Arc<Answers>) -> Option<Showing> {
    let octets = file::read(path).ok()?;
    let text = std::str::from_utf8(&octets).ok()?;
    let lines: Vec<&str> = text.split('\n').collect();
    let [kind, domain, token, text, encoded, hex] = lines[..] else { return None };
    let all = [Challenge::Dns, Challenge::Http, Challenge::TlsAlpn];
    let challenge = all.into_iter().find(|challenge| challenge.name() == kind)?;
    let digest: Option<Vec<u8>> = (0..hex.len() / 2)
        .map(|at| hex.get(at * 2..at * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    let proof = Proof { challenge, domain, token, text, digest: &digest?, encoded };
    answers.show(&proof).ok()
}
