//! Functions for values: strings, numbers, arrays, maps.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::json;
use super::loops::{descending, sort};
use super::run::{Ran, Run, member, string, unfit};
use super::types::Type;
use super::{Fail, Value};

/// A function for values.
pub(super) struct Builtin {
    /// Its name.
    pub(super) name: &'static str,
    /// Its parameters.
    pub(super) takes: &'static [Takes],
    /// How many of the last may be missing.
    pub(super) optional: usize,
    /// Whether the last may come any number of times.
    pub(super) is_endless: bool,
    /// What it gives.
    pub(super) gives: Gives,
    /// What it does; the values are as many as may be, of the types that are known beforehand.
    pub(super) run: for<'a> fn(&mut Run<'a>, &[Value<'a>]) -> Ran<'a>,
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Any,
    Int,
    Number,
    Str,
    Array,
    Map,
    /// A string, an array or a map.
    Sized,
    /// Numbers, or one array of them.
    Numbers,
}

impl Takes {
    /// Whether a value of this type may be given.
    pub(super) fn accepts(self, kind: &Type) -> bool {
        match (self, kind) {
            (Self::Any, _) | (_, Type::Any) => true,
            (Self::Int, kind) => *kind == Type::Int,
            (Self::Number, kind) => kind.may_be_number(),
            (Self::Str, kind) => *kind == Type::Str,
            (Self::Array, kind) => matches!(kind, Type::Array(_)),
            (Self::Map, kind) => matches!(kind, Type::Map(_)),
            (Self::Sized, kind) => matches!(kind, Type::Str | Type::Array(_) | Type::Map(_)),
            (Self::Numbers, Type::Array(of)) => of.may_be_number(),
            (Self::Numbers, kind) => kind.may_be_number(),
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any value",
            Self::Int => "an int",
            Self::Number => "a number",
            Self::Str => "a string",
            Self::Array => "an array",
            Self::Map => "a map",
            Self::Sized => "a string, an array or a map",
            Self::Numbers => "numbers or an array of them",
        })
    }
}

/// The type of what a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Any,
    Bool,
    Int,
    Float,
    Str,
    Strs,
    Array,
    Map,
    /// That of the first argument.
    Same,
    /// That of its members.
    Element,
}

/// A row of the table.
macro_rules! builtin {
    ($name:literal ($($takes:ident),*) $optional:literal $gives:ident $run:expr) => {
        Builtin { name: $name, takes: &[$(Takes::$takes),*], optional: $optional, is_endless: false, gives: Gives::$gives, run: $run }
    };
    ($name:literal ($takes:ident ..) $gives:ident $run:expr) => {
        Builtin { name: $name, takes: &[Takes::$takes], optional: 0, is_endless: true, gives: Gives::$gives, run: $run }
    };
}

