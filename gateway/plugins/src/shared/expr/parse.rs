//! From tokens to a tree, by strength of the operators.

use super::BadExpression;
use super::ast::{Ast, Node, Operator};
use super::lex::{Kind, Token, lex};

/// How deep expressions may be nested: the tree is walked by recursion.
const MAX_DEPTH: usize = 100;

/// How many operators, members or pipes may follow one another: each is a level of the tree too. Of `and`, `or` and
/// comparisons there may be any number.
const MAX_CHAIN: usize = 200;

/// The strength of `not`.
const NOT: u16 = 50;

/// The strength of a sign before a number.
const SIGN: u16 = 90;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Node, BadExpression> {
    let mut parser = Parser { tokens: lex(text)?, at: 0, depth: 0, closures: 0 };
    let node = parser.sequence()?;
    match &parser.peek().kind {
        Kind::End => Ok(node),
        _ => Err(parser.unexpected()),
    }
}

/// Where the reading stands.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// How deep the nesting is.
    depth: usize,
    /// How many predicates are open.
    closures: usize,
}

impl Parser {
    /// The next token, which stays. The last is the end, which is never passed.
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&END)
    }

    /// Takes the next token.
    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
        token
    }

    /// Whether the next token is this sign or word.
    fn sees(&self, text: &str) -> bool {
        self.sees_at(0, text)
    }

    /// Whether the token so many further is this sign or word.
    fn sees_at(&self, ahead: usize, text: &str) -> bool {
        match self.tokens.get(self.at + ahead).map(|token| &token.kind) {
            Some(Kind::Sign(sign)) => *sign == text,
            Some(Kind::Word(word)) => word == text,
            _ => false,
        }
    }

    /// Takes this sign or word if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let sees = self.sees(text);
        if sees {
            self.next();
        }
        sees
    }

    /// Takes this sign or word.
    fn must(&mut self, text: &str) -> Result<(), BadExpression> {
        if self.takes(text) {
            return Ok(());
        }
        let wrong = self.unexpected();
        Err(BadExpression { what: format!("{}, where '{text}' should stand", wrong.what), ..wrong })
    }

    /// What the next token has no business being.
    fn unexpected(&self) -> BadExpression {
        let token = self.peek();
        let what = match &token.kind {
            Kind::End => "the expression ends too soon".to_owned(),
            Kind::Int(number) => format!("unexpected {number}"),
            Kind::Float(number) => format!("unexpected {number}"),
            Kind::Str(text) => format!("unexpected '{text}'"),
            Kind::Word(word) => format!("unexpected {word}"),
            Kind::Sign(sign) => format!("unexpected '{sign}'"),
        };
        BadExpression::new(token.at, what)
    }

    /// Says that the tree would become too deep.
    fn too_deep(&self) -> BadExpression {
        BadExpression::new(self.peek().at, "the expression is nested too deeply")
    }

    /// Expressions with semicolons between; the last is the value.
    fn sequence(&mut self) -> Result<Node, BadExpression> {
        self.deeper(|parser| {
            if parser.sees("let")
                && matches!(parser.tokens.get(parser.at + 1).map(|t| &t.kind), Some(Kind::Word(_)))
            {
                return parser.binding();
            }
            let node = parser.expression(0)?;
            let at = parser.peek().at;
            if parser.takes(";") && !matches!(parser.peek().kind, Kind::End) {
                let rest = parser.sequence()?;
                return Ok(Node { kind: Ast::Sequence(Box::new(node), Box::new(rest)), at });
            }
            Ok(node)
        })
    }

    /// `let a = b; c`.
    fn binding(&mut self) -> Result<Node, BadExpression> {
        let at = self.next().at;
        let Kind::Word(name) = self.next().kind else { return Err(self.unexpected()) };
        self.must("=")?;
        let value = Box::new(self.expression(0)?);
        self.must(";")?;
        let body = Box::new(self.sequence()?);
        Ok(Node { kind: Ast::Let { name, value, body }, at })
    }

    /// Runs `read` one level deeper.
    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Node, BadExpression>,
    ) -> Result<Node, BadExpression> {
        if self.depth == MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let node = read(self);
        self.depth -= 1;
        node
    }

    /// An expression whose operators are at least so strong.
    fn expression(&mut self, least: u16) -> Result<Node, BadExpression> {
        self.deeper(|parser| parser.operators(least))
    }

    /// The same, one level deeper.
    fn operators(&mut self, least: u16) -> Result<Node, BadExpression> {
        if least == 0 && self.sees("if") {
            return self.branches();
        }
        let mut left = self.prefixed()?;
        for grown in 0.. {
            if grown == MAX_CHAIN {
                return Err(self.too_deep());
            }
            if least == 0 && self.sees("|") {
                left = self.pipe(left)?;
                continue;
            }
            let negated = self.sees("not");
            let Some((operator, strength, from_right)) = self.operator(usize::from(negated)) else {
                break;
            };
            if strength < least || (negated && !operator.is_negatable()) {
                break;
            }
            if negated {
                self.next();
            }
            let at = self.peek().at;
            let operator = match operator {
                Operator::Or | Operator::And => {
                    left = self.several(left, operator, strength)?;
                    continue;
                }
                Operator::Order(_) => {
                    left = self.ordered(left)?;
                    continue;
                }
                Operator::Binary(operator) => operator,
            };
            self.next();
            let right = self.expression(if from_right { strength } else { strength + 1 })?;
            left = Node { kind: Ast::Binary(operator, Box::new(left), Box::new(right)), at };
            if negated {
                left = Node { kind: Ast::Not(Box::new(left)), at };
            }
        }
        if least == 0 { self.choice(left) } else { Ok(left) }
    }

    /// The operator so many tokens further.
    fn operator(&self, ahead: usize) -> Option<(Operator, u16, bool)> {
        match &self.tokens.get(self.at + ahead)?.kind {
            Kind::Sign(sign) => Operator::of(sign),
            Kind::Word(word) => Operator::of(word),
            _ => None,
        }
    }

    /// `a || b || c` or the same with `&&`, of which the first is read.
    fn several(
        &mut self,
        first: Node,
        operator: Operator,
        strength: u16,
    ) -> Result<Node, BadExpression> {
        let at = self.peek().at;
        let mut all = vec![first];
        while self.operator(0).is_some_and(|(own, ..)| own == operator) {
            self.next();
            all.push(self.expression(strength + 1)?);
        }
        let kind = if operator == Operator::Or { Ast::Any(all) } else { Ast::All(all) };
        Ok(Node { kind, at })
    }

    /// `a < b < c`, of which the first is read.
    fn ordered(&mut self, first: Node) -> Result<Node, BadExpression> {
        let at = self.peek().at;
        let mut rest = Vec::new();
        while let Some((Operator::Order(order), strength, _)) = self.operator(0) {
            let at = self.next().at;
            rest.push((order, at, self.expression(strength + 1)?));
        }
        Ok(Node { kind: Ast::Order(Box::new(first), rest), at })
    }

    /// `a | f(b)`, which is `f(a, b)`.
    fn pipe(&mut self, first: Node) -> Result<Node, BadExpression> {
        self.next();
        let token = self.next();
        let Kind::Word(name) = token.kind else {
            return Err(BadExpression::new(token.at, "a function must stand behind '|'"));
        };
        let node = self.call(name, token.at, vec![first])?;
        self.members(node)
    }

    /// `a ? b : c`, of which the first is read.
    fn choice(&mut self, condition: Node) -> Result<Node, BadExpression> {
        let at = self.peek().at;
        if self.takes("?:") {
            let otherwise = Box::new(self.expression(0)?);
            return Ok(Node { kind: Ast::Choice(Box::new(condition), None, otherwise), at });
        }
        if !self.takes("?") {
            return Ok(condition);
        }
        let then = self.expression(0)?;
        self.must(":")?;
        let otherwise = self.expression(0)?;
        Ok(Node {
            kind: Ast::Choice(Box::new(condition), Some(Box::new(then)), Box::new(otherwise)),
            at,
        })
    }

    /// `if a { b } else { c }`.
    fn branches(&mut self) -> Result<Node, BadExpression> {
        let at = self.next().at;
        let condition = Box::new(self.expression(1)?);
        self.must("{")?;
        let then = Box::new(self.sequence()?);
        self.must("}")?;
        self.must("else")?;
        let otherwise = if self.sees("if") {
            self.deeper(Self::branches)?
        } else {
            self.must("{")?;
            let node = self.sequence()?;
            self.must("}")?;
            node
        };
        Ok(Node { kind: Ast::Choice(condition, Some(then), Box::new(otherwise)), at })
    }

    /// A value with the signs before it.
    fn prefixed(&mut self) -> Result<Node, BadExpression> {
        let at = self.peek().at;
        if self.takes("not") || self.takes("!") {
            let inner = Box::new(self.expression(NOT)?);
            return Ok(Node { kind: Ast::Not(inner), at });
        }
        if self.takes("-") {
            let inner = Box::new(self.expression(SIGN)?);
            return Ok(Node { kind: Ast::Negative(inner), at });
        }
        if self.takes("+") {
            let inner = Box::new(self.expression(SIGN)?);
            return Ok(Node { kind: Ast::Positive(inner), at });
        }
        let node = self.primary()?;
        self.members(node)
    }

    /// A value by itself.
    fn primary(&mut self) -> Result<Node, BadExpression> {
        let wrong = self.unexpected();
        let Token { kind, at } = self.next();
        let kind = match kind {
            Kind::Int(number) => Ast::Int(number),
            Kind::Float(number) => Ast::Float(number),
            Kind::Str(text) => Ast::Str(text),
            Kind::Word(word) => match &*word {
                "true" => Ast::Bool(true),
                "false" => Ast::Bool(false),
                "nil" => Ast::Nil,
                "let" | "if" | "else" => return Err(wrong),
                name if Operator::of(name).is_some() => return Err(wrong),
                _ if self.sees("(") => return self.call(word, at, Vec::new()),
                _ => Ast::Name(word),
            },
            Kind::Sign("(") => {
                let node = self.sequence()?;
                self.must(")")?;
                return Ok(node);
            }
            Kind::Sign("[") => Ast::Array(self.list("]")?),
            Kind::Sign("{") => Ast::Map(self.pairs()?),
            Kind::Sign("#") if self.closures > 0 => {
                let name = match &self.peek().kind {
                    Kind::Word(word) if self.peek().at == at + 1 => word.clone(),
                    _ => String::new(),
                };
                if !name.is_empty() {
                    self.next();
                }
                Ast::Pointer(name)
            }
            // `.a` within a predicate is `#.a`.
            Kind::Sign(".") if self.closures > 0 => {
                self.at -= 1;
                Ast::Pointer(String::new())
            }
            _ => return Err(wrong),
        };
        Ok(Node { kind, at })
    }

    /// What is taken of a value: members, elements, slices.
    fn members(&mut self, mut node: Node) -> Result<Node, BadExpression> {
        for _ in 0..MAX_CHAIN {
            let at = self.peek().at;
            let optional = self.sees("?.");
            if self.takes(".") || self.takes("?.") {
                if optional && self.sees("[") {
                    self.next();
                    node = self.element(node, at, true)?;
                    continue;
                }
                let Token { kind: Kind::Word(name), at } = self.next() else {
                    return Err(BadExpression::new(at, "a name must stand behind '.'"));
                };
                if self.sees("(") {
                    return Err(BadExpression::new(
                        at,
                        format!("values have no functions such as '{name}'"),
                    )
                    .help(format!("write {name}(VALUE, …) or VALUE | {name}(…)")));
                }
                let key = Box::new(Node { kind: Ast::Str(name), at });
                node = Node { kind: Ast::Member { of: Box::new(node), key, optional }, at };
            } else if self.takes("[") {
                node = self.element(node, at, false)?;
            } else {
                return Ok(node);
            }
        }
        Err(self.too_deep())
    }

    /// `a[b]` or `a[b:c]`, whose bracket is taken.
    fn element(&mut self, of: Node, at: usize, optional: bool) -> Result<Node, BadExpression> {
        let of = Box::new(of);
        let from = if self.sees(":") { None } else { Some(Box::new(self.expression(0)?)) };
        if self.takes(":") {
            let to = if self.sees("]") { None } else { Some(Box::new(self.expression(0)?)) };
            self.must("]")?;
            return Ok(Node { kind: Ast::Slice { of, from, to }, at });
        }
        self.must("]")?;
        let key = from.ok_or_else(|| BadExpression::new(at, "an index is missing"))?;
        Ok(Node { kind: Ast::Member { of, key, optional }, at })
    }

    /// The rest of a call, whose name is taken; `args` are those that it has already.
    fn call(
        &mut self,
        name: String,
        at: usize,
        mut args: Vec<Node>,
    ) -> Result<Node, BadExpression> {
        self.must("(")?;
        let predicate = super::check::takes_predicate(&name);
        while !self.sees(")") {
            // The second argument alone is one.
            let arg =
                if predicate && args.len() == 1 { self.predicate()? } else { self.expression(0)? };
            args.push(arg);
            if !self.takes(",") {
                break;
            }
        }
        self.must(")")?;
        Ok(Node { kind: Ast::Call(name, args), at })
    }

    /// A predicate, with braces or without.
    fn predicate(&mut self) -> Result<Node, BadExpression> {
        let at = self.peek().at;
        self.closures += 1;
        let braces = self.takes("{");
        let body = if braces { self.sequence() } else { self.expression(0) };
        self.closures -= 1;
        let body = Box::new(body?);
        if braces {
            self.must("}")?;
        }
        Ok(Node { kind: Ast::Predicate(body), at })
    }

    /// Expressions with commas between, up to `end`; a comma may stand behind the last.
    fn list(&mut self, end: &str) -> Result<Vec<Node>, BadExpression> {
        let mut all = Vec::new();
        while !self.sees(end) {
            all.push(self.expression(0)?);
            if !self.takes(",") {
                break;
            }
        }
        self.must(end)?;
        Ok(all)
    }

    /// The pairs of a map, whose brace is taken.
    fn pairs(&mut self) -> Result<Vec<(Node, Node)>, BadExpression> {
        let mut all = Vec::new();
        while !self.sees("}") {
            let wrong = self.unexpected();
            let token = self.next();
            let key = match token.kind {
                Kind::Word(text) | Kind::Str(text) => Node { kind: Ast::Str(text), at: token.at },
                Kind::Int(number) => Node { kind: Ast::Str(number.to_string()), at: token.at },
                Kind::Sign("(") => {
                    let key = self.expression(0)?;
                    self.must(")")?;
                    key
                }
                _ => {
                    return Err(BadExpression {
                        what: format!("{}, where a key should stand", wrong.what),
                        ..wrong
                    });
                }
            };
            self.must(":")?;
            all.push((key, self.expression(0)?));
            if !self.takes(",") {
                break;
            }
        }
        self.must("}")?;
        Ok(all)
    }
}

/// The end, for a parser without tokens.
static END: Token = Token { kind: Kind::End, at: 0 };
