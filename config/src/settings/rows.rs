//! The settings one by one: one row reads, shows and documents each.

use super::{LogFormat, LogLevel, Settings};
use crate::value::{duration, nearest};
use figment::value::{Num, Value};
use std::path::PathBuf;
use std::time::Duration;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key; a dot stands for a table of the settings file and for `_` in a variable.
    pub key: &'static str,
    /// Its values in words, for help texts.
    pub words: &'static str,
    /// What it is for, in one line.
    pub what: &'static str,
    /// Sets it, or says what is wrong.
    pub(super) set: fn(&mut Settings, &Value) -> Result<(), String>,
    /// Shows it as it is written.
    pub(super) show: fn(&Settings) -> String,
}

impl Setting {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.replace('.', "_").to_uppercase())
    }

    /// Its default as it is written; empty for none.
    pub fn default_text(&self) -> String {
        (self.show)(&Settings::default())
    }
}

/// What the names of our environment variables begin with.
pub(super) const PREFIX: &str = "CAUSEWAY_";

/// Makes a row whose value is a number within bounds.
macro_rules! number {
    ($key:literal, $least:literal, $most:literal, $words:literal, $what:literal, $($field:ident).+) => {
        Setting {
            key: $key,
            words: $words,
            what: $what,
            set: |settings, value| {
                settings.$($field).+ = number(value, $least, $most)?;
                Ok(())
            },
            show: |settings| settings.$($field).+.to_string(),
        }
    };
}

/// All settings, in the order in which they are shown.
pub const ROWS: &[Setting] = &[
    Setting {
        key: "corefile",
        words: "a path, or stdin",
        what: "The Corefile. Without it, `Corefile` in the working directory if it is there, else `. { whoami; log }`.",
        set: |settings, value| path(value).map(|path| settings.corefile = Some(path)),
        show: |settings| {
            settings.corefile.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        },
    },
    number!(
        "port",
        0,
        65535,
        "a port from 0 to 65535",
        "The port of `dns` keys that have none.",
        port
    ),
    Setting {
        key: "log_format",
        words: "text or json",
        what: "The form of log lines: as CoreDNS writes them, or one JSON object a line.",
        set: |settings, value| choice(value, &FORMATS).map(|format| settings.log_format = format),
        show: |settings| name(&FORMATS, settings.log_format),
    },
    Setting {
        key: "log_level",
        words: "error, warning, info or debug",
        what: "The least severe lines that are logged.",
        set: |settings, value| choice(value, &LEVELS).map(|level| settings.log_level = level),
        show: |settings| name(&LEVELS, settings.log_level),
    },
    Setting {
        key: "log_timestamps",
        words: "true or false",
        what: "Whether log lines in text form begin with the time; JSON always has it.",
        set: |settings, value| flag(value).map(|flag| settings.log_timestamps = flag),
        show: |settings| settings.log_timestamps.to_string(),
    },
    Setting {
        key: "quiet",
        words: "true or false",
        what: "Whether the zones and the version are left out at the start.",
        set: |settings, value| flag(value).map(|flag| settings.quiet = flag),
        show: |settings| settings.quiet.to_string(),
    },
    Setting {
        key: "pid_file",
        words: "a path",
        what: "The file that holds the process's number while it runs.",
        set: |settings, value| path(value).map(|path| settings.pid_file = Some(path)),
        show: |settings| {
            settings.pid_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        },
    },
    number!(
        "worker_threads",
        0,
        1024,
        "a number from 0 to 1024",
        "How many threads answer; 0 for one a core.",
        worker_threads
    ),
    number!(
        "udp_payload_size",
        512,
        65535,
        "a number of octets from 512 to 65535",
        "The largest UDP reply, whatever a client offers. 1232 octets pass every path unfragmented.",
        udp_payload_size
    ),
    Setting {
        key: "data_dir",
        words: "a path",
        what: "What must outlive a restart: certificates, ACME accounts.",
        set: |settings, value| path(value).map(|path| settings.data_dir = path),
        show: |settings| settings.data_dir.display().to_string(),
    },
    Setting {
        key: "run_dir",
        words: "a path",
        what: "What need not: the control socket.",
        set: |settings, value| path(value).map(|path| settings.run_dir = path),
        show: |settings| settings.run_dir.display().to_string(),
    },
    Setting {
        key: "grace",
        words: "a duration such as 5s or 1m",
        what: "How long a stopping listener waits for what is under way.",
        set: |settings, value| time(value).map(|time| settings.grace = time),
        show: |settings| show_time(settings.grace),
    },
    number!(
        "limits.tcp_connections",
        1,
        1_000_000,
        "a number from 1 to 1000000",
        "Open connections over all listeners, QUIC's too. When all are taken, an idle one makes room; if none is idle, a new one is closed. No more than file descriptors allow.",
        limits.tcp_connections
    ),
    number!(
        "limits.tcp_connections_per_client",
        1,
        1_000_000,
        "a number from 1 to 1000000",
        "Open connections of one client, which is an IPv4 address or the /64 of an IPv6 one; a new one over it is closed.",
        limits.tcp_connections_per_client
    ),
    number!(
        "limits.tcp_queries",
        1,
        65535,
        "a number from 1 to 65535",
        "Queries under way a connection; no more are read before one is answered.",
        limits.tcp_queries
    ),
    number!(
        "limits.udp_waiting",
        1,
        1_000_000,
        "a number from 1 to 1000000",
        "Queries a UDP socket that wait for something, such as an upstream; one over it is dropped. A client has half of them at most.",
        limits.udp_waiting
    ),
];