/// All of them.
pub(super) const BUILTINS: &[Builtin] = &[
    builtin!("trim"(Str, Str) 1 Str trim),
    builtin!("trimPrefix"(Str, Str) 1 Str |run, args| affix(run, args, |text, end| text.strip_prefix(end))),
    builtin!("trimSuffix"(Str, Str) 1 Str |run, args| affix(run, args, |text, end| text.strip_suffix(end))),
    builtin!("upper"(Str) 0 Str |run, args| made(run, str_at(args, 0)?.to_uppercase())),
    builtin!("lower"(Str) 0 Str |run, args| made(run, str_at(args, 0)?.to_lowercase())),
    builtin!("split"(Str, Str, Int) 1 Strs |run, args| split(run, args, false)),
    builtin!("splitAfter"(Str, Str, Int) 1 Strs |run, args| split(run, args, true)),
    builtin!("replace"(Str, Str, Str) 0 Str replace),
    builtin!("repeat"(Str, Int) 0 Str repeat),
    builtin!("indexOf"(Str, Str) 0 Int |_, args| Ok(index(str_at(args, 0)?.find(str_at(args, 1)?)))),
    builtin!("lastIndexOf"(Str, Str) 0 Int |_, args| Ok(index(str_at(args, 0)?.rfind(str_at(args, 1)?)))),
    builtin!("hasPrefix"(Str, Str) 0 Bool |_, args| Ok(Value::Bool(str_at(args, 0)?.starts_with(str_at(args, 1)?)))),
    builtin!("hasSuffix"(Str, Str) 0 Bool |_, args| Ok(Value::Bool(str_at(args, 0)?.ends_with(str_at(args, 1)?)))),
    builtin!("max"(Numbers ..) Any |_, args| extreme(args, true)),
    builtin!("min"(Numbers ..) Any |_, args| extreme(args, false)),
    builtin!("mean"(Numbers ..) Float |_, args| mean(args)),
    builtin!("median"(Numbers ..) Float |_, args| median(args)),
    builtin!("abs"(Number) 0 Same |_, args| match at(args, 0)? {
        Value::Int(number) => Ok(Value::Int(number.wrapping_abs())),
        other => Ok(Value::Float(float(other)?.abs())),
    }),
    builtin!("ceil"(Number) 0 Float |_, args| Ok(Value::Float(float(at(args, 0)?)?.ceil()))),
    builtin!("floor"(Number) 0 Float |_, args| Ok(Value::Float(float(at(args, 0)?)?.floor()))),
    builtin!("round"(Number) 0 Float |_, args| Ok(Value::Float(float(at(args, 0)?)?.round()))),
    builtin!("int"(Any) 0 Int |_, args| int(at(args, 0)?)),
    builtin!("float"(Any) 0 Float |_, args| match at(args, 0)? {
        Value::Str(text) => text.as_str().parse().map(Value::Float).map_err(|_| Fail::new(format!("'{}' is no number", text.as_str()))),
        other => Ok(Value::Float(float(other)?)),
    }),
    builtin!("string"(Any) 0 Str |run, args| made(run, at(args, 0)?.to_string())),
    builtin!("len"(Sized) 0 Int |_, args| len(at(args, 0)?)),
    builtin!("get"(Any, Any) 0 Any |_, args| Ok(member(at(args, 0)?, at(args, 1)?).unwrap_or(Value::Nil))),
    builtin!("first"(Array) 0 Element |_, args| Ok(array(args, 0)?.first().cloned().unwrap_or(Value::Nil))),
    builtin!("last"(Array) 0 Element |_, args| Ok(array(args, 0)?.last().cloned().unwrap_or(Value::Nil))),
    builtin!("take"(Array, Int) 0 Same |run, args| {
        let (all, count) = (array(args, 0)?, usize::try_from(int_at(args, 1)?).unwrap_or(0));
        several(run, all.iter().take(count).cloned().collect())
    }),
    builtin!("reverse"(Array) 0 Same |run, args| several(run, array(args, 0)?.iter().rev().cloned().collect())),
    builtin!("sort"(Array, Str) 1 Same |run, args| {
        let mut all = array(args, 0)?.to_vec();
        sort(&mut all, descending(args.get(1))?, |value| value)?;
        several(run, all)
    }),
    builtin!("uniq"(Array) 0 Same uniq),
    builtin!("concat"(Array ..) Array |run, args| {
        let mut all = Vec::new();
        for index in 0..args.len() {
            all.extend_from_slice(array(args, index)?);
        }
        several(run, all)
    }),
    builtin!("flatten"(Array) 0 Array |run, args| {
        let mut all = Vec::new();
        flatten(array(args, 0)?, &mut all, 0)?;
        several(run, all)
    }),
    builtin!("join"(Array, Str) 1 Str join),
    builtin!("keys"(Map) 0 Strs |run, args| several(run, map(args)?.keys().map(Value::text).collect())),
    builtin!("values"(Map) 0 Array |run, args| several(run, map(args)?.values().cloned().collect())),
    builtin!("toPairs"(Map) 0 Array |run, args| {
        let pairs = map(args)?.iter().map(|(key, value)| Value::array(vec![Value::text(key), value.clone()]));
        several(run, pairs.collect())
    }),
    builtin!("fromPairs"(Array) 0 Map from_pairs),
    builtin!("toBase64"(Str) 0 Str |run, args| made(run, to_base64(str_at(args, 0)?.as_bytes()))),
    builtin!("fromBase64"(Str) 0 Str from_base64),
    builtin!("toJSON"(Any) 0 Str |run, args| json::write(run, at(args, 0)?)),
    builtin!("fromJSON"(Str) 0 Any |run, args| json::read(run, str_at(args, 0)?)),
    builtin!("bitand"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)? & int_at(args, 1)?))),
    builtin!("bitor"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)? | int_at(args, 1)?))),
    builtin!("bitxor"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)? ^ int_at(args, 1)?))),
    builtin!("bitnand"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)? & !int_at(args, 1)?))),
    builtin!("bitnot"(Int) 0 Int |_, args| Ok(Value::Int(!int_at(args, 0)?))),
    builtin!("bitshl"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)?.checked_shl(shift(args)?).unwrap_or(0)))),
    builtin!("bitshr"(Int, Int) 0 Int |_, args| Ok(Value::Int(int_at(args, 0)? >> shift(args)?.min(63)))),
    builtin!("bitushr"(Int, Int) 0 Int |_, args| {
        let bits = int_at(args, 0)?.cast_unsigned().checked_shr(shift(args)?).unwrap_or(0);
        Ok(Value::Int(bits.cast_signed()))
    }),
];

