//! What a checked expression does.

use std::cmp::Ordering;

use config::value::Network;
use regex::Regex;

use super::builtins::Builtin;
use super::facts::Fact;
use super::loops::Loop;

/// A step with the steps that give its operands.
#[derive(Debug)]
pub(super) enum Op {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Box<str>),
    /// Something about the query.
    Fact(Fact),
    /// The groups of the client.
    Groups,
    /// Whether the client is in a group.
    InGroups(Box<Self>),
    /// The value of a metadata label.
    Metadata(Box<Self>),
    /// A group of the match.
    Group(Box<Self>),
    /// Whether an address is in a network, which is text.
    InCidr(Box<Self>, Box<Self>),
    /// Whether an address is in a network.
    InNetwork(Box<Self>, Network),
    /// Whether the client's address is.
    ClientIn(Network),
    /// A variable of the scope.
    Var(usize),
    /// All variables of the scope by their names.
    Env(Vec<Box<str>>),
    /// A variable of the expression.
    Slot(usize),
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Not(Box<Self>),
    Negative(Box<Self>),
    Positive(Box<Self>),
    Or(Vec<Self>),
    And(Vec<Self>),
    Coalesce(Box<Self>, Box<Self>),
    /// Equal, or not.
    Equal(Box<Self>, Box<Self>, bool),
    /// Each is so, or so, compared with the next.
    Order(Box<Self>, Vec<([Ordering; 2], Self)>),
    In(Box<Self>, Box<Self>),
    /// One of a list that need not be made.
    OneOf(Box<Self>, Vec<Self>),
    Matches(Box<Self>, Box<Self>),
    MatchesRegex(Box<Self>, Regex),
    Strings(Strings, Box<Self>, Box<Self>),
    Range(Box<Self>, Box<Self>),
    Add(Box<Self>, Box<Self>),
    Calculate(Calculate, Box<Self>, Box<Self>),
    Choice(Box<Self>, Option<Box<Self>>, Box<Self>),
    Member {
        of: Box<Self>,
        key: Box<Self>,
        optional: bool,
    },
    Slice {
        of: Box<Self>,
        from: Option<Box<Self>>,
        to: Option<Box<Self>>,
    },
    /// A variable with its value, and where it counts.
    Let {
        slot: usize,
        value: Box<Self>,
        body: Box<Self>,
    },
    Sequence(Box<Self>, Box<Self>),
    Call(&'static Builtin, Vec<Self>),
    Loop {
        kind: Loop,
        over: Box<Self>,
        body: Option<Box<Self>>,
        third: Option<Box<Self>>,
        slot: usize,
    },
}

/// A question about two strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strings {
    Contains,
    StartsWith,
    EndsWith,
}

/// Something done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calculate {
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}
