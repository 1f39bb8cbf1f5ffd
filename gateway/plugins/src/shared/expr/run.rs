//! The steps at work, in bounded number.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use config::value::Network;
use smallvec::SmallVec;

use super::op::{Calculate, Op, Strings};
use super::{Context, Fail, Text, Value, facts};
use crate::shared::regex;

/// How many steps an expression may take, and how many octets and members it may make.
const FUEL: u32 = 200_000;

/// The value of a step.
pub(super) type Ran<'a> = Result<Value<'a>, Fail>;

/// Runs an expression.
pub(super) fn run<'a>(op: &'a Op, context: &Context<'a>) -> Ran<'a> {
    Run { context: *context, slots: SmallVec::new(), fuel: FUEL }.op(op)
}

/// Where the running stands.
pub(super) struct Run<'a> {
    context: Context<'a>,
    /// The values of the expression's own variables.
    slots: SmallVec<[Value<'a>; 2]>,
    fuel: u32,
}

impl<'a> Run<'a> {
    /// Pays for steps or memory.
    pub(super) fn spend(&mut self, cost: usize) -> Result<(), Fail> {
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        self.fuel = self
            .fuel
            .checked_sub(cost)
            .ok_or_else(|| Fail::new("the expression takes too many steps or too much memory"))?;
        Ok(())
    }

