//! Values at run time.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use smallvec::SmallVec;

/// A value of an expression; `'a` is the life of the program and of what it looks at.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Nothing.
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string.
    Str(Text<'a>),
    /// An array.
    Array(Rc<Vec<Self>>),
    /// A map with strings as keys.
    Map(Rc<BTreeMap<String, Self>>),
}

/// A string: the program's own, or made for the moment, in place if it is short.
#[derive(Clone)]
pub enum Text<'a> {
    /// Somebody else's.
    Borrowed(&'a str),
    /// UTF-8 of its own.
    Own(SmallVec<[u8; 48]>),
}

impl Text<'_> {
    /// The string.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            // Only whole strings are put there.
            Self::Own(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if let Self::Borrowed(text) = self {
            *self = Self::Own(SmallVec::from_slice(text.as_bytes()));
        }
        if let Self::Own(bytes) = self {
            bytes.extend_from_slice(more.as_bytes());
        }
        Ok(())
    }
}

impl<'a> Value<'a> {
    /// A string made for the moment.
    pub(super) fn text(text: impl fmt::Display) -> Self {
        let mut own = Text::Own(SmallVec::new());
        // Writing to memory cannot fail.
        let _unfailing = fmt::Write::write_fmt(&mut own, format_args!("{text}"));
        Self::Str(own)
    }

    /// An array.
    pub(super) fn array(all: Vec<Self>) -> Self {
        Self::Array(Rc::new(all))
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text.as_str()) } else { None }
    }

    /// The number, if it is one.
    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Which of two numbers or strings is larger; none for other pairs.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Str(a), Self::Str(b)) => Some(a.as_str().cmp(b.as_str())),
            _ => self.as_float()?.partial_cmp(&other.as_float()?),
        }
    }

    /// The same value, which borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Nil => Value::Nil,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Str(text) => Value::Str(Text::Own(match text {
                Text::Borrowed(text) => SmallVec::from_slice(text.as_bytes()),
                Text::Own(bytes) => bytes,
            })),
            Self::Array(all) => Value::array(all.iter().cloned().map(Value::into_owned).collect()),
            Self::Map(all) => Value::Map(Rc::new(
                all.iter().map(|(key, value)| (key.clone(), value.clone().into_owned())).collect(),
            )),
        }
    }
}

impl PartialEq for Value<'_> {
    /// Numbers of both kinds are compared with one another.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => a.as_str() == b.as_str(),
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Int(_) | Self::Float(_), Self::Int(_) | Self::Float(_)) => {
                self.as_float() == other.as_float()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Value<'_> {
    /// As Go prints values: strings bare, arrays and maps in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("<nil>"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => float(*value, f),
            Self::Str(text) => f.write_str(text.as_str()),
            Self::Array(all) => {
                f.write_str("[")?;
                for (at, value) in all.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Map(all) => {
                f.write_str("map[")?;
                for (at, (key, value)) in all.iter().enumerate() {
                    write!(f, "{}{key}:{value}", if at > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Writes a number as Go's `%v` does: with an exponent below 1e-4 and from 1e21 on.
fn float(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, number) =
            exponent.strip_prefix('-').map_or(('+', exponent), |number| ('-', number));
        return write!(f, "{digits}e{sign}{number:0>2}");
    }
    write!(f, "{value}")
}
