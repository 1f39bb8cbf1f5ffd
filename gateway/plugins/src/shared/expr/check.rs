//! From the tree to steps: names are found, types compared, and what does not change is made ready.

use config::value::{Network, known};

use super::ast::{Ast, Binary, Node, Operator, Order};
use super::builtins::{BUILTINS, Builtin, Gives, Takes};
use super::facts::{FACTS, Fact};
use super::loops::{LOOPS, Loop};
use super::op::{Calculate, Op, Strings};
use super::types::Type;
use super::{BadExpression, Scope};
use crate::shared::regex;

/// A step and the type of its value.
type Checked = Result<(Op, Type), BadExpression>;

/// Functions with rules of their own.
const OTHERS: [&str; 3] = [GROUPS, "incidr", "metadata"];

/// The function that CoreDNS does not have; variables may be called so as they may there.
pub(super) const GROUPS: &str = "groups";

/// Functions of expr-lang that are not there.
const ABSENT: [&str; 5] = ["now", "date", "duration", "timezone", "type"];

/// Checks a tree.
pub(super) fn check(node: &Node, scope: &Scope) -> Checked {
    Checker { scope, slots: Vec::new(), pointers: Vec::new() }.node(node)
}

/// Whether `name` is a function; `groups` says whether `group` is one.
pub(super) fn is_function(name: &str, groups: bool) -> bool {
    functions(groups).any(|own| own == name) || ABSENT.contains(&name)
}

/// Whether the second argument of a function is a predicate.
pub(super) fn takes_predicate(name: &str) -> bool {
    LOOPS.iter().any(|(own, _)| *own == name)
}

/// The names of all functions.
fn functions(groups: bool) -> impl Iterator<Item = &'static str> {
    let facts = FACTS.iter().map(|(name, ..)| *name);
    let builtins = BUILTINS.iter().map(|builtin| builtin.name);
    let loops = LOOPS.iter().map(|(name, _)| *name);
    facts.chain(builtins).chain(loops).chain(OTHERS).chain(groups.then_some("group"))
}

/// Where the checking stands.
struct Checker<'a> {
    scope: &'a Scope,
    /// The names and types of the expression's own variables; those of predicates have no names.
    slots: Vec<(String, Type)>,
    /// The first slot of each open predicate.
    pointers: Vec<usize>,
}

