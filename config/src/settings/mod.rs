//! The settings of the process: defaults < `causeway.toml` < `CAUSEWAY_*` < flags.

mod layers;
mod rows;

pub use rows::{ROWS, Setting};

use layers::Layers;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a settings file is looked for, the first one that is there is read.
const FILES: [&str; 2] = ["causeway.toml", "/etc/causeway/causeway.toml"];

/// The settings of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Corefile; `None` for `Corefile` in the working directory if it is there, else the built-in one. `stdin` is a pipe.
    pub corefile: Option<PathBuf>,
    /// The port of `dns` keys that have none.
    pub port: u16,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// The least severe lines that are logged.
    pub log_level: LogLevel,
    /// Whether log lines in text form begin with the time.
    pub log_timestamps: bool,
    /// Whether the zones and the version are left out at the start.
    pub quiet: bool,
    /// The file that holds the process's number while it runs.
    pub pid_file: Option<PathBuf>,
    /// How many threads answer; 0 for one a core.
    pub worker_threads: usize,
    /// The largest UDP reply in octets, whatever a client offers: 512 to 65535.
    pub udp_payload_size: u16,
    /// What must outlive a restart: certificates, accounts, snapshots.
    pub data_dir: PathBuf,
    /// What need not: sockets.
    pub run_dir: PathBuf,
    /// How long a stopping listener waits for what is under way.
    pub grace: Duration,
    /// How much may be open at once.
    pub limits: Limits,
}

/// How much may be open at once. What is over it is closed or not answered, and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections a listener of TCP, TLS, HTTPS or gRPC.
    pub tcp_connections: usize,
    /// Connections a client's address and listener.
    pub tcp_connections_per_client: usize,
    /// Queries under way a connection.
    pub tcp_queries: usize,
    /// Queries a UDP socket that wait for something, such as an upstream.
    pub udp_waiting: usize,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines as CoreDNS writes them.
    Text,
    /// One JSON object a line.
    Json,
}

/// How severe a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is odd.
    Warning,
    /// Something happened.
    Info,
    /// For those who look for a fault.
    Debug,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            corefile: None,
            port: 53,
            log_format: LogFormat::Text,
            log_level: LogLevel::Info,
            log_timestamps: false,
            quiet: false,
            pid_file: None,
            worker_threads: 0,
            udp_payload_size: 1232,
            data_dir: PathBuf::from("/var/lib/causeway"),
            run_dir: PathBuf::from("/run/causeway"),
            grace: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tcp_connections: 10_000,
            tcp_connections_per_client: 1_000,
            tcp_queries: 128,
            udp_waiting: 10_000,
        }
    }
}

/// What the command line sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The settings file, which must be there.
    pub config: Option<PathBuf>,
    /// Single settings; of one that is set twice the last counts.
    pub set: Vec<Flag>,
}

/// One setting of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The flag as typed, for errors: `-dns.port`.
    pub flag: String,
    /// The setting's key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Where each setting came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The settings file, if one was read.
    pub file: Option<PathBuf>,
    /// Those that are not defaults, by key.
    from: BTreeMap<&'static str, String>,
}

impl Provenance {
    /// Where the setting of a key came from: a file, a variable, a flag, or `default`.
    pub fn of(&self, key: &str) -> &str {
        self.from.get(key).map_or("default", String::as_str)
    }
}

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, the variable or the flag.
    pub source: String,
    /// The setting's key; empty if the source is wrong as a whole.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl fmt::Display for Fault {
    /// Writes `source: key what (help)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.key.is_empty() { "" } else { " " };
        write!(f, "{}: {}{space}{}", self.source, self.key, self.what)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, " ({})", self.help) }
    }
}

/// All that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<Fault>);

impl fmt::Display for Refused {
    /// Writes one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Fault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refused {}

impl Settings {
    /// Reads the settings file, the process's environment and the flags.
    ///
    /// # Errors
    ///
    /// All settings that are unknown or wrong, and a settings file that was named and cannot be read.
    pub fn load(flags: &Flags) -> Result<(Self, Provenance), Refused> {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self::read(flags, env, &FILES.map(Path::new))
    }

    /// Reads the settings from these sources.
    fn read(
        flags: &Flags,
        env: impl Iterator<Item = (String, String)>,
        files: &[&Path],
    ) -> Result<(Self, Provenance), Refused> {
        let mut layers = Layers::default();
        layers.read(flags, env, files);
        let mut settings = Self::default();
        let mut from = BTreeMap::new();
        for row in ROWS {
            let Some((value, source)) = layers.find(row.key) else { continue };
            match (row.set)(&mut settings, &value) {
                Ok(()) => {
                    from.insert(row.key, source);
                }
                Err(what) => layers.faults.push(Fault {
                    source,
                    key: row.key.to_owned(),
                    what,
                    help: format!("write {}", row.words),
                }),
            }
        }
        if !layers.faults.is_empty() {
            return Err(Refused(layers.faults));
        }
        Ok((settings, Provenance { file: layers.file, from }))
    }

    /// How many threads answer.
    pub fn workers(&self) -> usize {
        match self.worker_threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        }
    }
}

/// Writes each setting with where it came from, one a line in columns.
pub fn table(settings: &Settings, provenance: &Provenance) -> String {
    let rows = || ROWS.iter().map(|row| (row.key, (row.show)(settings), provenance.of(row.key)));
    let width = |length: fn(&(&str, String, &str)) -> usize| {
        rows().map(|row| length(&row)).max().unwrap_or(0)
    };
    let (keys, values) = (width(|row| row.0.len()), width(|row| row.1.chars().count()));
    rows().map(|(key, value, from)| format!("{key:keys$}  {value:values$}  {from}\n")).collect()
}

#[cfg(test)]
mod tests;
