//! The sources of settings, one above the other.

use super::rows::{PREFIX, ROWS};
use super::{Fault, Flags};
use crate::value::nearest;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most octets of a settings file.
const LIMIT: u64 = 1 << 20;

/// The names of the layers.
const FILE: &str = "file";
const VARIABLES: &str = "environment";
const FLAGS: &str = "flags";

/// The sources of settings, one above the other.
#[derive(Default)]
pub(super) struct Layers {
    /// All values; the later layer wins.
    figment: Figment,
    /// The settings file, if one was read.
    pub(super) file: Option<PathBuf>,
    /// The flag of each key, as typed.
    typed: BTreeMap<String, String>,
    /// All that is wrong.
    pub(super) faults: Vec<Fault>,
}

/// One source.
struct Layer {
    name: &'static str,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

impl Layers {
    /// Reads all sources.
    pub(super) fn read(
        &mut self,
        flags: &Flags,
        env: impl Iterator<Item = (String, String)>,
        files: &[&Path],
    ) {
        let ours: BTreeMap<_, _> = env
            .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_owned(), value)))
            .filter(|(name, value)| !injected(name, value))
            .collect();
        let named = flags.config.clone().or_else(|| ours.get("CONFIG").map(PathBuf::from));
        let there = || files.iter().find(|path| path.exists()).map(|path| path.to_path_buf());
        if let Some(path) = named.or_else(there) {
            self.read_file(path);
        }
        self.read_variables(&ours);
        self.read_flags(flags);
    }

    /// Puts a source above the others.
    fn put(&mut self, name: &'static str, values: Dict) {
        self.figment = std::mem::take(&mut self.figment).merge(Layer { name, values });
    }

    /// Reads the settings file.
    fn read_file(&mut self, path: PathBuf) {
        let source = path.display().to_string();
        let mut fault = |what: String, help: &str| {
            self.faults.push(Fault {
                source: source.clone(),
                key: String::new(),
                what,
                help: help.to_owned(),
            });
        };
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) => return fault(format!("cannot be read: {error}"), ""),
        };
        let values = match Toml::string(&text).data() {
            Ok(mut values) => values.remove(&Profile::Default).unwrap_or_default(),
            Err(error) => {
                let text = error.to_string();
                return fault(
                    format!("is no TOML: {}", text.trim_end()),
                    "write key = value, texts in quotes",
                );
            }
        };
        for key in keys(&values) {
            if ROWS.iter().all(|row| row.key != key) {
                self.faults.push(unknown(&source, &key, ROWS.iter().map(|row| row.key.to_owned())));
            }
        }
        self.put(FILE, values);
        self.file = Some(path);
    }

    /// Reads the environment variables, without their prefix.
    fn read_variables(&mut self, ours: &BTreeMap<String, String>) {
        let mut values = Dict::new();
        for (name, value) in ours.iter().filter(|(name, _)| *name != "CONFIG") {
            let variable = format!("{PREFIX}{name}");
            match ROWS.iter().find(|row| row.variable() == variable) {
                Some(row) => insert(&mut values, row.key, value),
                None => {
                    let known = ROWS
                        .iter()
                        .map(super::Setting::variable)
                        .chain([format!("{PREFIX}CONFIG")]);
                    self.faults.push(unknown("environment", &variable, known));
                }
            }
        }
        self.put(VARIABLES, values);
    }

    /// Reads the flags.
    fn read_flags(&mut self, flags: &Flags) {
        let mut values = Dict::new();
        for flag in &flags.set {
            match ROWS.iter().find(|row| row.key == flag.key) {
                Some(row) => insert(&mut values, row.key, &flag.value),
                None => self.faults.push(unknown(
                    &flag.flag,
                    &flag.key,
                    ROWS.iter().map(|row| row.key.to_owned()),
                )),
            }
            self.typed.insert(flag.key.clone(), flag.flag.clone());
        }
        self.put(FLAGS, values);
    }

    /// The value of a key and where it came from.
    pub(super) fn find(&self, key: &str) -> Option<(Value, String)> {
        let value = self.figment.find_value(key).ok()?;
        let layer = self.figment.get_metadata(value.tag()).map(|metadata| metadata.name.clone());
        let source = match layer.as_deref() {
            Some(FILE) => self.file.as_ref().map(|path| path.display().to_string()),
            Some(VARIABLES) => ROWS.iter().find(|row| row.key == key).map(super::Setting::variable),
            Some(FLAGS) => self.typed.get(key).cloned(),
            _ => None,
        };
        Some((value, source.unwrap_or_default()))
    }
}

/// Reads a file of bounded size.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LIMIT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is larger than 1 MiB"));
    }
    Ok(text)
}

/// Whether a variable is one that Kubernetes puts into every container beside a service named `causeway`.
fn injected(name: &str, value: &str) -> bool {
    name == "SERVICE_HOST"
        || name.starts_with("SERVICE_PORT")
        || name.starts_with("PORT_")
        || (name == "PORT" && value.contains("://"))
}

/// Sets a key with at most one dot.
fn insert(values: &mut Dict, key: &str, value: &str) {
    let value = Value::from(value);
    let Some((table, key)) = key.split_once('.') else {
        values.insert(key.to_owned(), value);
        return;
    };
    let table = values.entry(table.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if let Value::Dict(_, inner) = table {
        inner.insert(key.to_owned(), value);
    }
}

/// The keys of a table, those of tables in it with a dot. A quoted key with a dot in it keeps its quotes, for it is none of ours.
fn keys(values: &Dict) -> Vec<String> {
    let whole = |key: &String| if key.contains('.') { format!("\"{key}\"") } else { key.clone() };
    let mut all = Vec::new();
    for (key, value) in values {
        let table = format!("{key}.");
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => {
                all.extend(inner.keys().map(|inner| format!("{}.{}", whole(key), whole(inner))));
            }
            Value::Dict(..) if ROWS.iter().any(|row| row.key.starts_with(&table)) => {}
            _ => all.push(whole(key)),
        }
    }
    all
}

/// Says that a key is none of ours.
fn unknown(source: &str, key: &str, known: impl Iterator<Item = String>) -> Fault {
    let known: Vec<_> = known.collect();
    let help = match nearest(key, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known: {}", known.join(", ")),
    };
    Fault { source: source.to_owned(), key: key.to_owned(), what: "is no setting".to_owned(), help }
}