/// The forms of log lines.
const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The levels of log lines.
const LEVELS: [(&str, LogLevel); 4] = [
    ("error", LogLevel::Error),
    ("warning", LogLevel::Warning),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];

/// A value as it is written, for errors.
fn written(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("'{text}'"),
        Value::Char(_, sign) => format!("'{sign}'"),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, Num::F32(number)) => number.to_string(),
        Value::Num(_, Num::F64(number)) => number.to_string(),
        Value::Num(_, number) => match (number.to_i128(), number.to_u128()) {
            (Some(number), _) => number.to_string(),
            (_, Some(number)) => number.to_string(),
            _ => "a number".to_owned(),
        },
        Value::Dict(..) => "a table".to_owned(),
        Value::Array(..) => "a list".to_owned(),
        Value::Empty(..) => "nothing".to_owned(),
    }
}

/// Says that a value is wrong.
fn wrong(value: &Value) -> String {
    format!("cannot be {}", written(value))
}

/// Reads a number within bounds; variables and flags give it as text.
fn number<T: TryFrom<u128>>(value: &Value, least: u128, most: u128) -> Result<T, String> {
    let number = match value {
        Value::Num(_, number) => number.to_u128().or_else(|| number.to_i128()?.try_into().ok()),
        Value::String(_, text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| (least..=most).contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| wrong(value))
}

/// Reads `true` or `false`.
fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(_, flag) => Ok(*flag),
        Value::String(_, text) => text.parse().map_err(|_| wrong(value)),
        _ => Err(wrong(value)),
    }
}

/// Reads a path that is not empty.
fn path(value: &Value) -> Result<PathBuf, String> {
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        _ => Err(wrong(value)),
    }
}

/// Reads a duration with units.
fn time(value: &Value) -> Result<Duration, String> {
    let Some(text) = value.as_str() else { return Err(wrong(value)) };
    duration(text).map_err(|error| format!("{}: {error}", wrong(value)))
}

/// Shows a duration as it is written.
fn show_time(time: Duration) -> String {
    match (time.as_secs(), time.subsec_nanos()) {
        (seconds, 0) => format!("{seconds}s"),
        (seconds, nanos) => {
            let text = format!("{seconds}.{nanos:09}");
            format!("{}s", text.trim_end_matches('0'))
        }
    }
}

/// Reads one of a few words.
fn choice<T: Copy>(value: &Value, choices: &[(&str, T)]) -> Result<T, String> {
    let text = value.as_str().ok_or_else(|| wrong(value))?;
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        match nearest(text, choices.iter().map(|(name, _)| *name)) {
            Some(near) => format!("{}, did you mean '{near}'?", wrong(value)),
            None => wrong(value),
        }
    })
}

/// The word of a choice.
fn name<T: Copy + PartialEq>(choices: &[(&str, T)], wanted: T) -> String {
    choices
        .iter()
        .find(|(_, choice)| *choice == wanted)
        .map(|(name, _)| (*name).to_owned())
        .unwrap_or_default()
}
