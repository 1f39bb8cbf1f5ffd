//! An expression's text, taken apart into tokens.

use super::BadExpression;

/// A token and where it begins, in octets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Where it begins.
    pub(super) at: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string, its escapes resolved.
    Str(String),
    /// A name or a word.
    Word(String),
    /// Punctuation or an operator.
    Sign(&'static str),
    /// The end.
    End,
}

/// All signs; of those that begin alike the longest stands first.
const SIGNS: [&str; 36] = [
    "**", "..", "&&", "||", "==", "!=", "<=", ">=", "??", "?.", "?:", "(", ")", "[", "]", "{", "}",
    ",", ":", ";", "?", ".", "#", "|", "!", "<", ">", "=", "+", "-", "*", "/", "%", "^", "$", "@",
];

/// Takes a text apart.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, BadExpression> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let len = match rest.as_bytes() {
            [b, ..] if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            [b'/', b'/', ..] => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            [b'/', b'*', ..] => {
                let end = rest
                    .find("*/")
                    .ok_or_else(|| BadExpression::new(at, "a comment is not closed"))?;
                at += end + 2;
                continue;
            }
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => {
                let (kind, len) = number(rest).map_err(|what| BadExpression::new(at, what))?;
                tokens.push(Token { kind, at });
                len
            }
            [b'\'' | b'"', ..] => {
                let (string, len) = string(rest).map_err(|what| BadExpression::new(at, what))?;
                tokens.push(Token { kind: Kind::Str(string), at });
                len
            }
            [b'`', ..] => {
                let inner = rest.get(1..).and_then(|rest| rest.split_once('`'));
                let (inner, _) =
                    inner.ok_or_else(|| BadExpression::new(at, "a string is not closed"))?;
                tokens.push(Token { kind: Kind::Str(inner.to_owned()), at });
                inner.len() + 2
            }
            // `$env` is a name as others are.
            [b'$', b'e', ..] | [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let len = rest
                    .trim_start_matches('$')
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .map_or(rest.len(), |len| len + usize::from(rest.starts_with('$')));
                let (word, _) = rest.split_at(len);
                tokens.push(Token { kind: Kind::Word(word.to_owned()), at });
                len
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).ok_or_else(|| {
                    let c = rest.chars().next().unwrap_or(' ');
                    BadExpression::new(at, format!("'{c}' has no meaning here"))
                })?;
                // `a?.5:b` is a choice, not a member.
                let sign = match (*sign, rest.as_bytes()) {
                    ("?.", [_, _, b'0'..=b'9', ..]) => "?",
                    (sign, _) => sign,
                };
                tokens.push(Token { kind: Kind::Sign(sign), at });
                sign.len()
            }
        };
        at += len;
    }
    tokens.push(Token { kind: Kind::End, at: text.len() });
    Ok(tokens)
}

/// Reads the number at the start of `text`; gives its length.
fn number(text: &str) -> Result<(Kind, usize), String> {
    let based = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => Some(16),
        [b'0', b'o' | b'O', ..] => Some(8),
        [b'0', b'b' | b'B', ..] => Some(2),
        _ => None,
    };
    if let Some(base) = based {
        let digits = text.get(2..).unwrap_or_default();
        let len =
            digits.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(digits.len());
        let plain = digits.get(..len).unwrap_or_default().replace('_', "");
        let number = i64::from_str_radix(&plain, base);
        let shown = text.get(..len + 2).unwrap_or_default();
        return number
            .map(|number| (Kind::Int(number), len + 2))
            .map_err(|_| format!("'{shown}' is no whole number of 64 bits"));
    }
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b'_') {
            at += 1;
        }
        at
    };
    let mut len = digits(0);
    let mut is_float = false;
    // `1..3` is a range.
    if bytes.get(len) == Some(&b'.') && bytes.get(len + 1).is_some_and(u8::is_ascii_digit) {
        is_float = true;
        len = digits(len + 1);
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let end = digits(len + 1 + sign);
        if end > len + 1 + sign {
            is_float = true;
            len = end;
        }
    }
    let plain = text.get(..len).unwrap_or_default().replace('_', "");
    let wrong = || format!("'{plain}' is no number of 64 bits");
    let kind = if is_float {
        Kind::Float(plain.parse().map_err(|_| wrong())?)
    } else {
        Kind::Int(plain.parse().map_err(|_| wrong())?)
    };
    Ok((kind, len))
}

/// Reads the quoted string at the start of `text`; gives its length there.
fn string(text: &str) -> Result<(String, usize), String> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, c)| c);
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote {
            return Ok((out, at + 1));
        }
        if c == '\n' {
            break;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        let mut code = |digits: usize, base: u32, first: Option<char>| {
            let mut text: String = first.into_iter().collect();
            text.extend(chars.by_ref().take(digits).map(|(_, c)| c));
            u32::from_str_radix(&text, base)
                .ok()
                .and_then(char::from_u32)
                .ok_or_else(|| format!("'\\{escaped}{text}' is no escape"))
        };
        out.push(match escaped {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '\\' | '\'' | '"' | '`' => escaped,
            'x' => code(2, 16, None)?,
            'u' => code(4, 16, None)?,
            'U' => code(8, 16, None)?,
            '0'..='3' => code(2, 8, Some(escaped))?,
            other => {
                return Err(format!(
                    "'\\{other}' is no escape: write '\\\\{other}' for a backslash"
                ));
            }
        });
    }
    Err("a string is not closed".to_owned())
}
