//! One zone that is signed again and again.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::metrics::{Gauge, describe, gauge};
use engine::{Stage, Stop};
use wire::{Name, rtype};
use zone::Cursor;

use super::signed;
use crate::shared::dnssec::{Key, KeyFiles, Times};
use crate::shared::file::Stamp;
use crate::shared::span::Span;
use crate::shared::zone::{Loaded, load};

/// How often the signatures are looked at.
const EVERY: Duration = Duration::from_secs(5 * HOUR);
/// How often files are looked at for changes.
const LOOK: Duration = Duration::from_secs(60);
/// An hour, in seconds.
const HOUR: u64 = 3600;
/// A day, in seconds.
const DAY: u64 = 24 * HOUR;
/// How old signatures may be, in seconds.
const OLD: u64 = 6 * DAY;
/// How long they must still be good, in seconds.
const SPARE: u64 = 7 * DAY;

/// Whether the last attempt to sign a zone has failed.
const BROKEN: &str = "causeway_sign_broken";
/// When the signatures of a zone end.
const EXPIRES: &str = "causeway_sign_expiration_timestamp_seconds";

/// A zone file, and what becomes of it.
#[derive(Debug)]
pub(super) struct Job {
    /// The zone file.
    source: PathBuf,
    zone: Name,
    /// The signed one.
    target: PathBuf,
    files: KeyFiles,
    state: Mutex<State>,
    broken: Gauge,
    expires: Gauge,
}

/// What a job remembers.
#[derive(Debug)]
struct State {
    keys: Vec<Key>,
    /// The files that the zone was read from, as they were.
    stamps: Vec<(PathBuf, Stamp)>,
    /// What was wrong and has been said.
    told: String,
    /// Whether the zone could not be signed when that was due.
    failed: bool,
}