    /// Gives a variable its value.
    pub(super) fn set(&mut self, slot: usize, value: Value<'a>) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Value::Nil);
        }
        if let Some(own) = self.slots.get_mut(slot) {
            *own = value;
        }
    }

    /// Runs a step.
    pub(super) fn op(&mut self, op: &'a Op) -> Ran<'a> {
        self.spend(1)?;
        Ok(match op {
            Op::Nil => Value::Nil,
            Op::Bool(value) => Value::Bool(*value),
            Op::Int(value) => Value::Int(*value),
            Op::Float(value) => Value::Float(*value),
            Op::Str(text) => Value::Str(Text::Borrowed(text)),
            Op::Fact(fact) => fact.value(&self.context),
            Op::Groups => {
                let groups = facts::groups(&self.context);
                self.spend(groups.len())?;
                let text = |group: &'a String| Value::Str(Text::Borrowed(group));
                Value::array(groups.iter().map(text).collect())
            }
            Op::InGroups(group) => {
                let group = self.op(group)?;
                let groups = facts::groups(&self.context);
                self.spend(groups.len())?;
                Value::Bool(
                    group.as_str().is_some_and(|group| groups.iter().any(|own| own == group)),
                )
            }
            Op::Metadata(label) => {
                let label = self.op(label)?;
                let mut value = String::new();
                if let Some(label) = label.as_str() {
                    // No value is an empty one.
                    let _absent = self.context.metadata.value(self.context.x, label, &mut value);
                }
                Value::text(value)
            }
            Op::Group(name) => {
                let name = self.op(name)?;
                let groups = self.context.groups;
                let found = groups.and_then(|groups| match &name {
                    Value::Int(number) => groups.get(usize::try_from(*number).ok()?),
                    Value::Str(text) => match text.as_str().parse() {
                        Ok(number) => groups.get(number),
                        Err(_) => groups.name(text.as_str()),
                    },
                    _ => None,
                });
                Value::Str(Text::Borrowed(found.map_or("", |found| found.as_str())))
            }
            Op::InCidr(ip, cidr) => {
                let (ip, cidr) = (self.address(ip)?, self.op(cidr)?);
                let network: Network =
                    string(&cidr)?.parse().map_err(|wrong| Fail::new(format!("{cidr} {wrong}")))?;
                Value::Bool(network.contains(ip))
            }
            Op::InNetwork(ip, network) => Value::Bool(network.contains(self.address(ip)?)),
            Op::ClientIn(network) => Value::Bool(network.contains(facts::client(&self.context))),
            Op::Env(names) => {
                self.spend(names.len())?;
                let pairs = names.iter().zip(self.context.vars);
                let pairs = pairs.map(|(name, value)| (name.to_string(), value.clone()));
                Value::Map(Rc::new(pairs.collect()))
            }
            Op::Var(index) => self.context.vars.get(*index).cloned().unwrap_or(Value::Nil),
            Op::Slot(slot) => self.slots.get(*slot).cloned().unwrap_or(Value::Nil),
            Op::Array(all) => {
                self.spend(all.len())?;
                let all: Result<Vec<_>, _> = all.iter().map(|op| self.op(op)).collect();
                Value::array(all?)
            }
            Op::Map(pairs) => {
                let mut map = BTreeMap::new();
                for (key, value) in pairs {
                    let key = self.op(key)?;
                    map.insert(string(&key)?.to_owned(), self.op(value)?);
                }
                Value::Map(Rc::new(map))
            }
            Op::Not(inner) => Value::Bool(!self.bool(inner)?),
            Op::Negative(inner) => match self.op(inner)? {
                Value::Int(number) => Value::Int(number.wrapping_neg()),
                Value::Float(number) => Value::Float(-number),
                other => return Err(unfit("a number", &other)),
            },
            Op::Positive(inner) => match self.op(inner)? {
                number @ (Value::Int(_) | Value::Float(_)) => number,
                other => return Err(unfit("a number", &other)),
            },
            Op::Or(all) => {
                for op in all {
                    if self.bool(op)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Value::Bool(false)
            }
            Op::And(all) => {
                for op in all {
                    if !self.bool(op)? {
                        return Ok(Value::Bool(false));
                    }
                }
                Value::Bool(true)
            }
            Op::Coalesce(a, b) => match self.op(a)? {
                Value::Nil => self.op(b)?,
                value => value,
            },
            Op::Equal(a, b, equal) => Value::Bool((self.op(a)? == self.op(b)?) == *equal),
            Op::Order(first, rest) => {
                let mut a = self.op(first)?;
                for (holds, b) in rest {
                    let b = self.op(b)?;
                    // What is no number compares with nothing.
                    let compared =
                        a.order(&b).is_some() || (a.as_float().is_some() && b.as_float().is_some());
                    if !compared {
                        return Err(Fail::new(format!(
                            "{} and {} are not compared",
                            a.kind(),
                            b.kind()
                        )));
                    }
                    if !a.order(&b).is_some_and(|order| holds.contains(&order)) {
                        return Ok(Value::Bool(false));
                    }
                    a = b;
                }
                Value::Bool(true)
            }
            Op::In(a, b) => {
                let (a, b) = (self.op(a)?, self.op(b)?);
                match &b {
                    Value::Array(all) => {
                        self.spend(all.len())?;
                        Value::Bool(all.contains(&a))
                    }
                    Value::Map(map) => Value::Bool(map.contains_key(string(&a)?)),
                    Value::Nil => Value::Bool(false),
                    other => return Err(unfit("an array or a map", other)),
                }
            }
            Op::OneOf(a, all) => {
                let a = self.op(a)?;
                for op in all {
                    if self.op(op)? == a {
                        return Ok(Value::Bool(true));
                    }
                }
                Value::Bool(false)
            }
            Op::Matches(a, b) => {
                let (a, b) = (self.op(a)?, self.op(b)?);
                // To compile a pattern is the most that one step does.
                self.spend(1000)?;
                let regex =
                    regex::compile(string(&b)?).map_err(|wrong| Fail::new(wrong.to_string()))?;
                Value::Bool(regex.is_match(string(&a)?))
            }
            Op::MatchesRegex(a, regex) => {
                let a = self.op(a)?;
                Value::Bool(regex.is_match(string(&a)?))
            }
            Op::Strings(kind, a, b) => {
                let (a, b) = (self.op(a)?, self.op(b)?);
                let (a, b) = (string(&a)?, string(&b)?);
                Value::Bool(match kind {
                    Strings::Contains => a.contains(b),
                    Strings::StartsWith => a.starts_with(b),
                    Strings::EndsWith => a.ends_with(b),
                })
            }
            Op::Range(a, b) => {
                let (a, b) = (self.int(a)?, self.int(b)?);
                self.spend(usize::try_from(b.saturating_sub(a).max(0)).unwrap_or(usize::MAX))?;
                Value::array((a..=b).map(Value::Int).collect())
            }
            Op::Add(a, b) => {
                let (a, b) = (self.op(a)?, self.op(b)?);
                self.add(a, b)?
            }
            Op::Calculate(kind, a, b) => {
                let (a, b) = (self.op(a)?, self.op(b)?);
                calculate(*kind, &a, &b)?
            }
            Op::Choice(condition, then, otherwise) => match (self.bool(condition)?, then) {
                (true, Some(then)) => self.op(then)?,
                (true, None) => Value::Bool(true),
                (false, _) => self.op(otherwise)?,
            },
            Op::Member { of, key, optional } => {
                let of = self.op(of)?;
                if matches!(of, Value::Nil) && *optional {
                    return Ok(Value::Nil);
                }
                let key = self.op(key)?;
                member(&of, &key)?
            }
            Op::Slice { of, from, to } => {
                let of = self.op(of)?;
                let from = from.as_ref().map(|from| self.int(from)).transpose()?;
                let to = to.as_ref().map(|to| self.int(to)).transpose()?;
                self.slice(&of, from, to)?
            }
            Op::Let { slot, value, body } => {
                let value = self.op(value)?;
                self.set(*slot, value);
                self.op(body)?
            }
            Op::Sequence(first, rest) => {
                self.op(first)?;
                self.op(rest)?
            }
            Op::Call(builtin, args) => {
                let mut values: SmallVec<[Value<'a>; 3]> = SmallVec::new();
                for arg in args {
                    values.push(self.op(arg)?);
                }
                (builtin.run)(self, &values)?
            }
            Op::Loop { kind, over, body, third, slot } => {
                let over = match self.op(over)? {
                    Value::Array(all) => all,
                    other => return Err(unfit("an array", &other)),
                };
                let third = third.as_ref().map(|third| self.op(third)).transpose()?;
                kind.run(self, &over, body.as_deref(), third, *slot)?
            }
        })
    }

    /// Runs a step that gives true or false.
    pub(super) fn bool(&mut self, op: &'a Op) -> Result<bool, Fail> {
        match self.op(op)? {
            Value::Bool(value) => Ok(value),
            other => Err(unfit("a bool", &other)),
        }
    }

    /// Runs a step that gives a whole number.
    fn int(&mut self, op: &'a Op) -> Result<i64, Fail> {
        match self.op(op)? {
            Value::Int(value) => Ok(value),
            other => Err(unfit("an int", &other)),
        }
    }

    /// Runs a step that gives an address.
    fn address(&mut self, op: &'a Op) -> Result<IpAddr, Fail> {
        let value = self.op(op)?;
        let address: Result<IpAddr, _> = string(&value)?.parse();
        address
            .map(|address| address.to_canonical())
            .map_err(|_| Fail::new(format!("{value} is no IP address")))
    }

    /// Adds numbers; joins strings.
    pub(super) fn add(&mut self, a: Value<'a>, b: Value<'a>) -> Ran<'a> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_add(b))),
            (Value::Str(mut a), Value::Str(b)) => {
                self.spend(a.as_str().len() + b.as_str().len())?;
                // Writing to memory cannot fail.
                let _unfailing = std::fmt::Write::write_str(&mut a, b.as_str());
                Ok(Value::Str(a))
            }
            (a, b) => match (a.as_float(), b.as_float()) {
                (Some(a), Some(b)) => Ok(Value::Float(a + b)),
                _ => Err(Fail::new(format!("{} and {} cannot be added", a.kind(), b.kind()))),
            },
        }
    }

    /// A part of a string or an array; bounds below zero count from the end, those beyond it are the end.
    fn slice(&mut self, of: &Value<'a>, from: Option<i64>, to: Option<i64>) -> Ran<'a> {
        let bounds = |len: usize| {
            let place = |bound: i64| {
                let size = usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX);
                if bound < 0 { len.saturating_sub(size) } else { size.min(len) }
            };
            let to = to.map_or(len, place);
            (from.map_or(0, place).min(to), to)
        };
        match of {
            Value::Array(all) => {
                let (from, to) = bounds(all.len());
                self.spend(to - from)?;
                Ok(Value::array(all.get(from..to).unwrap_or_default().to_vec()))
            }
            Value::Str(text) => {
                let text = text.as_str();
                self.spend(text.len())?;
                let (from, to) = bounds(text.len());
                text.get(from..to)
                    .map(Value::text)
                    .ok_or_else(|| Fail::new("a slice would cut a character"))
            }
            other => Err(unfit("a string or an array", other)),
        }
    }
}

