//! A template at work, in a bounded number of steps.

use super::funcs::{Func, is_true};
use super::node::{Command, Node, Operand, Pipe};
use super::{Data, Fail};
use crate::shared::expr::{Text, Value};

/// How many steps a template may take.
const STEPS: usize = 100_000;

/// How long a text may become, in octets: more than a message can hold.
pub(super) const LONGEST: usize = 1 << 17;

/// How deep templates may use one another.
const MAX_DEPTH: usize = 50;

/// Runs the first of `bodies`.
pub(super) fn run<'a>(
    bodies: &'a [Vec<Node>],
    data: &dyn Data<'a>,
    out: &mut String,
) -> Result<(), Fail> {
    let mut run =
        Run { bodies, data, out, slots: vec![Item::Root], base: 0, steps: STEPS, depth: 0 };
    run.nodes(bodies.first().map(Vec::as_slice).unwrap_or_default(), &Item::Root).map(|_| ())
}

/// What `.` or a variable is.
#[derive(Clone, Debug)]
pub(super) enum Item<'a> {
    /// The data.
    Root,
    /// A value.
    Value(Value<'a>),
}

/// How a list of nodes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// At its end.
    Through,
    /// By `break`.
    Break,
    /// By `continue`.
    Continue,
}

/// Where the running stands.
struct Run<'a, 'd> {
    bodies: &'a [Vec<Node>],
    data: &'d dyn Data<'a>,
    out: &'d mut String,
    /// The variables of all templates in use, one after another.
    slots: Vec<Item<'a>>,
    /// Where those of the innermost begin.
    base: usize,
    steps: usize,
    depth: usize,
}