impl Job {
    /// Reads the keys.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn new(
        source: PathBuf,
        zone: Name,
        directory: &Path,
        files: KeyFiles,
    ) -> Result<Self, String> {
        describe(BROKEN, "Whether the zone could not be signed; the last signed one stays.");
        describe(EXPIRES, "When the signatures of the zone end, in seconds since 1970.");
        let keys = read(&files)?;
        let labels = [("zone", &*zone.to_string())];
        Ok(Self {
            target: directory.join(format!("db.{zone}signed")),
            source,
            files,
            state: Mutex::new(State {
                keys,
                stamps: Vec::new(),
                told: String::new(),
                failed: false,
            }),
            broken: gauge(BROKEN, &labels),
            expires: gauge(EXPIRES, &labels),
            zone,
        })
    }

    /// Signs the zone at once if there is a need, then again and again, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, mut stop: Stop) {
        let mut looks = 0u32;
        loop {
            let job = Arc::clone(&self);
            let is_due = LOOK * looks >= EVERY;
            let checks = looks == 0 || is_due;
            if is_due {
                looks = 0;
            }
            looks += 1;
            let done = tokio::task::spawn_blocking(move || {
                if checks || job.has_changed() {
                    job.run(now());
                }
            });
            if let Err(error) = done.await {
                log::error!(target: "plugin/sign", "signing {} ended early: {error}", self.zone);
            }
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Whether the zone file, one that it includes, or a key is not as it was.
    fn has_changed(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(path, stamp): &(PathBuf, Stamp)| {
            std::fs::metadata(path).is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        self.files.have_changed() || !state.stamps.iter().all(same)
    }

    /// Signs the zone if there is a need, and says so.
    pub(super) fn run(&self, now: u64) {
        // Held while signing, so that two tasks do not write the same file.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trouble = None;
        if self.files.have_changed() {
            match read(&self.files) {
                Ok(keys) => state.keys = keys,
                Err(wrong) => trouble = Some(format!("{wrong}; the last good keys sign")),
            }
        }
        let (zone, target) = (&self.zone, self.target.display());
        match self.need(&state, now) {
            None => {
                log::info!(
                    target: "plugin/sign",
                    "Skipping signing zone \"{zone}\" in \"{target}\": signatures are valid"
                );
            }
            Some(why) => {
                log::info!(target: "plugin/sign", "Signing \"{zone}\" because {why}");
                let signed = self.sign(&mut state, now);
                state.failed = signed.is_err();
                if let Err(wrong) = signed {
                    trouble = Some(wrong);
                }
            }
        }
        self.broken.set(if trouble.is_none() { 0.0 } else { 1.0 });
        let trouble = trouble.unwrap_or_default();
        if !trouble.is_empty() && trouble != state.told {
            log::warn!(
                target: "plugin/sign",
                "Error signing \"{zone}\": {trouble}, in \"{target}\"; next attempt in {}",
                Span(EVERY)
            );
        }
        state.told = trouble;
    }

    /// Why the zone has to be signed; none if it has not.
    fn need(&self, state: &State, now: u64) -> Option<String> {
        let modified = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified());
        let written = match modified(&self.target) {
            Ok(written) => written,
            Err(error) => return Some(format!("open {}: {error}", self.target.display())),
        };
        if modified(&self.source).is_ok_and(|changed| changed > written) {
            return Some(format!("{} is newer", self.source.display()));
        }
        let same = |(path, stamp): &(PathBuf, Stamp)| {
            std::fs::metadata(path).is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        if let Some((path, _)) = state.stamps.iter().find(|known| !same(known)) {
            return Some(format!("{} has changed", path.display()));
        }
        if state.failed {
            return Some("it could not be signed the last time".to_owned());
        }
        let old = match load(&self.target, &self.zone, &mut Vec::new()) {
            Ok(old) => old,
            Err(trouble) => return Some(trouble.to_string()),
        };
        let mut apex = Apex::of(&old);
        let mut own: Vec<&[u8]> = state.keys.iter().map(Key::data).collect();
        own.sort_unstable();
        apex.keys.sort_unstable();
        if apex.keys != own {
            return Some("the keys are others".to_owned());
        }
        let Some(Times { inception, expiration }) = apex.times else {
            return Some("its SOA record is not signed".to_owned());
        };
        self.expires.set(expiration as f64);
        let date = |seconds: u64| certs::date(i64::try_from(seconds).unwrap_or(i64::MAX));
        if inception > now {
            return Some(format!("the signatures begin in the future, at {}", date(inception)));
        }
        if inception + OLD < now {
            return Some(format!("the signatures are older than 6 days, of {}", date(inception)));
        }
        if expiration < now + SPARE {
            return Some(format!("the signatures end within 7 days, at {}", date(expiration)));
        }
        None
    }

    /// Signs the zone.
    fn sign(&self, state: &mut State, now: u64) -> Result<(), String> {
        let begun = Instant::now();
        state.stamps.clear();
        let read = load(&self.source, &self.zone, &mut state.stamps)
            .map_err(|trouble| format!("{}: {trouble}", self.source.display()))?;
        for note in &read.notes {
            log::warn!(target: "plugin/sign", "{note}");
        }
        let old = load(&self.target, &self.zone, &mut Vec::new()).ok();
        // Time itself, in 32 bits (RFC 1982); but never the serial that is there already.
        let mut serial = (now & u64::from(u32::MAX)) as u32;
        if old.is_some_and(|old| old.zone.soa().serial == serial) {
            serial = serial.wrapping_add(1);
        }
        let jitter = RandomState::new().hash_one(now);
        let times = Times {
            inception: now.saturating_sub(3 * HOUR + jitter % (18 * HOUR)),
            expiration: now + 32 * DAY + (jitter >> 32) % (5 * DAY),
        };
        let text = signed::zone(&read.zone, &state.keys, serial, times)?;
        self.write(&text).map_err(|error| format!("cannot write the signed zone: {error}"))?;
        self.expires.set(times.expiration as f64);
        let tags: Vec<String> = state.keys.iter().map(|key| key.tag().to_string()).collect();
        let next = certs::date(i64::try_from(now + EVERY.as_secs()).unwrap_or(i64::MAX));
        log::info!(
            target: "plugin/sign",
            "Successfully signed zone \"{}\" in \"{}\" with key tags \"{}\" and {serial} SOA serial, elapsed {}, next: {}",
            self.zone,
            self.target.display(),
            tags.join(","),
            Span(begun.elapsed()),
            next.replace(" UTC", "Z").replace(' ', "T")
        );
        Ok(())
    }

    /// Puts a text in the place of the signed zone, whole or not at all.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.target.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let fresh = self.target.with_file_name(name);
        let written = File::create(&fresh).and_then(|file| {
            let mut out = BufWriter::new(file);
            out.write_all(text.as_bytes())?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            std::fs::rename(&fresh, &self.target)
        });
        if written.is_err() {
            // What is not there cannot be removed, which is as well.
            drop(std::fs::remove_file(&fresh));
        }
        written
    }
}

/// What the apex of a signed zone says of its signatures.
#[derive(Debug, Default)]
struct Apex {
    /// The data of its DNSKEY records.
    keys: Vec<Vec<u8>>,
    /// From when to when the SOA record's signature is good.
    times: Option<Times>,
}

impl Apex {
    /// Reads it.
    fn of(signed: &Loaded) -> Self {
        let mut apex = Self::default();
        signed.zone.walk(&mut Cursor::default(), |owner, kind, _, data| {
            if owner != signed.zone.apex() {
                return false;
            }
            if kind == rtype::DNSKEY {
                apex.keys.push(data.to_vec());
            }
            if kind == rtype::RRSIG
                && data.starts_with(&rtype::SOA.to_be_bytes())
                && let Some([e0, e1, e2, e3, i0, i1, i2, i3]) = data.get(8..16)
            {
                apex.times = Some(Times {
                    expiration: u64::from(u32::from_be_bytes([*e0, *e1, *e2, *e3])),
                    inception: u64::from(u32::from_be_bytes([*i0, *i1, *i2, *i3])),
                });
            }
            true
        });
        apex
    }
}

/// Reads keys that can sign a whole zone.
fn read(files: &KeyFiles) -> Result<Vec<Key>, String> {
    let keys = files.read().map_err(|wrong| wrong.to_string())?;
    match keys.iter().find(|key| !key.is_entry()) {
        Some(key) => Err(format!(
            "key {} (keyid: {}) is a zone-signing key: only key-signing or common keys, with the flags 257, sign zones here",
            key.owner(),
            key.tag()
        )),
        None => Ok(keys),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
