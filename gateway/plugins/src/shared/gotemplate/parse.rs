//! From tokens to the tree.

use super::funcs::Func;
use super::lex::{Kind, Piece, Token, lex};
use super::node::{Command, Node, Operand, Pipe};
use super::{BadTemplate, Known};

/// How deep blocks and parentheses may be nested: the tree is walked by recursion.
const MAX_DEPTH: usize = 50;

/// Reads a template and those that it defines: its own nodes come first.
pub(super) fn parse(text: &str, known: Known<'_>) -> Result<Vec<Vec<Node>>, BadTemplate> {
    let mut pieces = lex(text)?.into_iter();
    let mut parser = Parser {
        pieces: &mut pieces,
        known,
        vars: vec![String::new()],
        names: Vec::new(),
        bodies: vec![Some(Vec::new())],
        uses: Vec::new(),
        dot_is_root: true,
        dollar_is_root: true,
        ranges: 0,
        depth: 0,
        end: text.len(),
    };
    let (body, stop) = parser.nodes()?;
    if let Some(stop) = stop {
        return Err(BadTemplate::new(stop.at, format!("unexpected {}", stop.word)));
    }
    parser.bodies[0] = Some(body);
    let uses = parser.uses;
    let mut all = Vec::new();
    for (number, body) in parser.bodies.into_iter().enumerate() {
        let used_at = || uses.iter().find(|(used, _)| *used == number).map_or(0, |(_, at)| *at);
        all.push(body.ok_or_else(|| {
            BadTemplate::new(used_at(), "a template is used that is not defined")
        })?);
    }
    Ok(all)
}

/// What ended a list of nodes.
struct Stop {
    /// `end`, or `else`.
    word: &'static str,
    /// Where it stands.
    at: usize,
    /// What stands behind `else`.
    rest: Tokens,
}

/// Nodes, and what ended them if not the end.
type Nodes = (Vec<Node>, Option<Stop>);

/// Where the reading stands.
struct Parser<'p> {
    pieces: &'p mut dyn Iterator<Item = Piece>,
    known: Known<'p>,
    /// The variables in sight; the first is `$`.
    vars: Vec<String>,
    /// The names of the templates that are defined or used, from number 1.
    names: Vec<String>,
    /// Their nodes, and first those of the template itself.
    bodies: Vec<Option<Vec<Node>>>,
    /// Which are used, and where.
    uses: Vec<(usize, usize)>,
    /// Whether `.` is known to be the data.
    dot_is_root: bool,
    /// Whether `$` is.
    dollar_is_root: bool,
    /// How many ranges are open.
    ranges: usize,
    depth: usize,
    /// Where the text ends.
    end: usize,
}

/// The tokens of an action.
struct Tokens {
    all: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Where the last one taken began.
    at: usize,
}

impl Tokens {
    /// Whether the next is this sign.
    fn sees(&mut self, sign: &str) -> bool {
        matches!(self.all.peek(), Some(Token { kind: Kind::Sign(own), .. }) if *own == sign)
    }

    /// Takes this sign if it is next.
    fn takes(&mut self, sign: &str) -> bool {
        let sees = self.sees(sign);
        if sees {
            self.next();
        }
        sees
    }

    /// Takes the next token.
    fn next(&mut self) -> Option<Token> {
        let token = self.all.next()?;
        self.at = token.at;
        Some(token)
    }

    /// Takes this word if it is next.
    fn takes_word(&mut self, word: &str) -> bool {
        let sees =
            matches!(self.all.peek(), Some(Token { kind: Kind::Word(own), .. }) if own == word);
        if sees {
            self.next();
        }
        sees
    }

    /// Refuses what is left.
    fn end(&mut self) -> Result<(), BadTemplate> {
        match self.all.peek() {
            None => Ok(()),
            Some(token) => Err(unexpected(token)),
        }
    }

    /// The field names that follow without a space.
    fn fields(&mut self, mut path: Vec<String>) -> Vec<String> {
        while let Some(token) =
            self.all.next_if(|token| !token.spaced && matches!(token.kind, Kind::Field(_)))
        {
            if let Kind::Field(name) = token.kind {
                path.push(name);
            }
        }
        path
    }
}

