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
    /// `a || b || c`.
    Any(Vec<Node>),
    /// `a && b && c`.
    All(Vec<Node>),
    /// `a < b <= c`, which is `a < b && b <= c`; and where each sign stands.
    Order(Box<Node>, Vec<(Order, usize, Node)>),
    /// `a ? b : c`, or `a ?: c`, which is the first if that is true.
    Choice(Box<Node>, Option<Box<Node>>, Box<Node>),
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

/// An operator between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// `||`.
    Or,
    /// `&&`.
    And,
    /// A comparison, of which several may follow one another.
    Order(Order),
    /// One between two values.
    Binary(Binary),
}

/// Which of two values is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Equal,
    Unequal,
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

/// The operators by their signs and words, with their strength, and whether they group from the right.
const OPERATORS: [(&str, Operator, u16, bool); 24] = [
    ("||", Operator::Or, 10, false),
    ("or", Operator::Or, 10, false),
    ("&&", Operator::And, 15, false),
    ("and", Operator::And, 15, false),
    ("==", Operator::Binary(Binary::Equal), 20, false),
    ("!=", Operator::Binary(Binary::Unequal), 20, false),
    ("<", Operator::Order(Order::Less), 20, false),
    ("<=", Operator::Order(Order::LessEqual), 20, false),
    (">", Operator::Order(Order::Greater), 20, false),
    (">=", Operator::Order(Order::GreaterEqual), 20, false),
    ("in", Operator::Binary(Binary::In), 20, false),
    ("matches", Operator::Binary(Binary::Matches), 20, false),
    ("contains", Operator::Binary(Binary::Contains), 20, false),
    ("startsWith", Operator::Binary(Binary::StartsWith), 20, false),
    ("endsWith", Operator::Binary(Binary::EndsWith), 20, false),
    ("..", Operator::Binary(Binary::Range), 25, false),
    ("+", Operator::Binary(Binary::Add), 30, false),
    ("-", Operator::Binary(Binary::Subtract), 30, false),
    ("*", Operator::Binary(Binary::Multiply), 60, false),
    ("/", Operator::Binary(Binary::Divide), 60, false),
    ("%", Operator::Binary(Binary::Modulo), 60, false),
    ("**", Operator::Binary(Binary::Power), 100, true),
    ("^", Operator::Binary(Binary::Power), 100, true),
    ("??", Operator::Binary(Binary::Coalesce), 500, false),
];

impl Operator {
    /// The operator of a sign or word, with its strength, and whether it groups from the right.
    pub(super) fn of(text: &str) -> Option<(Self, u16, bool)> {
        let found = OPERATORS.iter().find(|(own, ..)| *own == text);
        found.map(|(_, operator, strength, from_right)| (*operator, *strength, *from_right))
    }

    /// As it is written.
    pub(super) fn sign(self) -> &'static str {
        OPERATORS.iter().find(|(_, own, ..)| *own == self).map_or("", |(sign, ..)| sign)
    }

    /// Whether `not` may stand before it.
    pub(super) fn is_negatable(self) -> bool {
        use Binary::{Contains, EndsWith, In, Matches, StartsWith};
        matches!(self, Self::Binary(In | Matches | Contains | StartsWith | EndsWith))
    }
}
