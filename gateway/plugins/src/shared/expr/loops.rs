//! Functions that run a predicate over an array.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::op::Op;
use super::run::{Ran, Run, string, unfit};
use super::types::Type;
use super::{Fail, Value};

/// What is done with the predicate's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    All,
    Any,
    None,
    One,
    Filter,
    Map,
    Count,
    Sum,
    Find,
    FindIndex,
    FindLast,
    FindLastIndex,
    GroupBy,
    SortBy,
    Reduce,
}

/// Their names.
pub(super) const LOOPS: [(&str, Loop); 15] = [
    ("all", Loop::All),
    ("any", Loop::Any),
    ("none", Loop::None),
    ("one", Loop::One),
    ("filter", Loop::Filter),
    ("map", Loop::Map),
    ("count", Loop::Count),
    ("sum", Loop::Sum),
    ("find", Loop::Find),
    ("findIndex", Loop::FindIndex),
    ("findLast", Loop::FindLast),
    ("findLastIndex", Loop::FindLastIndex),
    ("groupBy", Loop::GroupBy),
    ("sortBy", Loop::SortBy),
    ("reduce", Loop::Reduce),
];

impl Loop {
    /// How many arguments it takes.
    pub(super) fn args(self) -> (usize, usize) {
        match self {
            Self::Count | Self::Sum => (1, 2),
            Self::SortBy | Self::Reduce => (2, 3),
            _ => (2, 2),
        }
    }

    /// Whether its predicate gives true or false.
    pub(super) fn wants_bool(self) -> bool {
        !matches!(self, Self::Map | Self::Sum | Self::GroupBy | Self::SortBy | Self::Reduce)
    }

    /// The type of its value, by that of the members and of the predicate's values.
    pub(super) fn gives(self, element: Type, result: Type) -> Type {
        match self {
            Self::All | Self::Any | Self::None | Self::One => Type::Bool,
            Self::Filter | Self::SortBy => Type::Array(Box::new(element)),
            Self::Map => Type::Array(Box::new(result)),
            Self::Count => Type::Int,
            Self::Sum => {
                if matches!(result, Type::Int | Type::Float) {
                    result
                } else {
                    Type::Any
                }
            }
            Self::GroupBy => Type::Map(Box::new(Type::Array(Box::new(element)))),
            // What is not found is nothing.
            Self::Find | Self::FindLast | Self::FindIndex | Self::FindLastIndex | Self::Reduce => {
                Type::Any
            }
        }
    }

    /// Runs it. Without a predicate the members themselves are its values.
    pub(super) fn run<'a>(
        self,
        run: &mut Run<'a>,
        over: &[Value<'a>],
        body: Option<&'a Op>,
        third: Option<Value<'a>>,
        slot: usize,
    ) -> Ran<'a> {
        let each = |run: &mut Run<'a>, index: usize| -> Ran<'a> {
            let value = over.get(index).cloned().unwrap_or(Value::Nil);
            let Some(body) = body else { return Ok(value) };
            run.set(slot, value);
            run.set(slot + 1, Value::Int(index as i64));
            run.op(body)
        };
        let member = |index: usize| over.get(index).cloned().unwrap_or(Value::Nil);
        Ok(match self {
            Self::All | Self::Any | Self::None | Self::One | Self::Count => {
                let mut count = 0;
                for index in 0..over.len() {
                    if truth(&each(run, index)?)? {
                        count += 1;
                        if matches!(self, Self::Any | Self::None) {
                            break;
                        }
                    } else if self == Self::All {
                        return Ok(Value::Bool(false));
                    }
                }
                match self {
                    Self::Count => Value::Int(count),
                    Self::All => Value::Bool(true),
                    Self::Any => Value::Bool(count > 0),
                    Self::None => Value::Bool(count == 0),
                    _ => Value::Bool(count == 1),
                }
            }
            Self::Filter => {
                let mut kept = Vec::new();
                for index in 0..over.len() {
                    if truth(&each(run, index)?)? {
                        run.spend(1)?;
                        kept.push(member(index));
                    }
                }
                Value::array(kept)
            }
            Self::Map => {
                let mut made = Vec::new();
                for index in 0..over.len() {
                    run.spend(1)?;
                    made.push(each(run, index)?);
                }
                Value::array(made)
            }
            Self::Sum => {
                let mut sum = Value::Int(0);
                for index in 0..over.len() {
                    let value = each(run, index)?;
                    if value.as_float().is_none() {
                        return Err(unfit("a number", &value));
                    }
                    sum = run.add(sum, value)?;
                }
                sum
            }
            Self::Find | Self::FindIndex | Self::FindLast | Self::FindLastIndex => {
                let backwards = matches!(self, Self::FindLast | Self::FindLastIndex);
                let by_index = matches!(self, Self::FindIndex | Self::FindLastIndex);
                for step in 0..over.len() {
                    let index = if backwards { over.len() - 1 - step } else { step };
                    if truth(&each(run, index)?)? {
                        return Ok(if by_index { Value::Int(index as i64) } else { member(index) });
                    }
                }
                Value::Nil
            }
            Self::GroupBy => {
                let mut groups: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
                for index in 0..over.len() {
                    let key = each(run, index)?;
                    let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                    run.spend(key.len())?;
                    groups.entry(key).or_default().push(member(index));
                }
                Value::Map(Rc::new(
                    groups.into_iter().map(|(key, all)| (key, Value::array(all))).collect(),
                ))
            }
            Self::SortBy => {
                let mut keyed = Vec::new();
                for index in 0..over.len() {
                    run.spend(1)?;
                    keyed.push((each(run, index)?, member(index)));
                }
                let descending = descending(third.as_ref())?;
                sort(&mut keyed, descending, |(key, _)| key)?;
                Value::array(keyed.into_iter().map(|(_, value)| value).collect())
            }
            Self::Reduce => {
                let (mut total, first) = match third {
                    Some(start) => (start, 0),
                    None if over.is_empty() => return Err(Fail::new("there is nothing to reduce")),
                    None => (member(0), 1),
                };
                for index in first..over.len() {
                    run.set(slot + 2, total);
                    total = each(run, index)?;
                }
                total
            }
        })
    }
}

/// The predicate's value as true or false.
fn truth(value: &Value<'_>) -> Result<bool, Fail> {
    if let Value::Bool(value) = value { Ok(*value) } else { Err(unfit("a bool", value)) }
}

/// Whether an order is downwards: `asc`, the default, or `desc`.
pub(super) fn descending(order: Option<&Value<'_>>) -> Result<bool, Fail> {
    match order.map(string).transpose()? {
        None | Some("asc") => Ok(false),
        Some("desc") => Ok(true),
        Some(other) => Err(Fail::new(format!("'{other}' is no order: there are asc and desc"))),
    }
}

/// Sorts by keys that are all numbers or all strings.
pub(super) fn sort<'a, T>(
    all: &mut [T],
    descending: bool,
    key: impl Fn(&T) -> &Value<'a>,
) -> Result<(), Fail> {
    for pair in all.windows(2) {
        if let [a, b] = pair
            && key(a).order(key(b)).is_none()
        {
            return Err(Fail::new(format!(
                "{} and {} are not compared",
                key(a).kind(),
                key(b).kind()
            )));
        }
    }
    all.sort_by(|a, b| {
        let order = key(a).order(key(b)).unwrap_or(Ordering::Equal);
        if descending { order.reverse() } else { order }
    });
    Ok(())
}