/// An argument.
fn at<'v, 'a>(args: &'v [Value<'a>], index: usize) -> Result<&'v Value<'a>, Fail> {
    args.get(index).ok_or_else(|| Fail::new("an argument is missing"))
}

/// An argument that is a string.
fn str_at<'v>(args: &'v [Value<'_>], index: usize) -> Result<&'v str, Fail> {
    string(at(args, index)?)
}

/// An argument that is a whole number.
fn int_at(args: &[Value<'_>], index: usize) -> Result<i64, Fail> {
    match at(args, index)? {
        Value::Int(number) => Ok(*number),
        other => Err(unfit("an int", other)),
    }
}

/// An argument that is an array.
fn array<'v, 'a>(args: &'v [Value<'a>], index: usize) -> Result<&'v [Value<'a>], Fail> {
    match at(args, index)? {
        Value::Array(all) => Ok(all),
        other => Err(unfit("an array", other)),
    }
}

/// The first argument, which is a map.
fn map<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v BTreeMap<String, Value<'a>>, Fail> {
    match at(args, 0)? {
        Value::Map(map) => Ok(map),
        other => Err(unfit("a map", other)),
    }
}

/// A value as a number.
fn float(value: &Value<'_>) -> Result<f64, Fail> {
    value.as_float().ok_or_else(|| unfit("a number", value))
}

/// By how many bits to shift: the second argument.
fn shift(args: &[Value<'_>]) -> Result<u32, Fail> {
    u32::try_from(int_at(args, 1)?).map_err(|_| Fail::new("a shift is by a number of bits"))
}

/// A string that was made, paid for.
fn made<'a>(run: &mut Run<'a>, text: String) -> Ran<'a> {
    run.spend(text.len())?;
    Ok(Value::text(text))
}

/// An array that was made, paid for.
fn several<'a>(run: &mut Run<'a>, all: Vec<Value<'a>>) -> Ran<'a> {
    run.spend(all.len())?;
    Ok(Value::array(all))
}

