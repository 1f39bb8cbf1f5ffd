//! Types, as far as they are known before a query comes.

use std::fmt;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Not known before the query.
    Any,
    /// Nothing.
    Nil,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// Another number.
    Float,
    /// A string.
    Str,
    /// An array and the type of its members.
    Array(Box<Self>),
    /// A map and the type of its values.
    Map(Box<Self>),
}

impl Type {
    /// An array of anything.
    pub(super) fn any_array() -> Self {
        Self::Array(Box::new(Self::Any))
    }

    /// Whether it is, or may turn out to be, a number.
    pub(super) fn may_be_number(&self) -> bool {
        matches!(self, Self::Any | Self::Int | Self::Float)
    }

    /// Whether it is, or may turn out to be, `other`.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        *self == Self::Any || self == other
    }

    /// Whether two values of these types may be equal.
    pub(super) fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any | Self::Nil, _) | (_, Self::Any | Self::Nil) => true,
            (Self::Array(a), Self::Array(b)) | (Self::Map(a), Self::Map(b)) => a.may_equal(b),
            (a, b) => a == b || (a.may_be_number() && b.may_be_number()),
        }
    }

    /// The type of something that is one of the two.
    pub(super) fn either(self, other: &Self) -> Self {
        if self == *other { self } else { Self::Any }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Nil => f.write_str("nil"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::Str => f.write_str("string"),
            Self::Array(of) => write!(f, "[]{of}"),
            Self::Map(of) => write!(f, "map[string]{of}"),
        }
    }
}
