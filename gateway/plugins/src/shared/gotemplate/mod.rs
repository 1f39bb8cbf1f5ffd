//! Go's `text/template` language, as far as a query's answer can need it.
//!
//! A template is read once, at start: unknown functions, variables and fields of the data are refused there, with the place.
//! Running it takes a bounded number of steps and makes a bounded text. Values are those of [`super::expr`].

mod exec;
mod format;
mod funcs;
mod lex;
mod node;
mod parse;

#[cfg(test)]
mod tests;

use std::fmt;

use super::expr::Value;

/// A template that has been read.
#[derive(Debug)]
pub struct Template {
    /// The nodes of the template itself, then of those that it defines.
    bodies: Vec<Vec<node::Node>>,
    /// As it was written.
    source: String,
}

/// What a template fills in: the value of `.` and `$` at its start.
pub trait Data<'a> {
    /// The value of a field path such as `Question.Name`, and how many of its names that takes: the rest are members of
    /// the value. `args` are those of the last name, if it is one that takes some.
    ///
    /// # Errors
    /// If there is no such field, or it does not take these arguments.
    fn get(&self, path: &[String], args: &[Value<'a>]) -> Result<(Value<'a>, usize), Fail>;
}

/// Judges field paths of the data when a template is read.
pub type Known<'k> = &'k dyn Fn(&[String]) -> Result<(), String>;

impl Template {
    /// Reads a template; `known` judges the fields of the data that it uses.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str, known: Known<'_>) -> Result<Self, BadTemplate> {
        Ok(Self { bodies: parse::parse(text, known)?, source: text.to_owned() })
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Appends the text that it makes of `data` to `out`.
    ///
    /// # Errors
    /// If a step cannot be done, or there are too many. What was made till then stays in `out`.
    pub fn run<'a>(&'a self, data: &dyn Data<'a>, out: &mut String) -> Result<(), Fail> {
        exec::run(&self.bodies, data, out)
    }
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTemplate {
    /// Where, in octets from the start.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

impl BadTemplate {
    /// One at a place.
    fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadTemplate {}

/// Why a template makes no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail(String);

impl Fail {
    /// With these words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fail {}
