//! A hosts file that is read again when it changes.

use std::io::{self, BufRead, BufReader};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use engine::metrics::{Gauge, describe, gauge};
use engine::{Stage, Stop};
use wire::Name;

use super::table::{Builder, Table};
use crate::shared::file::{self, Stamp};
use crate::shared::zones::Zones;

/// The longest line, in octets: enough for hundreds of names, too little to fill the memory with.
const LONGEST: usize = 1 << 20;

/// A hosts file with the lines of the Corefile, and what they say now.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    /// Names outside are passed over.
    zones: Zones,
    /// The entries of the Corefile, behind those of the file.
    inline: Box<[(IpAddr, Name)]>,
    /// Whether addresses have names.
    reverse: bool,
    table: ArcSwap<Table>,
    /// The file as it was when it was read last.
    seen: Mutex<Option<Stamp>>,
    entries: Gauge,
    loaded: Gauge,
}

impl Source {
    /// The entries of the Corefile alone; [`Source::refresh`] reads the file.
    pub(super) fn new(
        path: PathBuf,
        zones: Zones,
        inline: Box<[(IpAddr, Name)]>,
        reverse: bool,
    ) -> Self {
        const ENTRIES: &str = "coredns_hosts_entries";
        const LOADED: &str = "coredns_hosts_reload_timestamp_seconds";
        describe(ENTRIES, "The combined number of entries in hosts and Corefile.");
        describe(LOADED, "The timestamp of the last reload of hosts file.");
        let entries = gauge(ENTRIES, &[("hostsfile", &path.to_string_lossy())]);
        let table = ArcSwap::from_pointee(finish(Builder::new(), &inline, reverse));
        entries.set(table.load().entries() as f64);
        let loaded = gauge(LOADED, &[]);
        Self { path, zones, inline, reverse, table, seen: Mutex::default(), entries, loaded }
    }

    /// What the file and the Corefile say now.
    pub(super) fn table(&self) -> arc_swap::Guard<Arc<Table>> {
        self.table.load()
    }

    /// Reads the file if it is not as it was; what was read stays if the file is gone.
    ///
    /// # Errors
    /// Those of reading a file that is there.
    pub(super) fn refresh(&self) -> io::Result<()> {
        // Held while reading, so that two tasks do not read the same file twice.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match file::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let stamp = Stamp::of(&file.metadata()?);
        if *seen == Some(stamp) {
            return Ok(());
        }
        let mut builder = Builder::new();
        read(BufReader::new(file), |line| {
            self.zones_names(line, |name, addr| builder.add(name, addr));
        })?;
        let table = finish(builder, &self.inline, self.reverse);
        log::debug!(target: "plugin/hosts", "Parsed hosts file into {} entries", table.entries());
        self.entries.set(table.entries() as f64);
        self.table.store(Arc::new(table));
        *seen = Some(stamp);
        let modified =
            stamp.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.loaded.set(modified.map_or(0.0, |time| time.as_secs_f64()));
        Ok(())
    }

    /// Calls `each` with the names of a line that are in the zones, and its address.
    fn zones_names(&self, line: &[u8], mut each: impl FnMut(&Name, IpAddr)) {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(addr) = words.next().and_then(address) else { return };
        for word in words {
            let name = std::str::from_utf8(word).ok().and_then(Name::parse);
            if let Some(name) = name.filter(|name| self.zones.has(name)) {
                each(&name, addr);
            }
        }
    }

    /// Looks for changes every `interval`, until told to stop.
    pub(super) async fn watch(self: Arc<Self>, interval: Duration, mut stop: Stop) {
        let mut failed = false;
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(interval) => {}
            }
            let source = Arc::clone(&self);
            let Ok(result) = tokio::task::spawn_blocking(move || source.refresh()).await else {
                continue;
            };
            // Said once, not at every look.
            if let Err(error) = &result
                && !failed
            {
                let path = self.path.display();
                log::warn!(target: "plugin/hosts", "Cannot read {path}, its last entries stay: {error}");
            }
            failed = result.is_err();
        }
    }
}

/// Reads an address; the zone of an IPv6 address is dropped, and one in its mapped form is of IPv4.
pub(super) fn address(word: &[u8]) -> Option<IpAddr> {
    let bare = word.split(|byte| *byte == b'%').next()?;
    let addr: IpAddr = std::str::from_utf8(bare).ok()?.parse().ok()?;
    Some(addr.to_canonical())
}

/// Adds the entries of the Corefile, and completes the table.
fn finish(mut builder: Builder, inline: &[(IpAddr, Name)], reverse: bool) -> Table {
    inline.iter().for_each(|(addr, name)| builder.add(name, *addr));
    builder.finish(reverse)
}

/// Calls `each` with every line; of a line that is too long with its beginning.
fn read(mut file: impl BufRead, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let chunk = file.fill_buf()?;
        if chunk.is_empty() {
            each(&line);
            return Ok(());
        }
        let (taken, whole) = match chunk.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (chunk.len(), false),
        };
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..taken.min(room)]);
        file.consume(taken);
        if whole {
            each(&line);
            line.clear();
        }
    }
}
