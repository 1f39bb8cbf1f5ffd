//! The functions of templates.

use std::fmt;

use super::format::{print, printf};
use crate::shared::expr::{Text, Value};

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Func {
    And,
    Or,
    Not,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Len,
    Index,
    Slice,
    Print,
    Println,
    Printf,
    Html,
    Js,
    UrlQuery,
    ParseInt,
}

/// Their names, and how many arguments they take.
const FUNCS: [(&str, Func, usize, usize); 19] = [
    ("and", Func::And, 1, usize::MAX),
    ("or", Func::Or, 1, usize::MAX),
    ("not", Func::Not, 1, 1),
    ("eq", Func::Equal, 2, usize::MAX),
    ("ne", Func::Unequal, 2, 2),
    ("lt", Func::Less, 2, 2),
    ("le", Func::LessEqual, 2, 2),
    ("gt", Func::Greater, 2, 2),
    ("ge", Func::GreaterEqual, 2, 2),
    ("len", Func::Len, 1, 1),
    ("index", Func::Index, 1, usize::MAX),
    ("slice", Func::Slice, 1, 4),
    ("print", Func::Print, 0, usize::MAX),
    ("println", Func::Println, 0, usize::MAX),
    ("printf", Func::Printf, 1, usize::MAX),
    ("html", Func::Html, 0, usize::MAX),
    ("js", Func::Js, 0, usize::MAX),
    ("urlquery", Func::UrlQuery, 0, usize::MAX),
    ("parseInt", Func::ParseInt, 3, 3),
];

impl fmt::Display for Func {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FUNCS.iter().find(|(_, func, ..)| func == self).map_or("", |(name, ..)| name))
    }
}

impl Func {
    /// The function of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        FUNCS.iter().find(|(own, ..)| *own == name).map(|(_, func, ..)| *func)
    }

    /// Refuses a wrong number of arguments.
    pub(super) fn count(self, count: usize) -> Result<(), String> {
        let Some((name, _, least, most)) = FUNCS.iter().find(|(_, func, ..)| *func == self) else {
            return Ok(());
        };
        if (*least..=*most).contains(&count) {
            return Ok(());
        }
        let wants = if least == most { least.to_string() } else { format!("at least {least}") };
        Err(format!("wrong number of args for {name}: want {wants} got {count}"))
    }

    /// Calls it.
    pub(super) fn call<'a>(self, args: &[Value<'a>]) -> Result<Value<'a>, String> {
        self.count(args.len())?;
        let first = args.first().unwrap_or(&Value::Nil);
        let second = args.get(1).unwrap_or(&Value::Nil);
        Ok(match self {
            Self::And | Self::Or => {
                let decides = |value: &&Value<'a>| is_true(value) == (self == Self::Or);
                args.iter().find(decides).or_else(|| args.last()).cloned().unwrap_or(Value::Nil)
            }
            Self::Not => Value::Bool(!is_true(first)),
            Self::Equal => {
                for other in args.iter().skip(1) {
                    if equal(first, other)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Value::Bool(false)
            }
            Self::Unequal => Value::Bool(!equal(first, second)?),
            Self::Less => Value::Bool(less(first, second)?),
            Self::LessEqual => Value::Bool(less(first, second)? || equal(first, second)?),
            Self::Greater => Value::Bool(!less(first, second)? && !equal(first, second)?),
            Self::GreaterEqual => Value::Bool(!less(first, second)?),
            Self::Len => Value::Int(match first {
                Value::Str(text) => text.as_str().len() as i64,
                Value::Array(all) => all.len() as i64,
                Value::Map(all) => all.len() as i64,
                other => return Err(format!("len of type {}", other.kind())),
            }),
            Self::Index => index(args)?,
            Self::Slice => slice(first, args.get(1..).unwrap_or_default())?,
            Self::Print => bounded(print(args, false))?,
            Self::Println => bounded(print(args, true))?,
            Self::Printf => bounded(printf(
                first.as_str().ok_or("the format is no string")?,
                args.get(1..).unwrap_or_default(),
            )?)?,
            Self::Html => bounded(html(&print(args, false)))?,
            Self::Js => bounded(js(&print(args, false)))?,
            Self::UrlQuery => bounded(urlquery(&print(args, false)))?,
            Self::ParseInt => parse_int(args)?,
        })
    }
}

/// A string as a value.
fn text<'a>(text: String) -> Value<'a> {
    Value::Str(Text::Own(text.into_bytes().into()))
}

/// A string that was made, if it is not longer than all that a message can hold.
fn bounded<'a>(made: String) -> Result<Value<'a>, String> {
    if made.len() > super::exec::LONGEST {
        Err("the text is too long".to_owned())
    } else {
        Ok(text(made))
    }
}

/// Whether a value is not empty: not zero, not nothing, with members or letters.
pub(super) fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::Nil => false,
        Value::Bool(value) => *value,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.as_str().is_empty(),
        Value::Array(all) => !all.is_empty(),
        Value::Map(all) => !all.is_empty(),
    }
}