/// The string of a value that must be one.
pub(super) fn string<'v>(value: &'v Value<'_>) -> Result<&'v str, Fail> {
    value.as_str().ok_or_else(|| unfit("a string", value))
}

/// A value of another type than is needed.
pub(super) fn unfit(needed: &str, value: &Value<'_>) -> Fail {
    Fail::new(format!("{needed} is needed, this is of type {}", value.kind()))
}

/// A member of a value; one that a map does not have is nothing.
pub(super) fn member<'a>(of: &Value<'a>, key: &Value<'a>) -> Ran<'a> {
    match (of, key) {
        (Value::Map(map), Value::Str(key)) => {
            Ok(map.get(key.as_str()).cloned().unwrap_or(Value::Nil))
        }
        (Value::Array(all), Value::Int(index)) => {
            match place(*index, all.len()).and_then(|at| all.get(at)) {
                Some(value) => Ok(value.clone()),
                None => Err(Fail::new(format!("there is no member {index} of {}", all.len()))),
            }
        }
        (Value::Str(text), Value::Int(index)) => {
            let text = text.as_str();
            let at = place(*index, text.len());
            let letter = at.and_then(|at| text.get(at..=at)).map(Value::text);
            letter.ok_or_else(|| Fail::new(format!("there is no letter {index} of {}", text.len())))
        }
        (of, key) => {
            Err(Fail::new(format!("a {} has no member of type {}", of.kind(), key.kind())))
        }
    }
}

