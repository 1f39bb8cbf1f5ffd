//! The tree of a template.

use super::funcs::Func;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Text that stays as it is.
    Text(String),
    /// A value that is put in, or a variable that gets one.
    Action(Pipe),
    /// `if`: the first part where the value is not empty, else the second.
    If(Pipe, Vec<Self>, Vec<Self>),
    /// `with`: the same, and `.` is the value.
    With(Pipe, Vec<Self>, Vec<Self>),
    /// `range`: the first part for each member, the second if there is none; the slots of the member's index and the
    /// member.
    Range {
        over: Pipe,
        index: Option<usize>,
        member: Option<usize>,
        body: Vec<Self>,
        otherwise: Vec<Self>,
    },
    /// Leaves a `range`.
    Break,
    /// Goes on with the next member.
    Continue,
    /// Another template, by number, with its `.`.
    Template(usize, Option<Pipe>),
}

/// Commands of which each has the value of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pipe {
    /// The variable that the value goes to.
    pub(super) into: Option<usize>,
    /// At least one.
    pub(super) commands: Vec<Command>,
}

/// A value, or a function with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    /// What is first.
    pub(super) head: Operand,
    /// The arguments.
    pub(super) args: Vec<Operand>,
}

/// Something with a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// `nil`.
    Nil,
    /// `true` and `false`.
    Bool(bool),
    /// A whole number or a letter.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string.
    Str(String),
    /// `.` and its fields.
    Dot(Vec<String>),
    /// A variable, by slot, and its fields; slot 0 is `$`.
    Var(usize, Vec<String>),
    /// A function.
    Func(Func),
    /// `(…)` and fields of its value.
    Pipe(Box<Pipe>, Vec<String>),
}
