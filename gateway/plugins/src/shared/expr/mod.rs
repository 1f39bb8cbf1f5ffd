//! The expressions of `view` and `template`: expr-lang (`https://expr-lang.org`) with functions that tell of the query.
//!
//! An expression is read and checked once, at start: names that are not known, wrong numbers of arguments and types that
//! cannot go together are refused there, with the place. Running it takes a bounded number of steps and allocates nothing as
//! long as it makes no long strings and no arrays. Dates are not there.

mod ast;
mod builtins;
mod check;
mod facts;
mod json;
mod lex;
mod loops;
mod op;
mod parse;
mod run;
mod types;
mod value;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use config::{Diagnostic, Word};
use engine::{Exchange, Metadata};

pub use types::Type;
pub use value::{Text, Value};

/// An expression that has been checked.
#[derive(Debug)]
pub struct Program {
    op: op::Op,
    kind: Type,
}

/// The names that an expression may use beside the functions that all have.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    vars: Vec<(String, Type)>,
    groups: bool,
    clients: bool,
}

impl Scope {
    /// A scope with the function `group`, which gives what a group of the regular expression matched.
    pub fn with_groups() -> Self {
        Self { groups: true, ..Self::default() }
    }

    /// The same scope, with the function `groups` if the block knows its clients.
    pub fn knowing_clients(self, clients: bool) -> Self {
        Self { clients, ..self }
    }

    /// Adds a variable; its value must stand at the same place in [`Context::vars`].
    pub fn add(&mut self, name: &str, kind: Type) {
        self.vars.push((name.to_owned(), kind));
    }

    /// Whether a name has a meaning already, so that no variable can have it.
    pub fn is_reserved(&self, name: &str) -> bool {
        (check::is_function(name, true) && name != check::GROUPS)
            || parse::parse(name).map(|node| node.kind) != Ok(ast::Ast::Name(name.to_owned()))
    }
}

/// What an expression looks at.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The query.
    pub x: &'a Exchange,
    /// The block's metadata.
    pub metadata: &'a Metadata,
    /// The match that `group` tells of.
    pub groups: Option<&'a regex::Captures<'a>>,
    /// The values of the scope's variables.
    pub vars: &'a [Value<'static>],
}

impl Program {
    /// Reads an expression from the words of a line, with a space between two of them.
    ///
    /// # Errors
    /// If it is none, or what it says cannot be; at the word where that shows.
    pub fn read(words: &[Word], scope: &Scope) -> Result<Self, Diagnostic> {
        let text = words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ");
        Self::compile(&text, scope).map_err(|wrong| {
            let mut at = wrong.at;
            let word = words.iter().find(|word| {
                let inside = at <= word.text.len();
                if !inside {
                    at -= word.text.len() + 1;
                }
                inside
            });
            let what = format!("{} in the expression {text}", wrong.what);
            let mut diagnostic = match word.or_else(|| words.last()) {
                Some(word) => word.fault(what),
                None => Diagnostic::new(what),
            };
            diagnostic.help = wrong.help.or_else(|| Some("expressions are those of https://expr-lang.org; strings stand in single quotes".to_owned()));
            diagnostic
        })
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// If it is none, or what it says cannot be.
    pub fn compile(text: &str, scope: &Scope) -> Result<Self, BadExpression> {
        let node = parse::parse(text)?;
        let (op, kind) = check::check(&node, scope)?;
        Ok(Self { op, kind })
    }

    /// Refuses, at the last word, an expression of which it is known that it is no condition.
    ///
    /// # Errors
    /// If its value is never true or false.
    pub fn must_be_bool(self, words: &[Word]) -> Result<Self, Diagnostic> {
        if matches!(self.kind, Type::Bool | Type::Any) {
            return Ok(self);
        }
        let what =
            format!("the expression gives a value of type {}, which is never true", self.kind);
        let wrong = words
            .first()
            .map_or_else(|| Diagnostic::new(what.clone()), |word| word.fault(what.clone()));
        Err(wrong.help("compare it with something, as in type() == 'A'"))
    }

    /// The type of its value.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// Its value for a query.
    ///
    /// # Errors
    /// If a step cannot be done, or there are too many.
    pub fn run<'a>(&'a self, context: &Context<'a>) -> Result<Value<'a>, Fail> {
        run::run(&self.op, context)
    }

    /// Whether its value is true; no value is not.
    pub fn holds(&self, context: &Context<'_>) -> bool {
        matches!(self.run(context), Ok(Value::Bool(true)))
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExpression {
    /// Where, in octets from the start.
    pub at: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: Option<String>,
}

impl BadExpression {
    /// One without a remedy.
    fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), help: None }
    }

    /// Says what would be right.
    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for BadExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadExpression {}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail(Cow<'static, str>);

impl Fail {
    /// With these words.
    fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fail {}