/// A place as a number; -1 for none.
fn index<'a>(place: Option<usize>) -> Value<'a> {
    Value::Int(place.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

/// A string without the spaces around it, or without the letters of the second argument.
fn trim<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let text = str_at(args, 0)?;
    let trimmed = match args.get(1) {
        None => text.trim(),
        Some(letters) => {
            let letters = string(letters)?;
            text.trim_matches(|c| letters.contains(c))
        }
    };
    made(run, trimmed.to_owned())
}

/// A string without what it begins or ends with, which is the second argument or nothing.
fn affix<'a>(
    run: &mut Run<'a>,
    args: &[Value<'a>],
    strip: for<'s> fn(&'s str, &str) -> Option<&'s str>,
) -> Ran<'a> {
    let text = str_at(args, 0)?;
    let end = args.get(1).map(string).transpose()?.unwrap_or(" ");
    made(run, strip(text, end).unwrap_or(text).to_owned())
}

/// The parts of a string, at most so many as the third argument says; with what parts them or without.
fn split<'a>(run: &mut Run<'a>, args: &[Value<'a>], with: bool) -> Ran<'a> {
    let (text, by) = (str_at(args, 0)?, str_at(args, 1)?);
    run.spend(text.len())?;
    let most = match args.get(2) {
        None => usize::MAX,
        Some(_) => usize::try_from(int_at(args, 2)?).unwrap_or(usize::MAX),
    };
    if most == 0 {
        return several(run, Vec::new());
    }
    // An empty string parts the letters, and is not around them.
    let parts: Vec<Value<'a>> = if by.is_empty() {
        let mut letters = text.char_indices();
        let mut parts: Vec<_> =
            letters.by_ref().take(most.saturating_sub(1)).map(|(_, c)| Value::text(c)).collect();
        let rest = letters.as_str();
        if !rest.is_empty() && most < usize::MAX {
            parts.push(Value::text(rest));
        }
        parts
    } else {
        let mut parts = Vec::new();
        let mut rest = text;
        while parts.len() + 1 < most
            && let Some((part, behind)) = rest.split_once(by)
        {
            let end = if with { by } else { "" };
            parts.push(Value::text(format_args!("{part}{end}")));
            rest = behind;
        }
        parts.push(Value::text(rest));
        parts
    };
    several(run, parts)
}

/// A string with another for each place of one.
fn replace<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let (text, from, to) = (str_at(args, 0)?, str_at(args, 1)?, str_at(args, 2)?);
    // Paid before it is made: an empty string is found before each letter.
    run.spend((text.len() + 1).saturating_mul(to.len() + 1))?;
    made(run, text.replace(from, to))
}

/// A string so many times.
fn repeat<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let text = str_at(args, 0)?;
    let count = usize::try_from(int_at(args, 1)?)
        .map_err(|_| Fail::new("nothing is repeated less than never"))?;
    run.spend(text.len().saturating_mul(count))?;
    Ok(Value::text(text.repeat(count)))
}

/// All numbers of the arguments, those in arrays too.
fn numbers<'v, 'a>(args: &'v [Value<'a>]) -> impl Iterator<Item = &'v Value<'a>> {
    args.iter().flat_map(|arg| match arg {
        Value::Array(all) => all.as_slice(),
        other => std::slice::from_ref(other),
    })
}

/// The largest or the smallest number.
fn extreme<'a>(args: &[Value<'a>], largest: bool) -> Ran<'a> {
    let mut best: Option<&Value<'a>> = None;
    for value in numbers(args) {
        float(value)?;
        let wins = best.is_none_or(|best| match value.order(best) {
            Some(order) => {
                if largest {
                    order.is_gt()
                } else {
                    order.is_lt()
                }
            }
            None => false,
        });
        if wins {
            best = Some(value);
        }
    }
    best.cloned().ok_or_else(|| Fail::new("there is no number"))
}

/// The mean of numbers.
fn mean<'a>(args: &[Value<'a>]) -> Ran<'a> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in numbers(args) {
        sum += float(value)?;
        count += 1;
    }
    Ok(Value::Float(if count == 0 { 0.0 } else { sum / f64::from(count) }))
}