impl<'a> Run<'a, '_> {
    /// Pays for a step.
    fn step(&mut self) -> Result<(), Fail> {
        self.steps = self
            .steps
            .checked_sub(1)
            .ok_or_else(|| Fail::new("the template takes too many steps"))?;
        Ok(())
    }

    /// Appends text.
    fn write(&mut self, text: &str) -> Result<(), Fail> {
        if self.out.len() + text.len() > LONGEST {
            return Err(Fail::new("the template makes too long a text"));
        }
        self.out.push_str(text);
        Ok(())
    }

    /// Runs nodes.
    fn nodes(&mut self, nodes: &'a [Node], dot: &Item<'a>) -> Result<Flow, Fail> {
        for node in nodes {
            self.step()?;
            let flow = match node {
                Node::Text(text) => {
                    self.write(text)?;
                    Flow::Through
                }
                Node::Action(pipe) => {
                    let value = self.pipe(pipe, dot)?;
                    if pipe.into.is_none() {
                        self.print(&value)?;
                    }
                    Flow::Through
                }
                Node::If(pipe, then, otherwise) => {
                    let taken = if self.holds(pipe, dot)?.is_some() { then } else { otherwise };
                    self.nodes(taken, dot)?
                }
                Node::With(pipe, then, otherwise) => match self.holds(pipe, dot)? {
                    Some(value) => self.nodes(then, &value)?,
                    None => self.nodes(otherwise, dot)?,
                },
                Node::Range { over, index, member, body, otherwise } => {
                    self.range(over, [*index, *member], body, otherwise, dot)?
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
                Node::Template(number, pipe) => {
                    self.template(*number, pipe.as_ref(), dot)?;
                    Flow::Through
                }
            };
            if flow != Flow::Through {
                return Ok(flow);
            }
        }
        Ok(Flow::Through)
    }

    /// Runs another template.
    fn template(
        &mut self,
        number: usize,
        pipe: Option<&'a Pipe>,
        dot: &Item<'a>,
    ) -> Result<(), Fail> {
        if self.depth == MAX_DEPTH {
            return Err(Fail::new("templates use one another too deeply"));
        }
        let dot = match pipe {
            Some(pipe) => self.pipe(pipe, dot)?,
            None => Item::Value(Value::Nil),
        };
        let base = std::mem::replace(&mut self.base, self.slots.len());
        self.slots.push(dot.clone());
        self.depth += 1;
        self.nodes(self.bodies.get(number).map(Vec::as_slice).unwrap_or_default(), &dot)?;
        self.depth -= 1;
        self.slots.truncate(self.base);
        self.base = base;
        Ok(())
    }

    /// Runs `range`: over the members of an array or a map, or so many numbers.
    fn range(
        &mut self,
        over: &'a Pipe,
        [index, member]: [Option<usize>; 2],
        body: &'a [Node],
        otherwise: &'a [Node],
        dot: &Item<'a>,
    ) -> Result<Flow, Fail> {
        let members: Vec<(Value<'a>, Value<'a>)> = match self.pipe(over, dot)? {
            Item::Value(Value::Array(all)) => all
                .iter()
                .cloned()
                .enumerate()
                .map(|(at, value)| (Value::Int(at as i64), value))
                .collect(),
            Item::Value(Value::Map(all)) => {
                all.iter().map(|(key, value)| (owned(key.clone()), value.clone())).collect()
            }
            Item::Value(Value::Int(count)) => {
                let count = usize::try_from(count).unwrap_or(0);
                if count > self.steps {
                    return Err(Fail::new("the template takes too many steps"));
                }
                (0..count).map(|at| (Value::Int(at as i64), Value::Int(at as i64))).collect()
            }
            Item::Value(Value::Nil) => Vec::new(),
            other => {
                return Err(Fail::new(format!("range can't iterate over {}", describe(&other))));
            }
        };
        if members.is_empty() {
            return self.nodes(otherwise, dot);
        }
        for (key, value) in members {
            self.step()?;
            if let Some(slot) = index {
                self.set(slot, Item::Value(key));
            }
            let value = Item::Value(value);
            if let Some(slot) = member {
                self.set(slot, value.clone());
            }
            if self.nodes(body, &value)? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Through)
    }

    /// Gives a variable its value.
    fn set(&mut self, slot: usize, item: Item<'a>) {
        let at = self.base + slot;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, Item::Value(Value::Nil));
        }
        if let Some(own) = self.slots.get_mut(at) {
            *own = item;
        }
    }

    /// Runs a pipe; gives its value if that is not empty.
    fn holds(&mut self, pipe: &'a Pipe, dot: &Item<'a>) -> Result<Option<Item<'a>>, Fail> {
        let item = self.pipe(pipe, dot)?;
        let holds = match &item {
            Item::Root => true,
            Item::Value(value) => is_true(value),
        };
        Ok(holds.then_some(item))
    }

    /// Runs a pipe.
    fn pipe(&mut self, pipe: &'a Pipe, dot: &Item<'a>) -> Result<Item<'a>, Fail> {
        let mut last = None;
        for command in &pipe.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let item = last.unwrap_or(Item::Value(Value::Nil));
        if let Some(slot) = pipe.into {
            self.set(slot, item.clone());
        }
        Ok(item)
    }

    /// Runs a command; `last` is its last argument.
    fn command(
        &mut self,
        command: &'a Command,
        dot: &Item<'a>,
        last: Option<Item<'a>>,
    ) -> Result<Item<'a>, Fail> {
        self.step()?;
        let has_args = !command.args.is_empty() || last.is_some();
        match &command.head {
            Operand::Func(func @ (Func::And | Func::Or)) => self.choose(*func, command, dot, last),
            Operand::Func(func) => {
                let args = self.args(command, dot, last)?;
                func.call(&args)
                    .map(Item::Value)
                    .map_err(|wrong| Fail::new(format!("error calling {func}: {wrong}")))
            }
            Operand::Dot(path) if has_args => {
                let args = self.args(command, dot, last)?;
                self.fields(dot.clone(), path, &args)
            }
            Operand::Var(slot, path) if has_args => {
                let args = self.args(command, dot, last)?;
                self.fields(self.var(*slot), path, &args)
            }
            head => self.operand(head, dot),
        }
    }

    /// `and` and `or`: the first value that decides; those behind are not looked at.
    fn choose(
        &mut self,
        func: Func,
        command: &'a Command,
        dot: &Item<'a>,
        last: Option<Item<'a>>,
    ) -> Result<Item<'a>, Fail> {
        let mut item = Item::Value(Value::Nil);
        for arg in &command.args {
            item = self.operand(arg, dot)?;
            let holds = !matches!(&item, Item::Value(value) if !is_true(value));
            if holds == (func == Func::Or) {
                return Ok(item);
            }
        }
        Ok(last.unwrap_or(item))
    }

    /// The values of a command's arguments.
    fn args(
        &mut self,
        command: &'a Command,
        dot: &Item<'a>,
        last: Option<Item<'a>>,
    ) -> Result<Vec<Value<'a>>, Fail> {
        let mut values = Vec::with_capacity(command.args.len() + 1);
        for arg in &command.args {
            let item = self.operand(arg, dot)?;
            values.push(value_of(item)?);
        }
        if let Some(item) = last {
            values.push(value_of(item)?);
        }
        Ok(values)
    }

    /// The value of an operand.
    fn operand(&mut self, operand: &'a Operand, dot: &Item<'a>) -> Result<Item<'a>, Fail> {
        self.step()?;
        Ok(Item::Value(match operand {
            Operand::Nil => Value::Nil,
            Operand::Bool(value) => Value::Bool(*value),
            Operand::Int(value) => Value::Int(*value),
            Operand::Float(value) => Value::Float(*value),
            Operand::Str(text) => Value::Str(Text::Borrowed(text)),
            Operand::Dot(path) => return self.fields(dot.clone(), path, &[]),
            Operand::Var(slot, path) => return self.fields(self.var(*slot), path, &[]),
            Operand::Func(func) => func
                .call(&[])
                .map_err(|wrong| Fail::new(format!("error calling {func}: {wrong}")))?,
            Operand::Pipe(pipe, path) => {
                let item = self.pipe(pipe, dot)?;
                return self.fields(item, path, &[]);
            }
        }))
    }

    /// The value of a variable.
    fn var(&self, slot: usize) -> Item<'a> {
        self.slots.get(self.base + slot).cloned().unwrap_or(Item::Value(Value::Nil))
    }

    /// A field of an item, along a path; the last name takes the arguments.
    fn fields(
        &self,
        item: Item<'a>,
        path: &[String],
        args: &[Value<'a>],
    ) -> Result<Item<'a>, Fail> {
        let (mut value, rest) = match item {
            Item::Root if path.is_empty() => return Ok(Item::Root),
            Item::Root => {
                let (value, taken) = self.data.get(path, args)?;
                let rest = path.get(taken..).unwrap_or_default();
                if rest.is_empty() {
                    return Ok(Item::Value(value));
                }
                (value, rest)
            }
            Item::Value(value) => (value, path),
        };
        if !args.is_empty() {
            return Err(Fail::new(format!(
                "{} has arguments but cannot be invoked as function",
                path.join(".")
            )));
        }
        for name in rest {
            value = match &value {
                Value::Map(map) => map.get(name).cloned().unwrap_or(Value::Nil),
                other => {
                    return Err(Fail::new(format!(
                        "can't evaluate field {name} in type {}",
                        other.kind()
                    )));
                }
            };
        }
        Ok(Item::Value(value))
    }

    /// Puts a value into the text.
    fn print(&mut self, item: &Item<'a>) -> Result<(), Fail> {
        match item {
            Item::Root => Err(Fail::new("the data as a whole is no text")),
            Item::Value(Value::Nil) => self.write("<no value>"),
            Item::Value(Value::Str(text)) => self.write(text.as_str()),
            Item::Value(other) => self.write(&other.to_string()),
        }
    }
}

/// The value of an item that is one.
fn value_of(item: Item<'_>) -> Result<Value<'_>, Fail> {
    match item {
        Item::Value(value) => Ok(value),
        Item::Root => Err(Fail::new("the data as a whole is no argument")),
    }
}

/// What an item is, for messages.
fn describe(item: &Item<'_>) -> &'static str {
    match item {
        Item::Root => "the data",
        Item::Value(value) => value.kind(),
    }
}

/// A string as a value.
fn owned<'a>(text: String) -> Value<'a> {
    Value::Str(Text::Own(text.into_bytes().into()))
}
