//! Files of keys in the form of named.conf: `key "name" { algorithm hmac-sha256; secret "…"; };`.

use wire::Name;

/// A key's name, its secret in base64, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) secret: String,
    pub(super) line: usize,
}

/// A word of the file with its line; quotes are taken off.
struct Token {
    text: String,
    line: usize,
}

/// Reads all keys of a file; `algorithm` is passed over, since the query says which is used.
///
/// # Errors
/// The line, and what is wrong there; never any of a secret.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, (usize, &'static str)> {
    let mut tokens = tokens(text)?.into_iter().peekable();
    let mut entries = Vec::new();
    while let Some(token) = tokens.next() {
        if token.text == ";" {
            continue;
        }
        if token.text != "key" {
            return Err((token.line, "does not begin with `key`"));
        }
        let line = token.line;
        let name = tokens.next().filter(|token| !is_sign(&token.text));
        let name = name.ok_or((line, "has no name behind `key`"))?;
        let name =
            Name::parse(&name.text).ok_or((name.line, "has a name that is no domain name"))?;
        if tokens.next_if(|token| token.text == "{").is_none() {
            return Err((line, "has no `{` behind the name"));
        }
        let mut secret = None;
        loop {
            let word = tokens.next().ok_or((line, "opens a block that is never closed"))?;
            match &*word.text {
                "}" => break,
                ";" => {}
                kind @ ("algorithm" | "secret") => {
                    let value = tokens.next().filter(|token| !is_sign(&token.text));
                    let value = value.ok_or((word.line, "has a property without a value"))?;
                    if tokens.next_if(|token| token.text == ";").is_none() {
                        return Err((word.line, "has a property without `;` behind it"));
                    }
                    if kind == "secret" && secret.replace(value.text).is_some() {
                        return Err((word.line, "has a second secret"));
                    }
                }
                _ => return Err((word.line, "has a property other than algorithm and secret")),
            }
        }
        let secret = secret.ok_or((line, "has no secret"))?;
        entries.push(Entry { name, secret, line });
    }
    Ok(entries)
}

/// Whether a word is a sign of its own.
fn is_sign(text: &str) -> bool {
    matches!(text, "{" | "}" | ";")
}

/// Splits a file into words and signs, without comments (`//`, `#`, `/* */`).
fn tokens(text: &str) -> Result<Vec<Token>, (usize, &'static str)> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = text.chars().peekable();
    let (mut line, mut open) = (1, false);
    while let Some(char) = chars.next() {
        match char {
            '\n' => (line, open) = (line + 1, false),
            _ if char.is_whitespace() => open = false,
            '{' | '}' | ';' => {
                tokens.push(Token { text: char.into(), line });
                open = false;
            }
            '#' => while chars.next_if(|char| *char != '\n').is_some() {},
            '/' if !open && chars.peek() == Some(&'/') => {
                while chars.next_if(|char| *char != '\n').is_some() {}
            }
            '/' if !open && chars.peek() == Some(&'*') => {
                let begun = line;
                let mut last = ' ';
                loop {
                    let char = chars.next().ok_or((begun, "opens a comment that never ends"))?;
                    line += usize::from(char == '\n');
                    if last == '*' && char == '/' {
                        break;
                    }
                    last = char;
                }
            }
            '"' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        None | Some('\n') => return Err((line, "has a quote that is not closed")),
                        Some(char) => word.push(char),
                    }
                }
                tokens.push(Token { text: word, line });
                open = false;
            }
            _ => match tokens.last_mut().filter(|_| open) {
                Some(token) => token.text.push(char),
                None => {
                    tokens.push(Token { text: char.into(), line });
                    open = true;
                }
            },
        }
    }
    Ok(tokens)
}