/// The middle number, or the mean of the two.
fn median<'a>(args: &[Value<'a>]) -> Ran<'a> {
    let mut all = numbers(args).map(float).collect::<Result<Vec<f64>, _>>()?;
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    let upper = all.get(middle).copied().unwrap_or(0.0);
    let odd = all.len() % 2 == 1;
    let lower = middle.checked_sub(1).and_then(|at| all.get(at)).copied();
    Ok(Value::Float(match lower {
        Some(lower) if !odd => f64::midpoint(lower, upper),
        _ => upper,
    }))
}

/// A whole number of a number or a text.
fn int<'a>(value: &Value<'a>) -> Ran<'a> {
    match value {
        Value::Int(number) => Ok(Value::Int(*number)),
        // Numbers too large become the largest.
        Value::Float(number) => Ok(Value::Int(*number as i64)),
        Value::Str(text) => {
            let text = text.as_str();
            text.parse()
                .map(Value::Int)
                .map_err(|_| Fail::new(format!("'{text}' is no whole number")))
        }
        other => Err(unfit("a number or a string", other)),
    }
}

/// How many letters or members there are.
fn len<'a>(value: &Value<'a>) -> Ran<'a> {
    let count = match value {
        Value::Str(text) => text.as_str().chars().count(),
        Value::Array(all) => all.len(),
        Value::Map(map) => map.len(),
        other => return Err(unfit("a string, an array or a map", other)),
    };
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// The members, each once.
fn uniq<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for value in array(args, 0)? {
        run.spend(kept.len())?;
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    several(run, kept)
}

/// Puts the members of arrays within arrays into one.
fn flatten<'a>(all: &[Value<'a>], into: &mut Vec<Value<'a>>, depth: usize) -> Result<(), Fail> {
    for value in all {
        match value {
            Value::Array(_) if depth == 100 => {
                return Err(Fail::new("arrays are nested too deeply"));
            }
            Value::Array(inner) => flatten(inner, into, depth + 1)?,
            other => into.push(other.clone()),
        }
    }
    Ok(())
}

/// Strings with another between them.
fn join<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let between = args.get(1).map(string).transpose()?.unwrap_or("");
    let mut text = String::new();
    for (index, value) in array(args, 0)?.iter().enumerate() {
        let part = string(value)?;
        run.spend(part.len() + between.len())?;
        if index > 0 {
            text.push_str(between);
        }
        text.push_str(part);
    }
    Ok(Value::text(text))
}

/// A map of pairs.
fn from_pairs<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let mut map = BTreeMap::new();
    for pair in array(args, 0)? {
        let Value::Array(pair) = pair else { return Err(unfit("an array of pairs", pair)) };
        let [key, value] = pair.as_slice() else { return Err(Fail::new("a pair has two members")) };
        run.spend(1)?;
        map.insert(string(key)?.to_owned(), value.clone());
    }
    Ok(Value::Map(Rc::new(map)))
}

/// The alphabet of Base 64 (RFC 4648 §4).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Octets in Base 64, padded.
fn to_base64(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for chunk in octets.chunks(3) {
        let bits = (0..3)
            .fold(0u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at) & 63) as usize;
            text.push(if at > chunk.len() { '=' } else { char::from(ALPHABET[digit]) });
        }
    }
    text
}

/// The string in Base 64.
fn from_base64<'a>(run: &mut Run<'a>, args: &[Value<'a>]) -> Ran<'a> {
    let text = str_at(args, 0)?;
    let wrong = || Fail::new(format!("'{text}' is no Base 64"));
    let bare = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - bare.len() > 2 {
        return Err(wrong());
    }
    let (mut octets, mut held, mut count) = (Vec::new(), 0u32, 0);
    for byte in bare.bytes() {
        let digit = ALPHABET.iter().position(|own| *own == byte).ok_or_else(wrong)?;
        held = held << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push((held >> count & 0xff) as u8);
        }
    }
    made(run, String::from_utf8(octets).map_err(|_| wrong())?)
}
