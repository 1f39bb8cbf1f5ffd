//! A template's text, taken apart: what stays, and the tokens between braces.

use super::BadTemplate;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Text that stays.
    Text(String),
    /// What stands between two pairs of braces.
    Action(Vec<Token>),
}

/// A token and where it begins, in octets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Where it begins.
    pub(super) at: usize,
    /// Whether a space stands before it.
    pub(super) spaced: bool,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number or a letter in quotes.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string, its escapes resolved.
    Str(String),
    /// A word or a function's name.
    Word(String),
    /// `.`.
    Dot,
    /// `.Name`.
    Field(String),
    /// `$` or `$name`, without the dollar.
    Var(String),
    /// `( ) | , := =`.
    Sign(&'static str),
    /// The closing braces, and whether they trim what follows.
    End(bool),
}

/// Takes a template apart.
pub(super) fn lex(text: &str) -> Result<Vec<Piece>, BadTemplate> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut trim = false;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let open = rest.find("{{");
        let mut plain = rest.get(..open.unwrap_or(rest.len())).unwrap_or_default();
        if trim {
            plain = plain.trim_start_matches(is_space);
        }
        let Some(open) = open else {
            push_text(&mut pieces, plain);
            return Ok(pieces);
        };
        let start = at + open;
        let mut inner = start + 2;
        let after = text.get(inner..).unwrap_or_default();
        if let Some(behind) = after.strip_prefix('-')
            && behind.starts_with(is_space)
        {
            plain = plain.trim_end_matches(is_space);
            inner += 2;
        }
        push_text(&mut pieces, plain);
        if let Some((end, trims)) = comment(text, inner)? {
            (at, trim) = (end, trims);
            continue;
        }
        let mut tokens = Vec::new();
        let mut lexer = Lexer { text, at: inner };
        loop {
            let token = lexer.token(start)?;
            if let Kind::End(trims) = token.kind {
                trim = trims;
                break;
            }
            tokens.push(token);
        }
        pieces.push(Piece::Action(tokens));
        at = lexer.at;
    }
}

/// Adds text that is not empty.
fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// The spaces that are trimmed and part tokens.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// The end of the comment that begins at `at`, behind the braces, and whether it trims; none if there is no comment.
fn comment(text: &str, at: usize) -> Result<Option<(usize, bool)>, BadTemplate> {
    let rest = text.get(at..).unwrap_or_default();
    let begin = rest.trim_start_matches(is_space);
    // But for a trim marker, a comment stands right behind the braces.
    if !begin.starts_with("/*")
        || (begin.len() != rest.len() && !text.get(..at).unwrap_or_default().ends_with(is_space))
    {
        return Ok(None);
    }
    let begin_at = text.len() - begin.len();
    let end =
        begin.find("*/").ok_or_else(|| BadTemplate::new(begin_at, "a comment is not closed"))?;
    let behind = begin.get(end + 2..).unwrap_or_default();
    let (behind, trims) = match behind.trim_start_matches(is_space).strip_prefix("-}}") {
        Some(behind) if behind.len() + 3 < begin.len() - end - 2 => (Some(behind), true),
        _ => (behind.strip_prefix("}}"), false),
    };
    match behind {
        Some(behind) => Ok(Some((text.len() - behind.len(), trims))),
        None => Err(BadTemplate::new(begin_at, "braces must close right behind a comment")),
    }
}

/// Where the reading of tokens stands.
struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl Lexer<'_> {
    /// The next token of the action that begins at `start`.
    fn token(&mut self, start: usize) -> Result<Token, BadTemplate> {
        let before = self.at;
        let rest = self.text.get(before..).unwrap_or_default();
        let rest = rest.trim_start_matches(is_space);
        self.at = self.text.len() - rest.len();
        let at = self.at;
        let spaced = at > before;
        let wrong = |what: &str| BadTemplate::new(at, what);
        let ends = rest.strip_prefix('-').filter(|_| spaced).unwrap_or(rest).starts_with("}}");
        if ends {
            let trims = rest.starts_with('-');
            self.at += if trims { 3 } else { 2 };
            return Ok(Token { kind: Kind::End(trims), at, spaced });
        }
        let (kind, len) = match rest.as_bytes() {
            [] => return Err(BadTemplate::new(start, "braces are not closed")),
            [b':', b'=', ..] => (Kind::Sign(":="), 2),
            [b'=', ..] => (Kind::Sign("="), 1),
            [b'(', ..] => (Kind::Sign("("), 1),
            [b')', ..] => (Kind::Sign(")"), 1),
            [b'|', ..] => (Kind::Sign("|"), 1),
            [b',', ..] => (Kind::Sign(","), 1),
            [b'"', ..] => {
                let (text, len) = quoted(rest, '"').map_err(|what| BadTemplate::new(at, what))?;
                (Kind::Str(text), len)
            }
            [b'`', ..] => {
                let inner = rest.get(1..).and_then(|rest| rest.split_once('`'));
                let (inner, _) = inner.ok_or_else(|| wrong("a string is not closed"))?;
                (Kind::Str(inner.to_owned()), inner.len() + 2)
            }
            [b'\'', ..] => {
                let (text, len) = quoted(rest, '\'').map_err(|what| BadTemplate::new(at, what))?;
                let mut letters = text.chars();
                match (letters.next(), letters.next()) {
                    (Some(letter), None) => (Kind::Int(u32::from(letter).into()), len),
                    _ => {
                        return Err(wrong(
                            "single quotes hold one letter; strings stand in double quotes",
                        ));
                    }
                }
            }
            [b'.', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {
                number(rest).map_err(|what| BadTemplate::new(at, what))?
            }
            [b'+' | b'-', b'0'..=b'9' | b'.', ..] => {
                number(rest).map_err(|what| BadTemplate::new(at, what))?
            }
            [b'.', ..] => match word(rest.get(1..).unwrap_or_default()) {
                "" => (Kind::Dot, 1),
                name => (Kind::Field(name.to_owned()), name.len() + 1),
            },
            [b'$', ..] => {
                let name = word(rest.get(1..).unwrap_or_default());
                (Kind::Var(name.to_owned()), name.len() + 1)
            }
            _ => match word(rest) {
                "" => {
                    let c = rest.chars().next().unwrap_or(' ');
                    return Err(BadTemplate::new(at, format!("'{c}' has no meaning here")));
                }
                name => (Kind::Word(name.to_owned()), name.len()),
            },
        };
        self.at += len;
        Ok(Token { kind, at, spaced })
    }
}

