//! The tree of an expression as it was written.

/// A part of an expression and where it stands, in octets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// What it is.
    pub(super) kind: Ast,
    /// Where it stands.
    pub(super) at: usize,
}

/// What a part of an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ast {
    /// `nil`.
    Nil,
    /// `true` and `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string.
    Str(String),
    /// A variable.
    Name(String),
    /// What a predicate is about: `#`, or `#index` and `#acc`.
    Pointer(String),
    /// `[a, b]`.
    Array(Vec<Node>),
    /// `{a: b}`.
    Map(Vec<(Node, Node)>),
    /// `not a`.
    Not(Box<Node>),
    /// `-a`.
    Negative(Box<Node>),
    /// `+a`.
    Positive(Box<Node>),
    /// `a + b` and the like.
    Binary(Binary, Box<Node>, Box<Node>),
    /// `a ? b : c`.
    Choice(Box<Node>, Box<Node>, Box<Node>),
    /// `a.b`, `a[b]`; whether `nil` has all members.
    Member { of: Box<Node>, key: Box<Node>, optional: bool },
    /// `a[b:c]`.
    Slice { of: Box<Node>, from: Option<Box<Node>>, to: Option<Box<Node>> },
    /// `f(a, b)`.
    Call(String, Vec<Node>),
    /// `{ # > 1 }` as an argument.
    Predicate(Box<Node>),
    /// `let a = b; c`.
    Let { name: String, value: Box<Node>, body: Box<Node> },
    /// `a; b`.
    Sequence(Box<Node>, Box<Node>),
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Range,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Coalesce,
}

impl Binary {
    /// The operator of a sign or word, with its strength, and whether it groups from the right.
    pub(super) fn of(text: &str) -> Option<(Self, u16, bool)> {
        Some(match text {
            "or" | "||" => (Self::Or, 10, false),
            "and" | "&&" => (Self::And, 15, false),
            "==" => (Self::Equal, 20, false),
            "!=" => (Self::Unequal, 20, false),
            "<" => (Self::Less, 20, false),
            "<=" => (Self::LessEqual, 20, false),
            ">" => (Self::Greater, 20, false),
            ">=" => (Self::GreaterEqual, 20, false),
            "in" => (Self::In, 20, false),
            "matches" => (Self::Matches, 20, false),
            "contains" => (Self::Contains, 20, false),
            "startsWith" => (Self::StartsWith, 20, false),
            "endsWith" => (Self::EndsWith, 20, false),
            ".." => (Self::Range, 25, false),
            "+" => (Self::Add, 30, false),
            "-" => (Self::Subtract, 30, false),
            "*" => (Self::Multiply, 60, false),
            "/" => (Self::Divide, 60, false),
            "%" => (Self::Modulo, 60, false),
            "**" | "^" => (Self::Power, 100, true),
            "??" => (Self::Coalesce, 500, false),
            _ => return None,
        })
    }

    /// As it is written.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::Matches => "matches",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Range => "..",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "**",
            Self::Coalesce => "??",
        }
    }

    /// Whether it says which of two is larger: `a < b < c` means both.
    pub(super) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual)
    }

    /// Whether `not` may stand before it.
    pub(super) fn is_negatable(self) -> bool {
        matches!(
            self,
            Self::In | Self::Matches | Self::Contains | Self::StartsWith | Self::EndsWith
        )
    }
}