/// Whether two values are equal; those of different kinds are not compared.
fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    match (a, b) {
        (Value::Array(_) | Value::Map(_), _) | (_, Value::Array(_) | Value::Map(_)) => {
            Err("uncomparable type".to_owned())
        }
        (Value::Nil, _) | (_, Value::Nil) => Ok(a == b),
        _ if a.kind() != b.kind() => Err("incompatible types for comparison".to_owned()),
        _ => Ok(a == b),
    }
}

/// Whether the first of two values of one kind is smaller.
fn less(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a < b),
        (Value::Float(a), Value::Float(b)) => Ok(a < b),
        (Value::Str(a), Value::Str(b)) => Ok(a.as_str() < b.as_str()),
        _ if a.kind() != b.kind() => Err("incompatible types for comparison".to_owned()),
        _ => Err("invalid type for comparison".to_owned()),
    }
}

/// A member of a member of a value; one that a map does not have is nothing.
fn index<'a>(args: &[Value<'a>]) -> Result<Value<'a>, String> {
    let Some((first, keys)) = args.split_first() else { return Ok(Value::Nil) };
    let mut value = first.clone();
    for key in keys {
        value = match (&value, key) {
            (Value::Map(map), Value::Str(key)) => {
                map.get(key.as_str()).cloned().unwrap_or(Value::Nil)
            }
            (Value::Array(all), Value::Int(at)) => {
                let member = usize::try_from(*at).ok().and_then(|at| all.get(at));
                member.cloned().ok_or_else(|| format!("index out of range: {at}"))?
            }
            (Value::Str(text), Value::Int(at)) => {
                let octet =
                    usize::try_from(*at).ok().and_then(|at| text.as_str().as_bytes().get(at));
                Value::Int((*octet.ok_or_else(|| format!("index out of range: {at}"))?).into())
            }
            (Value::Array(_) | Value::Map(_) | Value::Str(_), key) => {
                return Err(format!("cannot index with type {}", key.kind()));
            }
            (Value::Nil, _) => return Err("index of untyped nil".to_owned()),
            (other, _) => return Err(format!("can't index item of type {}", other.kind())),
        };
    }
    Ok(value)
}

/// A part of a string or an array.
fn slice<'a>(of: &Value<'a>, bounds: &[Value<'a>]) -> Result<Value<'a>, String> {
    let len = match of {
        Value::Str(_) if bounds.len() > 2 => return Err("cannot 3-index slice a string".to_owned()),
        Value::Str(text) => text.as_str().len(),
        Value::Array(all) => all.len(),
        other => return Err(format!("can't slice item of type {}", other.kind())),
    };
    let bound = |at: usize, otherwise: usize| match bounds.get(at) {
        None => Ok(otherwise),
        Some(Value::Int(number)) => {
            let bound = usize::try_from(*number).ok().filter(|bound| *bound <= len);
            bound.ok_or_else(|| format!("index out of range: {number}"))
        }
        Some(other) => Err(format!("cannot index slice/array with type {}", other.kind())),
    };
    // The third bound says how far the array may grow, which none does here.
    let (from, to) = (bound(0, 0)?, bound(1, len)?);
    bound(2, len)?;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    match of {
        Value::Array(all) => {
            Ok(Value::Array(std::rc::Rc::new(all.get(from..to).unwrap_or_default().to_vec())))
        }
        other => {
            let part = other.as_str().and_then(|text| text.get(from..to));
            Ok(text(part.ok_or("a slice would cut a letter")?.to_owned()))
        }
    }
}

/// A whole number of a text in some base; 0 is the base of its prefix.
fn parse_int<'a>(args: &[Value<'a>]) -> Result<Value<'a>, String> {
    let [Value::Str(digits), Value::Int(base), Value::Int(bits)] = args else {
        return Err("parseInt takes a string, a base and a number of bits".to_owned());
    };
    let shown = digits.as_str();
    let wrong = |why: &str| format!("strconv.ParseUint: parsing \"{shown}\": {why}");
    let (digits, base) = match (*base, shown.as_bytes()) {
        (0, [b'0', b'x' | b'X', ..]) => (shown.get(2..), 16),
        (0, [b'0', b'o' | b'O', ..]) => (shown.get(2..), 8),
        (0, [b'0', b'b' | b'B', ..]) => (shown.get(2..), 2),
        (0, [b'0', _, ..]) => (shown.get(1..), 8),
        (0, _) => (Some(shown), 10),
        (base @ 2..=36, _) => (Some(shown), u32::try_from(base).unwrap_or(10)),
        (base, _) => return Err(wrong(&format!("invalid base {base}"))),
    };
    let digits = digits.unwrap_or_default();
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(wrong("invalid syntax"));
    }
    let most = match bits {
        0 | 64 => u64::MAX,
        1..64 => (1 << bits) - 1,
        bits => return Err(wrong(&format!("invalid bit size {bits}"))),
    };
    let number = u64::from_str_radix(digits, base).ok().filter(|number| *number <= most);
    // Numbers here have a sign.
    let number = number.and_then(|number| i64::try_from(number).ok());
    number.map(Value::Int).ok_or_else(|| wrong("value out of range"))
}

/// A text for HTML.
fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
    out
}

/// A text for strings of JavaScript.
fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '\'' => out.push_str(r"\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            other => out.push(other),
        }
    }
    out
}

/// A text for the query of a URL.
fn urlquery(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
