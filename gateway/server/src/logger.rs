//! The process's log: lines as CoreDNS writes them, or a JSON object each, on standard output, by a thread of its own.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use config::settings::{LogFormat, LogLevel};
use log::{Level, LevelFilter, Log, Metadata, Record};

/// How many lines may wait for a slow reader; what is beyond is dropped and counted.
const WAITING: usize = 16_384;

/// How long the end of the process waits for a slow reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// The target of query lines, which carry no plugin's name.
const QUERY: &str = "query";

/// What the writing thread is told.
enum Told {
    /// A line.
    Line(String),
    /// Tell when all lines so far are written.
    Flush(SyncSender<()>),
}

/// The log.
#[derive(Debug, Clone)]
pub(crate) struct Logger {
    format: LogFormat,
    timestamps: bool,
    to: SyncSender<Told>,
    dropped: &'static AtomicU64,
}

/// Lines dropped so far.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts the log. To be called once.
pub(crate) fn install(format: LogFormat, level: LogLevel, timestamps: bool) -> Logger {
    let (to, from) = sync_channel(WAITING);
    let logger = Logger { format, timestamps, to, dropped: &DROPPED };
    let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(move || write(&from));
    if spawned.is_err() || log::set_boxed_logger(Box::new(logger.clone())).is_err() {
        crate::say("the log could not be started; nothing will be logged");
    }
    log::set_max_level(filter(level));
    logger
}

/// The facade's filter for a level.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
    }
}

impl Logger {
    /// Waits, for a second at most, until all lines so far are written.
    pub(crate) fn flush(&self) {
        let end = Instant::now() + PATIENCE;
        let (to, done) = sync_channel(1);
        // If the reader is too slow, there may be no room even for this.
        while let Err(TrySendError::Full(_)) = self.to.try_send(Told::Flush(to.clone())) {
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // So that nobody is waited for if the writer is gone.
        drop(to);
        let left = end.saturating_duration_since(Instant::now());
        let _too_slow = done.recv_timeout(left).is_err();
    }

    /// A record as a line without its end.
    fn line(&self, record: &Record<'_>) -> String {
        let level = match record.level() {
            Level::Error => "ERROR",
            Level::Warn => "WARNING",
            Level::Info => "INFO",
            Level::Debug | Level::Trace => "DEBUG",
        };
        let target = record.target();
        let plugin = target.strip_prefix("plugin/");
        match self.format {
            LogFormat::Text => {
                let time = if self.timestamps { format!("{} ", now()) } else { String::new() };
                match plugin {
                    Some(plugin) => format!("{time}[{level}] plugin/{plugin}: {}", record.args()),
                    None => format!("{time}[{level}] {}", record.args()),
                }
            }
            LogFormat::Json => {
                let mut object = serde_json::Map::new();
                object.insert("time".to_owned(), now().into());
                object.insert("level".to_owned(), level.to_ascii_lowercase().into());
                if let Some(plugin) = plugin {
                    object.insert("plugin".to_owned(), plugin.into());
                }
                if target == QUERY {
                    object.insert("kind".to_owned(), QUERY.into());
                }
                object.insert("message".to_owned(), record.args().to_string().into());
                serde_json::Value::Object(object).to_string()
            }
        }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ours = target == QUERY
            || target.starts_with("plugin/")
            || ["causeway", "engine", "transports", "plugins", "config", "k8s", "certs"]
                .iter()
                .any(|name| target.split("::").next() == Some(name));
        // What libraries have to say matters only when it is bad.
        ours || metadata.level() <= Level::Error
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.to.try_send(Told::Line(self.line(record))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        Self::flush(self);
    }
}

/// Writes lines until nobody sends any more.
fn write(from: &Receiver<Told>) {
    let mut out = std::io::stdout();
    let mut buffer = Vec::new();
    while let Ok(told) = from.recv() {
        let mut next = Some(told);
        let mut flushed = Vec::new();
        while let Some(told) = next {
            match told {
                Told::Line(line) => {
                    // One record is one line, whatever a client has put into its query.
                    buffer.extend(line.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
                    buffer.push(b'\n');
                }
                Told::Flush(done) => flushed.push(done),
            }
            next = if buffer.len() < 64 << 10 { from.try_recv().ok() } else { None };
        }
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            buffer.extend_from_slice(
                format!("[WARNING] {dropped} log lines were dropped: the reader is too slow\n")
                    .as_bytes(),
            );
        }
        // A reader that has gone away is no reason to stop serving.
        drop(out.write_all(&buffer).and_then(|()| out.flush()));
        buffer.clear();
        for done in flushed {
            // Whoever asked may have stopped waiting.
            let _gone = done.send(()).is_err();
        }
    }
}

/// The time as RFC 3339 has it, in UTC with milliseconds.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, secs) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days to a date, by Howard Hinnant's algorithm for the proleptic Gregorian calendar.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a record becomes.
    fn line(format: LogFormat, target: &str, text: &str) -> String {
        let (to, _from) = sync_channel(1);
        let logger = Logger { format, timestamps: false, to, dropped: &DROPPED };
        logger.line(
            &Record::builder()
                .level(Level::Warn)
                .target(target)
                .args(format_args!("{text}"))
                .build(),
        )
    }

    #[test]
    fn lines_look_as_in_coredns_or_are_json() {
        assert_eq!(line(LogFormat::Text, "plugin/forward", "odd"), "[WARNING] plugin/forward: odd");
        assert_eq!(line(LogFormat::Text, "query", "odd"), "[WARNING] odd");
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, "plugin/x", "a \"b\"\n")).expect("JSON");
        assert_eq!((&json["level"], &json["plugin"]), (&"warning".into(), &"x".into()));
        assert_eq!(json["message"], "a \"b\"\n");
    }

    #[test]
    fn a_reader_that_stands_still_does_not_hold_up_the_end() {
        let (to, from) = sync_channel(1);
        to.send(Told::Line("the only place is taken".to_owned())).expect("room");
        let (done, ended) = sync_channel(1);
        let logger = Logger { format: LogFormat::Text, timestamps: false, to, dropped: &DROPPED };
        std::thread::spawn(move || {
            logger.flush();
            done.send(()).expect("the test waits");
        });
        ended.recv_timeout(30 * PATIENCE).expect("it ends");
        drop(from);
    }
}
