//! What the control socket of a running process is asked, and what it says: verbs that plugins answer, and reports that are read by
//! people and by programs. Serving them is the gateway's.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A report that takes its time; a text for people if there is none.
pub type Running = Pin<Box<dyn Future<Output = Result<Report, String>> + Send>>;

/// Answers a verb of the control socket.
pub trait Control: fmt::Debug + Send + Sync + 'static {
    /// Does what the verb says; `args` is what stands behind the verb and the subject. Must not block: what takes time is in
    /// the future, which is dropped when whoever asks has lost patience.
    fn run(&self, args: Vec<String>) -> Running;
}

/// Who answers a verb for a subject.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// The verb, such as `verify`.
    pub verb: &'static str,
    /// What it is about, such as the name of a cluster.
    pub subject: String,
    /// The plugin that answers.
    pub plugin: &'static str,
    /// The answer.
    pub handler: Arc<dyn Control>,
}

/// What a report comes to, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All is well.
    Good,
    /// It cannot be known whether something is wrong: the command that asked fails as one without an answer.
    Unknown,
    /// Something is wrong: the command that asked fails.
    Bad,
}

/// What a verb has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was found, for programs.
    pub value: Value,
    /// The same for people; without it [`Value::text`].
    pub text: Option<String>,
    /// What it comes to.
    pub outcome: Outcome,
}

impl Report {
    /// A report that all is well.
    pub fn new(value: impl Into<Value>) -> Self {
        Self { value: value.into(), text: None, outcome: Outcome::Good }
    }

    /// The same with a text of its own for people.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The same, and something is wrong.
    #[must_use]
    pub fn bad(self) -> Self {
        self.at_least(Outcome::Bad)
    }

    /// The same, and it cannot be known whether something is wrong, unless something is.
    #[must_use]
    pub fn unknown(self) -> Self {
        self.at_least(Outcome::Unknown)
    }

    /// The same with what another report comes to, if that is worse.
    #[must_use]
    pub fn at_least(mut self, outcome: Outcome) -> Self {
        self.outcome = self.outcome.max(outcome);
        self
    }

    /// What people read; ends in a line feed.
    pub fn to_text(&self) -> String {
        let mut text = match &self.text {
            Some(text) => text.chars().map(|c| if c == '\n' { c } else { plain(c) }).collect(),
            None => self.value.text(),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

impl<T: Into<Value>> From<T> for Report {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// A value of a report, as JSON has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Not known, or not there.
    #[default]
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Count(i64),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Self>),
    /// Named values in order; the names are words in lower case, with underscores.
    Fields(Vec<(Cow<'static, str>, Self)>),
}

impl Value {
    /// No fields yet.
    pub fn fields() -> Self {
        Self::Fields(Vec::new())
    }

    /// The same fields and one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Self>) -> Self {
        if let Self::Fields(fields) = &mut self {
            fields.push((name.into(), value.into()));
        }
        self
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Fields(fields) = self else { return None };
        fields.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The value as JSON (RFC 8259), in one line.
    pub fn json(&self) -> String {
        let mut out = String::new();
        self.put_json(&mut out);
        out
    }

    /// Appends the value as JSON.
    fn put_json(&self, out: &mut String) {
        match self {
            Self::Nothing => out.push_str("null"),
            Self::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Count(count) => put(out, count),
            Self::Real(real) if real.is_finite() => put(out, real),
            Self::Real(_) => out.push_str("null"),
            Self::Text(text) => put_string(out, text),
            Self::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    value.put_json(out);
                }
                out.push(']');
            }
            Self::Fields(fields) => {
                out.push('{');
                for (at, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    put_string(out, name);
                    out.push(':');
                    value.put_json(out);
                }
                out.push('}');
            }
        }
    }

    /// The value for people: fields a line each, lists of fields as tables where they fit. What is not printable is escaped.
    pub fn text(&self) -> String {
        let mut out = String::new();
        match self.short() {
            Some(short) => line(&mut out, 0, &short),
            None => self.put_text(&mut out, 0),
        }
        out
    }

    /// Appends a value that does not fit in a line.
    fn put_text(&self, out: &mut String, indent: usize) {
        match self {
            Self::Fields(fields) => {
                let shorts: Vec<_> = fields.iter().map(|(_, value)| value.short()).collect();
                let named = fields.iter().zip(&shorts).filter(|(_, short)| short.is_some());
                let width = named.map(|((name, _), _)| name.chars().count()).max().unwrap_or(0);
                for ((name, value), short) in fields.iter().zip(shorts) {
                    let name = name.replace('_', " ");
                    match short {
                        Some(short) => line(out, indent, &format!("{name:<width$}  {short}")),
                        None => {
                            line(out, indent, &format!("{name}:"));
                            value.put_text(out, indent + 2);
                        }
                    }
                }
            }
            Self::List(values) => {
                if let Some(rows) = table(values) {
                    rows.iter().for_each(|row| line(out, indent, row));
                    return;
                }
                for (at, value) in values.iter().enumerate() {
                    match value.short() {
                        Some(short) => line(out, indent, &short),
                        None => {
                            if at > 0 {
                                out.push('\n');
                            }
                            value.put_text(out, indent);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The value in a line, if it fits there.
    fn short(&self) -> Option<String> {
        Some(match self {
            Self::Nothing => "-".to_owned(),
            Self::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Self::Count(count) => count.to_string(),
            Self::Real(real) => format!("{real:.3}"),
            Self::Text(text) if text.is_empty() => "-".to_owned(),
            Self::Text(text) => text.chars().map(plain).collect(),
            Self::List(values) if values.is_empty() => "none".to_owned(),
            Self::List(values) => {
                let single = |value: &Self| match value {
                    Self::List(_) | Self::Fields(_) => None,
                    _ => value.short(),
                };
                values.iter().map(single).collect::<Option<Vec<_>>>()?.join(", ")
            }
            Self::Fields(fields) if fields.is_empty() => "-".to_owned(),
            Self::Fields(_) => return None,
        })
    }
}

/// The rows of a table, its head first, if all values are fields of the same names that fit in a line each.
fn table(values: &[Value]) -> Option<Vec<String>> {
    let Some(Value::Fields(first)) = values.first() else { return None };
    let head = first.iter().map(|(name, _)| name.replace('_', " ").to_uppercase()).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for value in values {
        let Value::Fields(fields) = value else { return None };
        let same = fields.iter().map(|(name, _)| name).eq(first.iter().map(|(name, _)| name));
        if !same {
            return None;
        }
        rows.push(fields.iter().map(|(_, value)| value.short()).collect::<Option<_>>()?);
    }
    let widths: Vec<usize> = (0..first.len())
        .map(|at| rows.iter().filter_map(|row| Some(row.get(at)?.chars().count())).max())
        .map(Option::unwrap_or_default)
        .collect();
    let row = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    Some(rows.iter().map(row).collect())
}

/// Appends a line without blanks at its end.
fn line(out: &mut String, indent: usize, text: &str) {
    put(out, format_args!("{:indent$}{}\n", "", text.trim_end()));
}

/// Appends something shown.
fn put(out: &mut String, shown: impl fmt::Display) {
    // Writing to a string cannot fail.
    let _unfailing = write!(out, "{shown}");
}

/// Appends a JSON string.
fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => put(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What stands for a character on a terminal, which control characters would work on.
fn plain(c: char) -> char {
    if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(count: i64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests;