/// Where an index lies; one below zero counts from the end.
fn place(index: i64, len: usize) -> Option<usize> {
    let size = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { len.checked_sub(size) } else { Some(size) }
}

/// Does something with two numbers. A division always gives a number with a fraction, as expr-lang's does.
fn calculate<'a>(kind: Calculate, a: &Value<'a>, b: &Value<'a>) -> Ran<'a> {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        match kind {
            Calculate::Subtract => return Ok(Value::Int(a.wrapping_sub(*b))),
            Calculate::Multiply => return Ok(Value::Int(a.wrapping_mul(*b))),
            Calculate::Modulo if *b == 0 => return Err(Fail::new("a division by zero")),
            Calculate::Modulo => return Ok(Value::Int(a.wrapping_rem(*b))),
            Calculate::Divide | Calculate::Power => {}
        }
    }
    let (Some(x), Some(y)) = (a.as_float(), b.as_float()) else {
        return Err(Fail::new(format!("{} and {} cannot be calculated with", a.kind(), b.kind())));
    };
    Ok(Value::Float(match kind {
        Calculate::Subtract => x - y,
        Calculate::Multiply => x * y,
        Calculate::Divide => x / y,
        Calculate::Power => x.powf(y),
        Calculate::Modulo => return Err(Fail::new("a remainder is one of whole numbers")),
    }))
}