/// A token that has no business where it stands.
fn unexpected(token: &Token) -> BadTemplate {
    let what = match &token.kind {
        Kind::Int(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Str(text) => format!("\"{text}\""),
        Kind::Word(word) => word.clone(),
        Kind::Dot => ".".to_owned(),
        Kind::Field(name) => format!(".{name}"),
        Kind::Var(name) => format!("${name}"),
        Kind::Sign(sign) => (*sign).to_owned(),
        Kind::End(_) => "}}".to_owned(),
    };
    BadTemplate::new(token.at, format!("unexpected {what}"))
}

impl Parser<'_> {
    /// Reads nodes up to `end`, `else` or the end of the text.
    fn nodes(&mut self) -> Result<Nodes, BadTemplate> {
        if self.depth == MAX_DEPTH {
            return Err(BadTemplate::new(self.end, "the template is nested too deeply"));
        }
        self.depth += 1;
        let mut nodes = Vec::new();
        let stop = loop {
            let tokens = match self.pieces.next() {
                None => break None,
                Some(Piece::Text(text)) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Some(Piece::Action(tokens)) => tokens,
            };
            let at = tokens.first().map_or(self.end, |token| token.at);
            let mut tokens = Tokens { all: tokens.into_iter().peekable(), at };
            let word = match tokens.all.peek() {
                None => return Err(BadTemplate::new(at, "braces hold nothing")),
                Some(Token { kind: Kind::Word(word), .. }) => word.clone(),
                Some(_) => String::new(),
            };
            match &*word {
                "end" | "else" => {
                    tokens.next();
                    let word = if word == "end" { "end" } else { "else" };
                    if word == "end" {
                        tokens.end()?;
                    }
                    break Some(Stop { word, at, rest: tokens });
                }
                "if" | "with" | "range" => {
                    tokens.next();
                    nodes.push(self.block(&word, tokens)?);
                }
                "define" | "block" => {
                    tokens.next();
                    nodes.extend(self.define(&word, tokens)?);
                }
                "template" => {
                    tokens.next();
                    let number = self.template_name(&mut tokens)?;
                    let pipe = if tokens.all.peek().is_some() {
                        Some(self.pipe(&mut tokens)?)
                    } else {
                        None
                    };
                    tokens.end()?;
                    self.uses.push((number, at));
                    nodes.push(Node::Template(number, pipe));
                }
                "break" | "continue" => {
                    tokens.next();
                    tokens.end()?;
                    if self.ranges == 0 {
                        return Err(BadTemplate::new(
                            at,
                            format!("{word} stands outside of a range"),
                        ));
                    }
                    nodes.push(if word == "break" { Node::Break } else { Node::Continue });
                }
                _ => {
                    let pipe = self.pipe(&mut tokens)?;
                    tokens.end()?;
                    nodes.push(Node::Action(pipe));
                }
            }
        };
        self.depth -= 1;
        Ok((nodes, stop))
    }

    /// Reads nodes that must end in `end` or `else`.
    fn part(&mut self, at: usize) -> Result<(Vec<Node>, Stop), BadTemplate> {
        let (nodes, stop) = self.nodes()?;
        Ok((nodes, stop.ok_or_else(|| BadTemplate::new(at, "there is no end to this"))?))
    }

    /// Reads `if`, `with` or `range`, whose word is taken.
    fn block(&mut self, word: &str, mut tokens: Tokens) -> Result<Node, BadTemplate> {
        let at = tokens.at;
        let vars = self.vars.len();
        let was_root = self.dot_is_root;
        let (mut index, mut member) = (None, None);
        let pipe = if word == "range" {
            let names = range_names(&mut tokens)?;
            let pipe = self.pipe(&mut tokens)?;
            let mut slots = names.into_iter().map(|(name, fresh, at)| self.slot(name, fresh, at));
            let first = slots.next().transpose()?;
            let second = slots.next().transpose()?;
            // One name alone is the member's.
            (index, member) = if second.is_some() { (first, second) } else { (None, first) };
            pipe
        } else {
            self.pipe(&mut tokens)?
        };
        tokens.end()?;
        self.ranges += usize::from(word == "range");
        self.dot_is_root = was_root && word == "if";
        let (body, stop) = self.part(at)?;
        self.ranges -= usize::from(word == "range");
        self.dot_is_root = was_root;
        let otherwise = self.otherwise(word, stop, at)?;
        self.vars.truncate(vars);
        Ok(match word {
            "if" => Node::If(pipe, body, otherwise),
            "with" => Node::With(pipe, body, otherwise),
            _ => Node::Range { over: pipe, index, member, body, otherwise },
        })
    }

    /// Reads what follows `else`, if that is what ended the first part.
    fn otherwise(
        &mut self,
        word: &str,
        mut stop: Stop,
        at: usize,
    ) -> Result<Vec<Node>, BadTemplate> {
        if stop.word == "end" {
            return Ok(Vec::new());
        }
        // `else if` and `else with` need no end of their own.
        if word != "range" && stop.rest.takes_word(word) {
            if self.depth == MAX_DEPTH {
                return Err(BadTemplate::new(at, "the template is nested too deeply"));
            }
            self.depth += 1;
            let inner = self.block(word, stop.rest)?;
            self.depth -= 1;
            return Ok(vec![inner]);
        }
        stop.rest.end()?;
        let (nodes, stop) = self.part(at)?;
        if stop.word == "else" {
            return Err(BadTemplate::new(stop.at, "there is an else already"));
        }
        Ok(nodes)
    }

    /// Reads `define` or `block`, whose word is taken; the latter is used where it stands.
    fn define(&mut self, word: &str, mut tokens: Tokens) -> Result<Option<Node>, BadTemplate> {
        let at = tokens.at;
        let number = self.template_name(&mut tokens)?;
        let pipe = if word == "block" { Some(self.pipe(&mut tokens)?) } else { None };
        tokens.end()?;
        // Within, there are no variables but its own `$`, and what `.` is depends on who uses it.
        let vars = std::mem::replace(&mut self.vars, vec![String::new()]);
        let ranges = std::mem::take(&mut self.ranges);
        let was_root = (self.dot_is_root, self.dollar_is_root);
        (self.dot_is_root, self.dollar_is_root) = (false, false);
        let (body, stop) = self.part(at)?;
        (self.vars, self.ranges) = (vars, ranges);
        (self.dot_is_root, self.dollar_is_root) = was_root;
        if stop.word == "else" {
            return Err(BadTemplate::new(stop.at, "unexpected else"));
        }
        if let Some(slot) = self.bodies.get_mut(number) {
            *slot = Some(body);
        }
        Ok(pipe.map(|pipe| Node::Template(number, Some(pipe))))
    }

    /// Takes a template's name; gives its number.
    fn template_name(&mut self, tokens: &mut Tokens) -> Result<usize, BadTemplate> {
        let at = tokens.at;
        let name = match tokens.next() {
            Some(Token { kind: Kind::Str(name), .. }) => name,
            Some(token) => return Err(unexpected(&token)),
            None => return Err(BadTemplate::new(at, "the name of a template is missing")),
        };
        if let Some(known) = self.names.iter().position(|own| *own == name) {
            return Ok(known + 1);
        }
        self.names.push(name);
        self.bodies.push(None);
        Ok(self.names.len())
    }

    /// The slot of a variable: a new one, or one in sight.
    fn slot(&mut self, name: String, fresh: bool, at: usize) -> Result<usize, BadTemplate> {
        if fresh {
            self.vars.push(name);
            return Ok(self.vars.len() - 1);
        }
        let slot = self.vars.iter().rposition(|own| *own == name);
        slot.ok_or_else(|| BadTemplate::new(at, format!("undefined variable ${name}")))
    }

    /// Reads commands with `|` between, and the variable that the value goes to.
    fn pipe(&mut self, tokens: &mut Tokens) -> Result<Pipe, BadTemplate> {
        if self.depth == MAX_DEPTH {
            return Err(BadTemplate::new(tokens.at, "the template is nested too deeply"));
        }
        self.depth += 1;
        let target = range_names(tokens)?;
        if let Some((_, _, at)) = target.get(1) {
            return Err(BadTemplate::new(*at, "only a range gives two values"));
        }
        let mut commands = Vec::new();
        loop {
            let command = self.command(tokens, !commands.is_empty())?;
            commands.push(command);
            if !tokens.takes("|") {
                break;
            }
        }
        self.depth -= 1;
        // A variable is in sight behind its own value only.
        let into = target
            .into_iter()
            .next()
            .map(|(name, fresh, at)| self.slot(name, fresh, at))
            .transpose()?;
        Ok(Pipe { into, commands })
    }

    /// Reads a command; `piped` says that a value comes from the command before.
    fn command(&mut self, tokens: &mut Tokens, piped: bool) -> Result<Command, BadTemplate> {
        let mut operands = Vec::new();
        let begin = tokens.all.peek().map_or(tokens.at, |token| token.at);
        while let Some(token) = tokens.all.peek() {
            if matches!(token.kind, Kind::Sign("|" | ")")) {
                break;
            }
            let (spaced, at) = (token.spaced, token.at);
            let operand = self.operand(tokens)?;
            if !operands.is_empty() && !spaced {
                return Err(BadTemplate::new(at, "a space is missing between two values"));
            }
            operands.push((operand, at));
        }
        let mut operands = operands.into_iter();
        let Some((head, _)) = operands.next() else {
            return Err(BadTemplate::new(begin, "a value is missing"));
        };
        let args: Vec<_> = operands.collect();
        let count = args.len() + usize::from(piped);
        match &head {
            Operand::Nil => return Err(BadTemplate::new(begin, "nil is not a command")),
            Operand::Func(func) => {
                func.count(count).map_err(|what| BadTemplate::new(begin, what))?
            }
            // Fields may take arguments; the data says which.
            Operand::Dot(path) | Operand::Var(_, path) if !path.is_empty() => {}
            _ if count > 0 => {
                let at = args.first().map_or(begin, |(_, at)| *at);
                return Err(BadTemplate::new(at, "only functions take arguments"));
            }
            _ => {}
        }
        Ok(Command { head, args: args.into_iter().map(|(operand, _)| operand).collect() })
    }

    /// Reads a value.
    fn operand(&mut self, tokens: &mut Tokens) -> Result<Operand, BadTemplate> {
        let Some(token) = tokens.next() else {
            return Err(BadTemplate::new(tokens.at, "a value is missing"));
        };
        let at = token.at;
        Ok(match token.kind {
            Kind::Int(number) => Operand::Int(number),
            Kind::Float(number) => Operand::Float(number),
            Kind::Str(text) => Operand::Str(text),
            Kind::Dot => Operand::Dot(Vec::new()),
            Kind::Field(name) => {
                let path = tokens.fields(vec![name]);
                if self.dot_is_root {
                    (self.known)(&path).map_err(|what| BadTemplate::new(at, what))?;
                }
                Operand::Dot(path)
            }
            Kind::Var(name) => {
                let slot = self.slot(name, false, at)?;
                let path = tokens.fields(Vec::new());
                if slot == 0 && !path.is_empty() && self.dollar_is_root {
                    (self.known)(&path).map_err(|what| BadTemplate::new(at, what))?;
                }
                Operand::Var(slot, path)
            }
            Kind::Word(word) => match &*word {
                "true" => Operand::Bool(true),
                "false" => Operand::Bool(false),
                "nil" => Operand::Nil,
                name => {
                    let func = Func::of(name);
                    Operand::Func(func.ok_or_else(|| {
                        BadTemplate::new(at, format!("function \"{name}\" not defined"))
                    })?)
                }
            },
            Kind::Sign("(") => {
                let pipe = self.pipe(tokens)?;
                if !tokens.takes(")") {
                    return Err(BadTemplate::new(at, "a parenthesis is not closed"));
                }
                Operand::Pipe(Box::new(pipe), tokens.fields(Vec::new()))
            }
            Kind::Sign(_) | Kind::End(_) => return Err(unexpected(&token)),
        })
    }
}

/// The variables before `:=` or `=`, which are taken: their names, whether they are new, and where they stand.
fn range_names(tokens: &mut Tokens) -> Result<Vec<(String, bool, usize)>, BadTemplate> {
    let mut ahead = tokens.all.clone();
    let mut names = Vec::new();
    loop {
        let Some(Token { kind: Kind::Var(name), at, .. }) = ahead.next() else {
            return Ok(Vec::new());
        };
        names.push((name, at));
        match ahead.next().map(|token| token.kind) {
            Some(Kind::Sign(",")) if names.len() < 2 => {}
            Some(Kind::Sign(sign @ (":=" | "="))) => {
                if let Some((_, at)) = names.iter().find(|(name, _)| name.is_empty()) {
                    return Err(BadTemplate::new(*at, "$ cannot be given a value"));
                }
                tokens.all = ahead;
                return Ok(names.into_iter().map(|(name, at)| (name, sign == ":=", at)).collect());
            }
            _ => return Ok(Vec::new()),
        }
    }
}