impl Checker<'_> {
    /// Checks a node.
    fn node(&mut self, node: &Node) -> Checked {
        let at = node.at;
        Ok(match &node.kind {
            Ast::Nil => (Op::Nil, Type::Nil),
            Ast::Bool(value) => (Op::Bool(*value), Type::Bool),
            Ast::Int(value) => (Op::Int(*value), Type::Int),
            Ast::Float(value) => (Op::Float(*value), Type::Float),
            Ast::Str(text) => (Op::Str(text.as_str().into()), Type::Str),
            Ast::Name(name) => return self.name(name, at),
            Ast::Pointer(name) => return self.pointer(name, at),
            Ast::Array(all) => {
                let mut kind = None;
                let mut ops = Vec::new();
                for member in all {
                    let (op, own) = self.node(member)?;
                    kind = Some(kind.map_or_else(|| own.clone(), |kind: Type| kind.either(&own)));
                    ops.push(op);
                }
                (Op::Array(ops), Type::Array(Box::new(kind.unwrap_or(Type::Any))))
            }
            Ast::Map(pairs) => {
                let mut ops = Vec::new();
                for (key, value) in pairs {
                    ops.push((self.wanted(key, &Type::Str)?, self.node(value)?.0));
                }
                (Op::Map(ops), Type::Map(Box::new(Type::Any)))
            }
            Ast::Not(inner) => (Op::Not(Box::new(self.wanted(inner, &Type::Bool)?)), Type::Bool),
            Ast::Negative(inner) => {
                let (op, kind) = self.number(inner)?;
                (Op::Negative(Box::new(op)), kind)
            }
            Ast::Positive(inner) => {
                let (op, kind) = self.number(inner)?;
                (Op::Positive(Box::new(op)), kind)
            }
            Ast::Any(all) => (Op::Or(self.conditions(all)?), Type::Bool),
            Ast::All(all) => (Op::And(self.conditions(all)?), Type::Bool),
            Ast::Order(first, rest) => return self.order(first, rest),
            Ast::Binary(operator, left, right) => return self.binary(*operator, left, right, at),
            Ast::Choice(condition, then, otherwise) => {
                let condition = Box::new(self.wanted(condition, &Type::Bool)?);
                let (then, kind) = match then {
                    Some(then) => self.node(then).map(|(op, kind)| (Some(Box::new(op)), kind))?,
                    None => (None, Type::Bool),
                };
                let (otherwise, other) = self.node(otherwise)?;
                (Op::Choice(condition, then, Box::new(otherwise)), kind.either(&other))
            }
            Ast::Member { of, key, optional } => return self.member(of, key, *optional),
            Ast::Slice { of, from, to } => {
                let (of, kind) = self.node(of)?;
                if !matches!(kind, Type::Any | Type::Str | Type::Array(_)) {
                    return Err(BadExpression::new(
                        at,
                        format!("a value of type {kind} has no slices"),
                    ));
                }
                let mut bound =
                    |bound: &Option<Box<Node>>| -> Result<Option<Box<Op>>, BadExpression> {
                        bound
                            .as_ref()
                            .map(|bound| self.wanted(bound, &Type::Int).map(Box::new))
                            .transpose()
                    };
                let (from, to) = (bound(from)?, bound(to)?);
                (Op::Slice { of: Box::new(of), from, to }, kind)
            }
            Ast::Call(name, args) => return self.call(name, args, at),
            Ast::Predicate(_) => {
                return Err(BadExpression::new(at, "a predicate may not stand here"));
            }
            Ast::Let { name, value, body } => {
                if self.scope.is_reserved(name) || self.find(name).is_some() {
                    return Err(BadExpression::new(at, format!("'{name}' has a meaning already")));
                }
                let (value, kind) = self.node(value)?;
                let slot = self.slots.len();
                self.slots.push((name.clone(), kind));
                let body = self.node(body);
                self.slots.pop();
                let (body, kind) = body?;
                (Op::Let { slot, value: Box::new(value), body: Box::new(body) }, kind)
            }
            Ast::Sequence(first, rest) => {
                let (first, (rest, kind)) = (self.node(first)?.0, self.node(rest)?);
                (Op::Sequence(Box::new(first), Box::new(rest)), kind)
            }
        })
    }

    /// Checks a node whose value must have a type.
    fn wanted(&mut self, node: &Node, kind: &Type) -> Result<Op, BadExpression> {
        let (op, own) = self.node(node)?;
        if own.may_be(kind) {
            Ok(op)
        } else {
            Err(BadExpression::new(node.at, format!("a {kind} is needed, this is of type {own}")))
        }
    }

    /// Checks a node whose value must be a number.
    fn number(&mut self, node: &Node) -> Checked {
        let (op, kind) = self.node(node)?;
        if kind.may_be_number() {
            Ok((op, kind))
        } else {
            Err(BadExpression::new(node.at, format!("a number is needed, this is of type {kind}")))
        }
    }

    /// The variable of a name.
    fn find(&self, name: &str) -> Option<(Op, Type)> {
        if let Some(slot) = self.slots.iter().rposition(|(own, _)| own == name) {
            return Some((Op::Slot(slot), self.slots.get(slot)?.1.clone()));
        }
        let var = self.scope.vars.iter().rposition(|(own, _)| own == name)?;
        Some((Op::Var(var), self.scope.vars.get(var)?.1.clone()))
    }

    /// Checks a name.
    fn name(&self, name: &str, at: usize) -> Checked {
        if name == "$env" {
            let vars = self.scope.vars.iter().map(|(name, _)| name.as_str().into()).collect();
            return Ok((Op::Env(vars), Type::Map(Box::new(Type::Any))));
        }
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        let wrong = BadExpression::new(at, format!("unknown name {name}"));
        if is_function(name, self.scope.groups) {
            return Err(wrong.help(format!("functions are called with parentheses: {name}()")));
        }
        let mut names: Vec<&str> = functions(self.scope.groups).collect();
        names.extend(self.scope.vars.iter().map(|(name, _)| name.as_str()));
        Err(wrong.help(known(name, &names)))
    }

    /// Checks what a predicate is about.
    fn pointer(&self, name: &str, at: usize) -> Checked {
        let base = self.pointers.last().copied().unwrap_or(0);
        let slot = match name {
            "" => base,
            "index" => base + 1,
            "acc" => base + 2,
            other => {
                return Err(BadExpression::new(at, format!("unknown name #{other}"))
                    .help("there are #, #index and #acc"));
            }
        };
        match self.slots.get(slot) {
            Some((_, kind)) => Ok((Op::Slot(slot), kind.clone())),
            None => Err(BadExpression::new(at, "# stands within predicates alone")),
        }
    }

    /// Checks nodes whose values must be true or false.
    fn conditions(&mut self, all: &[Node]) -> Result<Vec<Op>, BadExpression> {
        all.iter().map(|node| self.wanted(node, &Type::Bool)).collect()
    }

    /// Checks comparisons.
    fn order(&mut self, first: &Node, rest: &[(Order, usize, Node)]) -> Checked {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let (first, mut before) = self.node(first)?;
        let mut ops = Vec::new();
        for (order, at, node) in rest {
            let (op, kind) = self.node(node)?;
            let numbers = before.may_be_number() && kind.may_be_number();
            let strings = before.may_be(&Type::Str) && kind.may_be(&Type::Str);
            if !numbers && !strings {
                return Err(mismatch(Operator::Order(*order), &before, &kind, *at));
            }
            let holds = match order {
                Order::Less => [Less, Less],
                Order::LessEqual => [Less, Equal],
                Order::Greater => [Greater, Greater],
                Order::GreaterEqual => [Greater, Equal],
            };
            ops.push((holds, op));
            before = kind;
        }
        Ok((Op::Order(Box::new(first), ops), Type::Bool))
    }

    /// Checks an operator between two values.
    fn binary(&mut self, operator: Binary, left: &Node, right: &Node, at: usize) -> Checked {
        let (a, a_kind) = self.node(left)?;
        // A list behind `in` need not be made.
        if operator == Binary::In
            && let Ast::Array(all) = &right.kind
        {
            let (mut ops, mut members) = (Vec::new(), None);
            for member in all {
                let (op, kind) = self.node(member)?;
                members = Some(
                    members.map_or_else(|| kind.clone(), |members: Type| members.either(&kind)),
                );
                ops.push(op);
            }
            if let Some(kind) = members.filter(|kind| !a_kind.may_equal(kind)) {
                return Err(mismatch(Operator::Binary(operator), &a_kind, &kind, at));
            }
            return Ok((Op::OneOf(Box::new(a), ops), Type::Bool));
        }
        let (b, b_kind) = self.node(right)?;
        let both = |kind: &Type| a_kind.may_be(kind) && b_kind.may_be(kind);
        let numbers = a_kind.may_be_number() && b_kind.may_be_number();
        let fits = match operator {
            Binary::Equal | Binary::Unequal => a_kind.may_equal(&b_kind),
            Binary::Add => numbers || both(&Type::Str),
            Binary::In => match &b_kind {
                Type::Any => true,
                Type::Array(of) => a_kind.may_equal(of),
                Type::Map(_) => a_kind.may_be(&Type::Str),
                _ => false,
            },
            Binary::Matches | Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
                both(&Type::Str)
            }
            Binary::Range | Binary::Modulo => both(&Type::Int),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Power => numbers,
            Binary::Coalesce => true,
        };
        if !fits {
            return Err(mismatch(Operator::Binary(operator), &a_kind, &b_kind, at));
        }
        let is_int = a_kind == Type::Int && b_kind == Type::Int;
        let number = match (&a_kind, &b_kind) {
            _ if is_int => Type::Int,
            (Type::Any, _) | (_, Type::Any) => Type::Any,
            _ => Type::Float,
        };
        let (a, b) = (Box::new(a), Box::new(b));
        Ok(match operator {
            Binary::Equal => (Op::Equal(a, b, true), Type::Bool),
            Binary::Unequal => (Op::Equal(a, b, false), Type::Bool),
            Binary::In => match *b {
                Op::Groups => (Op::InGroups(a), Type::Bool),
                other => (Op::In(a, Box::new(other)), Type::Bool),
            },
            Binary::Matches => match *b {
                Op::Str(pattern) => {
                    let regex = regex::compile(&pattern).map_err(|wrong| {
                        BadExpression::new(
                            right.at,
                            format!("'{pattern}' is no regular expression: {wrong}"),
                        )
                    })?;
                    (Op::MatchesRegex(a, regex), Type::Bool)
                }
                other => (Op::Matches(a, Box::new(other)), Type::Bool),
            },
            Binary::Contains => (Op::Strings(Strings::Contains, a, b), Type::Bool),
            Binary::StartsWith => (Op::Strings(Strings::StartsWith, a, b), Type::Bool),
            Binary::EndsWith => (Op::Strings(Strings::EndsWith, a, b), Type::Bool),
            Binary::Range => (Op::Range(a, b), Type::Array(Box::new(Type::Int))),
            Binary::Add => match (&a_kind, &b_kind) {
                (Type::Str, _) | (_, Type::Str) => (Op::Add(a, b), Type::Str),
                _ => (Op::Add(a, b), number),
            },
            Binary::Subtract => (Op::Calculate(Calculate::Subtract, a, b), number),
            Binary::Multiply => (Op::Calculate(Calculate::Multiply, a, b), number),
            Binary::Divide => (Op::Calculate(Calculate::Divide, a, b), Type::Float),
            Binary::Modulo => (Op::Calculate(Calculate::Modulo, a, b), Type::Int),
            Binary::Power => (Op::Calculate(Calculate::Power, a, b), Type::Float),
            Binary::Coalesce => {
                let kind = if a_kind == Type::Nil { b_kind } else { a_kind.either(&b_kind) };
                (Op::Coalesce(a, b), kind)
            }
        })
    }

    /// Checks a member.
    fn member(&mut self, of: &Node, key: &Node, optional: bool) -> Checked {
        let (of_op, of_kind) = self.node(of)?;
        let (key_op, key_kind) = self.node(key)?;
        let kind = match &of_kind {
            Type::Any => Type::Any,
            Type::Nil if optional => Type::Nil,
            Type::Array(kind) if key_kind.may_be(&Type::Int) => (**kind).clone(),
            Type::Map(kind) if key_kind.may_be(&Type::Str) => (**kind).clone(),
            Type::Str if key_kind.may_be(&Type::Int) => Type::Str,
            _ => {
                return Err(BadExpression::new(
                    key.at,
                    format!("a value of type {of_kind} has no member of type {key_kind}"),
                ));
            }
        };
        Ok((Op::Member { of: Box::new(of_op), key: Box::new(key_op), optional }, kind))
    }

    /// Checks a call.
    fn call(&mut self, name: &str, args: &[Node], at: usize) -> Checked {
        if let Some((_, fact, kind)) = FACTS.iter().find(|(own, ..)| *own == name) {
            count(name, args, 0, 0, at)?;
            return Ok((Op::Fact(*fact), kind.clone()));
        }
        if let Some((_, kind)) = LOOPS.iter().find(|(own, _)| *own == name) {
            return self.over(name, *kind, args, at);
        }
        if let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) {
            return self.builtin(builtin, args, at);
        }
        match (name, args) {
            (GROUPS, []) if self.scope.clients => {
                Ok((Op::Groups, Type::Array(Box::new(Type::Str))))
            }
            (GROUPS, []) => {
                let what = "groups() needs the plugin identity, which the block does not have";
                Err(BadExpression::new(at, what).help("write identity { ... } in the block"))
            }
            ("incidr", [ip, cidr]) => {
                let (ip, cidr_op) = (self.wanted(ip, &Type::Str)?, self.wanted(cidr, &Type::Str)?);
                let op = match cidr_op {
                    Op::Str(text) => {
                        let network: Network = text.parse().map_err(|wrong| {
                            BadExpression::new(cidr.at, format!("'{text}' {wrong}"))
                        })?;
                        if matches!(ip, Op::Fact(Fact::ClientIp)) {
                            Op::ClientIn(network)
                        } else {
                            Op::InNetwork(Box::new(ip), network)
                        }
                    }
                    other => Op::InCidr(Box::new(ip), Box::new(other)),
                };
                Ok((op, Type::Bool))
            }
            ("metadata", [label]) => {
                let op = self.wanted(label, &Type::Str)?;
                if let Op::Str(text) = &op
                    && text
                        .split_once('/')
                        .is_none_or(|(plugin, rest)| plugin.is_empty() || rest.is_empty())
                {
                    return Err(BadExpression::new(label.at, format!("'{text}' is no metadata label"))
                        .help("labels are a plugin's name, a slash and a name, such as 'kubernetes/namespace'"));
                }
                Ok((Op::Metadata(Box::new(op)), Type::Str))
            }
            ("group", [name]) if self.scope.groups => {
                let (op, kind) = self.node(name)?;
                if !matches!(kind, Type::Any | Type::Int | Type::Str) {
                    return Err(BadExpression::new(
                        name.at,
                        format!("a group has a number or a name, this is of type {kind}"),
                    ));
                }
                Ok((Op::Group(Box::new(op)), Type::Str))
            }
            _ => Err(self.uncallable(name, args, at)),
        }
    }

    /// Why a function cannot be called so.
    fn uncallable(&self, name: &str, args: &[Node], at: usize) -> BadExpression {
        if let Err(wrong) = match name {
            GROUPS => count(name, args, 0, 0, at),
            "incidr" => count(name, args, 2, 2, at),
            "metadata" => count(name, args, 1, 1, at),
            "group" if self.scope.groups => count(name, args, 1, 1, at),
            _ => Ok(()),
        } {
            return wrong;
        }
        if ABSENT.contains(&name) {
            return BadExpression::new(
                at,
                format!("the function {name} of expr-lang is not there"),
            );
        }
        if self.find(name).is_some() {
            return BadExpression::new(at, format!("{name} is no function"));
        }
        let names: Vec<&str> = functions(self.scope.groups).collect();
        BadExpression::new(at, format!("unknown function {name}")).help(known(name, &names))
    }

    /// Checks a call of a function for values.
    fn builtin(&mut self, builtin: &'static Builtin, args: &[Node], at: usize) -> Checked {
        let most = if builtin.is_endless { usize::MAX } else { builtin.takes.len() };
        count(builtin.name, args, builtin.takes.len() - builtin.optional, most, at)?;
        let (mut ops, mut first) = (Vec::new(), Type::Any);
        for (index, arg) in args.iter().enumerate() {
            let (op, kind) = self.node(arg)?;
            let takes = builtin
                .takes
                .get(index)
                .or_else(|| builtin.takes.last())
                .copied()
                .unwrap_or(Takes::Any);
            if !takes.accepts(&kind) {
                return Err(BadExpression::new(
                    arg.at,
                    format!("{} takes {takes} here, this is of type {kind}", builtin.name),
                ));
            }
            if index == 0 {
                first = kind;
            }
            ops.push(op);
        }
        let element = match &first {
            Type::Array(of) | Type::Map(of) => (**of).clone(),
            _ => Type::Any,
        };
        let kind = match builtin.gives {
            Gives::Bool => Type::Bool,
            Gives::Int => Type::Int,
            Gives::Float => Type::Float,
            Gives::Str => Type::Str,
            Gives::Strs => Type::Array(Box::new(Type::Str)),
            Gives::Array => Type::any_array(),
            Gives::Map => Type::Map(Box::new(Type::Any)),
            Gives::Same => first,
            Gives::Element => element,
            Gives::Any => Type::Any,
        };
        Ok((Op::Call(builtin, ops), kind))
    }

    /// Checks a call of a function with a predicate.
    fn over(&mut self, name: &str, kind: Loop, args: &[Node], at: usize) -> Checked {
        let (least, most) = kind.args();
        count(name, args, least, most, at)?;
        let Some((over, rest)) = args.split_first() else {
            return Err(BadExpression::new(at, "an array is missing"));
        };
        let (over_op, over_kind) = self.node(over)?;
        let element = match over_kind {
            Type::Any => Type::Any,
            Type::Array(of) => *of,
            other => {
                return Err(BadExpression::new(
                    over.at,
                    format!("{name} takes an array, this is of type {other}"),
                ));
            }
        };
        let slot = self.slots.len();
        let unnamed = |kind: Type| (String::new(), kind);
        self.slots.extend([unnamed(element.clone()), unnamed(Type::Int), unnamed(Type::Any)]);
        self.pointers.push(slot);
        let body = rest.first().map(|predicate| match &predicate.kind {
            Ast::Predicate(body) => self.node(body).map(|(op, kind)| (op, kind, body.at)),
            _ => Err(BadExpression::new(
                predicate.at,
                format!("{name} takes a predicate such as {{ # > 1 }} here"),
            )),
        });
        self.pointers.pop();
        self.slots.truncate(slot);
        let body = body.transpose()?;
        let third =
            rest.get(1).map(|third| self.node(third).map(|(op, _)| Box::new(op))).transpose()?;
        let result = match &body {
            Some((_, own, at)) if kind.wants_bool() && !own.may_be(&Type::Bool) => {
                return Err(BadExpression::new(
                    *at,
                    format!("the predicate of {name} gives true or false, this is of type {own}"),
                ));
            }
            Some((_, own, _)) => own.clone(),
            None => element.clone(),
        };
        let gives = kind.gives(element, result);
        let body = body.map(|(op, ..)| Box::new(op));
        Ok((Op::Loop { kind, over: Box::new(over_op), body, third, slot }, gives))
    }
}

/// Two types that do not go together.
fn mismatch(operator: Operator, a: &Type, b: &Type, at: usize) -> BadExpression {
    BadExpression::new(
        at,
        format!("'{}' does not go between the types {a} and {b}", operator.sign()),
    )
}

/// Refuses a wrong number of arguments.
fn count(
    name: &str,
    args: &[Node],
    least: usize,
    most: usize,
    at: usize,
) -> Result<(), BadExpression> {
    if (least..=most).contains(&args.len()) {
        return Ok(());
    }
    let takes = match (least, most) {
        (0, 0) => "no argument".to_owned(),
        (1, 1) => "one argument".to_owned(),
        (least, most) if least == most => format!("{least} arguments"),
        (least, usize::MAX) => format!("{least} arguments or more"),
        (least, most) => format!("{least} to {most} arguments"),
    };
    Err(BadExpression::new(at, format!("{name} takes {takes}, here are {}", args.len())))
}