/// The letters, digits and underscores that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Reads the number at the start of `text`; gives its length.
fn number(text: &str) -> Result<(Kind, usize), String> {
    let signed = usize::from(text.starts_with(['+', '-']));
    let body = text.get(signed..).unwrap_or_default();
    let based = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"));
    let exponent = |at: usize| {
        at > 0
            && based.is_none()
            && body.as_bytes().get(at - 1).is_some_and(|b| matches!(b, b'e' | b'E'))
    };
    let belongs = |at: usize, c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '_' | '.')
            || (matches!(c, '+' | '-') && exponent(at))
    };
    let end =
        body.char_indices().find(|(at, c)| !belongs(*at, *c)).map_or(body.len(), |(at, _)| at);
    let shown = text.get(..signed + end).unwrap_or_default();
    let plain = body.get(..end).unwrap_or_default().replace('_', "");
    let negative = text.starts_with('-');
    let (digits, base) = match plain.as_bytes() {
        [b'0', b'x' | b'X', ..] => (plain.get(2..), 16),
        [b'0', b'o' | b'O', ..] => (plain.get(2..), 8),
        [b'0', b'b' | b'B', ..] => (plain.get(2..), 2),
        [b'0', b'0'..=b'7', ..] if plain.bytes().all(|b| b.is_ascii_digit()) => (plain.get(1..), 8),
        _ => (Some(plain.as_str()), 10),
    };
    let whole = digits.and_then(|digits| i64::from_str_radix(digits, base).ok());
    if let Some(number) = whole {
        return Ok((Kind::Int(if negative { -number } else { number }), signed + end));
    }
    let float: f64 = plain.parse().map_err(|_| format!("'{shown}' is no number"))?;
    if !plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(format!("'{shown}' is no number"));
    }
    Ok((Kind::Float(if negative { -float } else { float }), signed + end))
}

/// Reads the string in quotes at the start of `text`, with Go's escapes; gives its length there.
fn quoted(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut chars = text.char_indices();
    chars.next();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let text = String::from_utf8(bytes).map_err(|_| "a string is not UTF-8".to_owned())?;
            return Ok((text, at + 1));
        }
        if c == '\n' {
            break;
        }
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        let mut code = |digits: usize, base: u32, first: Option<char>| {
            let mut text: String = first.into_iter().collect();
            text.extend(chars.by_ref().take(digits).map(|(_, c)| c));
            let number = u32::from_str_radix(&text, base).ok();
            number.ok_or_else(|| format!("'\\{escaped}{text}' is no escape"))
        };
        let letter = |number: u32| {
            char::from_u32(number).ok_or_else(|| format!("'\\{escaped}' names no letter"))
        };
        let octet =
            |number: u32| u8::try_from(number).map_err(|_| format!("'\\{escaped}' is no octet"));
        match escaped {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' => bytes.push(b'\\'),
            c if c == quote => bytes.push(u8::try_from(c).unwrap_or(b'"')),
            'x' => bytes.push(octet(code(2, 16, None)?)?),
            '0'..='3' => bytes.push(octet(code(2, 8, Some(escaped))?)?),
            'u' => bytes
                .extend_from_slice(letter(code(4, 16, None)?)?.encode_utf8(&mut [0; 4]).as_bytes()),
            'U' => bytes
                .extend_from_slice(letter(code(8, 16, None)?)?.encode_utf8(&mut [0; 4]).as_bytes()),
            other => return Err(format!("'\\{other}' is no escape")),
        }
    }
    Err("a string is not closed".to_owned())
}
